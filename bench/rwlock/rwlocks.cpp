// SPDX-License-Identifier: MIT
// What a critical section costs under each readers-writer lock, by threads, share of writers, length of the section and number of
// locks, in one run: windows of 10 ms (50 where there are more threads than CPUs), every lock in turn, in shuffled order, many rounds. A
// section reads, or changes, two words that belong together; the run ends with an error if a reader ever sees them differ or a write is
// lost. Which lock a section takes and whether it writes are drawn independently.
#include "../brief.h"
#include "../cpus.hpp"

#include <linewright/arch/measure.h>
#include <linewright/rwlock.h>
#include <linewright/srcu.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <functional>
#include <linux/membarrier.h>
#include <memory>
#include <mutex>
#include <numeric>
#include <pthread.h>
#include <random>
#include <sched.h>
#include <shared_mutex>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#ifdef LW_TBB
#include <tbb/spin_rw_mutex.h>
#endif

namespace {

const int rounds = lw_bench_times(21, 1);

// What this program's own threads have spent in membarrier, in ns: all calls, whatever they are made for. (The preloaded library, which
// is loaded by dlopen(), calls the C library's syscall() and is not counted.)
std::atomic<long> in_membarrier{0};

// The CPUs that the program may use; first asked for before any thread is kept to one.
const std::vector<unsigned> &allowed() {
    static const std::vector<unsigned> cpus = lw_bench_cpus();
    return cpus;
}
unsigned cpu_count() { return static_cast<unsigned>(allowed().size()); }

// Keeps the calling thread to one of them.
void stay_on(unsigned number) { lw_bench_stay_on(allowed()[number % cpu_count()]); }

struct Situation {
    unsigned threads, per_myriad; // of ten thousand sections, those that write
    unsigned links; // dependent additions inside a section
    unsigned locks; // each section takes one of so many, at random
    bool crowded() const { return threads > cpu_count(); }
    std::chrono::milliseconds window() const { return std::chrono::milliseconds(lw_bench_times(crowded() ? 50 : 10, 1)); }
};

// Steele, Lea and Flood's SplitMix64: every bit of an output depends on every bit of the state, so its halves serve for two draws.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed << 40) {}
    std::uint64_t operator()() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }
    // Of `count` numbers one, by 32 bits of an output.
    static unsigned one_of(unsigned count, std::uint32_t bits) {
        return static_cast<unsigned>(std::uint64_t{bits} * count >> 32);
    }

private:
    std::uint64_t state_;
};

struct Words {
    volatile long first = 0, second = 0;
};

struct Ours {
    static constexpr const char *name = "lw_rwlock";
    lw_rwlock lock = LW_RWLOCK_INIT;
    template <class F> void read(F f) {
        if (lw_rwlock_read_lock(&lock))
            std::abort();
        f();
        (void)lw_rwlock_read_unlock(&lock);
    }
    template <class F> void write(F f) {
        if (lw_rwlock_write_lock(&lock))
            std::abort();
        f();
        (void)lw_rwlock_write_unlock(&lock);
    }
};

// With as many bytes as pthread's, so that the data behind it lie as there: the second word is then on the next line.
struct Padded : Ours {
    static constexpr const char *name = "lw_rwlock, padded";
    char padding[sizeof(pthread_rwlock_t) - sizeof(lw_rwlock)];
};

struct Pthread {
    static constexpr const char *name = "pthread_rwlock";
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    template <class F> void read(F f) {
        pthread_rwlock_rdlock(&lock);
        f();
        pthread_rwlock_unlock(&lock);
    }
    template <class F> void write(F f) {
        pthread_rwlock_wrlock(&lock);
        f();
        pthread_rwlock_unlock(&lock);
    }
};

struct Std {
    static constexpr const char *name = "std::shared_mutex";
    std::shared_mutex lock;
    template <class F> void read(F f) {
        const std::shared_lock guard(lock);
        f();
    }
    template <class F> void write(F f) {
        const std::unique_lock guard(lock);
        f();
    }
};

