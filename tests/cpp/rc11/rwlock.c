/* SPDX-License-Identifier: MIT */
/* The readers-writer lock: programs' calls of its whole text, src/rwlock.
 *
 * Written by hand: where the library looks at a lock every 64th read, `reads` is set so that the next one looks; the state in which a scenario
 * begins, where it does not say that its threads lead to it: a bias, marks, a count, a writer that waits. Where one step of a call is enough,
 * a thread makes this step alone: so three threads have an answer. */
#include "rc11.h"

#include <errno.h>

#include <linewright/rwlock.h>

#include "src/rwlock/rwlock.c"

static struct lw_rwlock lock;
static uint32_t data; /* plain: a race where readers and writers meet */
static uint32_t step; /* of scenarios in which one thread's calls come before another's */

#define RIGHT(call) rc11_check((call) == 0, #call)

static void look(void) { (void)*(volatile uint32_t *)&data; }

static void take_marks(void) { rc11_check(lw__rw_own_marks(false) != NULL, "marks"); }

static void read_once(void) {
    RIGHT(lw_rwlock_read_lock(&lock));
    look();
    RIGHT(lw_rwlock_read_unlock(&lock));
}

static void write_once(void) {
    RIGHT(lw_rwlock_write_lock(&lock));
    data++;
    RIGHT(lw_rwlock_write_unlock(&lock));
}

/* ---- beginnings ---- */

static struct lw__rw_thread *marks[RC11_THREADS];

static void chunk_there(void) {
    for (unsigned i = 0; i < RC11_THREADS; i++) {
        take_marks();
        marks[i] = lw__rw_self;
        lw__rw_self = LW__RW_NONE;
    }
}

static void in_slices(void) {
    chunk_there();
    lw__wait_choice.slices = 1;
}

static void has_marks(void) { lw__rw_self = marks[rc11_me()]; }

static void biased(void) {
    chunk_there();
    lock.biased = LW__RW_BIASED;
}

/* Thread `number` holds the lock by its mark. */
static void is_inside(unsigned number) {
    lw__rw_self = marks[number];
    RIGHT(lw_rwlock_read_lock(&lock));
    lw__rw_self = LW__RW_NONE;
}

static void one_inside(void) {
    biased();
    is_inside(0);
}

/* ---- threads ---- */

static void goes_out(void) {
    has_marks();
    look();
    RIGHT(lw_rwlock_read_unlock(&lock));
}

static void marked_reader(void) {
    has_marks();
    read_once();
}

static void reads_twice(void) {
    has_marks();
    RIGHT(lw_rwlock_read_lock(&lock));
    RIGHT(lw_rwlock_read_lock(&lock));
    look();
    RIGHT(lw_rwlock_read_unlock(&lock));
    look();
    RIGHT(lw_rwlock_read_unlock(&lock));
}

static void tries_to_read(void) {
    has_marks();
    if (lw_rwlock_try_read(&lock) == 0) {
        look();
        RIGHT(lw_rwlock_read_unlock(&lock));
    }
}

static void tries_to_write(void) {
    if (lw_rwlock_try_write(&lock) == 0) {
        data++;
        RIGHT(lw_rwlock_write_unlock(&lock));
    }
}

static void writes_in_time(void) {
    int error = lw_rwlock_write_lock_timeout(&lock, 1000000000);
    rc11_check(!error || error == -ETIMEDOUT, "a limit");
    if (!error) {
        data++;
        RIGHT(lw_rwlock_write_unlock(&lock));
    }
}

static void write_refused(void) {
    int error = lw_rwlock_write_lock(&lock);
    rc11_check(!error || error == -EPERM, "membarrier's error");
    if (!error) {
        data++;
        RIGHT(lw_rwlock_write_unlock(&lock));
    }
}

/* Its read is one that looks, and gives the bias. */
static void begins_a_bias(void) {
    has_marks();
    lw__rw_own.reads = LOOK_EVERY - 1;
    read_once();
    read_once();
}

static void worth_a_bias(void) {
    chunk_there();
    lock.biased = LW__RW_LOOK;
}

