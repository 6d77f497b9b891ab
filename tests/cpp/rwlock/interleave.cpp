// SPDX-License-Identifier: MIT
// Explores every interleaving of a few threads around the real text of a biased lock (rwlock_mark.h, bias.h, plain.h, revoke.h, again.h, slot.h)
// and around each of its mutants (mutants.py), on a machine with store buffers. A reader and a writer must never be inside together, marks must
// not pass a writer that sleeps, no lock is plain for a thread that has a mark for it, no release of a read lock that is held is refused, and a lock
// that no thread holds has nothing left of those that did; every mutant must break one of these.
//
// The machine: a store stays in its thread's buffer and reaches memory at any later time, in order per address only, a release after every
// store before it. Fences and most atomic read-modify-writes wait for the buffer. A heavy barrier makes one thread after the other empty its buffer, with any steps of
// other threads in between. Threads are ordinary functions: for every step a function runs again from its start and gets the values
// that it read before. A thread that would sleep ends there: what it would see later, it sees in another interleaving.
#include <array>
#include <cerrno>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "../../../src/rwlock/state.h"
#include "../visited.hpp"

namespace {

constexpr int max_threads = 3, max_words = 24, max_log = 90, max_stores = 12;
constexpr int LW__RW_MARKS = 1;
constexpr uint32_t LW__RW_BIASED = 1, LW__RW_ENDING = 2, LW__RW_STAYS_PLAIN = 0x80000000;

// What the text sees. The addresses of the words are what counts: each stands for one word of the machine's memory.
struct lw_rwlock {
    uint64_t state, queue, biased;
};
struct lw__rw_thread {
    lw_rwlock *mark[LW__RW_MARKS];
    uint64_t again[LW__RW_MARKS];
    uint64_t waited, used;
};
constexpr int CHUNK_THREADS = max_threads;
struct chunk {
    uint64_t ever;
    lw__rw_thread thread[CHUNK_THREADS];
};
struct limit {
    uint64_t ns, end;
};
struct Memory {
    lw_rwlock lock;
    chunk marks;
    uint64_t data, more, writing; // read locks are handed over; a writer is inside
} arena;
static_assert(sizeof arena <= max_words * sizeof(uint64_t));

enum class Kind { load, store, release, exchange, swap, late_swap, strong_swap, fence, drain };
struct Operation {
    Kind kind;
    int word; // or the thread to drain
    uint64_t value, old = 0; // old: what a swap replaces
};
struct Entry {
    uint64_t value;
    int32_t word,
        kind; // bits: after every store before it; of a swap, so that no other thread changes the word before it leaves
};
static_assert(std::has_unique_object_representations_v<Entry>); // digests are of its bytes
// At most that many; only what is there is copied.
template <class T, int most> class Few {
public:
    Few() = default;
    Few(const Few &other) : size_(other.size_) { std::memcpy(items_, other.items_, size_ * sizeof(T)); }
    size_t size() const { return size_; }
    bool empty() const { return !size_; }
    void clear() { size_ = 0; }
    const T *data() const { return items_; }
    const T &operator[](size_t i) const { return items_[i]; }
    const T *begin() const { return items_; }
    const T *end() const { return items_ + size_; }
    void push_back(const T &item) {
        if (size_ == most)
            std::abort();
        items_[size_++] = item;
    }
    void erase(size_t i) { std::memmove(items_ + i, items_ + i + 1, (--size_ - i) * sizeof(T)); }

private:
    size_t size_ = 0;
    T items_[most];
};
struct Thread {
    Few<uint64_t, max_log> log; // what its operations returned
    Few<Entry, max_stores> buffer;
    bool over = false, asleep = false; // over because it would sleep
};
struct State {
    std::array<uint64_t, max_words> memory{};
    std::array<Thread, max_threads> threads;
};

const Thread *running;
unsigned position;
Operation wanted;
std::jmp_buf back;

uint64_t operation(Kind kind, int word, uint64_t value = 0, uint64_t old = 0) {
    if (position < running->log.size())
        return running->log[position++];
    wanted = {kind, word, value, old};
    std::longjmp(back, 1);
}
template <class T> int word_of(T *p) {
    return static_cast<int>((reinterpret_cast<const char *>(p) - reinterpret_cast<const char *>(&arena)) / 8);
}
[[noreturn]] void sleep() { std::longjmp(back, 2); }
template <class T> T from(uint64_t v) {
    T t;
    std::memcpy(&t, &v, sizeof t);
    return t;
}
template <class T> uint64_t as_word(T t) {
    uint64_t v = 0;
    std::memcpy(&v, &t, sizeof t);
    return v;
}
enum Order { RELAXED, ACQUIRE, RELEASE };
template <class T> T load(T *p) { return from<T>(operation(Kind::load, word_of(p))); }
template <class T, class V> void store(T *p, V v, Order order) {
    operation(order == RELEASE ? Kind::release : Kind::store, word_of(p), as_word<T>(static_cast<T>(v)));
}
uint64_t exchange(uint64_t *p, uint64_t v) { return operation(Kind::exchange, word_of(p), v); }

template <class T> bool swap(T *p, T old, T value, int order) {
    const Kind kind = order < __ATOMIC_RELEASE ? Kind::swap : Kind::late_swap;
    return operation(kind, word_of(p), as_word(value), as_word(old)) == as_word(old);
}
bool swap_seen(uint64_t *p, uint32_t *seen, uint32_t value, int order) {
    const uint32_t old = *seen;
    const Kind kind = order < __ATOMIC_RELEASE ? Kind::swap : Kind::strong_swap;
    *seen = static_cast<uint32_t>(operation(kind, word_of(p), value, old));
    return *seen == old;
}
uint64_t bits_and(uint64_t *p, uint64_t bits) {
    for (uint64_t seen = load(p);; seen = load(p))
        if (swap(p, seen, seen & bits, __ATOMIC_RELEASE))
            return seen;
}

int threads_now;
int me;
bool refused; // membarrier is, to thread 0
bool arrive; // readers take their marks first

uintptr_t lw__rw_position(const lw_rwlock *) { return 0; }
void lw__rw_wake_writer(lw__rw_thread *) {}
void lw_relax() {}
void lw_futex_wake(uint64_t *, int) {}
void lw_futex_wake_all(uint64_t *) {}
uint64_t now_ns() { return 0; }
[[noreturn]] bool sleep_until(uint64_t *, uint32_t, const limit *) { sleep(); }
[[noreturn]] bool nap(const limit *) { sleep(); }
limit sooner(const limit *l, uint64_t) { return *l; }
int heavy() {
    if (refused && me == 0)
        return 1;
    for (int t = 0; t < threads_now; t++)
        operation(Kind::drain, t);
    return 0;
}
lw__rw_thread *next_thread(lw__rw_thread *t) {
    lw__rw_thread *next = t ? t + 1 : &arena.marks.thread[0];
    const auto ever = arrive ? load(&arena.marks.ever) : static_cast<uint64_t>(threads_now);
    return next < &arena.marks.thread[ever] ? next : nullptr;
}

#define LW_RW_LOAD(p, order) load(p)
#define LW_RW_STORE(p, v, order) store((p), (v), order)
#define LW_RW_COMPILER_BARRIER() ((void)0)
#define LW_RW_HEAVY_BARRIER() heavy()
#define LW_RW_NEXT_THREAD(t) next_thread(t)
#define LW_RW_WAIT(t, l, limit) ((void)(t), (void)(l), (void)(limit), false)
#define LW_RW_FENCE() ((void)operation(Kind::fence, 0))
#define LW_RW_SWAP(p, old, new, order) swap<uint64_t>((p), (old), (new), __ATOMIC_##order)
#define LW_RW_AND(p, bits, order) bits_and((p), (bits))
#define LW_RW_TAKE(p) (exchange((p), 1) == 0)
#define LW__RW_RETIRED from<lw_rwlock *>(1)
#define LW_RW_RETIRE(p, l) swap<lw_rwlock *>((p), (l), LW__RW_RETIRED, __ATOMIC_RELAXED)
#define LONGEST_PAUSE 0u
#define __atomic_load_n(p, order) static_cast<uint32_t>(load(p))
#define __atomic_fetch_add(p, v, order) operation(Kind::exchange, word_of(p), load(p) + (v))
#define __atomic_compare_exchange_n(p, seen, v, weak, order, failure) swap_seen((p), (seen), (v), (order))

struct Text {
    const char *name;
    bool (*mark)(lw__rw_thread *, lw_rwlock *);
    bool (*unmark)(lw__rw_thread *, lw_rwlock *);
    bool (*is_plain)(lw_rwlock *);
    void (*keep_marks_out)(lw_rwlock *);
    void (*give_bias)(lw_rwlock *, uint32_t);
    int (*revoke_bias)(lw_rwlock *, const limit *, bool);
    bool (*mark_again)(lw__rw_thread *, lw_rwlock *);
    bool (*unmark_again)(lw__rw_thread *, lw_rwlock *);
    void (*clear_retired)(lw__rw_thread *, uintptr_t);
    int (*hand_over)(lw_rwlock *);
    int (*try_read)(lw_rwlock *);
    bool (*read_unlock)(lw_rwlock *);
    int (*try_write)(lw_rwlock *, bool);
    void (*write_unlock)(lw_rwlock *);
    bool (*take_slot)(lw__rw_thread *);
    lw__rw_thread *(*take_from)(chunk *);
    void (*give_slot_back)(lw__rw_thread *);
};
#define LW_TEXT(name)                                                                                               \
    Text {                                                                                                          \
        #name, name::lw__rw_mark, name::lw__rw_unmark, name::is_plain, name::keep_marks_out, name::give_bias,       \
            name::revoke_bias, name::mark_again, name::unmark_again, name::clear_retired, name::hand_over,          \
            [](lw_rwlock *l) { return name::plain_try_read(l, name::PASSES_NEVER); }, name::plain_read_unlock,      \
            name::plain_try_write, name::plain_write_unlock, name::take_slot, name::take_from, name::give_slot_back \
    }
#include "texts.h"
const Text texts[] = {TEXTS};
const Text *text;

// ---- the threads ----

bool violated;
bool readers_first; // a writer that finds readers steps back, and leaves LW__RW_ENDING

// Inside: what a writer does there must not be seen half done. `writing` is 1 while a writer is inside.
void look() {
    if (load(&arena.writing) || load(&arena.writing)) // early and late in the critical section
        violated = true;
}
// As read_otherwise() and lw__rw_read_unlock_slow() in rwlock.c. False: it would wait.
bool read_lock(lw__rw_thread *self) {
    if (text->mark(self, &arena.lock))
        return true;
    text->clear_retired(self, 0);
    return text->mark_again(self, &arena.lock) || text->mark(self, &arena.lock) || !text->try_read(&arena.lock);
}
void read_unlock(lw__rw_thread *self) {
    if (self && (text->unmark(self, &arena.lock) || text->unmark_again(self, &arena.lock)))
        return;
    int error;
    do
        error = text->read_unlock(&arena.lock) ? 0 : text->hand_over(&arena.lock);
    while (error == COUNTED_AGAIN);
    violated |= error != 0;
}
void reads(lw__rw_thread *self) {
    if (!text->mark(self, &arena.lock))
        return; // others are about what happens then
    look();
    text->unmark(self, &arena.lock);
}
void reader(int slot, int sections) {
    for (int i = 0; i < sections; i++)
        reads(&arena.marks.thread[slot]);
}
// A read lock inside another: if it had to wait, it would hold the outer one.
void reads_twice_at_once(int slot, bool may_wait) {
    lw__rw_thread *self = &arena.marks.thread[slot];
    if (!read_lock(self))
        return;
    look();
    if (!read_lock(self)) {
        violated |= !may_wait;
        sleep();
    }
    look();
    read_unlock(self);
    look();
    read_unlock(self);
}
void reads_any(int slot) {
    lw__rw_thread *self = &arena.marks.thread[slot];
    if (!read_lock(self))
        return;
    look();
    read_unlock(self);
}
void arrives(bool to_read) {
    lw__rw_thread *self = text->take_from(&arena.marks);
    if (to_read)
        reads(self);
}
// A reader that asks inside whether the lock is plain: it has a mark.
void reader_asks() {
    if (!text->mark(&arena.marks.thread[1], &arena.lock))
        return;
    if (load(&arena.writing) || text->is_plain(&arena.lock))
        violated = true;
    text->unmark(&arena.marks.thread[1], &arena.lock);
}
// That many read locks are handed over, and taken.
void give(uint64_t *what, uint64_t count = 1) { exchange(what, count); }
bool taken(uint64_t *what) { return load(what) && exchange(what, 0); }
// A reader that hands its lock over, `times`: `data` tells another thread to release it. Its mark stays.
void hands_over(int slot, int times) {
    for (int i = 0; i < times; i++)
        if (!read_lock(&arena.marks.thread[slot]))
            sleep();
    give(&arena.data, static_cast<uint64_t>(times));
}
void reader_hands_over(bool asks) {
    if (!text->mark(&arena.marks.thread[1], &arena.lock))
        return;
    give(&arena.data);
    if (asks && text->is_plain(&arena.lock) && load(&arena.marks.thread[1].mark[0]) == &arena.lock)
        violated = true;
}
// What such a reader locked is released here, and not before, by a thread without a mark.
void release_handed_over() {
    look();
    read_unlock(nullptr);
}
bool release_if_handed_over() {
    if (!taken(&arena.data))
        return false;
    release_handed_over();
    return true;
}
void releaser() {
    if (release_if_handed_over())
        reads_any(2); // for this one the writer waits as well
}
void hands_over_and_reads(bool twice) {
    hands_over(1, 1);
    if (twice)
        reads_twice_at_once(1, true);
    else
        reads_any(1);
}
// Hands its lock over, and releases one that it was given.
void hands_over_and_releases(int slot) {
    hands_over(slot, 1);
    if (taken(&arena.more))
        read_unlock(&arena.marks.thread[slot]);
}
void takes_for_another(int slot) {
    if (!read_lock(&arena.marks.thread[slot]))
        return;
    look();
    give(&arena.more);
}
void releases_and_takes_for_another() {
    if (release_if_handed_over())
        takes_for_another(2);
}
void releases_two() {
    if (!release_if_handed_over())
        return;
    look();
    read_unlock(nullptr);
}
// Its own read lock is counted.
void releases_own_and_another() {
    look();
    (void)release_if_handed_over();
    look();
    read_unlock(nullptr);
}
// A lock's read lock outlives the thread that took it, whose marks another thread takes over.
void reader_ends_inside() {
    if (!text->mark(&arena.marks.thread[1], &arena.lock))
        return;
    text->give_slot_back(&arena.marks.thread[1]);
    give(&arena.data);
}
void successor_releases() {
    if (taken(&arena.data) && text->take_slot(&arena.marks.thread[1])) {
        look();
        read_unlock(&arena.marks.thread[1]);
    }
}
void reader_ends() {
    reader(1, 1);
    text->give_slot_back(&arena.marks.thread[1]);
}
void successor_reads() {
    if (text->take_slot(&arena.marks.thread[1]))
        reader(1, 1);
}
// As write_lock() in rwlock.c.
bool enters() {
    limit none{0, 0};
    if (text->try_write(&arena.lock, false))
        return false; // another is inside: it would wait
    if (load(&arena.lock.biased) & (LW__RW_BIASED | LW__RW_ENDING) &&
        text->revoke_bias(&arena.lock, &none, !readers_first)) {
        text->write_unlock(&arena.lock); // membarrier is refused, or the limit is reached
        return false;
    }
    return true;
}
void writer() {
    if (!enters())
        return;
    store(&arena.writing, 1, RELAXED);
    store(&arena.writing, 0, RELAXED);
    // A reader that holds the plain lock gives the bias again; the release is the plain lock's and the bias's.
    if (!readers_first)
        (void)swap<uint64_t>(&arena.lock.biased, 0, LW__RW_BIASED, __ATOMIC_RELEASE);
    text->write_unlock(&arena.lock);
}
constexpr uint32_t one_waits = 0x00100000, stays = LW__RW_ENDING | LW__RW_STAYS_PLAIN;
// A writer that is about to sleep for a reader of the plain lock.
void waits() {
    store(&arena.lock.state, one_waits, RELAXED); // as an atomic operation that is relaxed
    text->keep_marks_out(&arena.lock);
}
void waiting_writer() {
    waits();
    operation(Kind::swap, word_of(&arena.lock.state), 0, one_waits);
    writer();
}
void sleeping_writer() {
    waits();
    give(&arena.data);
}
void later_reader() {
    if (load(&arena.data) == 1 && text->mark(&arena.marks.thread[1], &arena.lock))
        violated = true;
}
// A reader that is counted gives the bias, where it may, and then leaves.
void counted_gives_bias() {
    const auto biased = static_cast<uint32_t>(load(&arena.lock.biased));
    if (!(biased & (LW__RW_BIASED | LW__RW_ENDING | LW__RW_STAYS_PLAIN)))
        text->give_bias(&arena.lock, biased);
    look();
    read_unlock(nullptr);
}
void releases_and_reads(int slot) {
    release_handed_over();
    reads_any(slot);
}

struct Configuration {
    const char *name;
    int threads;
    void (*run)(int thread);
    uint64_t biased = LW__RW_BIASED; // at first
    bool refused = false;
    bool sleeps = false; // a writer sleeps at the end: readers must not mark then
    bool readers_first = false;
    bool arrive = false;
    uint32_t count = 0; // of the plain lock at first
    unsigned marks = 0; // a bit for each thread that has a mark at first
    bool writes = true; // a writer is inside in some interleaving, which must be seen
};
const Configuration configurations[] = {
    {"writer, reader that reads twice", 2, [](int t) { t ? reader(1, 2) : writer(); }},
    {"writer, two readers", 3, [](int t) { t ? reader(t, 1) : writer(); }},
    {"two writers, reader", 3, [](int t) { t == 2 ? reader(2, 1) : writer(); }},
    {"two writers, reader; membarrier is refused to one", 3, [](int t) { t == 2 ? reader(2, 1) : writer(); }, LW__RW_BIASED,
     true},
    {"two writers that let readers go first, reader", 3, [](int t) { t == 2 ? reader(2, 1) : writer(); }, LW__RW_BIASED,
     false, false, true},
    {"writer, read lock handed over", 3, [](int t) { t == 0   ? writer()
                                                     : t == 1 ? reader_hands_over(false)
                                                              : releaser(); }},
    {"writer, read lock handed over by one that asks whether the lock is plain", 3,
     [](int t) { t == 0   ? writer()
                 : t == 1 ? reader_hands_over(true)
                          : (void)release_if_handed_over(); }},
    {"two writers, reader that asks whether the lock is plain", 3, [](int t) { t == 2 ? reader_asks() : writer(); }},
    {"writer that waited for a plain reader, reader that asks", 2, [](int t) { t ? reader_asks() : waiting_writer(); }},
    {"writer, a thread that ends inside, its successor", 3,
     [](int t) { t == 0   ? writer()
                 : t == 1 ? reader_ends_inside()
                          : successor_releases(); }},
    {"writer, a thread that ends, its successor reads", 3,
     [](int t) { t == 0   ? writer()
                 : t == 1 ? reader_ends()
                          : successor_reads(); }},
    {"writer, two threads that take their marks, one to read", 3, [](int t) { t ? arrives(t == 1) : writer(); },
     LW__RW_BIASED, false, false, false, true},
    {"writer that waited for a plain reader, marked reader", 2, [](int t) { t ? reader(1, 1) : waiting_writer(); }},
    {"writer that sleeps for a plain reader, later reader", 2, [](int t) { t ? later_reader() : sleeping_writer(); },
     LW__RW_BIASED, false, true},
    {"writer that sleeps for a plain reader, which gives the bias", 2,
     [](int t) { t ? text->give_bias(&arena.lock, 0) : sleeping_writer(); }, 0, false, true},
    {"writer, reader that reads again inside", 2, [](int t) { t ? reads_twice_at_once(1, false) : writer(); }},
    {"two writers, reader that reads again inside", 3, [](int t) { t == 2 ? reads_twice_at_once(2, false) : writer(); }},
    {"writer, read lock handed over by one that reads later", 3,
     [](int t) { t == 0   ? writer()
                 : t == 1 ? hands_over_and_reads(false)
                          : (void)release_if_handed_over(); }},
    {"two writers, a mark whose read lock was released reads", 3, [](int t) { t == 2 ? reads_any(2) : writer(); }, stays,
     false, false, false, false, READERS, 4},
    {"two read locks of one thread handed over beside a writer", 3,
     [](int t) { t == 0   ? writer()
                 : t == 1 ? hands_over(1, 2)
                          : releases_two(); }},
    {"a counted reader leaves; its count was taken by a release for one that reads again beside a writer", 3,
     [](int t) { t == 0   ? writer()
                 : t == 1 ? hands_over_and_reads(false)
                          : releases_own_and_another(); }, LW__RW_BIASED,
     false, false, false, false, 1},
    {"a marked reader inside, and one that reads with a mark that was released, beside a writer", 3,
     [](int t) { t == 0   ? writer()
                 : t == 1 ? reads_any(1)
                          : (look(), read_unlock(&arena.marks.thread[2])); }, stays, false,
     false, false, false, READERS, 6},
    {"three release what two marked and one counted", 3,
     [](int t) { t == 0   ? hands_over(0, 1)
                 : t == 1 ? (void)release_if_handed_over()
                          : read_unlock(nullptr); },
     LW__RW_BIASED, false, false, false, false, 1, 0, false},
    {"a mark that was released serves for a counted read lock", 3,
     [](int t) { t == 0   ? writer()
                 : t == 1 ? hands_over_and_releases(1)
                          : releases_and_takes_for_another(); }},
    {"a read lock moves between marks while another is released", 3,
     [](int t) { t == 0   ? (void)release_if_handed_over()
                 : t == 1 ? takes_for_another(1)
                          : hands_over_and_releases(2); },
     LW__RW_BIASED, false, false, false, false, 0, 0, false},
    {"a mark is taken back while another, which was released, is retired", 3,
     [](int t) { t == 0   ? writer()
                 : t == 1 ? release_handed_over()
                          : reads_any(2); }, LW__RW_BIASED, false, false, false,
     false, 0, 1},
    {"a read lock that no thread holds is released", 1, [](int) { violated |= text->hand_over(&arena.lock) != -EPERM; },
     LW__RW_BIASED, false, true},
    {"a reader whose count was taken gives the bias beside a writer", 3,
     [](int t) { t == 0   ? writer()
                 : t == 1 ? counted_gives_bias()
                          : releases_and_reads(2); }, LW__RW_ENDING, false, false,
     false, false, 1, 1},
};
const Configuration *configuration;

// ---- exploring ----

enum class Ends { wants, over, asleep };
Ends runs_on(const State &s, int t) {
    running = &s.threads[t];
    position = 0;
    me = t;
    switch (setjmp(back)) {
    case 0: configuration->run(t); return Ends::over;
    case 1: return Ends::wants;
    default: return Ends::asleep;
    }
}

struct Explorer {
    Visited visited;
    std::vector<State> todo;
    bool wrote = false, read = false, slept = false;

