// Explores every interleaving of a few threads around the real step machine (src/srcu/gp.h) and around each of its mutants
// (mutants.py), on a machine with store buffers and delayed loads. The original must never let a reader see a freed object;
// every mutant must.
//
// The machine: a store stays in its thread's buffer and reaches memory at any later time, in order per address only. The load of
// a reader's object is delayed: it may happen at any later time, even after the unlock. A fence waits for both. A heavy
// barrier makes one thread after the other complete what it has begun, with any steps of other threads in between.
// Threads are ordinary functions. For every step a function runs again from its start and gets the values that it read before.
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <unordered_set>
#include <vector>

namespace {

constexpr int max_threads = 4, max_words = 40;
enum Address : int {
    seq_word,
    index_word,
    pointer,
    mail,
    phase_word, // of the configurations with fork()
    entered,
    freed,
    lock_words = freed + 4,
    unlock_words = lock_words + 2 * max_threads
};
static_assert(unlock_words + 2 * max_threads <= max_words);

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
};
struct State {
    std::array<int8_t, max_words> memory{};
    std::array<Thread, max_threads> threads;
};

enum class Kind { load, store, add, late_load, loads_done, fence, drain, fork };
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

int threads_now; // of the configuration
bool reader_barriers;
bool without_b, without_c, without_repair, cookie_too_early, without_cleanup_barrier;
bool c_orders_only; // as on x86: what comes before the count is performed before it, and the count may leave late

int sum(int base, int index) {
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

struct Machine {
    const char *name;
    int (*step)(Domain *);
    unsigned long (*cookie)(Domain *);
    bool (*passed)(unsigned long, unsigned long);
};
#include "machines.h"
const Machine machines[] = {MACHINES};
const Machine *machine;

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
    if (!load(mail))
        return;
    const unsigned long cookie = machine->cookie(&d);
    while (!machine->passed(static_cast<unsigned long>(load(seq_word)), cookie))
        if (machine->step(&d) == 0 && --steps == 0)
            return;
    store(freed, 1);
}

// fork(): the thread that drives a grace period is cut off at any point, its stores that have not left it are lost. The child
// repairs the phase (src/srcu/domain.c); a thread of the child waits for the reader that the forking thread is.
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
    if (!load(entered))
        return; // the program ends no domain that a reader may still enter
    for (int i = 0; i < 2; i++) {
        const int unlocks = sum(unlock_words, i);
        if (!without_cleanup_barrier)
            heavy(me);
        if (sum(lock_words, i) != unlocks)
            return; // -EBUSY
    }
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

struct Configuration {
    const char *name;
    int threads;
    bool reader_barriers;
    void (*run)(int thread);
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
    std::unordered_set<std::string> visited;
    std::vector<State> todo;
    bool violated = false, freed_once = false;

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
    static std::string key(const State &s) {
        std::string k(reinterpret_cast<const char *>(s.memory.data()), s.memory.size());
        for (int t = 0; t < threads_now; t++) {
            const Thread &x = s.threads[t];
            k.push_back(static_cast<char>(x.done + (x.over ? 128 : 0)));
            k.push_back(static_cast<char>(x.late));
            k.append(reinterpret_cast<const char *>(x.log.data()), x.done);
            for (int i = 0; i < x.stores; i++)
                k += {static_cast<char>(x.buffer[i].address), static_cast<char>(x.buffer[i].value)};
            k.push_back('|');
        }
        return k;
    }
    void reach(State &s) {
        freed_once |= s.memory[freed] != 0;
        if (visited.insert(key(s)).second)
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
        }
        reach(s);
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
        reach(first);
        while (!todo.empty() && !violated) {
            const State s = todo.back();
            todo.pop_back();
            for (int t = 0; t < threads_now; t++) {
                if (!s.threads[t].over)
                    step(s, t);
                let_out(s, t);
            }
        }
    }
};

// True: some interleaving of some configuration reads a freed object. Prints what ran.
bool violated_somewhere(const char *name, bool all_configurations) {
    for (const Configuration &c : configurations) {
        if (c_orders_only && !c.reader_barriers)
            continue; // no C there
        configuration = &c;
        threads_now = c.threads;
        reader_barriers = c.reader_barriers;
        Explorer e;
        e.run();
        if (e.violated) {
            std::printf("  %s: a freed object is read, in '%s', after %zu states\n", name, c.name, e.visited.size());
            return true;
        }
        if (all_configurations) {
            std::printf("  %s: '%s': %zu states\n", name, c.name, e.visited.size());
            if (!e.freed_once) {
                std::printf("  nothing was ever freed: this proves nothing\n");
                return true;
            }
        }
    }
    return false;
}

} // namespace

int main() {
    int wrong = 0;
    for (unsigned i = 0; i < sizeof machines / sizeof *machines; i++) {
        machine = &machines[i];
        const bool bad = violated_somewhere(machine->name, i == 0);
        if (bad != (i != 0)) {
            std::printf("WRONG: '%s' %s\n", machine->name, bad ? "fails" : "was not caught");
            wrong++;
        }
    }
    machine = &machines[0];
    c_orders_only = true;
    if (violated_somewhere("C as an order only", true)) {
        std::printf("WRONG: C as an order only\n");
        wrong++;
    }
    c_orders_only = false;
    struct Without {
        bool *flag;
        const char *name;
    };
    for (const Without &w : {Without{&without_b, "reader without B"}, Without{&without_c, "reader without C"},
                             Without{&without_repair, "child without repair of the phase"},
                             Without{&cookie_too_early, "cookie taken before the object is replaced, or queued"},
                             Without{&without_cleanup_barrier, "cleanup without its barrier"}}) {
        *w.flag = true;
        if (!violated_somewhere(w.name, false)) {
            std::printf("WRONG: '%s' was not caught\n", w.name);
            wrong++;
        }
        *w.flag = false;
    }
    return wrong ? 1 : 0;
}