/* What it wrote is read by a thread that only marks. */
static void writes_and_begins_a_bias(void) {
    write_once();
    lw__rw_own.writes = 0; /* else the lock is looked at once more */
    lw__rw_own.reads = LOOK_EVERY - 1;
    read_once();
    lw__rw_own.reads = LOOK_EVERY - 1;
    read_once();
}

/* Its marks are the only ones. */
static void one_inside_alone(void) {
    lock.biased = LW__RW_BIASED;
    take_marks();
    marks[0] = lw__rw_self;
    is_inside(0);
}

static void takes_marks_and_reads(void) {
    take_marks();
    read_once();
}

static void goes_out_and_ends(void) {
    goes_out();
    rc11_thread_ends();
}

static void signals(uint32_t value) { __atomic_store_n(&step, value, __ATOMIC_RELEASE); }

static void waits_for(uint32_t value) { rc11_await(&step, value, false); }

/* ---- read locks that other threads release ---- */

static void one_counted(void) {
    biased();
    lock.state = 1; /* thread 1's, from before the bias began */
}

static void marks_and_gives(void) {
    has_marks();
    RIGHT(lw_rwlock_read_lock(&lock));
    signals(1);
}

/* Its mark was given, and one release has taken the count that thread 1's read lock had added. */
static void a_mark_stands_for_a_count(void) {
    biased();
    lock.state = 1;
    is_inside(0);
    RIGHT(lw_rwlock_read_unlock(&lock));
}

/* Thread 1's mark was given and released, so that the count is below 0; thread 0 is inside. */
static void a_mark_is_left(void) {
    one_inside();
    is_inside(1);
    RIGHT(lw_rwlock_read_unlock(&lock));
}

static void one_counted_before_the_bias(void) {
    worth_a_bias();
    lock.state = 1;
}

/* Its first read gives the bias. */
static void begins_a_bias_marks_and_gives(void) {
    has_marks();
    lw__rw_own.reads = LOOK_EVERY - 1;
    read_once();
    marks_and_gives();
}

/* For the thread whose lock was marked; with the caller's own count, where it has one. */
static void releases_for_another(void) {
    waits_for(1);
    RIGHT(lw_rwlock_read_unlock(&lock));
}

static void has_counted_once(void) {
    now_holds(&lock);
    look();
    RIGHT(lw_rwlock_read_unlock(&lock));
}

/* Its position is taken, so it counts in the plain lock; thread 0 releases that by the mark that it left. */
static struct lw_rwlock others[64];

/* Another lock, of which a thread has its mark at the same place, or at another one. */
static struct lw_rwlock *another(bool at_its_place) {
    for (size_t i = 0;; i++)
        if ((lw__rw_position(&others[i]) == lw__rw_position(&lock)) == at_its_place)
            return &others[i];
}

static void releases_and_writes(void) {
    releases_for_another();
    signals(2);
    write_once();
}

static void marks_gives_and_releases(void) {
    marks_and_gives();
    waits_for(3);
    look();
    RIGHT(lw_rwlock_read_unlock(&lock));
}

static void counts_and_gives(void) {
    struct lw_rwlock *other = another(true);
    has_marks();
    waits_for(2);
    RIGHT(lw_rwlock_read_lock(other));
    RIGHT(lw_rwlock_read_lock(&lock));
    signals(3);
    RIGHT(lw_rwlock_read_unlock(other));
}

static void both_biased(void) {
    biased();
    another(true)->biased = LW__RW_BIASED;
}

/* ---- the same from the state in which such a release leaves the lock ---- */

static void set_mark(unsigned of) { marks[of]->mark[lw__rw_position(&lock)] = &lock; }

static void given_away(void) {
    biased();
    set_mark(0);
    lock.biased = LW__RW_ENDING | LW__RW_STAYS_PLAIN;
    lock.state = READERS; /* -1 */
}

/* Thread 2's, which does nothing more. */
static void marked_for_another(void) {
    biased();
    set_mark(2);
}

