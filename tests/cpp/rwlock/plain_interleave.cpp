// SPDX-License-Identifier: MIT
// Explores the interleavings of a few threads around the real text of the plain lock (src/rwlock/plain.h) and around each of its mutants
// (mutants.py): threads that exclude each other are never inside together, no thread sleeps for ever, and a thread that has released the lock
// does not touch its memory again. Every mutant must break one of these.
//
// The words of the lock are changed by atomic read-modify-writes only, so memory is one: what the orders of plain.h add on other machines
// is argued there. A thread that sleeps is woken, or finds that the word has changed; one with a limit may reach it at any time. Threads are
// ordinary functions: for every step what a thread does in its stage, or in one wait, runs again from its start and gets the results that it had
// before. A release that begins again and again, since a writer goes to sleep each time, is not followed for ever.
#include <array>
#include <cerrno>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "../../../src/rwlock/state.h"
#include "../visited.hpp"

namespace {

constexpr size_t max_threads = 3, most_steps = 10;
constexpr uint32_t most_wakes = 2;

struct lw_rwlock {
    uint32_t state, queue;
};
struct limit {
    uint64_t ns, end;
};
lw_rwlock lock; // only the addresses of its words are used

enum class Kind { load, swap, add, sleep, wake };
struct Operation {
    Kind kind;
    size_t word; // 0: state, 1: queue
    uint32_t value, old;
    int order;
};
enum class Stage : uint8_t { begins, waits, inside, reads, over }; // reads: after a downgrade
struct Waiting { // as struct waiting
    uint32_t blocking, counted;
    uint64_t since;
};
struct Thread {
    std::array<uint32_t, most_steps> log{}; // results of its operations in this stage, or in this wait
    Waiting waiting{};
    Stage stage = Stage::begins;
    uint8_t steps = 0;
    int8_t asleep = -1; // on this word
    bool released = false, limited = false;
    bool downgraded = false;
    void had(uint32_t result) { log[steps++] = result; }
};
struct State {
    std::array<uint32_t, 2> memory{};
    std::array<Thread, max_threads> threads;
};

const Thread *running;
bool starves; // it does
size_t position;
Operation wanted;
std::jmp_buf back;

uint32_t operation(const Operation &o) {
    if (position < running->steps)
        return running->log[position++];
    wanted = o;
    std::longjmp(back, 1);
}
size_t word_of(const uint32_t *p) { return p == &lock.queue; }

bool swap(uint32_t *p, uint32_t *seen, uint32_t value, int order) {
    const uint32_t found = operation({Kind::swap, word_of(p), value, *seen, order});
    const bool done = found == *seen;
    *seen = found;
    return done;
}
bool sleep_until(uint32_t *p, uint32_t seen, const limit *l) {
    return operation({Kind::sleep, word_of(p), seen, uint32_t(l->ns != UINT64_MAX), 0}) == 0;
}
void lw_futex_wake(uint32_t *p, uint32_t threads) { operation({Kind::wake, word_of(p), threads, 0, 0}); }
void lw_futex_wake_all(uint32_t *p) { lw_futex_wake(p, max_threads); }
void keep_marks_out(lw_rwlock *) {}
void lw_relax() {}
bool nap(const limit *) { return true; }
// A writer that sleeps twice has waited too long; so has a reader, if it starves.
uint64_t now_ns() {
    const Waiting &w = running->waiting;
    return w.counted || (starves && w.since) ? 5'000'001 : 1;
}
limit sooner(const limit *l, uint64_t end) { return starves ? limit{1, end} : *l; }

#define LONGEST_PAUSE 0u
#define __atomic_load_n(p, order) operation({Kind::load, word_of(p), 0, 0, 0})
#define __atomic_fetch_add(p, v, order) operation({Kind::add, word_of(p), (v), 0, 0})
#define __atomic_compare_exchange_n(p, seen, v, weak, order, failure) swap((p), (seen), (v), (order))

struct Text {
    const char *name;
    bool (*read_at_once)(lw_rwlock *);
    int (*try_read)(lw_rwlock *, int);
    int (*wait_to_read)(lw_rwlock *, int, Waiting *, const limit *);
    int (*try_write)(lw_rwlock *, bool);
    int (*wait_to_write)(lw_rwlock *, Waiting *, const limit *);
    bool (*read_unlock)(lw_rwlock *);
    void (*write_unlock)(lw_rwlock *);
    void (*downgrade)(lw_rwlock *);
};
// One wait, by a function of the text, of a thread that knows this; what it knows at first.
template <class W, class Wait> int waits_once(Wait wait, W its, Waiting *w, const limit *until) {
    if (w->blocking)
        its = {w->blocking, w->counted, w->since};
    const int error = wait(&lock, &its, until);
    *w = {its.blocking, its.counted, its.since};
    return error;
}
#define LW_TEXT(name)                                                                                         \
    Text {                                                                                                    \
        #name, name::plain_read_at_once,                                                                      \
            [](lw_rwlock *l, int passing) { return name::plain_try_read(l, name::passing(passing)); },        \
            [](lw_rwlock *, int passing, Waiting *w, const limit *until) {                                    \
                return waits_once(name::wait_to_read, name::waits_to_read(name::passing(passing)), w, until); \
            },                                                                                                \
            name::plain_try_write,                                                                            \
            [](lw_rwlock *, Waiting *w, const limit *until) {                                                 \
                return waits_once(name::wait_to_write, name::waits_to_write(), w, until);                     \
            },                                                                                                \
            name::plain_read_unlock, name::plain_write_unlock, name::plain_downgrade                          \
    }
#include "plain_texts.h"
const Text texts[] = {TEXTS};
const Text *text;

// ---- the threads ----

struct Role {
    bool writes;
    bool readers_first; // a reader that passes writers beside readers
    bool limited;
    bool strange; // releases a read lock that is not counted here, and may take another thread's count
    bool downgrades = false; // a writer that becomes a reader before it leaves
    bool starves = false; // a reader that passes waiting writers before it sleeps again
    bool passes = false; // a reader that passes writers always
    bool awaits = false; // a reader that leaves once another one has been inside
    int passing() const {
        return passes ? original::PASSES_ALWAYS : readers_first ? original::PASSES_BESIDE_READERS : original::PASSES_NEVER;
    }
    bool operator==(const Role &) const = default;
};
const Role reader{false, false, false, false}, passing_reader{false, true, false, false}, writer{true, false, false, false},
    limited_writer{true, false, true, false}, stranger{false, false, false, true},
    downgrading_writer{true, false, false, false, true}, starving_reader{false, false, false, false, false, true},
    starving_limited_reader{false, false, true, false, false, true},
    starving_passing_reader{false, true, false, false, false, true},
    recursive_reader{false, true, false, false, false, false, true},
    starving_recursive_reader{false, true, false, false, false, true, true},
    awaiting_reader{false, true, false, false, false, false, false, true};

// What the thread does in its stage, from its begin.
int stage(const Role &r, Stage stage, Waiting *w) {
    const limit l{r.limited ? 1 : UINT64_MAX, 0};
    starves = r.starves;
    switch (stage) {
    case Stage::begins:
        if (r.strange)
            return 0;
        if (!r.writes && text->read_at_once(&lock))
            return 0;
        return r.writes ? text->try_write(&lock, false) : text->try_read(&lock, r.passing());
    case Stage::waits: return r.writes ? text->wait_to_write(&lock, w, &l) : text->wait_to_read(&lock, r.passing(), w, &l);
    case Stage::inside:
        if (r.downgrades)
            text->downgrade(&lock);
        else if (r.writes)
            text->write_unlock(&lock);
        else
            return !text->read_unlock(&lock);
        return 0;
    default: return !text->read_unlock(&lock);
    }
}

struct Configuration {
    const char *name;
    std::vector<Role> threads;
};
const Configuration configurations[] = {
    {"two writers", {writer, writer}},
    {"a writer, a reader", {writer, reader}},
    {"three writers", {writer, writer, writer}},
    {"two writers, a reader", {writer, writer, reader}},
    {"a writer, two readers", {writer, reader, reader}},
    {"a writer with a limit, a writer, a reader", {limited_writer, writer, reader}},
    {"two writers, a reader that starves", {writer, writer, starving_reader}},
    {"two writers, a reader with a limit that starves", {writer, writer, starving_limited_reader}},
    {"a writer, a reader, a reader that starves", {writer, reader, starving_reader}},
    {"a writer, two readers that starve, one with a limit", {writer, starving_reader, starving_limited_reader}},
    {"two writers, a reader that passes them beside readers, and starves", {writer, writer, starving_passing_reader}},
    {"a writer that becomes a reader, a writer, a reader that starves", {downgrading_writer, writer, starving_reader}},
    {"a writer, two readers that pass it beside readers", {writer, passing_reader, passing_reader}},
    {"two writers, a reader that passes them always", {writer, writer, starving_recursive_reader}},
    {"a writer, two readers that pass it always", {writer, recursive_reader, recursive_reader}},
    {"a writer, two readers that pass it beside readers, one waits for the other",
     {writer, awaiting_reader, passing_reader}},
    {"two readers, a release that is another's", {reader, reader, stranger}},
    {"a writer that becomes a reader, a writer, a reader", {downgrading_writer, writer, reader}},
    {"two writers that become readers", {downgrading_writer, downgrading_writer}},
    {"a writer that becomes a reader, two readers that pass writers beside readers",
     {downgrading_writer, passing_reader, passing_reader}},
};

// Runs the thread on to its next operation, through the ends of stages. False: it is over.
bool runs_on(Thread &t, const Role &r) {
    while (t.stage != Stage::over) {
        running = &t;
        position = 0;
        Waiting w = t.waiting;
        if (setjmp(back))
            return true;
        const int error = stage(r, t.stage, &w);
        t.waiting = w;
        t.log = {};
        t.steps = 0;
        t.stage = t.stage == Stage::inside && r.downgrades                                     ? Stage::reads
                  : t.stage == Stage::inside || t.stage == Stage::reads || error == -ETIMEDOUT ? Stage::over
                  : error                                                                      ? Stage::waits
                                                                                               : Stage::inside;
    }
    return false;
}

struct Explorer {
    const Configuration &configuration;
    Visited visited;
    std::vector<State> todo;
    std::string wrong;

