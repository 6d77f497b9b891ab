/* The readers-writer lock: programs' calls of its whole text, src/rwlock.
 *
 * Written by hand: where the library looks at a lock every 64th read, `reads` is set so that the next one looks; how a lock got its bias, and
 * that marks were taken before, where a scenario does not say that its threads do that. */
#include "rc11.h"

#include <errno.h>

#include <linewright/rwlock.h>

#include "src/rwlock/marks.h"
#include "src/rwlock/quick.h"

static struct lw_rwlock lock;
static uint32_t data; /* plain: a race where readers and writers meet */
static uint32_t step; /* of scenarios in which one thread's calls come before another's */

#define RIGHT(call) rc11_check((call) == 0, #call)

static void look(void) { (void)*(volatile uint32_t *)&data; }

static void take_marks(void) { rc11_check(lw__rw_own_marks() != NULL, "marks"); }

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
        lw__rw_self = NULL;
    }
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
    lw__rw_self = NULL;
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

/* For the thread whose lock was marked; with the caller's own count, where it has one. */
static void releases_for_another(void) {
    waits_for(1);
    RIGHT(lw_rwlock_read_unlock(&lock));
}

static void has_counted_once(void) {
    lw__rw_own.held = 1;
    look();
    RIGHT(lw_rwlock_read_unlock(&lock));
}

/* Its position is taken, so it counts in the plain lock; thread 0 releases that by the mark that it left. */
static struct lw_rwlock others[64];

static struct lw_rwlock *another_at_its_place(void) {
    for (size_t i = 0;; i++)
        if (lw__rw_position(&others[i]) == lw__rw_position(&lock))
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
    struct lw_rwlock *other = another_at_its_place();
    has_marks();
    waits_for(2);
    RIGHT(lw_rwlock_read_lock(other));
    RIGHT(lw_rwlock_read_lock(&lock));
    signals(3);
    RIGHT(lw_rwlock_read_unlock(other));
}

static void both_biased(void) {
    biased();
    another_at_its_place()->biased = LW__RW_BIASED;
}

/* A release and a writer about to sleep may set and clear WOKEN in turns for as long as they like, which only the counter shows. */
static bool often(void) { return lock.queue > 1; }

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
};
const size_t rc11_count = sizeof rc11_scenarios / sizeof *rc11_scenarios;

/* Every file that includes percpu.h calls these at load; a lock uses nothing of them. */
void lw__check_interface(unsigned interface) { (void)interface; }

void lw__percpu_pin(const void *here) { (void)here; }