static void release_marked(void) {
    look();
    RIGHT(lw_rwlock_read_unlock(&lock));
}

/* Two read locks of thread 0, while a writer waits for them, which has ended the bias. */
static void two_waited_for(void) {
    biased();
    set_mark(0);
    marks[0]->again[lw__rw_position(&lock)] = 1;
    lock.biased = LW__RW_ENDING;
    lock.state = WRITER;
}

static void one_waited_for(void) {
    two_waited_for();
    marks[0]->again[lw__rw_position(&lock)] = 0;
}

static void marks_again(void) {
    has_marks();
    if (mark_again(lw__rw_self, &lock)) {
        look();
        RIGHT(lw_rwlock_read_unlock(&lock));
    }
}

static void releases_one_and_marks_again(void) {
    has_marks();
    release_marked();
    marks_again();
}

/* The writer that waits: one look at all marks. */
static void looks_for_marks(void) {
    if (wait_for_marks(&lock, &(const struct limit){0, 0}))
        data++;
}

/* A reader inside two locks, for each of which a writer waits that has ended the bias. */
static void inside_two_waited_for(void) {
    struct lw_rwlock *other = another(false);
    one_inside();
    other->biased = LW__RW_BIASED;
    lw__rw_self = marks[0];
    RIGHT(lw_rwlock_read_lock(other));
    lw__rw_self = LW__RW_NONE;
    lock.biased = other->biased = LW__RW_ENDING;
}

static const struct limit for_ever = {LW_RWLOCK_FOREVER, 0};

static void waits_for_its_reader(void) {
    rc11_check(wait_for_marks(&lock, &for_ever), "no limit");
    signals(1);
}

static void waits_for_the_same_reader(void) { rc11_check(wait_for_marks(another(false), &for_ever), "no limit"); }

/* It stays in the other lock until the writer of the first one is past it. */
static void goes_out_of_one_lock_first(void) {
    goes_out();
    waits_for(1);
    RIGHT(lw_rwlock_read_unlock(another(false)));
}

/* Thread 1's mark is left, and stands for a count of thread 2's that was taken: two threads give each other a lock twice. */
static void mark_left(void) {
    biased();
    set_mark(1);
}

static void read_and_give(uint32_t turn) {
    RIGHT(lw_rwlock_read_lock(&lock));
    signals(turn);
}

static void release_given(uint32_t turn) {
    waits_for(turn);
    release_marked();
}

static void gives_takes_and_gives(void) {
    has_marks();
    read_and_give(1);
    release_given(2);
    read_and_give(3);
}

static void takes_gives_and_takes(void) {
    has_marks();
    release_given(1);
    read_and_give(2);
    release_given(3);
}

/* Between the two a reader looks at the lock, as often as not in vain. */
static void writes_twice(void) {
    write_once();
    (void)__sync_bool_compare_and_swap(&lock.biased, 0, LW__RW_LOOK);
    write_once();
}

static void writes_quickly(void) {
    write_once();
    (void)__sync_bool_compare_and_swap(&lock.biased, 0, LW__RW_LOOK);
    if (quick_write(&lock)) {
        data++;
        quick_write_unlock(&lock);
    }
}

/* ---- time slice extensions ---- */

static void are_open(unsigned sections, const char *what) {
    rc11_check(rc11_sections == sections && lw__rw_own.sections == sections, what);
}

/* The setting may change at any moment. */
static void writes_in_sections(void) {
    int error = lw_rwlock_try_write(&lock);
    rc11_check(!error || error == -EBUSY, "a try");
    if (!error)
        RIGHT(lw_rwlock_downgrade(&lock));
    are_open(0, "of who has tried, and of a reader");
    if (!error)
        RIGHT(lw_rwlock_read_unlock(&lock));
    RIGHT(lw_rwlock_write_lock(&lock));
    data++;
    rc11_check(rc11_sections <= 1, "of a writer");
    are_open(rc11_sections, "counted");
    RIGHT(lw_rwlock_write_unlock(&lock));
    are_open(0, "of who is out");
}

