/* Who has a thread's marks: the library and the interleaver compile this text.
 *
 * A successor takes the marks over as they are, since a thread that ended inside a lock left its mark, and a writer still waits for it. What
 * the predecessor stored comes before what the successor stores: else a mark that it took back late would take back the successor's. */
#ifndef LW_RW_TAKE
#define LW_RW_TAKE(p) __atomic_compare_exchange_n((p), &(uint32_t){0}, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
#endif

/* True: the calling thread has `t` now. */
static inline bool take_slot(struct lw__rw_thread *t)
{
    return !LW_RW_LOAD(&t->used, RELAXED) && LW_RW_TAKE(&t->used); /* acquire: pairs with the release below */
}

static inline void give_slot_back(struct lw__rw_thread *t)
{
    LW_RW_STORE(&t->used, 0, RELEASE);
}