// What a program that is already built gets from the preloaded library: the same functions, called as there through a pointer.
struct Interposed {
    static constexpr const char *name = "interposed";
    using Function = int(pthread_rwlock_t *);
    static Function *function(const char *called) {
        static void *const library = dlopen(LW_INTERPOSER, RTLD_NOW | RTLD_LOCAL);
        void *const found = library ? dlsym(library, called) : nullptr;
        if (!found)
            std::abort();
        return reinterpret_cast<Function *>(found);
    }
    static inline Function *const rdlock = function("pthread_rwlock_rdlock"),
                                  *const wrlock = function("pthread_rwlock_wrlock"),
                                  *const unlock = function("pthread_rwlock_unlock");
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    template <class F> void read(F f) {
        rdlock(&lock);
        f();
        unlock(&lock);
    }
    template <class F> void write(F f) {
        wrlock(&lock);
        f();
        unlock(&lock);
    }
};

#ifdef LW_TBB
struct Tbb {
    static constexpr const char *name = "tbb::spin_rw_mutex";
    tbb::spin_rw_mutex lock;
    template <class F> void read(F f) {
        tbb::spin_rw_mutex::scoped_lock guard(lock, false);
        f();
    }
    template <class F> void write(F f) {
        tbb::spin_rw_mutex::scoped_lock guard(lock, true);
        f();
    }
};
#endif

// As the kernel's percpu_rw_semaphore: readers count on this CPU's words and look whether a writer is there, which waits for a grace
// period of theirs; then they wait for its mutex.
struct Percpu_rwsem {
    static constexpr const char *name = "per-CPU rwsem";
    lw_srcu_fast_updown domain{};
    std::mutex mutex;
    std::atomic<bool> writer{false};
    Percpu_rwsem() {
        if (lw_srcu_init(&domain))
            std::abort();
    }
    Percpu_rwsem(const Percpu_rwsem &) = delete;
    Percpu_rwsem &operator=(const Percpu_rwsem &) = delete;
    ~Percpu_rwsem() { (void)lw_srcu_cleanup(&domain); }
    template <class F> void read(F f) {
        const auto index = lw_srcu_down_read_fast(&domain);
        const bool alone = !writer.load(std::memory_order_acquire); // pairs with the stores in write()
        if (alone)
            f();
        lw_srcu_up_read_fast(&domain, index);
        if (!alone) {
            const std::lock_guard guard(mutex);
            f();
        }
    }
    template <class F> void write(F f) {
        const std::lock_guard guard(mutex);
        writer.store(true, std::memory_order_relaxed); // a reader that the grace period does not wait for sees it
        if (lw_srcu_synchronize_expedited(&domain))
            std::abort();
        f();
        writer.store(false, std::memory_order_release);
    }
};

LW_DEFINE_STATIC_SRCU(lw_srcu_fast, domain);

// The floor: readers that no writer excludes. It has no writers, and runs only where there are none.
struct Srcu {
    static constexpr const char *name = "srcu, fast readers";
    template <class F> void read(F f) {
        const auto index = lw_srcu_read_lock_fast(&domain);
        f();
        lw_srcu_read_unlock_fast(&domain, index);
    }
    template <class F> void write(F) { std::abort(); }
};

// What the loop costs without a lock.
struct None {
    static constexpr const char *name = "no lock";
    template <class F> void read(F f) { f(); }
    template <class F> void write(F) { std::abort(); }
};

struct Window {
    double ns, barriers;
};