static void asks_no_more(void) { __atomic_store_n(&lw__wait_choice.slices, 0, __ATOMIC_RELAXED); }

/* ---- marks that pass to the next thread, and further ones ---- */

static void ends_inside_no_lock(void) {
    has_marks();
    lw__rw_take_back(lw__rw_self, lw__rw_position(&lock));
    rc11_thread_ends();
}

static void ends_after_two(void) {
    has_marks();
    RIGHT(lw_rwlock_read_unlock(&lock));
    RIGHT(lw_rwlock_read_unlock(&lock));
    rc11_thread_ends();
}

static void about_to_end(void) {
    take_marks();
    marks[0] = lw__rw_self;
    lw__rw_self = LW__RW_NONE;
    lock.biased = LW__RW_BIASED;
    set_mark(0);
}

static void about_to_end_with_two(void) {
    about_to_end();
    marks[0]->again[lw__rw_position(&lock)] = 1;
}

static void no_mark_is_left(void) { rc11_check(marked(&lock) == 0, "no mark is left"); }

/* Thread 2's mark is in the only chunk, whose others are taken. */
static void chunk_full(void) {
    marked_for_another();
    take_marks();
    lw__rw_self = LW__RW_NONE;
}

static void takes_further_marks(void) {
    take_marks();
    rc11_check(lw__rw_self > marks[0] + RC11_THREADS || lw__rw_self < marks[0], "a further chunk");
}

/* ---- other calls ---- */

static void reads_quickly(void) {
    if (!quick_read(&lock))
        return;
    look();
    if (!quick_read_unlock(&lock))
        RIGHT(lw_rwlock_read_unlock(&lock));
}

static void sandboxed_reader(void) {
    has_marks();
    RIGHT(lw_rwlock_read_lock(&lock));
    rc11_scenarios[rc11_number()].refused = 2; /* from now on */
    look();
    RIGHT(lw_rwlock_read_unlock(&lock));
}

static void plain_from_now_on(void) {
    worth_a_bias();
    lw_rwlock_stay_plain();
}

static void begins_no_bias(void) {
    begins_a_bias();
    rc11_check(lock.biased != LW__RW_BIASED, "a lock that stays plain");
}

/* A writer waits for two readers, of which one is no thread here. */
static void another_waits(void) {
    chunk_there();
    lock.state = 2 + ONE_WAITS;
}

static void holds_no_more(void) {
    now_holds(&lock);
    RIGHT(lw_rwlock_read_unlock(&lock));
    rc11_check(lw_rwlock_try_read(&lock) == -EBUSY, "a thread that holds no lock waits for writers");
}

/* A writer is about to sleep for a reader, which gives the bias. */
static void reader_inside(void) {
    chunk_there();
    lock.state = 1;
}

static void gives_the_bias(void) { give_bias(&lock, 0); }

static void says_that_it_waits(void) {
    __atomic_fetch_add(&lock.state, ONE_WAITS, __ATOMIC_RELAXED);
    keep_marks_out(&lock);
}

static void marks_stay_out(void) { rc11_check(lock.biased != LW__RW_BIASED, "no mark passes a writer that sleeps"); }

/* A reader that has asked for its turn is woken beside another writer, which sleeps here for ever. */
static void writer_and_another(void) {
    chunk_there();
    lock.state = WRITER + ONE_WAITS;
}

static void reads_beside_writers(void) {
    RIGHT(plain_read_lock(&lock, PASSES_ALWAYS, &(const struct limit){LW_RWLOCK_FOREVER, 0}));
}

static void lets_others_in(void) { plain_write_unlock(&lock); }

/* The writer that is inside comes again, and sleeps while it is the readers' turn. */
static void writer_inside(void) {
    chunk_there();
    lock.state = WRITER;
}

static void comes_again(void) {
    data++;
    plain_write_unlock(&lock);
    write_once();
}

/* Two writers wait for the one inside. Thread 0 has waited for too long, and others keep out. */
static void one_starves(void) {
    chunk_there();
    lock.state = WRITER + 2 * ONE_WAITS + STARVES;
}

