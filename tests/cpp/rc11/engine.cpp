// SPDX-License-Identifier: MIT
// Runs scenarios (rc11.h) in every execution that the C11 memory model allows, as RC11 repairs it (Lahav, Vafeiadis and others, PLDI 2017), and
// reports data races, failed checks, threads that sleep or spin for ever, with the execution.
//
// The text is compiled with -fsanitize=thread, unmodified but for what build.py replaces (how often loops look), and this file is the sanitizer's
// run-time part: each access comes here. Threads are
// coroutines. At each atomic access to a word that several threads use, and one of them writes, any thread may go on whose step may meet one of
// another (enough()); each other choice goes on from there (Saved), and an execution ends early where it reaches a state that no thread can
// tell from one that was met before (Canonical). Both rest on what threads may still do (Future). --whole explores without that.
//
// The machine: every word has a list of messages in the order in which the word took them. A view says for each word which message is the oldest
// that may still be read. A thread has three: `now`; `acquired`, what an acquire fence adds; `released`, what its relaxed stores carry since a
// release fence. A load reads any message that `now` allows; a store goes to any place after what `now` has seen, but never
// between an atomic read-modify-write and what that read. Release stores carry `now`, and an acquire load adds what the message carries. A
// read-modify-write passes on what the message carries that it read (release sequences as in C++20: a later store of the same thread is no part
// of one). All sequentially consistent fences join one view, in the order of the execution; such accesses are bound by it, and stores enter it.
// membarrier is such a fence of every thread, each at any moment of the call. The views carry clocks as well, of what happened before: a plain
// access that is not ordered with another's is a race.
//
// What the machine leaves out: a store never passes an earlier load of its thread (RC11 forbids load buffering; C11 and arm64 do not), and for
// the same reason the order of fences and of sequentially consistent accesses never contradicts the order of reading (the litmus tests "relay" and
// "Z6.U", whose extra outcomes RC11 allows). Those cases are verify/litmus's.
// A weak compare-and-swap does not fail by chance. A plain access counts with its whole aligned word of four bytes.
#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <chrono>
#include <climits>
#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <link.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <set>
#include <string>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "../visited.hpp"
extern "C" {
#include "rc11.h"
}