template <class Lock> struct Run {
    struct alignas(128) Guarded {
        Lock lock;
        Words words;
    };
    const Situation situation;
    std::vector<Guarded> guarded;
    std::atomic<long> written{0};
    std::atomic<int> ready{0};
    std::atomic<bool> go{false}, stop{false}, wrong{false};

    std::atomic<unsigned> seeds{0}; // no two threads or windows draw the same

    explicit Run(const Situation &s) : situation(s), guarded(s.locks) {}

    static void work(unsigned links) {
        for (unsigned long x = 1; links; links--)
            lw_dependent_add(&x, x);
    }

    void section(std::uint64_t drawn, long &writes) {
        Guarded &at = guarded[Random::one_of(situation.locks, static_cast<std::uint32_t>(drawn >> 32))];
        if (Random::one_of(10000, static_cast<std::uint32_t>(drawn)) < situation.per_myriad) {
            at.lock.write([&] {
                at.words.first = at.words.first + 1;
                work(situation.links);
                at.words.second = at.words.second + 1;
            });
            writes++;
        } else {
            at.lock.read([&] {
                const long first = at.words.first;
                work(situation.links);
                if (first != at.words.second)
                    wrong = true;
            });
        }
    }

    long sections(unsigned thread) {
        if (!situation.crowded()) // else the kernel decides, as it does for programs
            stay_on(thread);
        Random random(++seeds);
        long done = 0, writes = 0;
        ready++;
        while (!go.load())
            sched_yield();
        while (!stop.load(std::memory_order_relaxed))
            for (int i = 0; i < 64; i++, done++)
                section(random(), writes);
        written += writes;
        return done;
    }

    // Time of the CPUs that the threads may use, run or idle, in ns per critical section, so that its inverse is throughput; and the share of it in
    // membarrier. The locks are those of the window before.
    Window window() {
        go = stop = false;
        ready = 0;
        std::vector<long> done(situation.threads);
        std::vector<std::thread> running;
        for (unsigned t = 0; t < situation.threads; t++)
            running.emplace_back([&, t] { done[t] = sections(t); });
        while (ready.load() != static_cast<int>(situation.threads))
            sched_yield();
        in_membarrier = 0;
        const auto begin = std::chrono::steady_clock::now();
        go = true;
        std::this_thread::sleep_for(situation.window());
        stop = true;
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
        for (std::thread &t : running)
            t.join();
        long first = 0, second = 0;
        for (const Guarded &at : guarded)
            first += at.words.first, second += at.words.second;
        if (wrong || first != written || second != written) {
            std::fprintf(stderr, "%s: a reader met a writer, or a write was lost\n", Lock::name);
            std::exit(1);
        }
        const double time = took.count() * std::min(situation.threads, cpu_count());
        return {time / static_cast<double>(std::accumulate(done.begin(), done.end(), 0L)),
                static_cast<double>(in_membarrier) / time};
    }
};

struct Peer {
    const char *name;
    bool writers;
    std::size_t bytes;
    std::function<Window()> (*prepare)(const Situation &);
};
template <class Lock> Peer peer(bool writers = true) {
    return {Lock::name, writers, sizeof(Lock), [](const Situation &s) -> std::function<Window()> {
                const auto run = std::make_shared<Run<Lock>>(s);
                return [run] { return run->window(); };
            }};
}

double quantile(std::vector<double> v, double q) {
    std::sort(v.begin(), v.end());
    return v[static_cast<std::size_t>(q * static_cast<double>(v.size() - 1) + 0.5)];
}

void print_situation(const std::vector<Peer> &peers, const Situation &s) {
    static std::mt19937 shuffle(1);
    std::vector<std::function<Window()>> windows;
    for (const Peer &peer : peers)
        windows.push_back(peer.prepare(s));
    std::vector<std::vector<double>> ns(peers.size()), barriers(peers.size());
    std::vector<std::size_t> order(peers.size());
    std::iota(order.begin(), order.end(), 0u);
    for (int r = 0; r < rounds; r++) {
        std::shuffle(order.begin(), order.end(), shuffle);
        for (std::size_t p : order)
            if (s.crowded() ? p + 3 < peers.size() : peers[p].writers || s.per_myriad == 0) { // the last three do not sleep
                const Window w = windows[p]();
                ns[p].push_back(w.ns);
                barriers[p].push_back(w.barriers);
            }
    }
    std::printf("%u thread%s, %.2f %% writers, %u addition%s in a section, %u lock%s\n", s.threads,
                s.threads == 1 ? "" : "s", s.per_myriad / 100.0, s.links, s.links == 1 ? "" : "s", s.locks,
                s.locks == 1 ? "" : "s");
    for (std::size_t p = 0; p < peers.size(); p++) {
        if (ns[p].empty())
            continue;
        std::vector<double> ratio;
        for (std::size_t r = 0; r < ns[p].size(); r++)
            ratio.push_back(ns[p][r] / ns[0][r]);
        std::printf("  %-20s %8.2f   %5.2f (%.2f to %.2f)", peers[p].name, quantile(ns[p], 0.5), quantile(ratio, 0.5),
                    quantile(ratio, 0.25), quantile(ratio, 0.75));
        if (s.crowded())
            std::printf("   %.2f of pthread's throughput", 1 / quantile(ratio, 0.5));
        const double share =
            std::accumulate(barriers[p].begin(), barriers[p].end(), 0.0) / static_cast<double>(barriers[p].size());
        std::printf(share > 0 ? "   %4.1f %% in membarrier\n" : "\n", 100 * share);
    }
}

