// What a critical section costs under each readers-writer lock, by threads, share of writers, length of the section and number of
// locks, in one run: windows of 10 ms, every lock in turn, in shuffled order, many rounds. A section reads, or changes, two words that
// belong together; the run ends with an error if a reader ever sees them differ or a write is lost.
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

constexpr int rounds = 21;
constexpr auto window = std::chrono::milliseconds(10);

// The CPUs that the program may use; first asked for before any thread is kept to one.
const cpu_set_t &allowed() {
    static const cpu_set_t cpus = [] {
        cpu_set_t set;
        sched_getaffinity(0, sizeof set, &set);
        return set;
    }();
    return cpus;
}
unsigned cpu_count() { return static_cast<unsigned>(CPU_COUNT(&allowed())); }

// Keeps the calling thread to one of them.
void stay_on(unsigned number) {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (unsigned cpu = 0, wanted = number % cpu_count();; cpu++)
        if (CPU_ISSET(cpu, &allowed()) && wanted-- == 0) {
            CPU_SET(cpu, &one);
            break;
        }
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

struct Situation {
    unsigned threads, per_myriad; // of ten thousand sections, those that write
    unsigned links; // dependent additions inside a section
    unsigned locks; // each section takes one of so many, at random
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

    explicit Run(const Situation &s) : situation(s), guarded(s.locks) {}

    static void work(unsigned links) {
        for (unsigned long x = 1; links; links--)
            lw_dependent_add(&x, x);
    }

    void section(unsigned random, long &writes) {
        Guarded &at = guarded[situation.locks == 1 ? 0 : (random >> 16) % situation.locks];
        if ((random >> 8) % 10000 < situation.per_myriad) {
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
        stay_on(thread);
        unsigned random = thread + 1;
        long done = 0, writes = 0;
        ready++;
        while (!go.load())
            sched_yield();
        while (!stop.load(std::memory_order_relaxed))
            for (int i = 0; i < 64; i++, done++) {
                random = random * 1664525 + 1013904223;
                section(random, writes);
            }
        written += writes;
        return done;
    }

    // ns of a thread's time per critical section, in one window; the locks are those of the window before
    double window_ns() {
        go = stop = false;
        ready = 0;
        std::vector<long> done(situation.threads);
        std::vector<std::thread> running;
        for (unsigned t = 0; t < situation.threads; t++)
            running.emplace_back([&, t] { done[t] = sections(t); });
        while (ready.load() != static_cast<int>(situation.threads))
            sched_yield();
        const auto begin = std::chrono::steady_clock::now();
        go = true;
        std::this_thread::sleep_for(window);
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
        return took.count() * situation.threads / static_cast<double>(std::accumulate(done.begin(), done.end(), 0L));
    }
};

struct Peer {
    const char *name;
    bool writers;
    std::size_t bytes;
    std::function<double()> (*prepare)(const Situation &);
};
template <class Lock> Peer peer(bool writers = true) {
    return {Lock::name, writers, sizeof(Lock), [](const Situation &s) -> std::function<double()> {
                const auto run = std::make_shared<Run<Lock>>(s);
                return [run] { return run->window_ns(); };
            }};
}

double quantile(std::vector<double> v, double q) {
    std::sort(v.begin(), v.end());
    return v[static_cast<std::size_t>(q * static_cast<double>(v.size() - 1) + 0.5)];
}

void print_situation(const std::vector<Peer> &peers, const Situation &s) {
    static std::mt19937 shuffle(1);
    std::vector<std::function<double()>> windows;
    for (const Peer &peer : peers)
        windows.push_back(peer.prepare(s));
    std::vector<std::vector<double>> ns(peers.size());
    std::vector<std::size_t> order(peers.size());
    std::iota(order.begin(), order.end(), 0u);
    for (int r = 0; r < rounds; r++) {
        std::shuffle(order.begin(), order.end(), shuffle);
        for (std::size_t p : order)
            if (peers[p].writers || s.per_myriad == 0)
                ns[p].push_back(windows[p]());
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
        std::printf("  %-20s %8.2f   %5.2f (%.2f to %.2f)\n", peers[p].name, quantile(ns[p], 0.5), quantile(ratio, 0.5),
                    quantile(ratio, 0.25), quantile(ratio, 0.75));
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
    for (int i = 0; i < 201; i++) {
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

} // namespace

int main() {
    const std::vector<Peer> peers = {peer<Pthread>(),      peer<Std>(),        peer<Ours>(),
                                     peer<Padded>(),       peer<Interposed>(),
#ifdef LW_TBB
                                     peer<Tbb>(),
#endif
                                     peer<Percpu_rwsem>(), peer<Srcu>(false),  peer<None>(false)};
    std::printf(
        "ns of a thread's time per critical section: median of %d windows of 10 ms; ratio to pthread's in the same round, "
        "quartiles\n",
        rounds);
    for (unsigned threads = 1; threads <= cpu_count(); threads *= 2) {
        for (unsigned per_myriad : {0u, 1u, 10u, 100u, 1000u, 10000u})
            print_situation(peers, {threads, per_myriad, 0, 1});
        for (unsigned per_myriad : {0u, 10u, 1000u}) {
            print_situation(peers, {threads, per_myriad, 200, 1});
            print_situation(peers, {threads, per_myriad, 0, 1000});
        }
    }
    print_revocation(false);
    print_revocation(true);
    for (const Peer &peer : peers)
        std::printf("%s: %zu bytes\n", peer.name, peer.bytes);
    return 0;
}