namespace {

constexpr unsigned max_threads = RC11_THREADS, max_words = 192, max_places = 512;
constexpr size_t stack_bytes = 64 << 10, deep = 8192, shallow = 1024, // of a stack, what executions use
    arena_bytes = size_t{1} << 33;
enum Order { relaxed, consume, acquire, release, acq_rel, seq_cst };
bool acquires(int o) { return o == consume || o == acquire || o == acq_rel || o == seq_cst; }
bool releases(int o) { return o == release || o == acq_rel || o == seq_cst; }

struct View {
    std::array<uint16_t, max_words> at{}; // the place of a message in its word's list
    std::array<uint16_t, max_threads> clock{};
    void see(const View &v, size_t words) {
        for (size_t i = 0; i < words; i++)
            at[i] = std::max(at[i], v.at[i]);
    }
    void join(const View &v, size_t words) {
        see(v, words);
        for (size_t i = 0; i < max_threads; i++)
            clock[i] = std::max(clock[i], v.clock[i]);
    }
};
struct Message {
    uint64_t value;
    bool attached; // stored by a read-modify-write of the message before
    View view;
};
struct Word {
    uintptr_t address;
    unsigned size, place;
    bool pending; // the newest message's value is still in memory alone
    unsigned used; // messages
    std::vector<Message> list;
};
struct Accesses { // of a word, the clocks of each thread's last ones
    std::array<uint16_t, max_threads> plain_write{}, plain_read{}, write{}, read{};
};
enum class Kind { load, store, rmw, fence, plain_read, plain_write, wait, wake, membarrier, await, relax, clock, over };
const char *const kind_names[] = {"load",       "store",      "rmw",   "fence", "read",  "write", "futex wait",
                                  "futex wake", "membarrier", "await", "relax", "clock", "over"};
enum class Change { exchange, add, sub, and_, or_, xor_, swap };
struct Op {
    Kind kind;
    Change change;
    int order, failure;
    unsigned size;
    uintptr_t address;
    uint64_t value, expected; // await: expected; wake: how many; wait: the limit in ns
    bool other;
    void *caller;
};
enum class Status { ready, asleep, over };
struct Future { // what a thread may still do
    std::bitset<max_places> reads, writes; // of words, atomic and plain ones, by their numbers
    bool acquire_fence, unreleased, in_order,
        barrier; // stores without release order; sequentially consistent steps; membarrier
    void add(const Future &f) {
        reads |= f.reads, writes |= f.writes;
        acquire_fence |= f.acquire_fence, unreleased |= f.unreleased, in_order |= f.in_order, barrier |= f.barrier;
    }
    bool operator==(const Future &) const = default;
};
struct Thread {
    std::jmp_buf context, parked;
    Op op;
    uint64_t result;
    bool succeeded;
    Status status;
    int error; // errno
    uintptr_t low, lowest; // of the stack in use, now and in this execution
    View now, acquired, released;
    std::vector<char> tls;
    unsigned draining; // mask of the threads whose membarrier has still to interrupt this one
    Digest digest;
    bool changed; // since `digest`
    uint32_t local; // its own state's number in `locals`
    Future done; // since then
    char *stack;
    void (*run)();
};

[[noreturn]] void die(const char *what) {
    std::fprintf(stderr, "rc11: %s\n", what);
    std::exit(2);
}

// ---- the scenario's memory, and how it is put back ----

uint64_t &memory(uintptr_t a) { return *reinterpret_cast<uint64_t *>(a); }

struct Undo {
    std::vector<std::pair<uintptr_t, uint64_t>> before; // of aligned words of 8 bytes, in the order of their first change
    std::unordered_set<uintptr_t> known;
    void touch(uintptr_t address, size_t size) {
        for (uintptr_t a = address & ~uintptr_t{7}; a < address + size; a += 8)
            if (known.insert(a).second)
                before.push_back({a, memory(a)});
    }
    void back_to(size_t many) {
        for (; before.size() > many; before.pop_back()) {
            memory(before.back().first) = before.back().second;
            known.erase(before.back().first);
        }
    }
} undo;

char *arena;
size_t arena_used, arena_at_start;
char *tls_begin; // of the module
size_t tls_bytes;
std::vector<char> tls_image;
uintptr_t module_base;
const char *module_begin, *module_end;
std::string module_path;

#define AT(p) reinterpret_cast<uintptr_t>(p)
uint64_t get(uintptr_t a, unsigned size) {
    uint64_t v = 0;
    std::memcpy(&v, reinterpret_cast<void *>(a), size);
    return v;
}
void put(uintptr_t a, unsigned size, uint64_t v) {
    undo.touch(a, size);
    std::memcpy(reinterpret_cast<void *>(a), &v, size);
}

// ---- one execution ----

struct Choice {
    unsigned many, now;
    uint32_t state; // of a choice of thread
    unsigned set; // of threads to choose from
    std::array<uint32_t, max_threads> locals;
};
enum class End { whole, pruned, cut };
struct Restart {};
struct Wrong {
    std::string what;
};
struct Use { // of a word, in all executions: by whom, whether stored, and how
    unsigned threads;
    bool stored, atomic, plain, written;
    unsigned place; // its number in Future; 0: none yet
    bool shared() const { return stored && (threads & (threads - 1)); }
};
std::unordered_map<uintptr_t, Use> uses;
const rc11_scenario *scenario, *first_scenario;
Thread threads[max_threads];
unsigned thread_count;
Thread *running; // whose coroutine runs; null: none does
std::jmp_buf main_context;
std::vector<Choice> choices;
size_t depth;
bool alone; // begin() or end() runs
std::vector<Word> words;
size_t words_used;
std::unordered_map<uintptr_t, unsigned> word_at;
std::vector<std::pair<uintptr_t, Accesses>> accesses; // by address
View seq_view;
bool whole; // without any reduction
bool late; // the clock has jumped
bool cutting; // the scenario's cut() runs
std::set<uintptr_t> counters; // the words that it reads
std::string outcome;
bool tracing;
std::vector<std::string> trace;
std::string failed; // a check, in the thread that runs

Visited visited;
std::unordered_map<size_t, uint32_t> numbers; // of states, by their digests' places
std::vector<std::pair<uint32_t, uint32_t>> edges;
uint32_t states, last_state;
std::vector<uint32_t> finals;

unsigned choose(unsigned many) {
    if (many <= 1)
        return 0;
    if (depth == choices.size())
        choices.push_back({many, 0, 0, 0, {}});
    return choices[depth++].now;
}

unsigned places;

unsigned place_of(uintptr_t address) {
    Use &u = uses[address];
    if (!u.place)
        u.place = ++places;
    if (u.place == max_places)
        die("too many places");
    return u.place;
}

Word &word_of(uintptr_t address, unsigned size) {
    const auto [at, is_new] = word_at.try_emplace(address, words_used);
    if (is_new) {
        if (words_used == max_words)
            die("too many words");
        if (words_used == words.size())
            words.emplace_back();
        Word &w = words[words_used++];
        w.address = address, w.size = size, w.place = place_of(address), w.pending = false, w.used = 1;
        if (w.list.empty())
            w.list.emplace_back();
        w.list[0] = {get(address, size), false, View()};
    }
    Word &w = words[at->second];
    if (w.pending) {
        w.list[w.used - 1].value = get(address, w.size);
        w.pending = false;
    }
    return w;
}
size_t index_of(const Word &w) { return static_cast<size_t>(&w - words.data()); }

// ---- what threads may still do ----

// Learned, from all executions together, for each state of a thread alone: what it asks for, its stack and its variables. What was not known yet when it
// counted is known in the next pass over all executions; the last pass learns nothing. If it had left out an execution because some
// thread seemed to be done with a word, the first such step would have followed steps that the pass did explore, and so would have been learned.
struct Local {
    Future future;
    std::vector<uint32_t> before;
};
std::vector<Local> locals;
std::unordered_map<size_t, uint32_t> local_at; // by digest
bool learned; // in this pass

void note(Future &f, const Op &op) {
    if (op.kind == Kind::relax)
        return;
    const bool atomic = op.kind == Kind::load || op.kind == Kind::store || op.kind == Kind::rmw || op.kind == Kind::fence;
    const bool in_kernel = op.kind == Kind::wait || op.kind == Kind::wake || op.kind == Kind::membarrier;
    const bool writes = op.kind == Kind::store || op.kind == Kind::rmw || op.kind == Kind::plain_write;
    f.barrier |= op.kind == Kind::membarrier && !op.other;
    f.in_order |= in_kernel || (atomic && (op.order == seq_cst || op.failure == seq_cst));
    f.acquire_fence |= in_kernel || (op.kind == Kind::fence && acquires(op.order));
    f.unreleased |= writes && (op.kind == Kind::plain_write || !releases(op.order));
    for (uintptr_t a = op.address; a && a < op.address + op.size; a = (a & ~uintptr_t{3}) + 4) {
        (writes ? f.writes : f.reads).set(place_of(a));
        if (op.kind == Kind::rmw)
            f.reads.set(place_of(a));
        if (atomic || in_kernel || op.kind == Kind::await)
            break;
    }
}
void learn(uint32_t at, const Future &f) {
    std::vector<std::pair<uint32_t, const Future *>> todo{{at, &f}};
    while (!todo.empty()) {
        Local &l = locals[todo.back().first];
        Future sum = l.future;
        sum.add(*todo.back().second);
        todo.pop_back();
        if (sum == l.future)
            continue;
        l.future = sum;
        learned = true;
        for (uint32_t b : l.before)
            todo.push_back({b, &l.future});
    }
}
void has_come_to(Thread &t) {
    const auto [at, is_new] = local_at.emplace(t.digest.place(), locals.size());
    if (is_new) {
        locals.emplace_back();
        if (t.status != Status::over)
            note(locals.back().future, t.op);
        learned = true;
    }
    const uint32_t before = t.local;
    t.local = at->second;
    if (before && before != t.local) {
        std::vector<uint32_t> &all = locals[t.local].before;
        if (std::find(all.begin(), all.end(), before) == all.end())
            all.push_back(before);
        learn(before, locals[t.local].future);
    }
    if (before)
        learn(before, t.done);
    t.done = Future();
}
const Future &future(const Thread &t) { return locals[t.local].future; }

// ---- races ----

unsigned number_of(const Thread &t) { return static_cast<unsigned>(&t - threads); }

void not_ordered(const Thread &t, const std::array<uint16_t, max_threads> &those, const char *what) {
    for (unsigned u = 0; u < thread_count; u++)
        if (u != number_of(t) && those[u] > t.now.clock[u])
            throw Wrong{std::string("data race: thread ") + char('0' + number_of(t)) + "'s " + kind_names[int(t.op.kind)] +
                        " with thread " + char('0' + u) + "'s " + what};
}
Accesses &accesses_of(uintptr_t address) {
    auto at = std::lower_bound(accesses.begin(), accesses.end(), address,
                               [](const auto &a, uintptr_t wanted) { return a.first < wanted; });
    if (at == accesses.end() || at->first != address)
        at = accesses.insert(at, {address, Accesses()});
    return at->second;
}
void record(Thread &t, uintptr_t address, bool plain, bool writes) {
    Use &u = uses[address];
    const bool counted = u.plain && u.written;
    const bool mixed = u.atomic && u.plain;
    (plain ? u.plain : u.atomic) = true;
    u.written |= writes;
    if ((u.atomic && u.plain && !mixed) || (u.plain && u.written && !counted))
        throw Restart(); // accesses to it count from now on
    if (!u.plain || !u.written)
        return;
    Accesses &a = accesses_of(address);
    const uint16_t clock = ++t.now.clock[number_of(t)];
    t.acquired.clock[number_of(t)] = clock;
    if (clock == UINT16_MAX)
        throw Wrong{"an execution without end"};
    not_ordered(t, a.plain_write, "plain write");
    if (writes)
        not_ordered(t, a.plain_read, "plain read");
    if (plain)
        not_ordered(t, a.write, "atomic write");
    if (plain && writes)
        not_ordered(t, a.read, "atomic read");
    (plain ? writes ? a.plain_write : a.plain_read : writes ? a.write : a.read)[number_of(t)] = clock;
}

// ---- the machine ----

void fence(Thread &t, int order) {
    if (acquires(order))
        t.now.join(t.acquired, words_used);
    if (order == seq_cst) {
        t.now.see(seq_view, words_used);
        seq_view.see(t.now, words_used);
        t.acquired.see(t.now, words_used);
    }
    if (releases(order))
        t.released = t.now;
}

// The oldest message that the thread may still read, or store after.
size_t oldest(const Thread &t, const Word &w, int order) {
    const size_t i = index_of(w);
    return order == seq_cst ? std::max(t.now.at[i], seq_view.at[i]) : t.now.at[i];
}

void has_read(Thread &t, const Word &w, size_t at, int order) {
    const size_t i = index_of(w);
    const Message &m = w.list[at];
    t.now.at[i] = std::max<uint16_t>(t.now.at[i], static_cast<uint16_t>(at));
    t.acquired.at[i] = std::max(t.acquired.at[i], t.now.at[i]);
    t.acquired.join(m.view, words_used);
    if (acquires(order))
        t.now.join(m.view, words_used);
}

// A message at `at`; those from there on move up.
void insert(Thread &t, Word &w, size_t at, uint64_t value, int order, const Message *read) {
    const size_t i = index_of(w);
    const View passed = read ? read->view : View();
    if (at < w.used) {
        const auto shift = [&](View &v) {
            if (v.at[i] >= at)
                v.at[i]++;
        };
        for (Thread &u : threads)
            shift(u.now), shift(u.acquired), shift(u.released);
        shift(seq_view);
        for (size_t n = 0; n < words_used; n++)
            for (size_t m = 0; m < words[n].used; m++)
                shift(words[n].list[m].view);
        for (Thread &u : threads)
            u.changed = true;
    }
    if (w.used == w.list.size())
        w.list.emplace_back();
    for (size_t m = w.used++; m > at; m--)
        w.list[m] = w.list[m - 1];
    t.now.at[i] = t.acquired.at[i] = static_cast<uint16_t>(at);
    Message &m = w.list[at];
    m.value = value;
    m.attached = read;
    m.view = releases(order) ? t.now : t.released;
    m.view.at[i] = static_cast<uint16_t>(at);
    if (read)
        m.view.join(passed, words_used);
    if (order == seq_cst)
        seq_view.at[i] = std::max(seq_view.at[i], static_cast<uint16_t>(at));
    if (at + 1 == w.used)
        put(w.address, w.size, value);
}

void store(Thread &t, Word &w, uint64_t value, int order) {
    const size_t from = oldest(t, w, order);
    unsigned places[64], many = 0; // the newest first
    for (size_t at = w.used; at > from && many < 64; at--)
        if (at == w.used || !w.list[at].attached)
            places[many++] = static_cast<unsigned>(at);
    insert(t, w, places[choose(many)], value, order, nullptr);
}

uint64_t changed(const Op &op, uint64_t old) {
    switch (op.change) {
    case Change::add: return old + op.value;
    case Change::sub: return old - op.value;
    case Change::and_: return old & op.value;
    case Change::or_: return old | op.value;
    case Change::xor_: return old ^ op.value;
    default: return op.value;
    }
}
uint64_t fitted(uint64_t v, unsigned size) { return size == 8 ? v : v & ((uint64_t{1} << size * 8) - 1); }

void rmw(Thread &t, Word &w) {
    const Op &op = t.op;
    const size_t from = oldest(t, w, op.order), from_failed = oldest(t, w, op.failure);
    unsigned places[64], many = 0;
    const bool swaps = op.change == Change::swap;
    for (size_t at = w.used; at-- > t.now.at[index_of(w)] && many < 64;) {
        const bool fits = !swaps || w.list[at].value == op.expected;
        if (fits ? at >= from && (at + 1 == w.used || !w.list[at + 1].attached) : at >= from_failed)
            places[many++] = static_cast<unsigned>(at);
    }
    const size_t at = places[choose(many)];
    const uint64_t old = w.list[at].value;
    t.result = old;
    t.succeeded = !swaps || old == op.expected;
    has_read(t, w, at, t.succeeded ? op.order : op.failure);
    if (t.succeeded) {
        const Message read = w.list[at];
        insert(t, w, at + 1, fitted(changed(op, old), w.size), op.order, &read);
    }
}

void load(Thread &t, Word &w) {
    const size_t from = oldest(t, w, t.op.order);
    unsigned places[64], many = 0;
    for (size_t at = w.used; at-- > from && many < 64;)
        if (t.op.kind != Kind::await || (w.list[at].value == t.op.expected) != t.op.other)
            places[many++] = static_cast<unsigned>(at);
    const size_t at = places[choose(many)];
    t.result = w.list[at].value;
    has_read(t, w, at, t.op.order);
}

bool can_go_on(Thread &t) {
    if (t.status != Status::ready)
        return false;
    if (t.op.kind == Kind::membarrier && t.op.other) { // has begun
        for (const Thread &u : threads)
            if (u.draining >> number_of(t) & 1)
                return false;
    }
    if (t.op.kind == Kind::await) {
        Word &w = word_of(t.op.address, t.op.size);
        for (size_t at = t.now.at[index_of(w)]; at < w.used; at++)
            if ((w.list[at].value == t.op.expected) != t.op.other)
                return true;
        return false;
    }
    return true;
}

void resume(Thread &t);
void say(const Thread &t, const char *more) {
    static const char *const orders[] = {"", "", " acquire", " release", " acq_rel", " seq_cst"};
    if (!tracing)
        return;
    const Op &op = t.op;
    const bool ordered = op.kind == Kind::load || op.kind == Kind::store || op.kind == Kind::rmw || op.kind == Kind::fence;
    const char *arrow = op.kind == Kind::store ? " := " : op.kind != Kind::rmw ? "" : t.succeeded ? " -> " : " kept, not ";
    char text[200], value[40] = "";
    if (*arrow)
        std::snprintf(value, sizeof value, "%#lx", static_cast<unsigned long>(op.value));
    std::snprintf(text, sizeof text, "%u %p %s%s %#lx: %#lx%s%s%s", number_of(t), op.caller, kind_names[int(op.kind)],
                  ordered ? orders[op.order] : "", static_cast<unsigned long>(op.address),
                  static_cast<unsigned long>(t.result), arrow, value, more);
    trace.push_back(text);
}

void plain_access(Thread &t) {
    const Op &op = t.op;
    const bool writes = op.kind == Kind::plain_write;
    for (uintptr_t a = op.address; a < op.address + op.size; a = (a & ~uintptr_t{3}) + 4) {
        record(t, a, true, writes);
        const auto at = writes ? word_at.find(a) : word_at.end();
        if (at == word_at.end())
            continue;
        Word &w = word_of(a, words[at->second].size);
        insert(t, w, w.used, get(a, w.size), relaxed, nullptr);
        w.pending = true; // the text stores after this call
    }
    if (writes)
        undo.touch(op.address, op.size);
}

// True: the thread sleeps. The kernel looks at the word behind a full barrier, and so does who wakes.
bool sleeps(Thread &t) {
    fence(t, seq_cst);
    record(t, t.op.address, false, false);
    load(t, word_of(t.op.address, t.op.size));
    if (t.result == t.op.expected)
        t.status = Status::asleep;
    else
        t.result = static_cast<uint64_t>(-1);
    return t.status == Status::asleep;
}

void wake(Thread &t) {
    fence(t, seq_cst);
    for (uint64_t n = 0; n < t.op.value; n++) {
        unsigned asleep[max_threads], many = 0;
        for (unsigned u = 0; u < thread_count; u++)
            if (threads[u].status == Status::asleep && threads[u].op.address == t.op.address)
                asleep[many++] = u;
        if (!many)
            break;
        Thread &u = threads[asleep[choose(many)]];
        u.status = Status::ready;
        u.op.kind = Kind::relax; // returns from the call
        u.result = 0;
        u.changed = true;
    }
}

// True: it has only begun. Threads that sleep or are over had their barrier when they left the CPU.
bool barrier_begins(Thread &t) {
    fence(t, seq_cst);
    if (t.op.other)
        return false;
    t.op.other = true;
    for (unsigned i = 0; i < thread_count; i++) {
        Thread &u = threads[i];
        if (&u == &t)
            continue;
        if (u.status == Status::ready)
            u.draining |= 1u << number_of(t);
        else
            fence(u, seq_cst);
        u.changed = true;
    }
    return true;
}

// False: the thread has not got what it asked for, yet.
bool serve(Thread &t) {
    Op &op = t.op;
    const bool writes = op.kind == Kind::store || op.kind == Kind::rmw;
    if (writes || op.kind == Kind::load || op.kind == Kind::await)
        record(t, op.address, false, writes);
    switch (op.kind) {
    case Kind::load:
    case Kind::await: load(t, word_of(op.address, op.size)); break;
    case Kind::store: store(t, word_of(op.address, op.size), op.value, op.order); break;
    case Kind::rmw: rmw(t, word_of(op.address, op.size)); break;
    case Kind::fence: fence(t, op.order); break;
    case Kind::plain_read:
    case Kind::plain_write: plain_access(t); break;
    case Kind::wait: return !sleeps(t);
    case Kind::wake: wake(t); break;
    case Kind::membarrier: return !barrier_begins(t);
    case Kind::clock: t.result = late; break;
    case Kind::relax: t.result = 0; break;
    case Kind::over: break;
    }
    return true;
}

// Does what the thread has asked for, and lets it run to the next thing that it asks for.
void perform(Thread &t) {
    t.changed = true;
    t.succeeded = true;
    note(t.done, t.op);
    const bool served = serve(t);
    say(t, served ? "" : t.op.kind == Kind::wait ? " sleeps" : " begins");
    if (served)
        resume(t);
}

bool is_counter(const Op &op) { return counters.contains(op.address); }

bool is_choice(const Thread &t) {
    const Op &op = t.op;
    switch (op.kind) {
    case Kind::load:
    case Kind::store:
    case Kind::rmw:
    case Kind::wait:
    case Kind::await: {
        Use &u = uses[op.address];
        const bool before = u.shared();
        u.threads |= 1u << number_of(t);
        u.stored |= op.kind == Kind::store || op.kind == Kind::rmw;
        if (u.shared() && !before && u.threads != 1u << number_of(t))
            throw Restart();
        return is_counter(op) || u.shared() || op.kind == Kind::wait || op.kind == Kind::await || op.order == seq_cst;
    }
    case Kind::fence: return op.order == seq_cst;
    case Kind::clock: return scenario->time && !late;
    case Kind::wake:
    case Kind::membarrier: return true;
    default: return false;
    }
}

// ---- coroutines ----

// Calls %r11. What calls leave below their caller's frame is no part of a state, but later frames hold it wherever they store nothing, which is the
// compiler's choice: it is wiped before each call and after it.
asm(R"(
    .pushsection .text
rc11_call_wiped:
    mov %rdi, %r11
rc11_wiped:
    mov $-1024, %r10
1:  movq $0, (%rsp, %r10)
    add $8, %r10
    jnz 1b
    sub $8, %rsp
    call *%r11
    add $8, %rsp
    mov $-1024, %r10
1:  movq $0, (%rsp, %r10)
    add $8, %r10
    jnz 1b
    ret
    .popsection
)");
extern "C" void rc11_call_wiped(void (*)());

void resume(Thread &t) {
    if (tls_bytes)
        std::memcpy(tls_begin, t.tls.data(), tls_bytes);
    running = &t;
    errno = t.error;
    if (!_setjmp(main_context))
        _longjmp(t.context, 1);
    t.error = errno;
    running = nullptr;
    if (tls_bytes)
        std::memcpy(t.tls.data(), tls_begin, tls_bytes);
    if (!failed.empty())
        throw Wrong{failed};
    if (t.op.kind == Kind::over)
        t.status = Status::over;
    else if (!is_choice(t))
        perform(t); // and so on from there
}

__attribute__((noinline)) void submit(const Op &op) {
    running->op = op;
    running->low = AT(__builtin_frame_address(0)) - 256;
    running->lowest = std::min(running->lowest, running->low);
    if (!_setjmp(running->context))
        _longjmp(main_context, 1);
}
void body(unsigned i) {
    Thread &t = threads[i];
    _setjmp(t.parked); // each execution begins here
    if (running)
        rc11_call_wiped(t.run);
    Op over{};
    over.kind = Kind::over;
    t.op = over;
    if (!running) { // made
        if (!_setjmp(t.context))
            _longjmp(main_context, 1);
        _longjmp(t.parked, 1);
    }
    _longjmp(main_context, 1);
}
__attribute__((noinline)) void make_thread(unsigned i) {
    static ucontext_t c, back;
    Thread &t = threads[i];
    t.stack = static_cast<char *>(mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    getcontext(&c);
    c.uc_stack.ss_sp = t.stack;
    c.uc_stack.ss_size = stack_bytes;
    c.uc_link = nullptr;
    makecontext(&c, reinterpret_cast<void (*)()>(body), 1, i);
    if (!_setjmp(main_context))
        swapcontext(&back, &c);
}

// ---- states ----

void digest_of(Thread &t) {
    Digest d;
    d.word(static_cast<uint64_t>(t.status))
        .word(static_cast<uint64_t>(t.op.kind))
        .word(t.op.address)
        .word(t.op.value)
        .word(t.op.other)
        .word(static_cast<uint64_t>(t.error));
    if (t.status == Status::over) {
        t.digest = d;
        t.changed = false;
        return;
    }
    const uintptr_t top = reinterpret_cast<uintptr_t>(t.stack) + stack_bytes;
    if (top - t.low > deep)
        die("a stack is too deep");
    d.bytes(reinterpret_cast<void *>(t.low + 256), top - t.low - 256);
    d.bytes(&t.context, sizeof(__jmp_buf));
    d.bytes(t.tls.data(), t.tls.size());
    t.digest = d;
    t.changed = false;
}

// What no thread can tell apart is one state: words that no thread comes to again do not count, nor messages that no thread may still read; clocks
// count only against accesses that a later one may race with.
struct Canonical {
    std::vector<std::pair<uintptr_t, Accesses>> accessed; // by address
    std::array<std::vector<uint16_t>, max_threads> clocks;
    std::array<uint16_t, max_words> base{};
    std::vector<size_t> by_address; // of words that count
    bool barriers, in_order; // some thread may be fenced at any moment; the order of such steps counts
    Digest d;

    void begin() {
        d = Digest();
        barriers = in_order = whole;
        for (unsigned t = 0; t < thread_count; t++) {
            barriers |= future(threads[t]).barrier || threads[t].draining;
            in_order |= barriers || future(threads[t]).in_order;
        }
        by_address.clear();
        for (size_t i = 0; i < words_used; i++) {
            base[i] = UINT16_MAX;
            for (unsigned t = 0; t < thread_count; t++)
                if (comes_to(t, words[i].place))
                    base[i] = std::min(base[i], threads[t].now.at[i]);
            if (base[i] != UINT16_MAX)
                by_address.push_back(i);
        }
        std::sort(by_address.begin(), by_address.end(),
                  [](size_t a, size_t b) { return words[a].address < words[b].address; });
        begin_clocks();
    }
    static bool comes_to(unsigned t, size_t place, bool to_write = false) {
        const Future &f = future(threads[t]);
        return whole ? threads[t].status != Status::over : f.writes[place] || (!to_write && f.reads[place]);
    }
    void begin_clocks() {
        accessed = accesses;
        for (auto &list : clocks)
            list.clear();
        for (auto &[address, a] : accessed) {
            const size_t place = place_of(address);
            for (unsigned t = 0; t < thread_count; t++) {
                bool used = false, written = false; // by others
                for (unsigned u = 0; u < thread_count; u++)
                    used |= u != t && comes_to(u, place), written |= u != t && comes_to(u, place, true);
                if (!written)
                    a.plain_read[t] = a.read[t] = 0;
                if (!used)
                    a.plain_write[t] = a.write[t] = 0;
                for (const auto *kind : {&a.plain_write, &a.plain_read, &a.write, &a.read})
                    if ((*kind)[t])
                        clocks[t].push_back((*kind)[t]);
            }
        }
        for (auto &list : clocks) {
            std::sort(list.begin(), list.end());
            list.erase(std::unique(list.begin(), list.end()), list.end());
        }
    }
    uint64_t rank(unsigned t, uint16_t clock) const {
        return static_cast<uint64_t>(std::upper_bound(clocks[t].begin(), clocks[t].end(), clock) - clocks[t].begin());
    }
    void add(const View &v) {
        for (size_t i : by_address)
            if (v.at[i] > base[i])
                d.word(words[i].address << 16 | static_cast<uint64_t>(v.at[i] - base[i]));
        for (unsigned t = 0; t < thread_count; t++)
            d.word(rank(t, v.clock[t]));
    }
    void add_thread(const Thread &t) {
        const bool over = t.status == Status::over;
        d.of(t.digest).word(t.draining);
        if (!over || barriers)
            add(t.now);
        if (barriers || (!over && future(t).acquire_fence))
            add(t.acquired);
        if (!over && (whole || future(t).unreleased))
            add(t.released);
    }
    void add_words() {
        for (size_t i : by_address) {
            const Word &w = word_of(words[i].address, words[i].size);
            d.word(w.used - base[i]);
            for (size_t m = base[i]; m < w.used; m++) {
                d.word(w.list[m].value).word(w.list[m].attached);
                add(w.list[m].view);
            }
        }
    }
    void add_accesses() {
        for (const auto &a : accessed)
            for (unsigned t = 0; t < thread_count; t++)
                d.word(a.first).word(rank(t, a.second.plain_write[t]) << 48 | rank(t, a.second.plain_read[t]) << 32 |
                                     rank(t, a.second.write[t]) << 16 | rank(t, a.second.read[t]));
    }
    void add_memory() { // words in whatever order they were first written: a sum
        uint64_t sum = 0;
        for (const auto &[a, before] : undo.before)
            if (memory(a) != before)
                sum += Digest().word(a).word(memory(a)).place();
        d.word(sum);
    }
};

// False: this state was met before.
bool reach() {
    static Canonical c;
    for (unsigned i = 0; i < thread_count; i++)
        if (threads[i].changed) {
            digest_of(threads[i]);
            has_come_to(threads[i]);
        }
    c.begin();
    for (unsigned i = 0; i < thread_count; i++)
        c.add_thread(threads[i]);
    if (c.in_order)
        c.add(seq_view);
    c.d.word(late);
    c.add_words();
    for (uintptr_t counter : counters)
        c.d.word(rc11_stores(reinterpret_cast<uint32_t *>(counter)));
    c.add_accesses();
    c.add_memory();
    const bool is_new = visited.insert(c.d);
    uint32_t &number = numbers[c.d.place()];
    if (is_new)
        number = ++states;
    if (last_state)
        edges.push_back({last_state, number});
    last_state = number;
    return is_new;
}

// ---- exploring ----

enum { to_run = 0, to_drain = 16, to_end_wait = 32, to_jump = 64 };

void begin_thread(unsigned i) {
    Thread &t = threads[i];
    t.now = t.acquired = t.released = View();
    t.draining = 0;
    t.error = 0;
    t.local = 0;
    t.done = Future();
    t.changed = true;
    t.status = Status::ready;
    t.run = scenario->run[i];
    t.tls = tls_image;
    t.lowest = AT(t.stack) + stack_bytes - shallow;
    std::memset(t.stack + stack_bytes - deep, 0, deep - shallow);
    std::memcpy(&t.context, &t.parked, sizeof t.context);
}

bool is_cut() {
    cutting = true;
    const bool is = scenario->cut && scenario->cut();
    cutting = false;
    return is;
}

void begin_execution() {
    undo.back_to(0);
    arena_used = arena_at_start;
    words_used = 0;
    word_at.clear();
    accesses.clear();
    seq_view = View();
    late = false;
    outcome.clear();
    trace.clear();
    failed.clear();
    depth = 0;
    last_state = 0;
    if (tls_bytes)
        std::memcpy(tls_begin, tls_image.data(), tls_bytes);
    alone = true;
    if (scenario->begin)
        scenario->begin();
    alone = false;
    if (!failed.empty())
        throw Wrong{failed};
    (void)is_cut(); // so that its words are known
    for (unsigned i = 0; i < thread_count; i++)
        begin_thread(i);
    for (unsigned i = 0; i < thread_count; i++)
        resume(threads[i]);
}

// All that executions change, as it was at a choice of thread. The next execution begins at its last choice, not at its start.
struct Saved {
    std::array<Thread, max_threads> of;
    std::array<std::vector<char>, max_threads> stack;
    std::vector<Word> in_words;
    std::vector<std::pair<uintptr_t, Accesses>> accessed;
    std::vector<uint64_t> in_memory;
    View seq;
    size_t at, words, arena;
    bool is_late;
    std::string said;

    void save() {
        at = depth, words = words_used, arena = arena_used, is_late = late;
        accessed = accesses, seq = seq_view, said = outcome;
        for (unsigned i = 0; i < thread_count; i++) {
            of[i] = threads[i];
            stack[i].assign(reinterpret_cast<char *>(of[i].lowest), of[i].stack + stack_bytes);
        }
        if (in_words.size() < words)
            in_words.resize(words);
        for (size_t i = 0; i < words; i++)
            copy(in_words[i], ::words[i]);
        in_memory.clear();
        for (const auto &word : undo.before)
            in_memory.push_back(memory(word.first));
    }
    void restore() const {
        undo.back_to(in_memory.size());
        for (size_t i = 0; i < in_memory.size(); i++)
            memory(undo.before[i].first) = in_memory[i];
        while (words_used > words)
            word_at.erase(::words[--words_used].address);
        for (size_t i = 0; i < words; i++)
            copy(::words[i], in_words[i]);
        for (unsigned i = 0; i < thread_count; i++) {
            for (uintptr_t a = threads[i].lowest - shallow; a < of[i].lowest; a += 8)
                memory(a) = 0; // as calls leave it
            threads[i] = of[i];
            std::memcpy(reinterpret_cast<void *>(of[i].lowest), stack[i].data(), stack[i].size());
        }
        depth = at, arena_used = arena, late = is_late;
        accesses = accessed, seq_view = seq, outcome = said;
    }
    static void copy(Word &to, const Word &from) {
        to.address = from.address, to.size = from.size, to.place = from.place, to.pending = from.pending,
        to.used = from.used;
        if (to.list.size() < from.used)
            to.list.resize(from.used);
        std::copy_n(from.list.begin(), from.used, to.list.begin());
    }
};
std::deque<Saved> saved;
size_t saved_used;

void save() {
    if (saved_used == saved.size())
        saved.emplace_back();
    saved[saved_used++].save();
}

bool wait_may_end(const Thread &t) {
    if (t.status != Status::asleep || t.op.value == UINT64_MAX)
        return false;
    return (t.op.value <= 60000000 && !scenario->patient) || late;
}

void take(unsigned what) {
    if (what == to_jump) {
        late = true;
        if (tracing)
            trace.push_back("- 0 the clock jumps");
    } else if (what >= to_end_wait) {
        Thread &t = threads[what - to_end_wait];
        t.status = Status::ready;
        t.op.other = true;
        t.result = static_cast<uint64_t>(-1);
        t.changed = true;
        say(t, " ends by its limit");
        resume(t);
    } else if (what >= to_drain) {
        const unsigned caller = (what - to_drain) / max_threads, of = (what - to_drain) % max_threads;
        fence(threads[of], seq_cst);
        threads[of].draining &= ~(1u << caller);
        threads[of].changed = true;
        if (tracing)
            trace.push_back(std::to_string(of) + " 0 barrier for " + std::to_string(caller));
    } else {
        perform(threads[what]);
    }
}

// What may happen next, by all threads; 0: each is over.
unsigned list_options(unsigned *options) {
    unsigned many = 0;
    bool over = true;
    for (unsigned i = 0; i < thread_count; i++) {
        over &= threads[i].status == Status::over;
        if (can_go_on(threads[i]))
            options[many++] = to_run + i;
        if (wait_may_end(threads[i]))
            options[many++] = to_end_wait + i;
        for (unsigned u = 0; u < thread_count; u++)
            if (threads[i].draining >> u & 1)
                options[many++] = to_drain + u * max_threads + i;
    }
    if (over)
        return 0;
    if (scenario->time && !late)
        options[many++] = to_jump;
    if (many)
        return many;
    std::string who = "no thread can go on:";
    for (unsigned i = 0; i < thread_count; i++)
        if (threads[i].status != Status::over)
            who += " thread " + std::to_string(i) + (threads[i].status == Status::asleep ? " sleeps" : " waits");
    throw Wrong{who};
}

// Whether `u` may still take a step whose order with what `t` has asked for counts.
bool meet(const Thread &t, const Thread &u) {
    const Op &op = t.op;
    const Future &f = future(u);
    if (f.barrier || (u.draining && op.order == seq_cst))
        return true;
    switch (op.kind) {
    case Kind::relax: return false;
    case Kind::fence: return f.in_order;
    case Kind::load:
    case Kind::await: return f.writes[place_of(op.address)] || (op.order == seq_cst && f.in_order);
    case Kind::store:
    case Kind::rmw:
        return f.writes[place_of(op.address)] || f.reads[place_of(op.address)] ||
               ((op.order == seq_cst || op.failure == seq_cst) && f.in_order) || is_counter(op);
    default: return true;
    }
}

// The threads of `set` and those that their next steps meet, theirs, and so on.
unsigned closed(unsigned set, unsigned live) {
    for (unsigned before = 0; set != before;) {
        before = set;
        for (unsigned i = 0; i < thread_count; i++) {
            if (!(set >> i & 1))
                continue;
            if (!can_go_on(threads[i]) || threads[i].draining)
                return live;
            for (unsigned u = 0; u < thread_count; u++)
                if ((live & ~set) >> u & 1 && meet(threads[i], threads[u]))
                    set |= 1u << u;
        }
    }
    return set;
}
// The fewest threads whose next steps meet none that others may still take. The others wait meanwhile: what they do comes to the same before and
// after.
unsigned enough() {
    unsigned live = 0;
    for (unsigned i = 0; i < thread_count; i++)
        live |= unsigned{threads[i].status != Status::over} << i;
    unsigned best = live;
    for (unsigned i = 0; i < thread_count && !whole; i++)
        if (live >> i & 1)
            if (const unsigned set = closed(1u << i, live); std::popcount(set) < std::popcount(best))
                best = set;
    return best == live ? UINT_MAX : best;
}

End execute() {
    unsigned options[64];
    if (saved_used)
        saved[saved_used - 1].restore();
    else
        begin_execution();
    while (const unsigned all = list_options(options)) {
        if (depth == choices.size()) {
            if (!reach())
                return End::pruned;
            if (is_cut()) {
                finals.push_back(last_state);
                return End::cut;
            }
            save();
            choices.push_back({0, 0, last_state, enough(), {}});
            for (unsigned i = 0; i < thread_count; i++)
                choices.back().locals[i] = threads[i].local;
        }
        Choice &c = choices[depth++];
        c.many = static_cast<unsigned>(
            std::remove_if(options, options + all,
                           [&](unsigned what) { return c.set != UINT_MAX && (what >= to_drain || !(c.set >> what & 1)); }) -
            options);
        last_state = c.state;
        for (unsigned i = 0; i < thread_count; i++)
            threads[i].local = c.locals[i], threads[i].done = Future();
        take(options[c.now]);
    }
    if (depth == choices.size()) {
        const bool is_new = reach();
        finals.push_back(last_state);
        if (!is_new)
            return End::pruned;
    }
    alone = true;
    if (scenario->end)
        scenario->end();
    alone = false;
    if (!failed.empty())
        throw Wrong{failed};
    return End::whole;
}

void trace_again() {
    tracing = true;
    saved_used = 0;
    try {
        execute();
    } catch (...) { // as the first time
    }
    tracing = false;
}

void forget() {
    learned = false;
    visited = Visited();
    numbers.clear();
    edges.clear();
    finals.clear();
    states = 0;
    choices.clear();
    saved_used = 0;
}

// A state from which no execution ends.
bool some_never_ends() {
    std::vector<uint32_t> first(states + 2), to(edges.size());
    for (const auto &e : edges)
        first[e.second + 1]++;
    for (size_t i = 1; i < first.size(); i++)
        first[i] += first[i - 1];
    std::vector<uint32_t> next(first.begin(), first.end() - 1);
    for (const auto &e : edges)
        to[next[e.second]++] = e.first;
    std::vector<bool> ends(states + 1);
    std::vector<uint32_t> todo = finals;
    for (uint32_t f : todo)
        ends[f] = true;
    while (!todo.empty()) {
        const uint32_t s = todo.back();
        todo.pop_back();
        for (uint32_t i = first[s]; i < first[s + 1]; i++)
            if (!ends[to[i]])
                ends[to[i]] = true, todo.push_back(to[i]);
    }
    for (uint32_t s = 1; s <= states; s++)
        if (!ends[s])
            return true;
    return false;
}

void print_trace() {
    std::string command = "addr2line -s -e '" + module_path + "'";
    for (const std::string &line : trace) {
        unsigned long caller = std::strtoul(line.c_str() + 2, nullptr, 16);
        char text[32];
        std::snprintf(text, sizeof text, " %#lx", caller ? caller - 1 - module_base : 0);
        command += text;
    }
    FILE *lines = popen(command.c_str(), "r");
    for (const std::string &line : trace) {
        char place[200] = "";
        if (lines && std::fgets(place, sizeof place, lines))
            place[std::strcspn(place, "\n")] = 0;
        const size_t rest = line.find(' ', 2);
        std::printf("  %.1s%s  %s\n", line.c_str(), line.substr(rest).c_str(), place[0] == '?' ? "" : place);
    }
    if (lines)
        pclose(lines);
}

struct Result {
    std::string wrong;
    unsigned long executions = 0, cut = 0, passes = 1;
    std::set<std::string> outcomes;
};

Result explore(unsigned long most) {
    Result r;
    thread_count = 0;
    while (thread_count < max_threads && scenario->run[thread_count])
        thread_count++;
    uses.clear();
    counters.clear();
    locals.assign(1, Local());
    local_at.clear();
    places = 0;
    forget();
    for (;;) {
        r.executions++;
        try {
            const End end = execute();
            r.cut += end == End::cut;
            if (end == End::whole && !outcome.empty())
                r.outcomes.insert(outcome);
        } catch (const Restart &) {
            forget();
            r.outcomes.clear();
            continue;
        } catch (const Wrong &w) {
            r.wrong = w.what;
            trace_again();
            return r;
        }
        choices.resize(depth);
        while (!choices.empty() && choices.back().now + 1 == choices.back().many)
            choices.pop_back();
        while (saved_used && saved[saved_used - 1].at >= choices.size())
            saved_used--;
        if (choices.empty() && learned) {
            r.passes++;
            forget();
            r.outcomes.clear();
            r.executions = r.cut = 0;
            continue;
        }
        if (choices.empty())
            break;
        choices.back().now++;
        if (r.executions >= most) {
            r.wrong = "not explored to the end";
            trace_again();
            return r;
        }
    }
    if (some_never_ends())
        r.wrong = "from some state no execution ends";
    return r;
}

// The module's variables and mapped memory. A thread's stack and its own variables are not used by others.
bool in_text(const void *p) {
    const char *at = static_cast<const char *>(p);
    return (at >= arena && at < arena + arena_bytes) || (at >= module_begin && at < module_end);
}

std::vector<void (*)(void *)> destructors; // of the text's thread-specific keys
std::vector<void (*)()> children; // what is called in a child of fork()

uint64_t directly(const Op &op) {
    const uint64_t old = get(op.address, op.size);
    if (cutting)
        counters.insert(op.address);
    if (op.kind == Kind::store)
        put(op.address, op.size, op.value);
    if (op.kind == Kind::rmw && (op.change != Change::swap || old == op.expected))
        put(op.address, op.size, fitted(changed(op, old), op.size));
    return old;
}
uint64_t atomic(Op op) {
    if (!running)
        return directly(op);
    submit(op);
    return running->result;
}
void plain(Kind kind, const void *p, size_t size, void *caller) {
    if (!running) {
        if (kind == Kind::plain_write && alone && in_text(p))
            undo.touch(reinterpret_cast<uintptr_t>(p), size);
        if (cutting)
            counters.insert(reinterpret_cast<uintptr_t>(p));
        return;
    }
    if (!in_text(p))
        return;
    Op op{};
    op.kind = kind;
    op.address = reinterpret_cast<uintptr_t>(p);
    op.size = static_cast<unsigned>(size);
    op.caller = caller;
    submit(op);
}

} // namespace

// ---- what the compiled text calls ----

#define HOOK(type, name, parameters)                                                     \
    asm(".pushsection .text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" \
        "lea " #name "_body(%rip), %r11\njmp rc11_wiped\n.popsection");                  \
    type name parameters;                                                                \
    type name##_body parameters
#define CALLER static_cast<void **>(__builtin_frame_address(0))[3] // above %rbp, this call's place and a word that aligns
extern "C" {
#define RMW(bits, name, how)                                                                              \
    HOOK(uint##bits##_t, __tsan_atomic##bits##_##name, (volatile void *p, uint##bits##_t v, int order)) { \
        return static_cast<uint##bits##_t>(                                                               \
            atomic({Kind::rmw, Change::how, order, order, bits / 8, AT(p), v, 0, false, CALLER}));        \
    }
#define SWAP(bits, name)                                                                                    \
    HOOK(int, __tsan_atomic##bits##_##name,                                                                 \
         (volatile void *p, uint##bits##_t *e, uint##bits##_t v, int order, int failed)) {                  \
        const uint##bits##_t expected = *e;                                                                 \
        *e = static_cast<uint##bits##_t>(                                                                   \
            atomic({Kind::rmw, Change::swap, order, failed, bits / 8, AT(p), v, expected, false, CALLER})); \
        return *e == expected;                                                                              \
    }
#define ATOMICS(bits)                                                                                \
    HOOK(uint##bits##_t, __tsan_atomic##bits##_load, (const volatile void *p, int order)) {          \
        return static_cast<uint##bits##_t>(                                                          \
            atomic({Kind::load, Change::add, order, order, bits / 8, AT(p), 0, 0, false, CALLER}));  \
    }                                                                                                \
    HOOK(void, __tsan_atomic##bits##_store, (volatile void *p, uint##bits##_t v, int order)) {       \
        atomic({Kind::store, Change::exchange, order, order, bits / 8, AT(p), v, 0, false, CALLER}); \
    }                                                                                                \
    HOOK(uint##bits##_t, __tsan_atomic##bits##_compare_exchange_val,                                 \
         (volatile void *p, uint##bits##_t e, uint##bits##_t v, int order, int failed)) {            \
        return static_cast<uint##bits##_t>(                                                          \
            atomic({Kind::rmw, Change::swap, order, failed, bits / 8, AT(p), v, e, false, CALLER})); \
    }                                                                                                \
    SWAP(bits, compare_exchange_strong)                                                              \
    SWAP(bits, compare_exchange_weak)                                                                \
    RMW(bits, exchange, exchange)                                                                    \
    RMW(bits, fetch_add, add)                                                                        \
    RMW(bits, fetch_sub, sub) RMW(bits, fetch_and, and_) RMW(bits, fetch_or, or_) RMW(bits, fetch_xor, xor_)
ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)