    static uint64_t seen(const State &s, const Thread &t, int word) {
        for (size_t i = t.buffer.size(); i-- > 0;)
            if (t.buffer[i].word == word)
                return t.buffer[i].value;
        return s.memory[word];
    }
    static void empty(State &s, Thread &t) {
        for (const Entry &e : t.buffer)
            s.memory[e.word] = e.value;
        t.buffer.clear();
    }
    void reach(const State &s) {
        Digest whole;
        whole.bytes(s.memory.data(), sizeof s.memory);
        for (const Thread &t : s.threads)
            whole.word(t.over)
                .bytes(t.log.data(), t.log.size() * sizeof(uint64_t))
                .bytes(t.buffer.data(), t.buffer.size() * sizeof(Entry));
        if (visited.insert(whole))
            todo.push_back(s);
    }
    // The first entry of each address may leave.
    void stores_leave(const State &from, int t) {
        const Few<Entry, max_stores> &buffer = from.threads[t].buffer;
        for (size_t i = 0; i < buffer.size(); i++) {
            bool first = !(buffer[i].kind & 1) || i == 0;
            for (size_t j = 0; j < i; j++)
                first &= buffer[j].word != buffer[i].word;
            if (!first)
                continue;
            State s = from;
            s.memory[buffer[i].word] = buffer[i].value;
            s.threads[t].buffer.erase(i);
            reach(s);
        }
    }
    static bool pending(const Thread &t, int word, int kinds = 0) {
        for (const Entry &e : t.buffer)
            if (e.word == word && (e.kind & kinds) == kinds)
                return true;
        return false;
    }
    static bool swapped(const State &s, int but, int word) {
        for (int t = 0; t < threads_now; t++)
            if (t != but && pending(s.threads[t], word, 2))
                return true;
        return false;
    }
    void step(const State &from, int t) {
        stores_leave(from, t);
        if (from.threads[t].over)
            return;
        State s = from;
        Thread &own = s.threads[t];
        if (const Ends how = runs_on(from, t); how != Ends::wants) {
            own.over = true;
            own.asleep = how == Ends::asleep;
            reach(s);
            return;
        }
        const Operation o = wanted;
        if (swapped(from, t, o.word) && // a swap that fails only reads
            (o.kind == Kind::exchange ||
             (o.kind >= Kind::swap && o.kind <= Kind::strong_swap && from.memory[o.word] == o.old)))
            return;
        uint64_t result = 0;
        switch (o.kind) {
        case Kind::load: result = seen(s, own, o.word); break;
        case Kind::store:
        case Kind::release: own.buffer.push_back({o.value, o.word, o.kind == Kind::release ? 1 : 0}); break;
        case Kind::exchange:
            if (!own.buffer.empty())
                return;
            result = s.memory[o.word];
            s.memory[o.word] = o.value;
            break;
        case Kind::late_swap: // later loads may come before its store
            if (pending(own, o.word))
                return;
            result = s.memory[o.word];
            if (result == o.old)
                own.buffer.push_back({o.value, o.word, 3});
            break;
        case Kind::strong_swap:
            if (!own.buffer.empty())
                return;
            [[fallthrough]];
        case Kind::swap: // relaxed: only its own word's stores come before it
            if (pending(own, o.word))
                return;
            result = s.memory[o.word];
            if (result == o.old)
                s.memory[o.word] = o.value;
            break;
        case Kind::fence:
            if (!own.buffer.empty())
                return;
            break;
        case Kind::drain: empty(s, s.threads[o.word]); break;
        }
        s.threads[t].log.push_back(result);
        wrote |= o.kind == Kind::store && o.word == word_of(&arena.writing) && o.value == 1;
        read |= o.kind == Kind::load && o.word == word_of(&arena.writing);
        slept |= threads_now == 1 || (o.kind == Kind::store && o.word == word_of(&arena.lock.state) && o.value == one_waits);
        reach(s);
    }
    // Read locks that the lock believes to be held.
    static int64_t held(const State &s) {
        int64_t sum = static_cast<int32_t>(s.memory[word_of(&arena.lock.state)] << 12) >> 12;
        for (const lw__rw_thread &t : arena.marks.thread)
            if (from<lw_rwlock *>(s.memory[word_of(&t.mark[0])]) == &arena.lock)
                sum += 1 + static_cast<int64_t>(s.memory[word_of(&t.again[0])]);
        return sum;
    }
    // Nothing is left to be done.
    void end(const State &s) {
        for (int t = 0; t < threads_now; t++)
            if (!s.threads[t].over || !s.threads[t].buffer.empty())
                return;
        violated |= configuration->sleeps && s.memory[word_of(&arena.lock.biased)] == LW__RW_BIASED;
        bool asleep = configuration->sleeps;
        for (int t = 0; t < threads_now; t++)
            asleep |= s.threads[t].asleep;
        violated |=
            !asleep && held(s) != static_cast<int64_t>(s.memory[word_of(&arena.data)] + s.memory[word_of(&arena.more)]);
    }
    // False: a reader saw a writer inside, or marks pass one that sleeps. `size`: states.
    bool explore(size_t &size) {
        violated = false;
        State begin;
        begin.memory[static_cast<size_t>(word_of(&arena.lock.biased))] = configuration->biased;
        begin.memory[static_cast<size_t>(word_of(&arena.lock.state))] = configuration->count;
        for (size_t t = 0; t < max_threads; t++) {
            begin.memory[static_cast<size_t>(word_of(&arena.marks.thread[t].used))] = !arrive;
            if (configuration->marks >> t & 1)
                begin.memory[static_cast<size_t>(word_of(&arena.marks.thread[t].mark[0]))] = as_word(&arena.lock);
        }
        reach(begin);
        while (!todo.empty() && !violated) {
            const State s = todo.back();
            todo.pop_back();
            end(s);
            for (int t = 0; t < threads_now && !violated; t++)
                step(s, t);
        }
        size = visited.size();
        return !violated;
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
            configuration = &c;
            threads_now = c.threads;
            refused = c.refused;
            readers_first = c.readers_first;
            arrive = c.arrive;
            Explorer e;
            size_t size = 0;
            const bool safe = e.explore(size);
            const bool happened = c.sleeps ? e.slept : e.read && e.wrote == c.writes;
            if (original)
                std::printf("%s: %zu states, %s\n", c.name, size,
                            safe       ? happened ? "right" : "WHAT IT IS ABOUT DOES NOT HAPPEN"
                            : c.sleeps ? "A WRITER THAT SLEEPS IS PASSED"
                                       : "A READER MEETS A WRITER, OR ITS MARK IS OVERLOOKED");
            if (original && !(safe && happened))
                failures++;
            if (!safe && !original) {
                caught = c.name;
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