    explicit Explorer(const Configuration &c) : configuration(c) {}

    // A thread that does not sleep stands before its next operation. The lock does not know its threads: those of one role that change
    // places make the same state.
    void reach(State s) {
        std::array<Digest, max_threads> keys;
        for (size_t t = 0; t < configuration.threads.size(); t++) {
            Thread &own = s.threads[t];
            if (own.asleep < 0)
                runs_on(own, configuration.threads[t]);
            const uint32_t words[] = {static_cast<uint32_t>(own.asleep), static_cast<uint32_t>(own.stage),
                                      own.waiting.counted / 65536 + (own.waiting.since != 0), own.waiting.blocking};
            keys[t].bytes(words, sizeof words).bytes(own.log.data(), own.steps * sizeof(uint32_t));
            for (size_t u = t; u && configuration.threads[u] == configuration.threads[u - 1] && keys[u] < keys[u - 1]; u--) {
                std::swap(keys[u], keys[u - 1]);
                std::swap(s.threads[u], s.threads[u - 1]);
            }
        }
        Digest whole;
        whole.bytes(s.memory.data(), sizeof s.memory);
        for (const Digest &key : keys)
            whole.of(key);
        if (visited.insert(whole))
            todo.push_back(s);
    }
    void result(State s, size_t t, uint32_t value) {
        s.threads[t].had(value);
        reach(s);
    }
    // Every set of that many sleepers may be the one that is woken.
    void wakes(State s, size_t t, const Operation &o, uint32_t left, size_t from) {
        bool any = false;
        for (size_t w = from; w < configuration.threads.size() && left; w++)
            if (s.threads[w].asleep == static_cast<int>(o.word)) {
                any = true;
                State woken = s;
                woken.threads[w].asleep = -1;
                woken.threads[w].had(0);
                wakes(woken, t, o, left - 1, w + 1);
                if (left == max_threads)
                    return; // all of them: in one order
            }
        if (!any)
            result(s, t, 0);
    }
    bool may_enter(const State &s, size_t t) const {
        for (size_t o = 0; o < configuration.threads.size(); o++) {
            const Thread &other = s.threads[o];
            const bool inside = (other.stage == Stage::inside || other.stage == Stage::reads) && !other.released;
            const bool writes = configuration.threads[o].writes && !other.downgraded;
            if (o != t && inside && (writes || configuration.threads[t].writes))
                return false;
        }
        return true;
    }
    // A reader that has asked for its turn sleeps, none is asked for, and no thread is about to wake readers: writers may pass it for ever.
    bool passed_for_ever(const State &s) const {
        const bool passed = s.memory[0] & READERS_SLEEP && !(s.memory[0] & READERS_TURN);
        for (size_t t = 0; passed && t < configuration.threads.size(); t++)
            if (s.threads[t].asleep == 0 && s.threads[t].waiting.counted == READERS_TURN)
                return true;
        return false;
    }
    bool another_has_read(const State &s, size_t t) const {
        for (size_t o = 0; o < configuration.threads.size(); o++)
            if (o != t && !configuration.threads[o].writes && s.threads[o].stage >= Stage::inside)
                return true;
        return false;
    }
    // False: it cannot go on now.
    bool step(const State &from, size_t t) {
        State s = from;
        Thread &own = s.threads[t];
        if (own.stage == Stage::over ||
            (own.stage == Stage::inside && configuration.threads[t].awaits && !another_has_read(s, t)))
            return false;
        if (own.asleep >= 0) {
            if (!own.limited)
                return false;
            own.asleep = -1;
            result(s, t, 1); // its limit is reached
            return true;
        }
        if (own.steps == most_steps || s.memory[1] > most_wakes)
            return true; // followed no further
        runs_on(own, configuration.threads[t]); // says again what it wants
        const Operation o = wanted;
        if (own.released && o.kind != Kind::wake) {
            wrong = "a thread touched the lock after it had released it";
            return true;
        }
        uint32_t &word = s.memory[o.word];
        switch (o.kind) {
        case Kind::load: result(s, t, word); break;
        case Kind::add:
            word += o.value;
            result(s, t, word - o.value);
            break;
        case Kind::swap: {
            const uint32_t found = word;
            if (found == o.old) {
                word = o.value;
                if (o.order == __ATOMIC_RELEASE)
                    (configuration.threads[t].downgrades && !own.downgraded ? own.downgraded : own.released) = true;
                if (o.order == __ATOMIC_ACQUIRE && !may_enter(s, t))
                    wrong = "two threads that exclude each other were inside";
                if (o.order == __ATOMIC_ACQUIRE && configuration.threads[t].writes && found & READERS_TURN)
                    wrong = "a writer came in at the readers' turn";
            }
            result(s, t, found);
            break;
        }
        case Kind::sleep:
            if (word != o.value) {
                result(s, t, 0);
                break;
            }
            if (o.word == 0 && word & WRITER && !(word & READERS_TURN))
                wrong = "a reader sleeps for a writer that is inside, and has not asked for its turn";
            own.asleep = static_cast<int>(o.word);
            own.limited = o.old;
            reach(s);
            break;
        case Kind::wake: wakes(s, t, o, o.value, 0); break;
        }
        return true;
    }
    void explore() {
        reach(State());
        while (!todo.empty() && wrong.empty()) {
            const State s = todo.back();
            todo.pop_back();
            bool any = false, all_over = true;
            for (size_t t = 0; t < configuration.threads.size() && wrong.empty(); t++) {
                any |= step(s, t);
                all_over &= s.threads[t].stage == Stage::over;
            }
            if (!any && !all_over)
                wrong = "a thread sleeps for ever";
            if (all_over && s.memory[0] != 0)
                wrong = "the lock is free, and does not look so";
            if (passed_for_ever(s))
                wrong = "a reader sleeps, and the turn that it asked for is gone";
        }
    }
};

} // namespace

int main() {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    int failures = 0;
    for (const Text &t : texts) {
        text = &t;
        const bool original = std::strcmp(t.name, "original") == 0;
        std::string caught;
        for (const Configuration &c : configurations) {
            Explorer e(c);
            e.explore();
            if (original) {
                std::printf("%s: %zu states, %s\n", c.name, e.visited.size(), e.wrong.empty() ? "right" : e.wrong.c_str());
                failures += !e.wrong.empty();
            } else if (!e.wrong.empty()) {
                caught = c.name + (": " + e.wrong);
                break;
            }
        }
        if (original)
            continue;
        std::printf("mutant %s: %s\n", t.name, caught.empty() ? "NOT CAUGHT" : ("caught: " + caught).c_str());
        failures += caught.empty();
    }
    return failures != 0;
}