HOOK(void, __tsan_atomic_thread_fence, (int order)) {
    if (running) {
        Op op{};
        op.kind = Kind::fence, op.order = order, op.caller = CALLER;
        submit(op);
    }
}
void __tsan_atomic_signal_fence(int) {}
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
#define PLAIN(size)                                                                                    \
    HOOK(void, __tsan_read##size, (void *p)) { plain(Kind::plain_read, p, size, CALLER); }             \
    HOOK(void, __tsan_write##size, (void *p)) { plain(Kind::plain_write, p, size, CALLER); }           \
    HOOK(void, __tsan_unaligned_read##size, (void *p)) { plain(Kind::plain_read, p, size, CALLER); }   \
    HOOK(void, __tsan_unaligned_write##size, (void *p)) { plain(Kind::plain_write, p, size, CALLER); } \
    HOOK(void, __tsan_volatile_read##size, (void *p)) { plain(Kind::plain_read, p, size, CALLER); }    \
    HOOK(void, __tsan_volatile_write##size, (void *p)) { plain(Kind::plain_write, p, size, CALLER); }
PLAIN(1) PLAIN(2) PLAIN(4) PLAIN(8) PLAIN(16) HOOK(void, __tsan_read_range, (void *p, size_t n)) {
    plain(Kind::plain_read, p, n, CALLER);
}
HOOK(void, __tsan_write_range, (void *p, size_t n)) { plain(Kind::plain_write, p, n, CALLER); }
HOOK(void *, rc11_memset, (void *p, int c, size_t n)) {
    plain(Kind::plain_write, p, n, CALLER);
    return std::memset(p, c, n);
}
HOOK(void *, __tsan_memset, (void *p, int c, size_t n)) { return rc11_memset(p, c, n); }
HOOK(void *, __tsan_memcpy, (void *to, const void *from, size_t n)) {
    plain(Kind::plain_read, from, n, CALLER);
    plain(Kind::plain_write, to, n, CALLER);
    return std::memcpy(to, from, n);
}

unsigned rc11_number() { return static_cast<unsigned>(scenario - first_scenario); }
unsigned rc11_me() { return running ? number_of(*running) : 0; }
HOOK(void, rc11_check, (bool holds, const char *what)) {
    if (holds || !failed.empty())
        return;
    failed = what;
    if (running)
        _longjmp(main_context, 1);
}
HOOK(void, rc11_await, (const uint32_t *word, uint32_t value, bool other)) {
    if (running)
        submit({Kind::await, Change::add, acquire, acquire, 4, reinterpret_cast<uintptr_t>(word), 0, value, other, CALLER});
}
unsigned rc11_stores(const uint32_t *word) {
    if (cutting)
        counters.insert(AT(word));
    const auto at = word_at.find(AT(word));
    return at == word_at.end() ? 0 : words[at->second].used - 1;
}
HOOK(void, rc11_outcome, (const char *text)) { outcome += text; }
static void simple(Kind kind, void *caller) {
    Op op{};
    op.kind = kind, op.caller = caller;
    submit(op);
}
void rc11_relax() {}
HOOK(void, rc11_membarrier, ()) { simple(Kind::membarrier, CALLER); }
HOOK(int, rc11_clock_gettime, (int, struct timespec *t)) {
    uint64_t jumped = 0;
    if (running) {
        simple(Kind::clock, CALLER);
        jumped = running->result;
    }
    t->tv_sec = jumped ? 1800 : 1;
    t->tv_nsec = 0;
    return 0;
}
HOOK(long, rc11_syscall, (long number, ...)) {
    va_list more;
    va_start(more, number);
    const uintptr_t a = va_arg(more, uintptr_t);
    const long b = va_arg(more, long), c = va_arg(more, long);
    const long *limit = va_arg(more, const long *);
    va_end(more);
    if (!running)
        return 0;
    Op op{};
    op.caller = CALLER;
    switch (number) {
    case SYS_membarrier:
        if (scenario->refused >> number_of(*running) & 1) {
            errno = EPERM;
            return -1;
        }
        if (a != MEMBARRIER_CMD_PRIVATE_EXPEDITED)
            return 0;
        op.kind = Kind::membarrier;
        submit(op);
        return 0;
    case SYS_futex:
        op.address = a;
        op.size = 4;
        if ((b & FUTEX_CMD_MASK) == FUTEX_WAKE) {
            op.kind = Kind::wake;
            op.value = static_cast<uint64_t>(c & INT32_MAX);
        } else {
            op.kind = Kind::wait;
            op.expected = static_cast<uint32_t>(c);
            op.value = limit ? static_cast<uint64_t>(limit[0]) * 1000000000 + static_cast<uint64_t>(limit[1]) : UINT64_MAX;
        }
        submit(op);
        errno = running->op.other ? ETIMEDOUT : EAGAIN; // where it is -1
        return static_cast<long>(running->result);
    default: return 1;
    }
}
HOOK(void *, rc11_mmap, (void *, size_t bytes, int, int, int, long)) {
    arena_used = (arena_used + 4095) & ~size_t{4095};
    if (arena_used + bytes > arena_bytes)
        die("the arena is full");
    char *p = arena + arena_used;
    arena_used += bytes;
    return p;
}
int rc11_munmap(void *, size_t) { return 0; }
int rc11_mprotect(void *, size_t, int) { return 0; }
int rc11_madvise(void *, size_t, int) { return 0; }
int rc11_sched_yield() { return 0; }
int rc11_sched_getcpu() { return 0; }
HOOK(int, rc11_pthread_key_create, (unsigned *key, void (*destructor)(void *))) {
    *key = static_cast<unsigned>(destructors.size());
    destructors.push_back(destructor);
    return 0;
}
int rc11_pthread_setspecific(unsigned, const void *) { return 0; }
HOOK(void, rc11_thread_ends, ()) {
    for (const auto destructor : destructors)
        destructor(nullptr);
}
HOOK(int, rc11_pthread_atfork, (void (*)(), void (*)(), void (*child)())) {
    children.push_back(child);
    return 0;
}
HOOK(void, rc11_forked, ()) {
    for (const auto child : children)
        if (child)
            child();
}
HOOK(int, rc11_pthread_once, (int *once, void (*start)())) {
    if (!*once)
        start();
    *once = 1;
    return 0;
}
}

extern "C" void *__tls_get_addr(size_t *place);
static int find_module(struct dl_phdr_info *info, size_t, void *) {
    if (module_path != info->dlpi_name)
        return 0;
    module_base = info->dlpi_addr;
    module_begin = module_end = reinterpret_cast<const char *>(module_base);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD)
            module_end =
                reinterpret_cast<const char *>(module_base + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
        if (info->dlpi_phdr[i].p_type == PT_TLS) { // this thread's
            size_t place[2] = {info->dlpi_tls_modid, 0};
            tls_begin = static_cast<char *>(__tls_get_addr(place));
            tls_bytes = info->dlpi_phdr[i].p_memsz;
        }
    }
    return 1;
}

static const char usage[] = "usage: rc11 [--slow] [--only=TEXT] [--most=EXECUTIONS] [--whole] [--quiet] SCENARIOS.so";

struct Wishes {
    bool slow = false, quiet = false;
    unsigned long most = 50000000;
    std::string only, file;
};

static Wishes wishes(int argc, char **argv) {
    Wishes w;
    for (int i = 1; i < argc; i++) {
        const std::string a = argv[i];
        if (a == "--slow")
            w.slow = true;
        else if (a == "--whole")
            whole = true;
        else if (a == "--quiet")
            w.quiet = true;
        else if (a.starts_with("--only="))
            w.only = a.substr(7);
        else if (a.starts_with("--most="))
            w.most = std::stoul(a.substr(7));
        else
            w.file = a;
    }
    return w;
}

static bool is_right(const Wishes &w) {
    const auto begun = std::chrono::steady_clock::now();
    const Result r = explore(w.most);
    std::string wrong = r.wrong, outcomes;
    for (const std::string &o : r.outcomes)
        outcomes += (outcomes.empty() ? "" : " ") + o;
    if (wrong.empty() && scenario->outcomes && outcomes != scenario->outcomes)
        wrong = "outcomes " + outcomes + ", not " + scenario->outcomes;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    if (!w.quiet || !wrong.empty())
        std::printf("%s: %s, %lu executions (%lu cut), %u states, %lu passes, %.1f s\n", scenario->name,
                    wrong.empty() ? "right" : wrong.c_str(), r.executions, r.cut, states, r.passes, took.count());
    if (!r.wrong.empty() && !w.quiet)
        print_trace();
    std::fflush(stdout);
    return wrong.empty();
}

static void *load(const char *file) {
    arena = static_cast<char *>(
        mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    char *real = realpath(file, nullptr);
    if (arena == MAP_FAILED || !real)
        die(usage);
    module_path = real;
    void *module = dlopen(real, RTLD_NOW | RTLD_LOCAL);
    if (!module)
        die(dlerror());
    dl_iterate_phdr(find_module, nullptr);
    tls_image.assign(tls_begin, tls_begin + tls_bytes);
    arena_at_start = arena_used;
    for (unsigned i = 0; i < max_threads; i++)
        make_thread(i);
    return module;
}

int main(int argc, char **argv) {
    const int kind =
        personality(0xffffffff); // at fixed addresses the numbers of executions and states are the same each time
    if (!(kind & ADDR_NO_RANDOMIZE) && personality(static_cast<unsigned>(kind) | ADDR_NO_RANDOMIZE) != -1 &&
        personality(0xffffffff) & ADDR_NO_RANDOMIZE)
        execv("/proc/self/exe", argv);
    const Wishes w = wishes(argc, argv);
    void *module = load(w.file.c_str());
    first_scenario = static_cast<const rc11_scenario *>(dlsym(module, "rc11_scenarios"));
    const size_t count = *static_cast<const size_t *>(dlsym(module, "rc11_count"));
    bool right = true, any = false;
    for (scenario = first_scenario; scenario < first_scenario + count; scenario++) {
        if ((scenario->slow && !w.slow) || std::string(scenario->name).find(w.only) == std::string::npos)
            continue;
        any = true;
        right &= is_right(w);
    }
    if (!any)
        die("no such scenario");
    return right ? 0 : 1;
}
