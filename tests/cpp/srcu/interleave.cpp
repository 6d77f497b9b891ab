// SPDX-License-Identifier: MIT
// Explores every interleaving of a few threads around SRCU's real protocols (src/srcu/gp.h, fold.h, wake.h, batch.h, end.h)
// and around each of their mutants (mutants.py), on a machine with store buffers and delayed loads. With the originals no
// reader may see a freed object, no thread may sleep for ever and no work may be forgotten; with every mutant that must
// happen.
//
// The machine: a store stays in its thread's buffer and reaches memory at any later time, in order per address only. The
// load of a reader's object is delayed: it may happen at any later time, even after the unlock. A fence waits for both. A
// heavy barrier makes one thread after the other complete what it has begun, with any steps of other threads in between.
// Threads are ordinary functions. For every step a function runs again from its start and gets the values that it read
// before.
#include <algorithm>
#include <array>
#include <cerrno>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <vector>

#include "../visited.hpp"

namespace {

constexpr int max_threads = 4, max_words = 48;
enum Address : int {
    seq_word,
    index_word,
    pointer,
    mail,
    phase_word, // of the configurations with fork()
    entered,
    freed,
    lock_words = freed + 4,
    unlock_words = lock_words + 2 * max_threads,
    gone = unlock_words + 2 * max_threads, // by record: its thread has ended
    fold_number = gone + max_threads,
    lock, // fold's, or the worker's
    number, // of wake.h
    sleepers,
    current,
    waiters,
    mark, // of batch.h
    served
};
static_assert(served < max_words);

struct Entry {
    int8_t address;
    int8_t value;
};
struct Thread {
    std::array<int8_t, 120> log; // what its operations returned
    uint8_t done = 0; // operations
    bool over = false;
    uint8_t stores = 0;
    std::array<Entry, 12> buffer;
    int8_t late = -1; // address of a late load
    int8_t asleep = -1; // on which word
};
struct State {
    std::array<int8_t, max_words> memory{};
    std::array<Thread, max_threads> threads;
};

enum class Kind { load, store, add, late_load, loads_done, fence, drain, fork, exchange, atomic_add, lock, sleep, wake };
struct Operation {
    Kind kind;
    int address; // or the thread to drain
    int value;
};

// ---- what a thread's function calls ----

const Thread *self;
unsigned position;
Operation wanted;
std::jmp_buf back;

int operation(Kind kind, int address, int value = 0) {
    if (position < self->done)
        return self->log[position++];
    wanted = {kind, address, value};
    std::longjmp(back, 1);
}
int load(int address) { return operation(Kind::load, address); }
void store(int address, int value) { operation(Kind::store, address, value); }
void add(int address) { operation(Kind::add, address); } // of a word that only this thread writes
void late_load(int address) { operation(Kind::late_load, address); }
void fence() { operation(Kind::fence, 0); }
// Atomic, and full barriers; the value before.
int exchange(int address, int value) { return operation(Kind::exchange, address, value); }
int add_atomically(int address, int value) { return operation(Kind::atomic_add, address, value); }
void take_lock() { operation(Kind::lock, lock); }
void give_lock() { exchange(lock, 0); }

int threads_now; // of the configuration
bool reader_barriers;
bool without_b, without_c, without_repair, cookie_too_early;
bool folding; // threads end: sums are those of fold.h
bool c_orders_only; // as on x86: what comes before the count is performed before it, and the count may leave late

int folded_sum(int base, int index);
int sum(int base, int index) {
    if (folding)
        return folded_sum(base, index);
    int total = 0;
    for (int t = 0; t < threads_now; t++)
        total += load(base + 2 * t + index);
    return total;
}
int heavy(int me) {
    fence();
    if (!reader_barriers)
        for (int t = 0; t < threads_now; t++)
            if (t != me)
                operation(Kind::drain, t);
    return 0;
}

enum { LW__SRCU_IDLE, LW__SRCU_FIRST_SCAN, LW__SRCU_SECOND_SCAN };
struct Phase { // a variable, or a word in memory that a child of fork() has too
    bool shared = false;
    unsigned local = 0;
    operator unsigned() const { return shared ? static_cast<unsigned>(load(phase_word)) : local; }
    Phase &operator=(unsigned value) {
        shared ? store(phase_word, static_cast<int>(value)) : static_cast<void>(local = value);
        return *this;
    }
};
struct Domain {
    Phase phase;
    int me;
    bool waiting = false; // of batch.h
    unsigned long waiting_cookie = 0;
};

#define LW_GP_DOMAIN Domain
#define LW_GP_SUM_UNLOCKS(d, i) static_cast<unsigned long>(sum(unlock_words, static_cast<int>(i)))
#define LW_GP_SUM_LOCKS(d, i) static_cast<unsigned long>(sum(lock_words, static_cast<int>(i)))
#define LW_GP_HEAVY_BARRIER(d) heavy((d)->me)
#define LW_GP_FENCE() fence()
#define LW_GP_INDEX(d) static_cast<unsigned>(load(index_word))
#define LW_GP_FLIP(d) store(index_word, load(index_word) ^ 1)
#define LW_GP_LOAD_SEQ(d) (static_cast<void>(d), static_cast<unsigned long>(load(seq_word)))
#define LW_GP_STORE_SEQ(d, v) store(seq_word, static_cast<int>(v))
#define LW_GP_POINT(name) ((void)0)

// fold.h: a thread's words are a record; those of number `ended` are the set for ended threads.
constexpr int ended = max_threads - 1;
struct Kinds {
    int base, index;
};
int word(int record, unsigned w) { return (w < 2 ? lock_words : unlock_words) + 2 * record + static_cast<int>(w % 2); }
int add_up(Kinds k) {
    int total = load(k.base + 2 * ended + k.index);
    for (int t = 0; t < threads_now; t++)
        if (!load(gone + t))
            total += load(k.base + 2 * t + k.index);
    return total;
}
void store_released(int address, int value) {
    fence();
    store(address, value);
}
#define LW_FOLD_WORD const int
#define LW_FOLD_RECORD const int
#define LW_FOLD_KIND const Kinds
#define LW_FOLD_GROUPS() 1u
#define LW_FOLD_WORDS 4u
#define LW_FOLD_FROM(r, g, w) (static_cast<void>(g), &addresses[word(*(r), w)])
#define LW_FOLD_TO(g, w) (static_cast<void>(g), &addresses[word(ended, w)])
#define LW_FOLD_LOAD(word) static_cast<unsigned long>(load(*(word)))
#define LW_FOLD_STORE(word, v) store_released(*(word), static_cast<int>(v))
#define LW_FOLD_BEGIN() add_atomically(fold_number, 1)
#define LW_FOLD_END() add_atomically(fold_number, 1)
#define LW_FOLD_GIVE(r) store_released(gone + *(r), 1)
#define LW_FOLD_NUMBER() static_cast<uint32_t>(load(fold_number))
#define LW_FOLD_NUMBER_AGAIN() static_cast<uint32_t>(load(fold_number))
#define LW_FOLD_ADD_UP(k) static_cast<unsigned long>(add_up(*(k)))
#define LW_FOLD_TRIES 2
#define LW_FOLD_LOCK() take_lock()
#define LW_FOLD_UNLOCK() give_lock()
const std::array<int, max_words> addresses = [] {
    std::array<int, max_words> all{};
    for (int i = 0; i < max_words; i++)
        all[static_cast<size_t>(i)] = i;
    return all;
}();

struct Event {};
#define LW_WAKE Event
#define LW_WAKE_NOTE(e) (static_cast<void>(e), add_atomically(number, 1))
#define LW_WAKE_SLEEPERS(e) load(sleepers)
#define LW_WAKE_ALL(e) operation(Kind::wake, number)
#define LW_WAKE_ENTER(e) (static_cast<void>(e), add_atomically(sleepers, 1))
#define LW_WAKE_LEAVE(e) add_atomically(sleepers, -1)
#define LW_WAKE_SLEEP(e, seen, ns) (static_cast<void>(ns), operation(Kind::sleep, number, static_cast<int>(seen)))
#define LW_WAKE_WORKER Event
#define LW_WAKE_WORKER_NUMBER(w) static_cast<uint32_t>(load(number))
#define LW_WAKE_WORKER_SET(w, n) (static_cast<void>(w), exchange(current, static_cast<int>(n)))

unsigned long cookie_of(Domain *d);
#define LW_BATCH_DOMAIN Domain
#define LW_BATCH_WAITING(d) ((d)->waiting)
#define LW_BATCH_TAKE(d) ((d)->waiting = load(mail) != 0)
#define LW_BATCH_COOKIE(d) cookie_of(d)
#define LW_BATCH_SET_COOKIE(d, c) ((d)->waiting_cookie = (c))
#define LW_BATCH_SWAP_LISTED(d, v) (static_cast<void>(d), exchange(mark, v))
#define LW_BATCH_LIST(d) add_atomically(served, 1)
#define LW_BATCH_LEFT(d) (static_cast<void>(d), load(mail) != 0)

#define LW_END_DOMAIN Domain
#define LW_END_SUM_UNLOCKS(d, i) (static_cast<void>(d), static_cast<unsigned long>(sum(unlock_words, static_cast<int>(i))))
#define LW_END_SUM_LOCKS(d, i) static_cast<unsigned long>(sum(lock_words, static_cast<int>(i)))
#define LW_END_HEAVY_BARRIER(d) heavy((d)->me)
#define LW_END_QUEUED(d) load(mail)
#define LW_END_WAITERS(d) load(waiters)

struct Machine {
    const char *name;
    int (*step)(Domain *);
    unsigned long (*cookie)(Domain *);
    bool (*passed)(unsigned long, unsigned long);
};
struct Fold {
    const char *name;
    void (*record)(const int *);
    unsigned long (*sum)(const Kinds *);
};
struct Wake {
    const char *name;
    void (*sleepers)(Event *);
    void (*sleep)(Event *, uint32_t, uint64_t);
    bool (*end_worker)(Event *, uint32_t, uint32_t);
};
struct Batch {
    const char *name;
    void (*next)(Domain *);
    void (*list)(Domain *);
    bool (*over)(Domain *);
};
struct End {
    const char *name;
    int (*refused)(Domain *, bool);
};
#include "machines.h"
const Machine machines[] = {MACHINES};
const Fold folds[] = {FOLDS};
const Wake wakes[] = {WAKES};
const Batch batches[] = {BATCHES};
const End ends[] = {ENDS};
const Machine *machine = machines;
const Fold *fold = folds;
const Wake *wake = wakes;
const Batch *batch = batches;
const End *end_text = ends;

int folded_sum(int base, int index) {
    const Kinds k = {base, index};
    return static_cast<int>(fold->sum(&k));
}
unsigned long cookie_of(Domain *d) { return machine->cookie(d); }

// ---- the threads ----

void reader_enters(int me, int &index) {
    index = load(index_word);
    add(lock_words + 2 * me + index);
    if (reader_barriers && !without_b)
        fence();
}
void reader_reads() { late_load(freed + load(pointer)); }
void reader_leaves(int me, int index) {
    if (reader_barriers && c_orders_only)
        operation(Kind::loads_done, 0); // the lock's count has left at B, and there are no other stores
    else if (reader_barriers && !without_c)
        fence();
    add(unlock_words + 2 * me + index);
}
void reader(int me, int times) {
    for (int i = 0; i < times; i++) {
        int index;
        reader_enters(me, index);
        reader_reads();
        reader_leaves(me, index);
    }
}
// down() in one thread, up() in another: the hand-over is a store-release, here a fence and a store.
void down(int me) {
    int index;
    reader_enters(me, index);
    reader_reads();
    fence();
    store(mail, index + 1);
}
void up(int me) {
    int index = load(mail) - 1;
    if (index < 0)
        return;
    late_load(freed + load(pointer)); // a second look, also inside the critical section
    reader_leaves(me, index);
}
// Replaces the object and waits. The number of steps is bounded: whatever ends after more steps ends after fewer in another
// interleaving.
void updater(int me, int objects, int steps) {
    Domain d;
    d.me = me;
    for (int object = 0; object < objects; object++) {
        store(pointer, object + 1);
        const unsigned long cookie = machine->cookie(&d);
        int left = steps;
        while (!machine->passed(static_cast<unsigned long>(load(seq_word)), cookie))
            if (machine->step(&d) == 0 && --left == 0)
                return;
        store(freed + object, 1);
    }
}
// Grace periods that one thread advances, and a waiter in another thread that relies on them.
void driver(int me, int periods) {
    Domain d;
    d.me = me;
    for (int i = 0; i < periods; i++)
        if (machine->step(&d) == 0)
            return;
}
void waiter(int me) {
    Domain d;
    d.me = me;
    unsigned long cookie = cookie_too_early ? machine->cookie(&d) : 0;
    store(pointer, 1); // or queues what was replaced
    if (!cookie_too_early)
        cookie = machine->cookie(&d);
    if (machine->passed(static_cast<unsigned long>(load(seq_word)), cookie))
        store(freed, 1);
}

// A callback: queued by one thread, its grace period and the free by the worker (src/srcu/queue.c).
void caller(int) {
    store(pointer, 1);
    fence(); // the push: a compare-and-swap
    store(mail, 1);
}
void worker(int me, int steps) {
    Domain d;
    d.me = me;
    batch->next(&d);
    if (!d.waiting)
        return;
    while (!machine->passed(static_cast<unsigned long>(load(seq_word)), d.waiting_cookie))
        if (machine->step(&d) == 0 && --steps == 0)
            return;
    store(freed, 1);
}
// The callback is queued inside a critical section, and the grace periods are another thread's.
void reader_that_calls(int me) {
    int index;
    reader_enters(me, index);
    const int object = load(pointer);
    caller(me);
    late_load(freed + object);
    reader_leaves(me, index);
}
void worker_that_relies(int me) {
    Domain d;
    d.me = me;
    batch->next(&d);
    if (d.waiting && machine->passed(static_cast<unsigned long>(load(seq_word)), d.waiting_cookie))
        store(freed, 1);
}

// Domains with work: one is served and may leave the server's list while another thread leaves it something to do.
void server(int me) {
    Domain d;
    d.me = me;
    if (!batch->over(&d))
        add_atomically(served, 1); // on the list of the next round
}
void pusher(int me) {
    Domain d;
    d.me = me;
    exchange(mail, 1);
    batch->list(&d);
}

// wake.h
void waker(int) {
    Event e;
    store(mail, 1);
    wake->sleepers(&e);
}
void sleeper(int) {
    Event e;
    for (;;) {
        const auto seen = static_cast<uint32_t>(load(number));
        if (load(mail))
            break;
        wake->sleep(&e, seen, 0);
    }
    add_atomically(served, 1);
}
void idle_worker(int) { // whose sleep has timed out
    Event e;
    for (;;) {
        const auto seen = static_cast<uint32_t>(load(number));
        if (load(mail)) {
            add_atomically(served, 1);
            return;
        }
        take_lock();
        const bool over = wake->end_worker(&e, 1, seen);
        give_lock();
        if (over)
            return;
    }
}
void caller_of_worker(int) {
    Event e;
    store(mail, 1);
    wake->sleepers(&e);
    if (load(current))
        return;
    take_lock();
    if (!load(current))
        add_atomically(served, 1); // by a worker that it starts
    give_lock();
}

// fold.h
void end_thread(const int record) {
    take_lock();
    fold->record(&record);
    give_lock();
}
// One lock was counted before, in the record that is folded meanwhile.
void adder(int) { store(served, 1 + sum(lock_words, 0)); }
void next_owner(int record) {
    if (!load(gone + record) || !exchange(gone + record, 0))
        return;
    add(lock_words + 2 * record);
    fence();
    store(mail, 1);
}

// fork(): the thread that drives a grace period is cut off at any point, its stores that have not left it are lost. The
// child repairs the phase (src/srcu/domain.c); a thread of the child waits for the reader that the forking thread is.
void cut_off(int me, int periods) {
    Domain d;
    d.me = me;
    d.phase.shared = true;
    for (int i = 0; i < periods; i++)
        if (machine->step(&d) == 0)
            return;
}
void forking_reader(int me) {
    int index;
    reader_enters(me, index);
    const int object = load(pointer);
    operation(Kind::fork, 0);
    if (!without_repair)
        store(phase_word, load(seq_word) & 1 ? LW__SRCU_FIRST_SCAN : LW__SRCU_IDLE);
    fence(); // starting a thread
    store(mail, 1);
    late_load(freed + object);
    reader_leaves(me, index);
}
void childs_updater(int me, int steps) {
    if (!load(mail))
        return;
    Domain d;
    d.me = me;
    d.phase.shared = true;
    store(pointer, 1);
    const unsigned long cookie = machine->cookie(&d);
    while (!machine->passed(static_cast<unsigned long>(load(seq_word)), cookie))
        if (machine->step(&d) == 0 && --steps == 0)
            return;
    store(freed, 1);
}

// lw_srcu_cleanup() of a domain whose last reader is leaving, and lw_srcu_init() of one that gets the same slot.
void cleaner(int me, int steps) {
    Domain d;
    d.me = me;
    if (!load(entered) || end_text->refused(&d, false))
        return; // the program ends no domain that a reader may still enter
    store(freed + 3, 1); // what the old domain protected
    for (int t = 0; t < threads_now; t++)
        for (int i = 0; i < 2; i++) {
            store(lock_words + 2 * t + i, 0);
            store(unlock_words + 2 * t + i, 0);
        }
    fence(); // the program passes the new domain on
    store(mail, 1);
    updater(me, 1, steps);
}
void reader_of_both(int me) {
    int index = 0;
    add(lock_words + 2 * me); // of the old domain
    fence();
    store(entered, 1);
    late_load(freed + 3);
    reader_leaves(me, 0);
    if (load(mail)) {
        reader_enters(me, index);
        reader_reads();
        reader_leaves(me, index);
    }
}

// A thread that waits in the domain, or the last callback, uses it until it has counted itself out.
void leaving_waiter(int address) {
    late_load(freed + 3);
    add_atomically(address, -1);
}
void only_cleaner(int me) {
    Domain d;
    d.me = me;
    if (end_text->refused(&d, true) == 0)
        store(freed + 3, 1);
}

struct Configuration {
    const char *name;
    int threads;
    bool reader_barriers;
    void (*run)(int thread);
    void (*prepare)(State &) = nullptr;
    bool (*forgotten)(const State &) = nullptr; // when no thread can go on
};
const Configuration configurations[] = {
    {"reader, two grace periods, membarrier", 2, false, [](int t) { t ? reader(t, 2) : updater(0, 2, 2); }},
    {"two readers, membarrier", 3, false, [](int t) { t ? reader(t, 1) : updater(0, 1, 1); }},
    {"updown, membarrier", 3, false, [](int t) { t == 0   ? updater(0, 1, 1)
                                                 : t == 1 ? down(t)
                                                          : up(t); }},
    {"waiter relies on another's grace periods, membarrier", 3, false,
     [](int t) { t == 0   ? driver(0, 2)
                 : t == 1 ? reader(t, 1)
                          : waiter(t); }},
    {"reader, two grace periods, reader barriers", 2, true, [](int t) { t ? reader(t, 2) : updater(0, 2, 2); }},
    {"two readers, reader barriers", 3, true, [](int t) { t ? reader(t, 1) : updater(0, 1, 1); }},
    {"waiter relies on another's grace periods, reader barriers", 3, true,
     [](int t) { t == 0   ? driver(0, 2)
                 : t == 1 ? reader(t, 1)
                          : waiter(t); }},
    {"callback, membarrier", 3, false, [](int t) { t == 0   ? worker(0, 1)
                                                   : t == 1 ? reader(t, 1)
                                                            : caller(t); }},
    {"callback, reader barriers", 3, true, [](int t) { t == 0   ? worker(0, 1)
                                                       : t == 1 ? reader(t, 1)
                                                                : caller(t); }},
    {"fork during a grace period, membarrier", 3, false,
     [](int t) { t == 0   ? cut_off(0, 1)
                 : t == 1 ? forking_reader(t)
                          : childs_updater(t, 2); }},
    {"cleanup, and the slot's next domain, membarrier", 2, false, [](int t) { t ? reader_of_both(t) : cleaner(0, 1); }},
    {"cleanup, and the slot's next domain, reader barriers", 2, true, [](int t) { t ? reader_of_both(t) : cleaner(0, 1); }},
};
int locks_counted(const State &s) { return s.memory[lock_words + 2] + s.memory[lock_words + 2 * ended]; }
void one_lock(State &s) {
    folding = true;
    s.memory[lock_words + 2] = 1;
}
const Configuration fold_configurations[] = {
    {"a sum while a thread ends", 2, false, [](int t) { t ? end_thread(t) : adder(t); }, one_lock,
     [](const State &s) { return s.memory[served] != 2; }},
    {"a thread ends and another one takes its record", 3, false,
     [](int t) { t == 1   ? end_thread(t)
                 : t == 2 ? next_owner(1)
                          : static_cast<void>(add_atomically(served, 1)); }, one_lock,
     [](const State &s) { return locks_counted(s) != 1 + s.memory[mail]; }},
    {"a sum while a thread ends and another one takes its record", 3, false,
     [](int t) { t == 1   ? end_thread(t)
                 : t == 2 ? next_owner(1)
                          : adder(t); }, one_lock,
     [](const State &s) { return s.memory[served] < 2 || s.memory[served] > 2 + s.memory[mail]; }},
};
bool not_served(const State &s) { return s.memory[mail] != 0 && s.memory[served] == 0; }
bool not_on_one_list(const State &s) { return s.memory[mail] != 0 && s.memory[served] != 1; }
const Configuration wake_configurations[] = {
    {"a sleeper and its waker", 2, false, [](int t) { t ? sleeper(t) : waker(t); }, nullptr, not_served},
    {"two sleepers and their waker", 3, false, [](int t) { t ? sleeper(t) : waker(t); }, nullptr,
     [](const State &s) { return s.memory[served] != 2; }},
    {"a worker that ends idle, and a caller", 2, false, [](int t) { t ? idle_worker(t) : caller_of_worker(t); },
     [](State &s) { s.memory[current] = 1; }, not_served},
};
const Configuration batch_configurations[] = {
    {"callback, membarrier", 3, false, [](int t) { t == 0   ? worker(0, 1)
                                                   : t == 1 ? reader(t, 1)
                                                            : caller(t); }},
    {"callback that relies on another's grace period, membarrier", 3, false,
     [](int t) { t == 0   ? driver(0, 1)
                 : t == 1 ? reader_that_calls(t)
                          : worker_that_relies(t); }},
    {"a domain that is served and given work", 3, false, [](int t) { t ? pusher(t) : server(t); },
     [](State &s) { s.memory[mark] = 1; }, not_on_one_list},
};
const Configuration end_configurations[] = {
    {"cleanup, and the slot's next domain, membarrier", 2, false, [](int t) { t ? reader_of_both(t) : cleaner(0, 1); }},
    {"cleanup while a waiter leaves", 2, false, [](int t) { t ? leaving_waiter(waiters) : only_cleaner(0); },
     [](State &s) { s.memory[waiters] = 1; }},
    {"cleanup while the last callback returns", 2, false, [](int t) { t ? leaving_waiter(mail) : only_cleaner(0); },
     [](State &s) { s.memory[mail] = 1; }},
};
const Configuration *configuration;

// ---- exploring ----

enum class Next { runs, ends };
Next next_operation(const State &s, int t) {
    self = &s.threads[t];
    position = 0;
    if (setjmp(back))
        return Next::runs;
    configuration->run(t);
    return Next::ends;
}

int seen_by(const State &s, const Thread &t, int address) {
    for (int i = t.stores; i-- > 0;)
        if (t.buffer[i].address == address)
            return t.buffer[i].value;
    return s.memory[address];
}
void finish(Thread &t, int value) {
    if (t.done == t.log.size())
        std::abort();
    t.log[t.done++] = static_cast<int8_t>(value);
}
void buffer(Thread &t, int address, int value) {
    if (t.stores == t.buffer.size())
        std::abort();
    t.buffer[t.stores++] = {static_cast<int8_t>(address), static_cast<int8_t>(value)};
}
void commit(State &s, Thread &t, int i) {
    s.memory[t.buffer[i].address] = t.buffer[i].value;
    std::copy(t.buffer.begin() + i + 1, t.buffer.begin() + t.stores, t.buffer.begin() + i);
    t.stores--;
}

struct Explorer {
    Visited visited;
    std::vector<State> todo;
    bool violated = false, something_happened = false;
    unsigned long reached = 0;

