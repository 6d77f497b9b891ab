/* Critical sections that end with the scope they begin in, for C and C++; part of srcu.h.
 *
 *   C     { lw_srcu_guard_fast(&routes); … return …; }          ends at the end of the block, also by return, break, goto
 *   C++   { const lw::srcu_guard<LW_SRCU_FAST> guard(routes); … }         ends also by an exception
 *
 * C's macros are declarations: one a line, in a block. They use the compiler's cleanup attribute (gcc, clang). longjmp() out of
 * the block does not end the critical section. */
#ifndef LINEWRIGHT_SRCU_GUARD_H
#define LINEWRIGHT_SRCU_GUARD_H

struct lw_srcu_guard {
    struct lw_srcu *srcu;
    lw_srcu_index index;
};

#define LW__SRCU_GUARD_CAT2(a, b) a##b
#define LW__SRCU_GUARD_CAT(a, b) LW__SRCU_GUARD_CAT2(a, b)
#define LW__SRCU_GUARD(flavour, s)                                                                         \
    __attribute__((cleanup(lw__srcu_guard_end##flavour), unused)) struct lw_srcu_guard LW__SRCU_GUARD_CAT( \
        lw__srcu_guard_, __LINE__) = lw__srcu_guard_begin##flavour(s)

#define LW__SRCU_GUARD_FUNCTIONS(flavour)                                                                              \
    __attribute__((always_inline)) static inline struct lw_srcu_guard lw__srcu_guard_begin##flavour(struct lw_srcu *s) \
    {                                                                                                                  \
        struct lw_srcu_guard guard;                                                                                    \
        guard.srcu = s;                                                                                                \
        guard.index = lw_srcu_read_lock##flavour(s);                                                                   \
        return guard;                                                                                                  \
    }                                                                                                                  \
    __attribute__((always_inline)) static inline void lw__srcu_guard_end##flavour(struct lw_srcu_guard *guard)         \
    {                                                                                                                  \
        lw_srcu_read_unlock##flavour(guard->srcu, guard->index);                                                       \
    }
LW__SRCU_GUARD_FUNCTIONS()
LW__SRCU_GUARD_FUNCTIONS(_signal_safe)
LW__SRCU_GUARD_FUNCTIONS(_fast)
LW__SRCU_GUARD_FUNCTIONS(_fast_updown)

#define lw_srcu_guard(s) LW__SRCU_GUARD(, s)
#define lw_srcu_guard_signal_safe(s) LW__SRCU_GUARD(_signal_safe, s)
#define lw_srcu_guard_fast(s) LW__SRCU_GUARD(_fast, s)
#define lw_srcu_guard_fast_updown(s) LW__SRCU_GUARD(_fast_updown, s)

#ifdef __cplusplus
extern "C++" { /* also where the program includes this inside extern "C" */
namespace lw
{

/* From C++20 on the compiler warns of a guard without a name, which ends at once. */
#if __cplusplus >= 202002L
#define LW__NODISCARD [[nodiscard]]
#else
#define LW__NODISCARD
#endif

/* The critical section of a domain of this flavour, from construction to destruction, in one thread. A coroutine that may go on in
 * another thread calls lw_srcu_down_read_fast() and lw_srcu_up_read_fast() instead. */
template <enum ::lw_srcu_flavour flavour> class srcu_guard
{
public:
    LW__NODISCARD explicit srcu_guard(struct lw_srcu &domain) : domain_(&domain), index_(begin(&domain)) {}
    ~srcu_guard()
    {
        if (flavour == LW_SRCU_NORMAL)
            ::lw_srcu_read_unlock(domain_, index_);
        else if (flavour == LW_SRCU_SIGNAL_SAFE)
            ::lw_srcu_read_unlock_signal_safe(domain_, index_);
        else if (flavour == LW_SRCU_FAST)
            ::lw_srcu_read_unlock_fast(domain_, index_);
        else
            ::lw_srcu_read_unlock_fast_updown(domain_, index_);
    }
    srcu_guard(const srcu_guard &) = delete;
    srcu_guard &operator=(const srcu_guard &) = delete;

private:
    static lw_srcu_index begin(struct lw_srcu *domain)
    {
        return flavour == LW_SRCU_NORMAL        ? ::lw_srcu_read_lock(domain)
               : flavour == LW_SRCU_SIGNAL_SAFE ? ::lw_srcu_read_lock_signal_safe(domain)
               : flavour == LW_SRCU_FAST        ? ::lw_srcu_read_lock_fast(domain)
                                                : ::lw_srcu_read_lock_fast_updown(domain);
    }
    struct lw_srcu *domain_;
    lw_srcu_index index_;
};

} // namespace lw
} // extern "C++"
#endif

#endif
