// Explores every interleaving of a few threads around the real text of a biased lock (rwlock_mark.h, bias.h, revoke.h, slot.h) and around
// each of its mutants (mutants.py), on a machine with store buffers. A reader and a writer must never be inside together, marks must
// not pass a writer that sleeps, and no lock is plain for a thread that has a mark for it; every mutant must break one of these.
//
// The machine: a store stays in its thread's buffer and reaches memory at any later time, in order per address only, a release after every
// store before it. Fences and most atomic read-modify-writes wait for the buffer. A heavy barrier makes one thread after the other empty its buffer, with any steps of
// other threads in between. Threads are ordinary functions: for every step a function runs again from its start and gets the values
// that it read before.
#include <array>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "../visited.hpp"

namespace {

constexpr int max_threads = 3, max_words = 24, max_log = 60, max_stores = 12;
constexpr int LW__RW_MARKS = 1;
constexpr uint64_t LW__RW_BIASED = 1, LW__RW_ENDING = 2;

// What the text sees. The addresses of the words are what counts: each stands for one word of the machine's memory.
struct lw_rwlock {
    uint64_t biased, handed, waits; // waits: bit 31 of the plain lock
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
struct limit {};
struct Memory {
    lw_rwlock lock;
    chunk marks;
    uint64_t plain, data, writing; // the plain lock; a read lock is handed over; a writer is inside
} arena;
static_assert(sizeof arena <= max_words * sizeof(uint64_t));

enum class Kind { load, store, release, exchange, swap, fence, drain };
struct Operation {
    Kind kind;
    int word; // or the thread to drain
    uint64_t value, old = 0; // old: what a swap replaces
};
struct Entry {
    uint64_t value;
    int32_t word, release;
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
    bool over = false;
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
    return static_cast<int>((reinterpret_cast<char *>(p) - reinterpret_cast<char *>(&arena)) / 8);
}
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

bool swap(uint64_t *p, uint64_t old, uint64_t value) { return operation(Kind::swap, word_of(p), value, old) == old; }

int threads_now;
int me;
bool refused; // membarrier is, to thread 0
bool arrive; // readers take their marks first

uintptr_t lw__rw_position(const lw_rwlock *) { return 0; }
void lw__rw_wake_writer(lw__rw_thread *) {}
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
// A writer that would sleep ends there: what it would see later, it sees in another interleaving.
#define LW_RW_WAIT(t, l, limit) ((void)(t), (void)(l), (void)(limit), false)
#define LW_RW_FENCE() ((void)operation(Kind::fence, 0))
#define LW_RW_SWAP(p, old, new) swap((p), (old), (new))
#define LW_RW_TAKE(p) (exchange((p), 1) == 0)
#define LW_RW_WRITER_WAITS(l) (load(&(l)->waits) != 0)

struct Text {
    const char *name;
    bool (*mark)(lw__rw_thread *, lw_rwlock *);
    bool (*unmark)(lw__rw_thread *, lw_rwlock *);
    bool (*is_plain)(lw_rwlock *);
    void (*keep_marks_out)(lw_rwlock *);
    void (*give_bias)(lw_rwlock *);
    int (*revoke_bias)(lw_rwlock *, const limit *, uint32_t);
    bool (*take_slot)(lw__rw_thread *);
    lw__rw_thread *(*take_from)(chunk *);
    void (*give_slot_back)(lw__rw_thread *);
};
#define LW_TEXT(name)                                                                                         \
    Text {                                                                                                    \
        #name, name::lw__rw_mark, name::lw__rw_unmark, name::is_plain, name::keep_marks_out, name::give_bias, \
            name::revoke_bias, name::take_slot, name::take_from, name::give_slot_back                         \
    }
#include "texts.h"
const Text texts[] = {TEXTS};
const Text *text;

// ---- the threads ----

bool violated;
bool readers_first; // a writer that finds readers steps back, and leaves LW__RW_ENDING

// Inside: what a writer does there must not be seen half done. `writing` is 1 while a writer is inside.
void reads(lw__rw_thread *self) {
    if (text->mark(self, &arena.lock)) {
        if (load(&arena.writing) || load(&arena.writing)) // early and late in the critical section
            violated = true;
        text->unmark(self, &arena.lock);
    }
}
void reader(int slot, int sections) {
    for (int i = 0; i < sections; i++)
        reads(&arena.marks.thread[slot]);
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
// A reader that hands its lock over: `data` tells another thread to release it. Its mark stays.
void reader_hands_over(bool asks) {
    if (!text->mark(&arena.marks.thread[1], &arena.lock))
        return;
    exchange(&arena.data, 1);
    if (asks && text->is_plain(&arena.lock))
        violated = true;
}
// What such a reader locked is released here, and not before.
void release_handed_over() {
    if (load(&arena.writing))
        violated = true;
    operation(Kind::exchange, word_of(&arena.lock.handed), 1);
}
bool release_if_handed_over() {
    if (load(&arena.data) != 1)
        return false;
    release_handed_over();
    return true;
}
void releaser() {
    if (release_if_handed_over())
        reader(2, 1); // for this one the writer waits as well
}
// A lock's read lock outlives the thread that took it, whose marks another thread takes over.
void reader_ends_inside() {
    if (!text->mark(&arena.marks.thread[1], &arena.lock))
        return;
    text->give_slot_back(&arena.marks.thread[1]);
    exchange(&arena.data, 1);
}
void successor_releases() {
    if (load(&arena.data) == 1 && text->take_slot(&arena.marks.thread[1]))
        release_handed_over();
}
void reader_ends() {
    reader(1, 1);
    text->give_slot_back(&arena.marks.thread[1]);
}
void successor_reads() {
    if (text->take_slot(&arena.marks.thread[1]))
        reader(1, 1);
}
void writer() {
    limit none;
    if (exchange(&arena.plain, 1))
        return; // another writer is inside: it would wait
    if (load(&arena.lock.biased) && text->revoke_bias(&arena.lock, &none, readers_first ? LW__RW_ENDING : LW__RW_BIASED)) {
        store(&arena.plain, 0,
              RELEASE); // membarrier is refused, or the limit is reached: it would sleep, or try again later
        return;
    }
    store(&arena.writing, 1, RELAXED);
    store(&arena.writing, 0, RELAXED);
    // A reader that holds the plain lock gives the bias again; the release is the plain lock's and the bias's.
    if (!readers_first)
        store(&arena.lock.biased, 1, RELEASE);
    store(&arena.plain, 0, RELEASE);
}
// A writer that is about to sleep for a reader of the plain lock.
void waits() {
    store(&arena.lock.waits, 1, RELAXED); // as an atomic operation that is relaxed
    text->keep_marks_out(&arena.lock);
}
void waiting_writer() {
    waits();
    writer();
}
void sleeping_writer() {
    waits();
    exchange(&arena.data, 1);
}
void later_reader() {
    if (load(&arena.data) == 1 && text->mark(&arena.marks.thread[1], &arena.lock))
        violated = true;
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
     [](int t) { t ? text->give_bias(&arena.lock) : sleeping_writer(); }, 0, false, true},
};
const Configuration *configuration;

// ---- exploring ----

bool runs_on(const State &s, int t) {
    running = &s.threads[t];
    position = 0;
    me = t;
    if (setjmp(back))
        return true;
    configuration->run(t);
    return false;
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
            bool first = !buffer[i].release || i == 0;
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
    void step(const State &from, int t) {
        stores_leave(from, t);
        if (from.threads[t].over)
            return;
        State s = from;
        Thread &own = s.threads[t];
        if (!runs_on(from, t)) {
            own.over = true;
            reach(s);
            return;
        }
        const Operation o = wanted;
        uint64_t result = 0;
        switch (o.kind) {
        case Kind::load: result = seen(s, own, o.word); break;
        case Kind::store:
        case Kind::release: own.buffer.push_back({o.value, o.word, o.kind == Kind::release}); break;
        case Kind::exchange:
            if (!own.buffer.empty())
                return;
            result = s.memory[o.word];
            s.memory[o.word] = o.value;
            break;
        case Kind::swap: // relaxed: only its own word's stores come before it
            for (const Entry &e : own.buffer)
                if (e.word == o.word)
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
        slept |= o.kind == Kind::store && o.word == word_of(&arena.lock.waits);
        reach(s);
    }
    // Nothing is left to be done.
    void end(const State &s) {
        for (int t = 0; t < threads_now; t++)
            if (!s.threads[t].over || !s.threads[t].buffer.empty())
                return;
        violated |= configuration->sleeps && s.memory[word_of(&arena.lock.biased)] == LW__RW_BIASED;
    }
    // False: a reader saw a writer inside, or marks pass one that sleeps. `size`: states.
    bool explore(size_t &size) {
        violated = false;
        State begin;
        begin.memory[static_cast<size_t>(word_of(&arena.lock.biased))] = configuration->biased;
        for (lw__rw_thread &t : arena.marks.thread)
            begin.memory[static_cast<size_t>(word_of(&t.used))] = !arrive;
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
            if (original)
                std::printf("%s: %zu states, %s\n", c.name, size,
                            safe       ? "right"
                            : c.sleeps ? "A WRITER THAT SLEEPS IS PASSED"
                                       : "A READER MEETS A WRITER, OR ITS MARK IS OVERLOOKED");
            if (original && (!safe || !(c.sleeps ? e.slept : e.wrote && e.read)))
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