    void perform_late(State &s, Thread &t) {
        violated |= s.memory[t.late] != 0;
        t.late = -1;
    }
    void drain(State &s, Thread &t) {
        while (t.stores)
            commit(s, t, 0);
        if (t.late >= 0)
            perform_late(s, t);
    }
    static Digest digest(const State &s) {
        Digest d;
        d.bytes(s.memory.data(), sizeof s.memory);
        for (int t = 0; t < threads_now; t++) {
            const Thread &x = s.threads[t];
            const int8_t words[] = {x.over, x.late, x.asleep};
            d.bytes(words, sizeof words).bytes(x.log.data(), x.done).bytes(x.buffer.data(), x.stores * sizeof(Entry));
        }
        return d;
    }
    void reach(State &s) {
        reached++;
        something_happened |= s.memory[freed] || s.memory[freed + 3] || s.memory[served];
        if (visited.insert(digest(s)))
            todo.push_back(s);
    }
    void step(const State &from, int t) {
        State s = from;
        Thread &x = s.threads[t];
        if (next_operation(from, t) == Next::ends) {
            x.over = true;
            return reach(s);
        }
        const Operation o = wanted;
        switch (o.kind) {
        case Kind::load: finish(x, seen_by(s, x, o.address)); break;
        case Kind::store:
            buffer(x, o.address, o.value);
            finish(x, 0);
            break;
        case Kind::add:
            buffer(x, o.address, seen_by(s, x, o.address) + 1);
            finish(x, 0);
            break;
        case Kind::late_load:
            if (x.late >= 0)
                perform_late(s, x);
            x.late = static_cast<int8_t>(o.address);
            finish(x, 0);
            break;
        case Kind::loads_done:
            if (x.late >= 0)
                return; // another step gets it there
            finish(x, 0);
            break;
        case Kind::fence:
            if (x.stores || x.late >= 0)
                return; // other steps get it there
            finish(x, 0);
            break;
        case Kind::fork: // thread 0 is not in the child; the forking thread has executed a barrier
            if (x.stores || x.late >= 0)
                return;
            s.threads[0].over = true;
            s.threads[0].stores = 0;
            s.threads[0].late = -1;
            finish(x, 0);
            break;
        case Kind::drain:
            drain(s, s.threads[o.address]);
            finish(x, 0);
            break;
        case Kind::exchange:
        case Kind::atomic_add:
        case Kind::lock:
        case Kind::sleep:
        case Kind::wake:
            if (x.stores || x.late >= 0)
                return; // as a fence
            if (!at_once(s, x, o))
                return;
            break;
        }
        reach(s);
    }
    // Acts on memory itself. False: the lock is taken.
    static bool at_once(State &s, Thread &x, const Operation &o) {
        int8_t &m = s.memory[o.address];
        switch (o.kind) {
        case Kind::lock:
            if (m)
                return false;
            m = 1;
            finish(x, 0);
            return true;
        case Kind::sleep:
            if (m == o.value)
                x.asleep = static_cast<int8_t>(o.address);
            else
                finish(x, 0);
            return true;
        case Kind::wake:
            for (Thread &t : s.threads)
                if (t.asleep == o.address) {
                    t.asleep = -1;
                    finish(t, 0);
                }
            finish(x, 0);
            return true;
        default: {
            const int before = m;
            m = static_cast<int8_t>(o.kind == Kind::exchange ? o.value : before + o.value);
            finish(x, before);
            return true;
        }
        }
    }
    void let_out(const State &from, int t) {
        const Thread &x = from.threads[t];
        for (int i = 0; i < x.stores; i++) {
            const auto oldest = std::find_if(x.buffer.begin(), x.buffer.begin() + i,
                                             [&](Entry e) { return e.address == x.buffer[i].address; });
            if (oldest != x.buffer.begin() + i)
                continue;
            State s = from;
            commit(s, s.threads[t], i);
            reach(s);
        }
        if (x.late >= 0) {
            State s = from;
            perform_late(s, s.threads[t]);
            reach(s);
        }
    }
    void run() {
        State first;
        for (Thread &t : first.threads)
            t.log.fill(0);
        folding = false;
        if (configuration->prepare)
            configuration->prepare(first);
        reach(first);
        while (!todo.empty() && !violated) {
            const State s = todo.back();
            todo.pop_back();
            const unsigned long before = reached;
            bool all_over = true;
            for (int t = 0; t < threads_now; t++) {
                all_over &= s.threads[t].over;
                if (!s.threads[t].over && s.threads[t].asleep < 0)
                    step(s, t);
                let_out(s, t);
            }
            if (reached == before) // the end
                violated |= !all_over || (configuration->forgotten && configuration->forgotten(s));
        }
    }
};

// True: something is wrong in some interleaving of some configuration. Prints what ran.
template <class Configurations> bool violated_somewhere(const char *name, bool all, const Configurations &of) {
    for (const Configuration &c : of) {
        if (c_orders_only && !c.reader_barriers)
            continue; // no C there
        configuration = &c;
        threads_now = c.threads;
        reader_barriers = c.reader_barriers;
        Explorer e;
        e.run();
        if (e.violated) {
            std::printf("  %s: goes wrong in '%s', after %zu states\n", name, c.name, e.visited.size());
            return true;
        }
        if (all) {
            std::printf("  %s: '%s': %zu states\n", name, c.name, e.visited.size());
            if (!e.something_happened) {
                std::printf("  nothing was ever freed or served: this proves nothing\n");
                return true;
            }
        }
    }
    return false;
}

int mistakes;

// The first text, the original, holds in all configurations; each of the others fails in one.
template <class Text, class Configurations>
void check_texts(const char *file, const Text *&used, const Text *begin, const Text *end, const Configurations &of) {
    std::printf("%s\n", file);
    for (used = begin; used != end; used++) {
        const bool bad = violated_somewhere(used->name, used == begin, of);
        if (bad != (used != begin)) {
            std::printf("WRONG: '%s' %s\n", used->name, bad ? "fails" : "was not caught");
            mistakes++;
        }
    }
    used = begin;
}

} // namespace

int main() {
    check_texts("gp.h", machine, std::begin(machines), std::end(machines), configurations);
    c_orders_only = true;
    if (violated_somewhere("C as an order only", true, configurations)) {
        std::printf("WRONG: C as an order only\n");
        mistakes++;
    }
    c_orders_only = false;
    struct Without {
        bool *flag;
        const char *name;
    };
    for (const Without &w : {Without{&without_b, "reader without B"}, Without{&without_c, "reader without C"},
                             Without{&without_repair, "child without repair of the phase"},
                             Without{&cookie_too_early, "cookie taken before the object is replaced, or queued"}}) {
        *w.flag = true;
        if (!violated_somewhere(w.name, false, configurations)) {
            std::printf("WRONG: '%s' was not caught\n", w.name);
            mistakes++;
        }
        *w.flag = false;
    }
    check_texts("fold.h", fold, std::begin(folds), std::end(folds), fold_configurations);
    check_texts("wake.h", wake, std::begin(wakes), std::end(wakes), wake_configurations);
    check_texts("batch.h", batch, std::begin(batches), std::end(batches), batch_configurations);
    check_texts("end.h", end_text, std::begin(ends), std::end(ends), end_configurations);
    return mistakes ? 1 : 0;
}