static void waits_on(uint32_t blocking) {
    struct waiting w = {blocking, ONE_WAITS, now_ns()};
    while (wait_to_write(&lock, &w, &(const struct limit){LW_RWLOCK_FOREVER, 0}) == -EAGAIN)
        ;
    data++;
    plain_write_unlock(&lock);
}

static void starves(void) { waits_on(kept_out_once_woken()); }

static void waits_beside_it(void) { waits_on(waits_to_write().blocking); }

/* Two writers wait for the one inside; the limit of thread 0 passes at any moment, also when it was woken. */
static void two_wait(void) {
    chunk_there();
    lock.state = WRITER + 2 * ONE_WAITS;
}

static void waits_in_time(void) {
    struct waiting w = {kept_out_once_woken(), ONE_WAITS, now_ns()};
    const struct limit limit = limit_of(1000000000);
    int error;
    while ((error = wait_to_write(&lock, &w, &limit)) == -EAGAIN)
        ;
    if (error)
        return;
    data++;
    plain_write_unlock(&lock);
}

/* A child of fork() goes on with its thread's marks; those of other threads are free. */
static void forks_inside(void) {
    has_marks();
    RIGHT(lw_rwlock_read_lock(&lock));
    rc11_forked();
    signals(1);
    look();
    RIGHT(lw_rwlock_read_unlock(&lock));
}

static void takes_marks_in_the_child(void) {
    waits_for(1);
    take_marks();
    rc11_check(lw__rw_self != marks[0], "marks that no other thread has");
}

static void writes_and_reads(void) {
    RIGHT(lw_rwlock_write_lock(&lock));
    data++;
    RIGHT(lw_rwlock_downgrade(&lock));
    look();
    RIGHT(lw_rwlock_read_unlock(&lock));
}

static void counted_reader(void) {
    chunk_there();
    lock.state = 1;
}

static void destroys(void) {
    const int error = lw_rwlock_destroy(&lock);
    rc11_check(!error || error == -EBUSY, "destroy's error");
    if (!error)
        data++;
}

/* It reads the lock that is made at the same address, too. */
static void goes_out_and_reads_the_next(void) {
    goes_out();
    signals(1);
    waits_for(2);
    read_once();
}

static void destroys_and_makes_again(void) {
    waits_for(1);
    RIGHT(lw_rwlock_destroy(&lock));
    data++;
    lw_rwlock_init(&lock);
    signals(2);
    write_once();
}

static void destroys_a_biased_one(void) {
    waits_for(1);
    RIGHT(lw_rwlock_destroy(&lock));
    data++;
    lw_rwlock_init(&lock);
    lock.biased = LW__RW_BIASED;
    signals(2);
    write_once();
}

/* A signal handler that interrupted lw__rw_mark() between M and R; its thread takes the mark back then. */
static void tries_in_a_handler(void) {
    has_marks();
    __atomic_store_n(&lw__rw_self->mark[lw__rw_position(&lock)], &lock, __ATOMIC_RELAXED);
    tries_to_read();
    lw__rw_take_back(lw__rw_self, lw__rw_position(&lock));
}

/* A release and a writer about to sleep may set and clear WOKEN in turns for as long as they like, which only the counter shows. */
static bool often(void) { return lock.queue > 1; }

/* Nor does it show how often a writer that is refused membarrier sleeps and looks again. */
static bool waited_often(void) { return rc11_stores(&marks[0]->waited) > 3; }