// Until readers mark, which what ended other biases puts off.
void make_biased(lw_rwlock &lock) {
    while (lock.biased != LW__RW_BIASED)
        if (lw_rwlock_read_lock(&lock) || lw_rwlock_read_unlock(&lock))
            std::abort();
}

template <class F> double median_ns(F before, F timed) {
    std::vector<double> ns;
    for (int i = 0; i < lw_bench_times(201, 3); i++) {
        before();
        const auto begin = std::chrono::steady_clock::now();
        timed();
        ns.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count());
    }
    return quantile(ns, 0.5);
}

// A write lock that ends a bias beside its parts, while another thread computes on another CPU or not.
void print_revocation(bool beside) {
    lw_rwlock lock = LW_RWLOCK_INIT;
    std::atomic<bool> runs{false}, stop{false};
    stay_on(0);
    std::thread other([&] {
        stay_on(1);
        runs = true;
        while (beside && !stop.load(std::memory_order_relaxed))
            ;
    });
    const std::function<void()> nothing = [] {}, biased = [&] { make_biased(lock); },
                                barrier = [] { syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0); },
                                write = [&] {
                                    if (lw_rwlock_write_lock(&lock) || lw_rwlock_write_unlock(&lock))
                                        std::abort();
                                };
    while (!runs)
        sched_yield();
    if (!beside)
        other.join();
    const double membarrier = median_ns(nothing, barrier), plain = median_ns(nothing, write),
                 ends = median_ns(biased, write);
    std::printf("%s: membarrier %.0f ns, a writer's pair %.0f ns, one that ends a bias %.0f ns\n",
                beside ? "beside a thread that computes" : "alone", membarrier, plain, ends);
    stop = true;
    if (beside)
        other.join();
}

// Every row, in this order: threads, of ten thousand sections those that write, additions, locks.
std::vector<Situation> every_situation() {
    std::vector<Situation> all;
    for (unsigned threads : {1u, 2u})
        for (unsigned locks : {1u, 1000u}) {
            for (unsigned per_myriad : {0u, 1u, 10u, 30u, 100u, 300u, 1000u, 10000u})
                all.push_back({threads, per_myriad, 0, locks});
            for (unsigned per_myriad : {0u, 10u, 1000u})
                if (locks == 1)
                    all.push_back({threads, per_myriad, 200, locks});
        }
    for (unsigned threads : {2 * cpu_count(), 8 * cpu_count()})
        for (unsigned locks : {1u, 1000u})
            for (unsigned per_myriad : {0u, 10u, 30u, 100u, 300u, 1000u})
                all.push_back({threads, per_myriad, 0, locks});
    return all;
}

} // namespace

extern "C" long __real_syscall(long number, ...);
extern "C" long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f); // what the linker calls instead
extern "C" long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
    if (number != SYS_membarrier)
        return __real_syscall(number, a, b, c, d, e, f);
    const auto begin = std::chrono::steady_clock::now();
    const long result = __real_syscall(number, a, b, c);
    in_membarrier += static_cast<long>(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
    return result;
}

int main(int count, char **words) {
    const std::vector<Peer> peers = {peer<Pthread>(),      peer<Std>(),        peer<Ours>(),
                                     peer<Padded>(),       peer<Interposed>(),
#ifdef LW_TBB
                                     peer<Tbb>(),
#endif
                                     peer<Percpu_rwsem>(), peer<Srcu>(false),  peer<None>(false)};
    std::printf(
        "ns of the CPUs' time, idle time included, per critical section: median of %d windows; ratio to pthread's in the same round, quartiles\n",
        rounds);
    if (count == 5) { // one row, as every_situation() has them
        const auto number = [&](int i) { return static_cast<unsigned>(std::strtoul(words[i], nullptr, 10)); };
        print_situation(peers, {number(1), number(2), number(3), number(4)});
        return 0;
    }
    for (const Situation &s : every_situation())
        print_situation(peers, s);
    print_revocation(false);
    print_revocation(true);
    for (const Peer &peer : peers)
        std::printf("%s: %zu bytes\n", peer.name, peer.bytes);
    return 0;
}
