// SPDX-License-Identifier: MIT
// Explores every interleaving of a few threads around the real lock text of per-CPU words (src/percpu/lock.h) and around
// each of its mutants (mutants.py). With the original no list ever loses a node or gives one to two threads, and every
// thread comes to its end; with every mutant something of that happens.
//
// The machine is sequentially consistent; orders between CPUs are litmus tests (verify/litmus). It has two CPUs, each with a
// lock word and a list. A sequence is aborted when another thread takes a step on its CPU, when its own thread is moved, and
// on request. Threads are ordinary functions. For every step a function runs again from its start and gets the values that
// it read before.
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "../visited.hpp"

namespace {

constexpr int cpus = 2, nodes = 2, max_threads = 3, max_steps = 60;
constexpr int aborted = -1000; // what a step of a sequence returns then
enum Address : int { lock_words, heads = lock_words + cpus, next_words = heads + cpus, holders = next_words + nodes + 1 };
constexpr int words = holders + nodes + 1;

struct Thread {
    std::array<int32_t, max_steps> log;
    int8_t done = 0; // steps
    int8_t cpu = 0;
    int8_t moves = 0; // that it may still make
    bool over = false, in_sequence = false, abort = false;
    int8_t asleep = -1; // the word
};
struct State {
    std::array<int32_t, words> memory{};
    std::array<Thread, max_threads> threads;
};

enum class Kind { load, store, swap, sleep, wake, here, abort_cpu, begin, sequence_load, sequence_leave, commit, hold };
struct Step {
    Kind kind;
    int address;
    int32_t value, expected;
};

// ---- what a thread's function calls ----

const Thread *self;
int position;
Step wanted;
std::jmp_buf back;
bool abort_denied; // by a filter
bool sequences_test_the_lock;

int32_t step(Kind kind, int address, int32_t value = 0, int32_t expected = 0) {
    if (position < self->done)
        return self->log[static_cast<std::size_t>(position++)];
    wanted = {kind, address, value, expected};
    std::longjmp(back, 1);
}

bool swap(int address, uint32_t &seen, uint32_t value) {
    const auto was =
        static_cast<uint32_t>(step(Kind::swap, address, static_cast<int32_t>(value), static_cast<int32_t>(seen)));
    const bool done = was == seen;
    seen = was;
    return done;
}

#define LW_LOCK int
#define LW_LOCK_LOAD(l) static_cast<uint32_t>(step(Kind::load, l))
#define LW_LOCK_SWAP(l, seen, value) swap(l, seen, value)
#define LW_LOCK_FREE(l) static_cast<uint32_t>(step(Kind::store, l, 0))
#define LW_LOCK_SLEEP(l, seen) step(Kind::sleep, l, static_cast<int32_t>(seen))
#define LW_LOCK_WAKE(l) step(Kind::wake, l)
#define LW_LOCK_ME() 1u
#define LW_LOCK_HERE(cpu) step(Kind::here, static_cast<int>(cpu))
#define LW_LOCK_ABORT(cpu) step(Kind::abort_cpu, static_cast<int>(cpu))
#define LW_LOCK_POINT(name) static_cast<void>(0)
#define LW_LIST_PLACE int
#define LW_LIST_NODE int
#define LW_LIST_LOAD(place) step(Kind::load, place)
#define LW_LIST_STORE(place, node) step(Kind::store, place, node)
#define LW_LIST_NEXT(node) (next_words + (node))
#include "locks.h"

struct Lock {
    const char *what;
    bool (*own)(int, unsigned);
    void (*unlock)(int);
    void (*push)(int, int, int);
    int (*pop)(int);
    int (*take)(int);
};
const Lock locks[] = {LOCKS};
const Lock *lock;

// ---- the sequences, step by step as in arch/*/rseq.h; false: nothing happened ----

bool enter(int cpu) {
    step(Kind::begin, 0);
    if (!sequences_test_the_lock)
        return true;
    const int32_t held = step(Kind::sequence_load, lock_words + cpu);
    if (held == 0)
        return true;
    if (held != aborted)
        step(Kind::sequence_leave, 0);
    return false;
}

bool sequence_pop(int cpu, int &node) {
    if (!enter(cpu) || (node = step(Kind::sequence_load, heads + cpu)) == aborted)
        return false;
    if (!node)
        return step(Kind::sequence_leave, 0) != aborted;
    const int next = step(Kind::sequence_load, next_words + node);
    return next != aborted && step(Kind::commit, heads + cpu, next) != aborted;
}

bool sequence_push(int cpu, int node) {
    int head;
    if (!enter(cpu) || (head = step(Kind::sequence_load, heads + cpu)) == aborted)
        return false;
    step(Kind::store, next_words + node,
         head); // the node is this thread's, so the store may be made whether it is aborted or not
    return step(Kind::commit, heads + cpu, node) != aborted;
}

// ---- threads ----

void hold(int node) {
    step(Kind::hold, holders + node, 1);
    step(Kind::hold, holders + node, -1);
}

// As in owned.c; where it is denied the abort it chooses again.
void own(int cpu) {
    while (!lock->own(lock_words + cpu, static_cast<unsigned>(cpu)))
        ;
}

void push_by_lock(int cpu, int node) {
    own(cpu);
    lock->push(heads + cpu, node, node);
    lock->unlock(lock_words + cpu);
}

// One attempt each by a sequence, then by the lock. The thread stays on its CPU.
void by_sequences(int cpu) {
    int node = 0;
    if (!sequence_pop(cpu, node))
        return;
    if (!node)
        return;
    hold(node);
    if (!sequence_push(cpu, node))
        push_by_lock(cpu, node);
}

void by_lock(int cpu) {
    own(cpu);
    const int node = lock->pop(heads + cpu);
    lock->unlock(lock_words + cpu);
    if (!node)
        return;
    hold(node);
    push_by_lock(cpu, node);
}

void by_taking_all(int cpu) {
    own(cpu);
    const int first = lock->take(heads + cpu);
    lock->unlock(lock_words + cpu);
    for (int node = first, i = 0; node && i < nodes; i++) {
        const int next = step(Kind::load, next_words + node);
        hold(node);
        push_by_lock(cpu, node);
        node = next;
    }
}

void only_lock(int cpu) {
    own(cpu);
    step(Kind::hold, holders, 1);
    step(Kind::hold, holders, -1);
    lock->unlock(lock_words + cpu);
}

void try_to_take(int cpu) { // as lw_percpu_pop_all(): where it may not, it leaves
    if (lock->own(lock_words + cpu, static_cast<unsigned>(cpu)))
        lock->unlock(lock_words + cpu);
}

struct Actor {
    void (*run)(int cpu); // on that CPU's words
    int cpu; // where it runs at first
    int moves;
};
struct Configuration {
    const char *what;
    std::vector<Actor> actors;
    int32_t lock_at_first;
    bool denied;
};
const Configuration configurations[] = {
    {"sequences, and a thread on another CPU that pops", {{by_sequences, 0, 0}, {by_lock, 1, 0}}, 0, false},
    {"sequences, and a thread on another CPU that takes all", {{by_sequences, 0, 0}, {by_taking_all, 1, 0}}, 0, false},
    {"sequences, and a thread without that is moved", {{by_sequences, 0, 0}, {by_lock, 0, 1}}, 0, false},
    {"two threads that take all", {{by_taking_all, 0, 0}, {by_taking_all, 1, 0}}, 0, false},
    {"three threads that lock", {{only_lock, 0, 0}, {only_lock, 0, 0}, {only_lock, 1, 0}}, 0, false},
    {"a lock inherited from another process", {{by_lock, 0, 0}}, 2, false},
    {"an inherited lock that threads of that process sleep for", {{by_lock, 0, 0}, {only_lock, 1, 0}}, INT32_MIN + 2, false},
    {"aborts are denied", {{try_to_take, 1, 0}, {only_lock, 0, 0}}, 0, true},
};

// ---- exploration ----

bool broken;

void preempt(State &s, std::size_t t) {
    for (std::size_t other = 0; other < max_threads; other++)
        if (other != t && s.threads[other].cpu == s.threads[t].cpu && s.threads[other].in_sequence)
            s.threads[other].abort = true;
}

int32_t sequence_step(State &s, Thread &me, const Step &want) {
    if (me.abort) {
        me.in_sequence = me.abort = false;
        return aborted;
    }
    if (want.kind == Kind::sequence_load)
        return s.memory[static_cast<std::size_t>(want.address)];
    me.in_sequence = false;
    if (want.kind == Kind::commit)
        s.memory[static_cast<std::size_t>(want.address)] = want.value;
    return 0;
}

int32_t perform(State &s, std::size_t t, const Step &want) {
    Thread &me = s.threads[t];
    int32_t &word = s.memory[static_cast<std::size_t>(want.address)];
    const int32_t was = word;
    switch (want.kind) {
    case Kind::load: return was;
    case Kind::store: word = want.value; return was;
    case Kind::swap:
        if (was == want.expected)
            word = want.value;
        return was;
    case Kind::sleep:
        if (was == want.value)
            me.asleep = static_cast<int8_t>(want.address);
        return 0;
    case Kind::wake:
        for (Thread &other : s.threads)
            if (other.asleep == want.address) {
                other.asleep = -1;
                break;
            }
        return 0;
    case Kind::here: return me.cpu == want.address;
    case Kind::abort_cpu:
        for (Thread &other : s.threads)
            if (!abort_denied && other.cpu == want.address && other.in_sequence)
                other.abort = true;
        return !abort_denied;
    case Kind::begin: me.in_sequence = true; return 0;
    case Kind::hold:
        word += want.value;
        broken |= word > 1;
        return 0;
    default: return sequence_step(s, me, want);
    }
}

// The thread's next step, or none when its function returns.
bool next_step(const Thread &thread, const Actor &actor) {
    self = &thread;
    position = 0;
    if (setjmp(back) == 0) {
        actor.run(0);
        return false;
    }
    return true;
}

void check_the_end(const State &s) {
    std::array<int, nodes + 1> seen{};
    int at = s.memory[heads];
    for (int i = 0; at && i <= nodes; i++, at = s.memory[static_cast<std::size_t>(next_words + at)])
        seen[static_cast<std::size_t>(at)]++;
    for (int node = 1; node <= nodes; node++)
        broken |= seen[static_cast<std::size_t>(node)] != 1;
}

State first_state(const Configuration &c) {
    State s;
    for (Thread &thread : s.threads)
        thread = Thread{.log = {}, .over = true};
    s.memory[lock_words] = c.lock_at_first;
    s.memory[heads] = 1;
    s.memory[next_words + 1] = 2;
    for (std::size_t t = 0; t < c.actors.size(); t++) {
        s.threads[t].over = false;
        s.threads[t].cpu = static_cast<int8_t>(c.actors[t].cpu);
        s.threads[t].moves = static_cast<int8_t>(c.actors[t].moves);
    }
    return s;
}

Digest digest(const State &s) {
    Digest d;
    d.bytes(s.memory.data(), sizeof s.memory);
    for (const Thread &t : s.threads) {
        const int8_t words[] = {t.cpu, t.moves, t.over, t.in_sequence, t.abort, t.asleep};
        d.bytes(words, sizeof words).bytes(t.log.data(), static_cast<std::size_t>(t.done) * sizeof t.log[0]);
    }
    return d;
}

// Adds the states that one step of each thread leads to. False: nothing can happen any more.
bool expand(const State &s, const Configuration &c, std::vector<State> &open) {
    bool any = false;
    for (std::size_t t = 0; t < c.actors.size() && !broken; t++) {
        const Thread &thread = s.threads[t];
        if (thread.over || thread.asleep >= 0)
            continue;
        any = true;
        if (thread.moves) {
            State moved = s;
            preempt(moved, t);
            Thread &me = moved.threads[t];
            me.cpu ^= 1, me.moves--, me.abort = me.in_sequence;
            preempt(moved, t);
            open.push_back(moved);
        }
        State after = s;
        preempt(after, t);
        if (!next_step(thread, c.actors[t])) {
            after.threads[t].over = true;
        } else if (thread.done == max_steps) {
            continue; // chooses again and again: each time needs a move or another thread's steps, which are explored
        } else {
            Thread &me = after.threads[t];
            me.log[static_cast<std::size_t>(me.done++)] = perform(after, t, wanted);
        }
        open.push_back(after);
    }
    return any;
}

// Whether something goes wrong somewhere.
bool finds_a_fault(const Configuration &c) {
    Visited seen;
    std::vector<State> open{first_state(c)};
    broken = false;
    abort_denied = c.denied;
    while (!open.empty() && !broken) {
        const State s = open.back();
        open.pop_back();
        if (!seen.insert(digest(s)) || expand(s, c, open))
            continue;
        const bool all_over = std::ranges::all_of(s.threads, &Thread::over);
        broken |= !all_over; // sleeps for ever
        if (all_over)
            check_the_end(s);
    }
    return broken;
}

// One line, and whether it is as it should be.
bool report(const char *what, bool should_break) {
    std::string where;
    for (const Configuration &c : configurations)
        if (where.empty() && finds_a_fault(c))
            where = c.what;
    const bool right = where.empty() != should_break;
    std::printf("%s%s: %s%s\n", right ? "" : "WRONG ", what, where.empty() ? "nothing goes wrong" : "seen with ",
                where.c_str());
    return right;
}

} // namespace

int main() {
    bool good = true;
    sequences_test_the_lock = true;
    for (const Lock &each : locks) {
        lock = &each;
        good &= report(each.what, &each != locks);
    }
    lock = locks;
    sequences_test_the_lock = false;
    good &= report("sequences that do not test the lock", true);
    return good ? 0 : 1;
}