struct rc11_scenario rc11_scenarios[] = {
    {.name = "plain: reader, writer", .run = {read_once, write_once}, .begin = chunk_there, .cut = often},
    {.name = "biased: reader, writer", .run = {marked_reader, write_once}, .begin = biased, .cut = often},
    {.name = "plain: two writers", .run = {write_once, write_once}, .begin = chunk_there, .cut = often},
    {.name = "biased: reads twice, writer", .run = {reads_twice, write_once}, .begin = biased, .cut = often},
    {.name = "biased: reader, try of a writer", .run = {marked_reader, tries_to_write}, .begin = biased, .cut = often},
    {.name = "biased: try of a reader, writer", .run = {tries_to_read, write_once}, .begin = biased, .cut = often},
    {.name = "plain: tries", .run = {tries_to_read, tries_to_write}, .begin = chunk_there, .cut = often},
    {.name = "biased: reader, writer with a limit",
     .run = {marked_reader, writes_in_time},
     .begin = biased,
     .cut = often,
     .slow = true,
     .time = true},
    {.name = "plain: reader, writer with a limit",
     .run = {read_once, writes_in_time},
     .begin = chunk_there,
     .cut = often,
     .time = true},
    {.name = "biased: reader, writer that is refused membarrier",
     .run = {marked_reader, write_refused},
     .begin = biased,
     .cut = often,
     .refused = 2},
    {.name = "writer that begins a bias, reader",
     .run = {writes_and_begins_a_bias, marked_reader},
     .begin = chunk_there,
     .cut = often},
    {.name = "a bias begins, writer", .run = {begins_a_bias, write_once}, .begin = worth_a_bias, .cut = often, .slow = true},
    {.name = "plain: two readers, writer",
     .run = {read_once, read_once, write_once},
     .begin = chunk_there,
     .cut = often,
     .slow = true},
    {.name = "biased: a reader inside, another, writer",
     .run = {goes_out, marked_reader, write_once},
     .begin = one_inside,
     .cut = often,
     .slow = true},
    {.name = "biased: a reader goes out and ends, its successor, writer",
     .run = {goes_out_and_ends, takes_marks_and_reads, write_once},
     .begin = one_inside_alone,
     .cut = often,
     .slow = true},
    {.name = "biased: a reader goes out, two writers wait for it",
     .run = {goes_out, waits_for_its_reader, waits_for_its_reader},
     .begin = one_inside},
    {.name = "biased: a reader goes out of one of two locks, whose writers wait for it",
     .run = {goes_out_of_one_lock_first, waits_for_its_reader, waits_for_the_same_reader},
     .begin = inside_two_waited_for},
    {.name = "handed over: a count was taken, the other release finds the mark",
     .run = {marks_and_gives, has_counted_once, releases_for_another},
     .begin = one_counted,
     .cut = often},
    {.name = "handed over: marks again while its older mark's release is counted",
     .run = {marked_reader, has_counted_once, tries_to_write},
     .begin = a_mark_stands_for_a_count,
     .slow = true,
     .cut = often},
    {.name = "handed over: marks again while a writer adds up",
     .run = {goes_out, marked_reader, write_once},
     .begin = a_mark_is_left,
     .slow = true,
     .cut = often},
    {.name = "handed over: a count is released by a mark that was left",
     .run = {marks_gives_and_releases, releases_and_writes, counts_and_gives},
     .begin = both_biased,
     .cut = often},
    {.name = "handed over: the bias has begun meanwhile",
     .run = {begins_a_bias_marks_and_gives, has_counted_once, releases_for_another},
     .begin = one_counted_before_the_bias,
     .cut = often},
    {.name = "handed over: marks move while a release looks for them",
     .run = {gives_takes_and_gives, takes_gives_and_takes, release_marked},
     .begin = mark_left,
     .cut = often},
    {.name = "handed over beside a writer that waits: releases one of two, marks again",
     .run = {releases_one_and_marks_again, release_marked, looks_for_marks},
     .begin = two_waited_for,
     .cut = often},
    {.name = "handed over beside a writer that waits: marks again",
     .run = {marks_again, release_marked, looks_for_marks},
     .begin = one_waited_for,
     .cut = often},
    {.name = "handed over before: reads again, writer",
     .run = {marked_reader, write_once},
     .begin = given_away,
     .cut = often},
    {.name = "handed over before: reads again, writer that writes twice",
     .run = {marked_reader, writes_twice},
     .begin = given_away,
     .slow = true,
     .cut = often},
    {.name = "handed over before: reads again, writer that finds the lock free",
     .run = {marked_reader, writes_quickly},
     .begin = given_away,
     .slow = true,
     .cut = often},
    {.name = "a marked read lock that another thread releases, writer",
     .run = {release_marked, write_once},
     .begin = marked_for_another,
     .cut = often},
    {.name = "plain: writer that becomes a reader, writer",
     .run = {writes_and_reads, write_once},
     .begin = chunk_there,
     .cut = often},
    {.name = "plain: writer that becomes a reader, reader",
     .run = {writes_and_reads, read_once},
     .begin = chunk_there,
     .cut = often},
    {.name = "plain: last reader, destroy", .run = {has_counted_once, destroys}, .begin = counted_reader},
    {.name = "biased: last reader, destroy", .run = {goes_out, destroys}, .begin = one_inside},
    {.name = "biased: destroyed, a plain one in its memory: reader, writer",
     .run = {goes_out_and_reads_the_next, destroys_and_makes_again},
     .begin = one_inside,
     .cut = often},
    {.name = "biased: destroyed, a biased one in its memory: reader, writer",
     .run = {goes_out_and_reads_the_next, destroys_a_biased_one},
     .begin = one_inside,
     .cut = often},
    {.name = "biased: try of a handler that interrupted a reader, try of a writer",
     .run = {tries_in_a_handler, tries_to_write},
     .begin = biased,
     .cut = often},
    {.name = "writer that begins a bias, try of a handler",
     .run = {writes_and_begins_a_bias, tries_in_a_handler},
     .begin = chunk_there,
     .cut = often},
    {.name = "plain: quick reader, writer", .run = {reads_quickly, write_once}, .begin = chunk_there, .cut = often},
    {.name = "biased: a thread ends, its successor, try of a writer",
     .run = {ends_inside_no_lock, takes_marks_and_reads, tries_to_write},
     .begin = about_to_end,
     .slow = true,
     .cut = often},
    {.name = "biased: a thread that read twice ends, its successor",
     .run = {ends_after_two, takes_marks_and_reads},
     .begin = about_to_end_with_two,
     .end = no_mark_is_left},
    {.name = "biased: a chunk comes, try of a writer", .run = {takes_further_marks, tries_to_write}, .begin = chunk_full},
    {.name = "biased: reader, writer that is refused membarrier later",
     .run = {sandboxed_reader, write_refused},
     .begin = biased,
     .cut = waited_often},
    {.name = "plain from now on: reader", .run = {begins_no_bias}, .begin = plain_from_now_on},
    {.name = "plain: a thread that held the lock, a writer that waits", .run = {holds_no_more}, .begin = another_waits},
    {.name = "a reader gives the bias, a writer says that it waits",
     .run = {gives_the_bias, says_that_it_waits},
     .begin = reader_inside,
     .end = marks_stay_out},
    {.name = "plain: a reader that asks for its turn beside two writers",
     .run = {reads_beside_writers, lets_others_in},
     .begin = writer_and_another,
     .patient = true},
    {.name = "plain: a reader that asks for its turn, a writer that comes again",
     .run = {read_once, comes_again},
     .begin = writer_inside,
     .cut = often},
    {.name = "plain: a writer that starves, another that is woken",
     .run = {starves, waits_beside_it, lets_others_in},
     .begin = one_starves,
     .cut = often},
    {.name = "plain: a writer that is woken as its limit passes, another",
     .run = {waits_in_time, waits_beside_it, lets_others_in},
     .begin = two_wait,
     .slow = true,
     .cut = often,
     .time = true},
    {.name = "time slices: two writers, the setting changes",
     .run = {writes_in_sections, write_once, asks_no_more},
     .begin = in_slices,
     .cut = often},
    {.name = "fork inside, a thread of the child", .run = {forks_inside, takes_marks_in_the_child}, .begin = biased},
};
const size_t rc11_count = sizeof rc11_scenarios / sizeof *rc11_scenarios;

/* Every file that includes percpu.h calls these at load; a lock uses nothing of them. */
struct lw__wait_choice lw__wait_choice;
void lw__check_interface(unsigned interface) { (void)interface; }

void lw__percpu_pin(const void *here) { (void)here; }
