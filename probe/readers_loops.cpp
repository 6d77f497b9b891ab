// SPDX-License-Identifier: MIT
// The readers themselves, one small struct each, and the loop over every one, plainly named for the disassembly test.
#include "probe/readers.hpp"

#include "probe/own_rows.hpp"
#include "wire/forms.hpp"

#include <linewright/arch/forms.h>
#include <linewright/arch/cpu.h>
#include <linewright/arch/measure.h>
#include <linewright/percpu.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <sched.h>
#include <string>
#include <type_traits>

#undef sigmask // an old macro of <csignal>; here the name of a reader

namespace lw::probe {
namespace reader {
inline namespace place0 {

struct None {};

// What readers have by default: no end of a batch, no preparation, no updater that can wait for them.
struct Plain {
    static constexpr bool readers_sleep = false, updaters_sleep = false;
    void finish(Reader_seat &) const {}
    static bool ready(Reader_world &, std::string &) { return true; }
    static bool settled(Reader_world &, std::uint64_t) { return true; }
};

[[gnu::always_inline]] inline void wait_a_moment(unsigned &spins) {
    if (++spins % 4096 == 0)
        sched_yield(); // the other side may be waiting for this very CPU
    lw_cpu_relax();
}

struct readers_empty : Plain {
    explicit readers_empty(Reader_seat &) {}
    None enter() const { return {}; }
    void leave(None) const {}
};

// ---- the library's domains ----

template <class Flavour> struct Domain : Plain {
    Flavour *domain;
    explicit Domain(Reader_seat &seat) : domain(of(*seat.world)) {}
    static Flavour *of(Reader_world &world) { return static_cast<Flavour *>(&world.domain); } // one place for every flavour
    static bool ready(Reader_world &world, std::string &why) {
        const int error = world.domain_made ? 0 : lw_srcu_init(of(world));
        world.domain_made = !error;
        why = "the domain could not be made: error " + std::to_string(-error);
        return !error;
    }
    // No reader is left on a domain that can be cleaned up.
    static bool settled(Reader_world &world, std::uint64_t) {
        if (world.domain_made && lw_srcu_cleanup(&world.domain) != 0)
            return false;
        world.domain_made = false;
        return true;
    }
    static constexpr bool updaters_sleep = true;
    static void update(Reader_world &world) {
        replace_guarded(world, [&] { return lw_srcu_synchronize(&world.domain); });
    }
    static void expedited(Reader_world &world) {
        replace_guarded(world, [&] { return lw_srcu_synchronize_expedited(&world.domain); });
    }
};

struct srcu : Domain<lw_srcu_normal> {
    using Domain::Domain;
    [[gnu::always_inline]] auto enter() const { return lw_srcu_read_lock(domain); }
    [[gnu::always_inline]] void leave(lw_srcu_index c) const { lw_srcu_read_unlock(domain, c); }
};

// The kernel's flavour for handlers is another one there; here every reader may run in a handler.
struct srcu_signal_safe : srcu {
    using srcu::srcu;
};

struct srcu_fast : Domain<lw_srcu_fast> {
    using Domain::Domain;
    [[gnu::always_inline]] auto enter() const { return lw_srcu_read_lock_fast(domain); }
    [[gnu::always_inline]] void leave(lw_srcu_index c) const { lw_srcu_read_unlock_fast(domain, c); }
};

struct srcu_fast_updown : Domain<lw_srcu_fast_updown> {
    using Domain::Domain;
    [[gnu::always_inline]] auto enter() const { return lw_srcu_down_read_fast(domain); }
    [[gnu::always_inline]] void leave(lw_srcu_index c) const { lw_srcu_up_read_fast(domain, c); }
};

// ---- one word or lock for all threads ----

// One shared count. Who waits for it to reach zero may wait for ever, so it has no updater.
struct refcnt : Plain {
    std::uint32_t *word;
    explicit refcnt(Reader_seat &seat) : word(&seat.world->word) {}
    [[gnu::always_inline]] None enter() const {
        __atomic_fetch_add(word, 1, __ATOMIC_ACQUIRE); // pairs with the release of the same count
        return {};
    }
    [[gnu::always_inline]] void leave(None) const { __atomic_fetch_sub(word, 1, __ATOMIC_RELEASE); }
    static bool settled(Reader_world &world, std::uint64_t) { return world.word == 0; }
};

// Spins; the writer's bit turns new readers away, so that a writer waits for those inside only.
struct rwlock : refcnt {
    static constexpr std::uint32_t writer = 1u << 31;
    using refcnt::refcnt;
    [[gnu::always_inline]] None enter() const {
        if (__builtin_expect(__atomic_fetch_add(word, 1, __ATOMIC_ACQUIRE) & writer, 0)) // pairs with update()'s last line
            wait_for_writer();
        return {};
    }
    [[gnu::noinline]] void wait_for_writer() const {
        unsigned spins = 0;
        do {
            __atomic_fetch_sub(word, 1, __ATOMIC_RELAXED); // nothing was read
            while (__atomic_load_n(word, __ATOMIC_RELAXED) & writer) // ordered by the acquire below
                wait_a_moment(spins);
        } while (__atomic_fetch_add(word, 1, __ATOMIC_ACQUIRE) & writer); // pairs with update()'s last line
    }
    static void update(Reader_world &world) {
        unsigned spins = 0;
        __atomic_fetch_or(&world.word, writer, __ATOMIC_RELAXED); // ordered by the acquire below
        while (__atomic_load_n(&world.word, __ATOMIC_ACQUIRE) != writer) // pairs with the readers' release
            wait_a_moment(spins);
        replace_guarded(world, [] {});
        __atomic_fetch_and(&world.word, ~writer, __ATOMIC_RELEASE); // pairs with the readers' acquire
    }
};

// The C library's sleeping readers-writer lock, set to let writers go first: with its default an updater may wait for ever.
struct rwsem : Plain {
    static constexpr bool readers_sleep = true, updaters_sleep = true;
    pthread_rwlock_t *lock;
    explicit rwsem(Reader_seat &seat) : lock(&seat.world->rwsem) {}
    [[gnu::always_inline]] None enter() const {
        pthread_rwlock_rdlock(lock);
        return {};
    }
    [[gnu::always_inline]] void leave(None) const { pthread_rwlock_unlock(lock); }
    static bool settled(Reader_world &world, std::uint64_t) {
        return pthread_rwlock_trywrlock(&world.rwsem) == 0 && pthread_rwlock_unlock(&world.rwsem) == 0;
    }
    static void update(Reader_world &world) {
        pthread_rwlock_wrlock(&world.rwsem);
        replace_guarded(world, [] {});
        pthread_rwlock_unlock(&world.rwsem);
    }
};

// The library's, biased: each reader marks a word of its own.
struct biased_rwlock : Plain {
    static constexpr bool readers_sleep = true, updaters_sleep = true;
    lw_rwlock *lock;
    explicit biased_rwlock(Reader_seat &seat) : lock(&seat.world->biased) {}
    [[gnu::always_inline]] None enter() const {
        (void)lw_rwlock_read_lock(lock); // 0: this thread has it in no other way
        return {};
    }
    [[gnu::always_inline]] void leave(None) const { (void)lw_rwlock_read_unlock(lock); }
    // It turns biased after some hundred reads, which biases that ended before put off by a second at most. Where it does
    // not, no lock will.
    static bool ready(Reader_world &world, std::string &why) {
        static std::atomic<bool> stays_plain{false};
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
        while (world.biased.biased != LW__RW_BIASED && !stays_plain) {
            for (int i = 0; i < 64; ++i)
                if (lw_rwlock_read_lock(&world.biased) == 0)
                    (void)lw_rwlock_read_unlock(&world.biased);
            stays_plain = world.biased.biased != LW__RW_BIASED && std::chrono::steady_clock::now() > end;
        }
        why = "no membarrier: the lock stays plain";
        return world.biased.biased == LW__RW_BIASED;
    }
    static bool settled(Reader_world &world, std::uint64_t) {
        return lw_rwlock_try_write(&world.biased) == 0 && lw_rwlock_write_unlock(&world.biased) == 0;
    }
    static void update(Reader_world &world) {
        if (lw_rwlock_write_lock(&world.biased)) {
            ++world.failed;
            return;
        }
        replace_guarded(world, [] {});
        (void)lw_rwlock_write_unlock(&world.biased);
    }
};

// First come, first served, so that no thread starves.
[[gnu::always_inline]] inline std::uint32_t take(std::uint32_t &next, const std::uint32_t &owner) {
    const std::uint32_t ticket = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED); // ordered by the acquire below
    unsigned spins = 0;
    while (__builtin_expect(__atomic_load_n(&owner, __ATOMIC_ACQUIRE) != ticket, 0)) // pairs with give()
        wait_a_moment(spins);
    return ticket;
}

[[gnu::always_inline]] inline void give(std::uint32_t &owner, std::uint32_t ticket) {
    __atomic_store_n(&owner, ticket + 1, __ATOMIC_RELEASE); // pairs with take()
}

struct spinlock : Plain {
    Ticket_lock *lock;
    explicit spinlock(Reader_seat &seat) : lock(&seat.world->ticket) {}
    [[gnu::always_inline]] std::uint32_t enter() const { return take(lock->next, lock->owner); }
    [[gnu::always_inline]] void leave(std::uint32_t ticket) const { give(lock->owner, ticket); }
    // Every critical section took a ticket and gave it back, the updater's too.
    static bool settled(Reader_world &world, std::uint64_t pairs) {
        return world.ticket.next == world.ticket.owner &&
               world.ticket.next == static_cast<std::uint32_t>(pairs + world.updates);
    }
    static void update(Reader_world &world) {
        const std::uint32_t ticket = take(world.ticket.next, world.ticket.owner);
        replace_guarded(world, [] {});
        give(world.ticket.owner, ticket);
    }
};

struct mutex : Plain {
    static constexpr bool readers_sleep = true, updaters_sleep = true;
    pthread_mutex_t *lock;
    explicit mutex(Reader_seat &seat) : lock(&seat.world->mutex) {}
    [[gnu::always_inline]] None enter() const {
        pthread_mutex_lock(lock);
        return {};
    }
    [[gnu::always_inline]] void leave(None) const { pthread_mutex_unlock(lock); }
    static bool settled(Reader_world &world, std::uint64_t) {
        return pthread_mutex_trylock(&world.mutex) == 0 && pthread_mutex_unlock(&world.mutex) == 0;
    }
    static void update(Reader_world &world) {
        pthread_mutex_lock(&world.mutex);
        replace_guarded(world, [] {});
        pthread_mutex_unlock(&world.mutex);
    }
};

// ---- the signal mask: what turning interrupts off is to a kernel ----

struct sigmask : Plain {
    sigset_t all, before;
    explicit sigmask(Reader_seat &) {
        sigfillset(&all);
        sigemptyset(&before);
    }
    [[gnu::always_inline]] None enter() {
        pthread_sigmask(SIG_BLOCK, &all, &before);
        return {};
    }
    [[gnu::always_inline]] void leave(None) { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    // The mask is what it was: no signal that a debugger or a stop would use is left blocked.
    void finish(Reader_seat &seat) {
        sigset_t now;
        pthread_sigmask(SIG_SETMASK, nullptr, &now);
        seat.wrong += sigismember(&now, SIGTERM) == 1;
    }
};

struct spinlock_sigmask : Plain {
    sigmask mask;
    spinlock lock;
    explicit spinlock_sigmask(Reader_seat &seat) : mask(seat), lock(seat) {}
    [[gnu::always_inline]] std::uint32_t enter() {
        mask.enter();
        return lock.enter();
    }
    [[gnu::always_inline]] void leave(std::uint32_t ticket) {
        lock.leave(ticket);
        mask.leave({});
    }
    void finish(Reader_seat &seat) { mask.finish(seat); }
    static bool settled(Reader_world &world, std::uint64_t pairs) { return spinlock::settled(world, pairs); }
    static void update(Reader_world &world) {
        Reader_seat none;
        sigmask mask(none);
        mask.enter();
        spinlock::update(world);
        mask.leave({});
    }
};

// ---- increments on the current CPU's words ----

using Word = std::size_t;

// locks[0], locks[1], unlocks[0], unlocks[1]: one line for each CPU, as in a domain's own memory.
inline Word *lock_word(char *base, std::size_t index) { return reinterpret_cast<Word *>(base) + index; }
inline Word *unlock_word(char *base, std::size_t index) { return reinterpret_cast<Word *>(base) + 2 + index; }

[[gnu::always_inline]] inline bool sequence(Word *p, Word v) {
#ifdef __LP64__
    return lw_rseq_add_u64(reinterpret_cast<std::uint64_t *>(p), v);
#else
    return lw_rseq_add_u32(reinterpret_cast<std::uint32_t *>(p), v);
#endif
}

[[gnu::always_inline]] inline void count(Word *p, Word v) {
#ifdef __LP64__
    lw_this_cpu_add_u64(reinterpret_cast<std::uint64_t *>(p), v);
#else
    lw_this_cpu_add_u32(reinterpret_cast<std::uint32_t *>(p), v);
#endif
}

inline std::uint64_t sum(Word *p) {
#ifdef __LP64__
    return lw_percpu_sum_u64(reinterpret_cast<std::uint64_t *>(p));
#else
    return lw_percpu_sum_u32(reinterpret_cast<std::uint32_t *>(p));
#endif
}

// Words wrap where they are 32 bits.
inline bool equal(std::uint64_t found, std::uint64_t expected) {
    return static_cast<Word>(found) == static_cast<Word>(expected);
}

inline bool counted_both(Reader_world &world, std::uint64_t pairs) {
    const std::uint64_t locks = sum(lock_word(world.counters, 0)) + sum(lock_word(world.counters, 1));
    const std::uint64_t unlocks = sum(unlock_word(world.counters, 0)) + sum(unlock_word(world.counters, 1));
    return equal(locks, pairs) && equal(unlocks, pairs);
}

// An SRCU-shaped pair: the index is read, the lock counted on this CPU, and the unlock of the same index. The thread is
// pinned and the address of its CPU's words was taken before, so that the increment alone is timed, as where the per-CPU
// base is a register.
template <auto Form> struct Shape : Plain {
    char *own;
    const std::size_t *index;
    explicit Shape(Reader_seat &seat) : own(seat.own), index(&seat.world->index) {}
    [[gnu::always_inline]] static void add(Word *p) {
        if constexpr (requires { Form(p); }) {
            Form(p);
        } else if constexpr (std::is_void_v<decltype(Form(p, Word{1}))>) {
            Form(p, 1);
        } else {
            auto old = Form(p, 1);
            __asm__ volatile("" : : "r"(old)); // the value is wanted, so that the form stays what it is
        }
        __asm__ volatile("" : : : "memory"); // forms without order of their own stay where they are
    }
    [[gnu::always_inline]] std::size_t enter() const {
        const std::size_t i = __atomic_load_n(index, __ATOMIC_RELAXED); // never written here
        add(lock_word(own, i));
        return i;
    }
    [[gnu::always_inline]] void leave(std::size_t i) const { add(unlock_word(own, i)); }
    static bool settled(Reader_world &world, std::uint64_t pairs) { return counted_both(world, pairs); }
};

[[gnu::always_inline]] inline void builtin_add(Word *p, Word v) { __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
using srcu_percpu_builtin_add = Shape<builtin_add>;

struct srcu_percpu_rseq_add : Plain {
    char *handle;
    const std::size_t *index;
    explicit srcu_percpu_rseq_add(Reader_seat &seat) : handle(seat.world->counters), index(&seat.world->index) {}
    [[gnu::always_inline]] std::size_t enter() const {
        const std::size_t i = __atomic_load_n(index, __ATOMIC_RELAXED); // never written here
        count(lock_word(handle, i), 1);
        return i;
    }
    [[gnu::always_inline]] void leave(std::size_t i) const { count(unlock_word(handle, i), 1); }
    static bool settled(Reader_world &world, std::uint64_t pairs) { return counted_both(world, pairs); }
    static bool ready(Reader_world &, std::string &why) {
        const char *reason = "";
        const bool has = lw_percpu_mode(&reason) != LW_PERCPU_ATOMIC;
        why = std::string("no restartable sequences: ") + reason;
        return has;
    }
};

// The forms' words have a type of their width, which is not the same as size_t everywhere.
using Form_word = std::conditional_t<sizeof(Word) == 8, std::uint64_t, std::uint32_t>;
#define LW_SHAPE(name)                                                  \
    [[gnu::always_inline]] inline auto name##_form(Word *p, Word v) {   \
        return LW_WORD_FORM(name)(reinterpret_cast<Form_word *>(p), v); \
    }                                                                   \
    using srcu_percpu_##name = Shape<name##_form>;
#define LW_SHAPE_INC(name)                                                                                            \
    [[gnu::always_inline]] inline void name##_form(Word *p) { LW_WORD_FORM(name)(reinterpret_cast<Form_word *>(p)); } \
    using srcu_percpu_##name = Shape<name##_form>;
LW_READER_SHAPES(LW_SHAPE, LW_SHAPE_INC)

// An increment and a decrement of one per-CPU word: atomic; plain; as a sequence; plain with signals blocked around each.
// After all pairs the word is zero again.
struct On_own_word : Plain {
    char *own;
    explicit On_own_word(Reader_seat &seat) : own(seat.own) {}
    static bool settled(Reader_world &world, std::uint64_t) { return equal(sum(lock_word(world.counters, 0)), 0); }
};

struct percpuinc : On_own_word {
    using On_own_word::On_own_word;
    [[gnu::always_inline]] None enter() const {
        __atomic_fetch_add(lock_word(own, 0), 1, __ATOMIC_RELAXED); // a count, no more
        return {};
    }
    [[gnu::always_inline]] void leave(None) const { __atomic_fetch_sub(lock_word(own, 0), 1, __ATOMIC_RELAXED); }
};

[[gnu::always_inline]] inline void plain_add(Word *p, Word v) {
    *p += v;
    __asm__ volatile("" : : : "memory"); // an add each time
}

struct incpercpu : On_own_word {
    using On_own_word::On_own_word;
    [[gnu::always_inline]] None enter() const {
        plain_add(lock_word(own, 0), 1);
        return {};
    }
    [[gnu::always_inline]] void leave(None) const { plain_add(lock_word(own, 0), ~Word{0}); }
};

struct incpercpu_rseq : Plain {
    char *handle;
    explicit incpercpu_rseq(Reader_seat &seat) : handle(seat.world->counters) {}
    [[gnu::always_inline]] None enter() const {
        count(lock_word(handle, 0), 1);
        return {};
    }
    [[gnu::always_inline]] void leave(None) const { count(lock_word(handle, 0), ~Word{0}); }
    static bool settled(Reader_world &world, std::uint64_t pairs) { return On_own_word::settled(world, pairs); }
    static bool ready(Reader_world &world, std::string &why) { return srcu_percpu_rseq_add::ready(world, why); }
};

struct incpercpu_sigmask : incpercpu {
    sigmask mask;
    explicit incpercpu_sigmask(Reader_seat &seat) : incpercpu(seat), mask(seat) {}
    None enter() {
        mask.enter();
        incpercpu::enter();
        mask.leave({});
        return {};
    }
    void leave(None) {
        mask.enter();
        incpercpu::leave({});
        mask.leave({});
    }
    void finish(Reader_seat &seat) { mask.finish(seat); }
};

// An acquire load and a release store of the own CPU's word.
struct acqrel : On_own_word {
    using On_own_word::On_own_word;
    [[gnu::always_inline]] Word enter() const {
        return __atomic_load_n(lock_word(own, 0), __ATOMIC_ACQUIRE);
    } // pairs with leave()
    [[gnu::always_inline]] void leave(Word v) const { __atomic_store_n(lock_word(own, 0), v + 1, __ATOMIC_RELEASE); }
    static bool settled(Reader_world &world, std::uint64_t pairs) { return equal(sum(lock_word(world.counters, 0)), pairs); }
};

// ---- clocks: read once for each operation; none may run backwards ----

template <auto Now> struct Clock_reader : Plain {
    std::uint64_t last = 0, backwards = 0;
    explicit Clock_reader(Reader_seat &) {}
    [[gnu::always_inline]] None enter() {
        const std::uint64_t now = Now();
        backwards += now < last;
        last = now;
        return {};
    }
    [[gnu::always_inline]] void leave(None) const {}
    void finish(Reader_seat &seat) const { seat.wrong += backwards; }
};

template <clockid_t id> [[gnu::always_inline]] inline std::uint64_t system_clock() {
    timespec now;
    clock_gettime(id, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

using clock = Clock_reader<system_clock<CLOCK_MONOTONIC>>;
using coarse_clock = Clock_reader<system_clock<CLOCK_MONOTONIC_COARSE>>;
using sched_clock = Clock_reader<lw_ticks>;

// ---- lookups ----

[[gnu::always_inline]] inline std::uint64_t step(std::uint64_t x) { // xorshift64 (Marsaglia 2003)
    x ^= x << 13;
    x ^= x >> 7;
    return x ^ x << 17;
}

// One lookup: a slot drawn at random, its object held or checked, read, released; all inside a fast critical section, since
// objects may be given back to the system only after one.
template <class Hold> struct Lookup : Domain<lw_srcu_fast> {
    Reader_world *world;
    std::uint64_t random, wrong = 0, retries = 0;
    std::size_t last; // slots - 1
    explicit Lookup(Reader_seat &seat)
        : Domain(seat), world(seat.world), random(seat.random), last(seat.world->instances - 1) {}
    [[gnu::always_inline]] None enter() {
        random = step(random);
        const std::size_t slot = random & last;
        const auto cookie = lw_srcu_read_lock_fast(domain);
        for (;;) {
            Typesafe *object = __atomic_load_n(&world->slots[slot], __ATOMIC_ACQUIRE); // pairs with replace_typesafe()
            std::uint64_t a, b;
            if (__builtin_expect(Hold::look(*object, slot, a, b), 1)) {
                wrong += a != ~b;
                break;
            }
            ++retries;
        }
        lw_srcu_read_unlock_fast(domain, cookie);
        return {};
    }
    [[gnu::always_inline]] void leave(None) const {}
    void finish(Reader_seat &seat) const {
        seat.random = random;
        seat.wrong += wrong;
        seat.retries += retries;
    }
    // Afterwards every object is held by its slot alone, or by no thread.
    static bool settled(Reader_world &world, std::uint64_t pairs) {
        bool held = false;
        for (std::size_t slot = 0; slot < world.instances; ++slot)
            held |= world.slots[slot]->refs != 1 || world.slots[slot]->id != slot;
        return Domain::settled(world, pairs) && !held;
    }
    static constexpr bool updaters_sleep = false;

    // Puts an object that no thread holds into a slot drawn at random; the old one becomes free when its last holder lets
    // go.
    static void update(Reader_world &world) {
        world.random = step(world.random);
        const std::size_t slot = world.random & (world.instances - 1);
        Typesafe *fresh = nullptr;
        for (std::size_t i = world.spare;; i = i + 1 < world.instances + 64 ? i + 1 : 0)
            if (__atomic_load_n(&world.pool[i].refs, __ATOMIC_ACQUIRE) == 0) { // pairs with drop()
                fresh = &world.pool[i];
                world.spare = i + 1 < world.instances + 64 ? i + 1 : 0;
                break;
            }
        Hold::change(*fresh, slot, world.updates);
        Typesafe *old = world.slots[slot];
        __atomic_store_n(&world.slots[slot], fresh, __ATOMIC_RELEASE); // pairs with the lookups' acquire
        drop(*old);
        ++world.updates;
    }
    static void drop(Typesafe &object) {
        __atomic_fetch_sub(&object.refs, 1, __ATOMIC_RELEASE);
    } // pairs with update()'s acquire
};

// Takes a reference unless none is left to share, then checks that the object is still the one that was wanted.
struct Hold_ref {
    [[gnu::always_inline]] static bool look(Typesafe &object, std::size_t slot, std::uint64_t &a, std::uint64_t &b) {
        std::uint32_t refs = __atomic_load_n(&object.refs, __ATOMIC_RELAXED); // ordered by the exchange
        do
            if (__builtin_expect(refs == 0, 0))
                return false;
        while (!__atomic_compare_exchange_n(&object.refs, &refs, refs + 1, true, __ATOMIC_ACQUIRE,
                                            __ATOMIC_RELAXED)); // pairs with change()
        const bool mine = __atomic_load_n(&object.id, __ATOMIC_RELAXED) == slot; // held: it cannot change
        a = __atomic_load_n(&object.a, __ATOMIC_RELAXED);
        b = __atomic_load_n(&object.b, __ATOMIC_RELAXED);
        __atomic_fetch_sub(&object.refs, 1, __ATOMIC_RELEASE); // pairs with update()'s acquire
        return mine;
    }
    static void change(Typesafe &object, std::size_t slot, std::uint64_t value) {
        __atomic_store_n(&object.id, slot, __ATOMIC_RELAXED);
        __atomic_store_n(&object.a, value, __ATOMIC_RELAXED);
        __atomic_store_n(&object.b, ~value, __ATOMIC_RELAXED);
        __atomic_store_n(&object.refs, 1, __ATOMIC_RELEASE); // from here on it can be held: pairs with look()
    }
};

struct Hold_lock {
    [[gnu::always_inline]] static bool look(Typesafe &object, std::size_t slot, std::uint64_t &a, std::uint64_t &b) {
        const std::uint32_t ticket = take(object.next, object.owner);
        const bool mine = object.id == slot && object.refs;
        a = object.a;
        b = object.b;
        give(object.owner, ticket);
        return mine;
    }
    static void change(Typesafe &object, std::size_t slot, std::uint64_t value) {
        const std::uint32_t ticket = take(object.next, object.owner); // a reader may still be looking at it
        object.id = slot;
        object.a = value;
        object.b = ~value;
        __atomic_store_n(&object.refs, 1, __ATOMIC_RELAXED); // read by its own lock's holders and the updater
        give(object.owner, ticket);
    }
};

struct Hold_sequence {
    [[gnu::always_inline]] static bool look(Typesafe &object, std::size_t slot, std::uint64_t &a, std::uint64_t &b) {
        const std::uint32_t before = __atomic_load_n(&object.sequence, __ATOMIC_ACQUIRE); // pairs with change()'s last line
        const bool mine = __atomic_load_n(&object.id, __ATOMIC_RELAXED) == slot;
        a = __atomic_load_n(&object.a, __ATOMIC_RELAXED);
        b = __atomic_load_n(&object.b, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE); // the loads above before the one below; pairs with change()'s fence
        return !(before & 1) && mine && __atomic_load_n(&object.sequence, __ATOMIC_RELAXED) == before;
    }
    static void change(Typesafe &object, std::size_t slot, std::uint64_t value) {
        const std::uint32_t before = object.sequence;
        __atomic_store_n(&object.sequence, before + 1, __ATOMIC_RELAXED); // ordered by the fence
        __atomic_thread_fence(__ATOMIC_RELEASE); // pairs with look()'s fence
        __atomic_store_n(&object.id, slot, __ATOMIC_RELAXED);
        __atomic_store_n(&object.a, value, __ATOMIC_RELAXED);
        __atomic_store_n(&object.b, ~value, __ATOMIC_RELAXED);
        __atomic_store_n(&object.refs, 1, __ATOMIC_RELAXED); // the updater's own book
        __atomic_store_n(&object.sequence, before + 2, __ATOMIC_RELEASE); // pairs with look()'s acquire
    }
};

using typesafe_ref = Lookup<Hold_ref>;
using typesafe_lock = Lookup<Hold_lock>;
using typesafe_seqlock = Lookup<Hold_sequence>;

// The same loop with the draw and the load of the slot alone.
struct lookup_empty : Plain {
    Reader_world *world;
    std::uint64_t random;
    std::size_t last;
    explicit lookup_empty(Reader_seat &seat) : world(seat.world), random(seat.random), last(seat.world->instances - 1) {}
    [[gnu::always_inline]] None enter() {
        random = step(random);
        Typesafe *object = __atomic_load_n(&world->slots[random & last], __ATOMIC_RELAXED); // not looked at
        __asm__ volatile("" : : "r"(object));
        return {};
    }
    [[gnu::always_inline]] void leave(None) const {}
    void finish(Reader_seat &seat) const { seat.random = random; }
};

template <class R> void run_updates(Loop_args &args) {
    Reader_world &world = *static_cast<Reader_seat *>(args.state)->world;
    for (std::size_t left = args.ops; left; --left)
        R::update(world);
}

template <class R> void run_expedited(Loop_args &args) {
    Reader_world &world = *static_cast<Reader_seat *>(args.state)->world;
    for (std::size_t left = args.ops; left; --left)
        R::expedited(world);
}

template <class R> constexpr Reader_loops loops_of(std::string_view form, Batch pairs, Batch checked) {
    Reader_loops loops{form, pairs, checked, nullptr, nullptr, R::readers_sleep, R::updaters_sleep, R::ready, R::settled};
    if constexpr (requires(Reader_world &world) { R::update(world); })
        loops.update = run_updates<R>;
    if constexpr (requires(Reader_world &world) { R::expedited(world); } &&
                  R::updaters_sleep) // a lookup's update does not wait
        loops.expedited = run_expedited<R>;
    return loops;
}

} // namespace place0
} // namespace reader

// lw_reader_srcu_fast is the loop at the first place, lw_reader1_srcu_fast at the second.
#define LW_ROW(name, operation, order, bits, needs)                                                 \
    extern "C" [[gnu::noinline, gnu::aligned(64)]] void lw_reader_##name(Loop_args &args) {         \
        run_sections<reader::name, false>(args);                                                    \
    }                                                                                               \
    extern "C" [[gnu::noinline, gnu::aligned(64)]] void lw_reader_checked_##name(Loop_args &args) { \
        run_sections<reader::name, true>(args);                                                     \
    }
#include "wire/forms/readers.def"
#undef LW_ROW

namespace {

constexpr auto all_loops = std::to_array<Reader_loops>({
#define LW_ROW(name, operation, order, bits, needs) \
    reader::loops_of<reader::name>(#name, lw_reader_##name, lw_reader_checked_##name),
#include "wire/forms/readers.def"
#undef LW_ROW
});

} // namespace

template <> std::span<const Reader_loops> reader_loops_at<0>() { return all_loops; }

} // namespace lw::probe
