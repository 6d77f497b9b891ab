/* SPDX-License-Identifier: MIT */
/* pthread_rwlock_* in a preloaded program: programs' calls of the interposer's text, src/rwlock/interpose, and the lock's as it is built there.
 *
 * Written by hand: no statistics are counted; no lock is the C library's, so none of its functions is looked up (lookups.c has no thread);
 * how a lock got its bias, and that marks and a thread's number were taken before. */
#include "rc11.h"

#define LW_RW_HOOKS "interpose/hooks.h"
#include "src/rwlock/interpose/interpose.c"
#include "src/rwlock/rwlock.c"

static pthread_rwlock_t lock;
static uint32_t data; /* plain: a race where readers and writers meet */
static struct lw__rw_thread *marks[RC11_THREADS];

#define RIGHT(call) rc11_check((call) == 0, #call)

static void look(void) { (void)*(volatile uint32_t *)&data; }

/* ---- beginnings ---- */

static void plain_lock(void) {
    RIGHT(pthread_rwlock_init(&lock, NULL));
    for (unsigned i = 0; i < RC11_THREADS; i++) {
        rc11_check(lw__rw_own_marks(false) != NULL, "marks");
        marks[i] = lw__rw_self;
        lw__rw_self = LW__RW_NONE;
    }
}

static void biased(void) {
    plain_lock();
    ours(&lock)->biased = LW__RW_BIASED;
}

static void biased_writers_first(void) {
    biased();
    lock.__data.__flags = PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
}

static void in_slices(void) {
    plain_lock();
    lw__wait_choice.slices = 1;
}

/* ---- threads ---- */

static void known(void) {
    lw__rw_self = marks[rc11_me()];
    lw__rw_own.id = 1 + rc11_me();
}

static void reads(void) {
    known();
    RIGHT(pthread_rwlock_rdlock(&lock));
    look();
    RIGHT(pthread_rwlock_unlock(&lock));
}

static void tries_to_read(void) {
    known();
    if (pthread_rwlock_tryrdlock(&lock) == 0) {
        look();
        RIGHT(pthread_rwlock_unlock(&lock));
    }
}

static void change(void) {
    data++;
    rc11_check(rc11_sections == lw__wait_choice.slices, "a section asks where the setting says so");
    RIGHT(pthread_rwlock_unlock(&lock));
    rc11_check(!rc11_sections, "and has ended");
}

static void writes(void) {
    known();
    RIGHT(pthread_rwlock_wrlock(&lock));
    change();
}

static void tries_to_write(void) {
    known();
    if (pthread_rwlock_trywrlock(&lock) == 0)
        change();
}

static void writes_in_time(void) {
    struct timespec end = {.tv_sec = 2};
    known();
    int error = pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &end);
    rc11_check(!error || error == ETIMEDOUT, "a limit");
    if (!error)
        change();
}

/* Its first read is one that looks, and gives the bias; the second one marks. */
static void begins_a_bias(void) {
    known();
    lw__rw_own.reads = LOOK_EVERY - 1;
    reads();
    reads();
}

static void worth_a_bias(void) {
    plain_lock();
    ours(&lock)->biased = LW__RW_LOOK;
}

static bool often(void) { return ours(&lock)->queue > 1; }

struct rc11_scenario rc11_scenarios[] = {
    {.name = "plain: reader, writer", .run = {reads, writes}, .begin = plain_lock, .cut = often},
    {.name = "plain: two writers", .run = {writes, writes}, .begin = plain_lock, .cut = often},
    {.name = "plain: tries", .run = {tries_to_read, tries_to_write}, .begin = plain_lock, .cut = often},
    {.name = "plain: reader, writer with a limit",
     .run = {reads, writes_in_time},
     .begin = plain_lock,
     .cut = often,
     .time = true},
    {.name = "time slices: writer, try of a writer", .run = {writes, tries_to_write}, .begin = in_slices, .cut = often},
    {.name = "biased: reader, writer", .run = {reads, writes}, .begin = biased, .cut = often},
    {.name = "biased: reader, try of a writer", .run = {reads, tries_to_write}, .begin = biased, .cut = often},
    {.name = "biased, writers first: reader, writer", .run = {reads, writes}, .begin = biased_writers_first, .cut = often},
    {.name = "a bias begins, writer", .run = {begins_a_bias, writes}, .begin = worth_a_bias, .cut = often, .slow = true},
    {.name = "plain: two readers, writer", .run = {reads, reads, writes}, .begin = plain_lock, .cut = often, .slow = true},
};
const size_t rc11_count = sizeof rc11_scenarios / sizeof *rc11_scenarios;

/* What no scenario has. */
bool lw__rw_counting;
void lw__rw_count_revocation(struct lw_rwlock *l) { (void)l; }
void count_lock(const struct lw_rwlock *l, enum counted what, void *where) { (void)l, (void)what, (void)where; }
void count_begins(const struct lw_rwlock *l, void *where) { (void)l, (void)where; }
void *next_function(const char *name) { return (void)name, NULL; }
struct lw__wait_choice lw__wait_choice;
void lw__check_interface(unsigned interface) { (void)interface; }
void lw__percpu_pin(const void *here) { (void)here; }
