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

/* ---- threads ---- */

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

static void takes_marks_and_ends(void) {
    take_marks();
    read_once();
    rc11_thread_ends();
}

static void no_marks_taken(void) {
    take_marks();
    rc11_thread_ends();
    lock.biased = LW__RW_BIASED;
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
    {.name = "biased: a reader ends, its successor, writer",
     .run = {takes_marks_and_ends, takes_marks_and_ends, write_once},
     .begin = no_marks_taken,
     .cut = often,
     .slow = true},
    {.name = "biased: two readers, writer",
     .run = {marked_reader, marked_reader, write_once},
     .begin = biased,
     .cut = often,
     .slow = true},
    {.name = "plain: two readers, writer",
     .run = {read_once, read_once, write_once},
     .begin = chunk_there,
     .cut = often,
     .slow = true},
};
const size_t rc11_count = sizeof rc11_scenarios / sizeof *rc11_scenarios;

/* Every file that includes percpu.h calls these at load; a lock uses nothing of them. */
void lw__check_interface(unsigned interface) { (void)interface; }

void lw__percpu_pin(const void *here) { (void)here; }
