// SPDX-License-Identifier: MIT
// Programs with planted sharing, one kind for each name: what `linewright find` must, and must not, report of each.
//
// planted KIND THREADS SECONDS. Every kind keeps all its threads busy for the time, on a busy machine for longer: at least
// until they have had half of that time of the CPUs. Variables carry the names that the tests ask for.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <shared_mutex>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#ifdef WITH_LINEWRIGHT // not where a test compiles this file alone, for another architecture
#include <linewright/percpu.h>
#endif

namespace {

constexpr unsigned most_threads = 64;
constexpr unsigned most_idle = 20'000; // of kind `many`, whose other threads sleep
constexpr std::size_t apart = 256; // bytes between what is private to threads
constexpr unsigned most_lines = 4096; // of kind `scattered`, which shares all of them

struct alignas(apart) Line {
    std::uint64_t words[apart / 8];
};

// C linkage and external: the symbol table carries exactly these names.
extern "C" {
Line true_counter;
Line false_counters[(most_threads + 7) / 8];
Line plain_counters[(most_threads + 7) / 8];
Line private_counters[most_threads];
Line read_table;
Line flag_line;
Line planted_spin;
Line cpu_slots[most_threads];
Line handed_line;
Line striped_cells[most_threads];
Line fenced_words[(most_threads + 7) / 8];
Line scattered_table[most_lines];
struct Sums {
    std::uint64_t s, sx, sy, sxx, sxy;
} thread_sums[most_threads];
#ifdef WITH_LINEWRIGHT
lw_counter cpu_counter;
#endif
}
pthread_mutex_t planted_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t planted_rwlock = PTHREAD_RWLOCK_INITIALIZER;
std::mutex planted_std_mutex;
std::shared_mutex planted_shared_mutex;
thread_local std::uint64_t own_counter;

struct alignas(apart) Stop : std::atomic<bool> {}; // on a line of its own, which all threads read
Stop stop;
constexpr unsigned batch = 1000;

std::uint64_t &word(Line *lines, unsigned thread) { return lines[thread / 8].words[thread % 8]; }
void locked_add(std::uint64_t &to) { __atomic_fetch_add(&to, 1, __ATOMIC_SEQ_CST); }
void plain_add(std::uint64_t &to) {
    volatile std::uint64_t *at = &to;
    *at = *at + 1;
}

double cpu_seconds(clockid_t whose) {
    timespec used;
    clock_gettime(whose, &used);
    return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

template <class Body> void until_stopped(Body body) {
    while (!stop.load(std::memory_order_relaxed))
        for (unsigned i = 0; i < batch; i++)
            body();
}

void true_sharing(unsigned) {
    until_stopped([to = true_counter.words] { locked_add(*to); });
}
void false_sharing(unsigned thread) {
    until_stopped([to = &word(false_counters, thread)] { locked_add(*to); });
}
void neighbouring_lines(unsigned thread) { // the last word of one line and the first of the next, in one 128-byte line
    until_stopped([to = &true_counter.words[7 + thread % 2]] { locked_add(*to); });
}
void false_plain(unsigned thread) {
    until_stopped([to = &word(plain_counters, thread)] { plain_add(*to); });
}
// The store costs nothing to see: the fence behind it waits for the line.
void fenced(unsigned thread) {
    until_stopped([to = &word(fenced_words, thread)] {
        plain_add(*to);
        __sync_synchronize(); // gcc refuses __atomic_thread_fence under ThreadSanitizer
    });
}
// A table whose lines are all shared and each of which is met seldom; `scattered_own`: a part of it for each thread.
template <class Lines> void scatter(unsigned thread, Lines lines) {
    until_stopped([lines, x = thread + 1u]() mutable {
        x = x * 1664525 + 1013904223;
        locked_add(scattered_table[lines(x >> 20)].words[0]);
    });
}
void scattered_own(unsigned thread) {
    unsigned part = most_lines / (thread < 2 ? 2 : most_threads);
    scatter(thread, [=](unsigned at) { return thread * part + at % part; });
}
void scattered(unsigned thread) {
    scatter(thread, [](unsigned at) { return at; });
}
// Sums in memory, as a compiler without optimisation keeps them: the stalls of one store surface at others
// (linear_regression of a published set of programs).
void sums(unsigned thread) {
    volatile Sums *to = &thread_sums[thread];
    until_stopped([to, x = std::uint64_t{thread}]() mutable {
        x = x * 6364136223846793005 + 1;
        std::uint64_t y = x >> 33, z = x & 255;
        to->s = to->s + 1;
        to->sx = to->sx + y;
        to->sy = to->sy + z;
        to->sxx = to->sxx + y * y;
        to->sxy = to->sxy + y * z;
    });
}
void private_lines(unsigned thread) {
    until_stopped([to = &private_counters[thread].words[0]] { locked_add(*to); });
}
void private_plain(unsigned thread) {
    until_stopped([to = &private_counters[thread].words[0]] { plain_add(*to); });
}
void read_shared(unsigned) {
    volatile std::uint64_t *from = read_table.words;
    until_stopped([&] { own_counter += from[own_counter % 8]; });
}
void reader_and_writer(unsigned thread) {
    volatile std::uint64_t *flag = flag_line.words;
    if (thread == 0)
        until_stopped([&] { flag[0] = flag[0] + 1; });
    else
        until_stopped([&] { own_counter += flag[0]; });
}
void mutex_lock(unsigned) {
    until_stopped([] {
        pthread_mutex_lock(&planted_mutex);
        plain_add(own_counter);
        pthread_mutex_unlock(&planted_mutex);
    });
}
void rwlock_read(unsigned) {
    until_stopped([] {
        pthread_rwlock_rdlock(&planted_rwlock);
        plain_add(own_counter);
        pthread_rwlock_unlock(&planted_rwlock);
    });
}
void std_mutex(unsigned) {
    until_stopped([] {
        std::lock_guard hold(planted_std_mutex);
        plain_add(own_counter);
    });
}
void shared_mutex_read(unsigned) {
    until_stopped([] {
        std::shared_lock hold(planted_shared_mutex);
        plain_add(own_counter);
    });
}
void stack_private(unsigned) {
    std::uint64_t mine = 0;
    until_stopped([&] { locked_add(mine); });
}
// The first thread's own variable, which it reaches by the thread register and the others by a pointer.
std::atomic<std::uint64_t *> first_threads;
std::atomic<unsigned> others;
template <class Body> void first_ones(unsigned thread, std::uint64_t *(*mine)(), Body add) {
    if (thread == 0) {
        first_threads.store(mine());
        until_stopped(add);
        while (others.load()) // its variable must outlive them
            std::this_thread::yield();
        return;
    }
    others.fetch_add(1);
    while (!first_threads.load())
        std::this_thread::yield();
    until_stopped([to = first_threads.load()] { locked_add(*to); });
    others.fetch_sub(1);
}
void tls_shared(unsigned thread) {
    first_ones(thread, [] { return &own_counter; }, [] { locked_add(own_counter); });
}

// A lock that no library knows: one word, exchanged until it was free.
void own_lock(unsigned) {
    until_stopped([] {
        while (__atomic_exchange_n(&planted_spin.words[0], 1, __ATOMIC_ACQUIRE))
            while (__atomic_load_n(&planted_spin.words[0], __ATOMIC_RELAXED) && !stop.load(std::memory_order_relaxed))
                std::this_thread::yield();
        plain_add(planted_spin.words[1]);
        __atomic_store_n(&planted_spin.words[0], 0, __ATOMIC_RELEASE);
    });
}

// From a library that is loaded while the program runs, beside it (plugin.c).
template <class Function> Function *from_library(const char *name) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    std::string folder(path, length < 0 ? 0 : static_cast<std::size_t>(length));
    folder.resize(folder.rfind('/'));
    void *library = dlopen((folder + "/libfind_plugin.so").c_str(), RTLD_NOW);
    auto *found = library ? reinterpret_cast<Function *>(dlsym(library, name)) : nullptr;
    return found ? found : (std::fprintf(stderr, "%s\n", dlerror()), std::exit(3), nullptr);
}
void loaded_later(unsigned) {
    static auto *add = from_library<void(unsigned long)>("plugin_add");
    while (!stop.load(std::memory_order_relaxed))
        add(batch);
}
std::uint64_t *own_of_library;
void tls_library(unsigned thread) {
    auto mine = [] { return own_of_library = from_library<std::uint64_t *()>("plugin_own_counter")(); };
    first_ones(thread, mine, [] { locked_add(*own_of_library); });
}

void tls_private(unsigned) {
    until_stopped([to = &own_counter] { locked_add(*to); });
}

std::uint64_t *heap_block;
void heap_sharing(unsigned) {
    until_stopped([] { locked_add(heap_block[1]); });
}
void heap_fields(unsigned thread) { // false sharing within one block, which padding blocks cannot end
    until_stopped([to = heap_block + thread % 8] { locked_add(*to); });
}
std::uint64_t *heap_neighbours[most_threads];
void heap_false(unsigned thread) {
    until_stopped([to = heap_neighbours[thread]] { locked_add(*to); });
}

// Code without a file: `lock incq (%rdi)` or its arm64 counterpart in anonymous memory, called in a loop.
using Jitted = void (*)(std::uint64_t *, std::uint64_t);
Jitted jitted() {
#if defined(__x86_64__)
    // 1: lock incq (%rdi); dec %rsi; jnz 1b; ret
    const unsigned char code[] = {0xF0, 0x48, 0xFF, 0x07, 0x48, 0xFF, 0xCE, 0x75, 0xF7, 0xC3};
#else
    // 1: ldaxr x2,[x0]; add x2,x2,#1; stlxr w3,x2,[x0]; cbnz w3,1b; subs x1,x1,#1; b.ne 1b; ret
    const std::uint32_t code[] = {0xC85FFC02, 0x91000442, 0xC803FC02, 0x35FFFFA3, 0xF1000421, 0x54FFFF61, 0xD65F03C0};
#endif
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memcpy(page, code, sizeof code);
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    __builtin___clear_cache(static_cast<char *>(page), static_cast<char *>(page) + sizeof code);
    return reinterpret_cast<Jitted>(page);
}
Jitted anonymous_code;
void jit(unsigned) {
    while (!stop.load(std::memory_order_relaxed))
        anonymous_code(true_counter.words, batch);
}

void pool(unsigned) { // a queue of jobs as thread pools have them: one lock, one list
    static std::vector<int> jobs;
    until_stopped([] {
        std::lock_guard hold(planted_std_mutex);
        if (jobs.size() < 64)
            jobs.push_back(1);
        else
            jobs.clear();
    });
}

// Every thread uses every line, and none moves: a counter per CPU, slots chosen by CPU, threads that one CPU runs.
#ifdef WITH_LINEWRIGHT
void percpu_counter(unsigned) {
    until_stopped([] { lw_counter_inc(&cpu_counter); });
}
#endif
void slot_of_cpu(unsigned) {
    until_stopped([] { locked_add(cpu_slots[static_cast<unsigned>(sched_getcpu()) % most_threads].words[0]); });
}
void stay_on(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}
void one_cpu(unsigned) {
    stay_on(0);
    true_sharing(0);
}
// A job that threads on two CPUs work on in turn, 10 ms or 10 us each: its line moves once a turn.
Line whose_turn;
template <class Wait> void hand_over(unsigned thread, double turn_s, Wait wait) {
    stay_on(static_cast<int>(thread % 2));
    std::uint64_t *turn = whose_turn.words;
    while (!stop.load(std::memory_order_relaxed)) {
        if (__atomic_load_n(turn, __ATOMIC_ACQUIRE) % 2 != thread % 2) {
            wait();
            continue;
        }
        for (double begin = cpu_seconds(CLOCK_MONOTONIC); cpu_seconds(CLOCK_MONOTONIC) < begin + turn_s;)
            for (unsigned i = 0; i < 500; i++)
                locked_add(handed_line.words[0]);
        __atomic_fetch_add(turn, 1, __ATOMIC_RELEASE);
    }
}
void handed_over(unsigned thread) {
    hand_over(thread, 10e-3, [] { std::this_thread::sleep_for(std::chrono::microseconds(200)); });
}
void handed_over_fast(unsigned thread) {
    hand_over(thread, 10e-6, [] {}); // it looks again at once
}
// Striped adders: each thread has a cell, and goes on to the next one when it meets another thread there.
void striped(unsigned thread) {
    until_stopped([at = thread * 2654435761u >> 16]() mutable {
        std::uint64_t *cell = striped_cells[at % most_threads].words, seen = *cell;
        at += !__atomic_compare_exchange_n(cell, &seen, seen + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
    });
}

// Samples and turns come with CPU time, which other programs take a part of.
void wait_for(unsigned threads, double seconds) {
    constexpr double enough = 0.5, patience = 20;
    double wanted = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) +
                    enough * seconds * std::min(threads, std::max(1u, std::thread::hardware_concurrency()));
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    for (double waited = seconds; waited < patience * seconds && cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) < wanted;
         waited += 0.02)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

void run_threads(unsigned threads, double seconds, const std::function<void(unsigned)> &body) {
    std::vector<std::thread> running;
    for (unsigned i = 0; i < threads; i++)
        running.emplace_back(body, i);
    wait_for(threads, seconds);
    stop.store(true);
    for (std::thread &thread : running)
        thread.join();
}

// Processes that share anonymous memory, as servers with forked workers do.
void run_processes(unsigned processes, double seconds) {
    void *shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (unsigned i = 0; i < processes; i++)
        if (fork() == 0) {
            run_threads(1, seconds,
                        [&](unsigned) { until_stopped([&] { locked_add(*static_cast<std::uint64_t *>(shared)); }); });
            _exit(0);
        }
    while (wait(nullptr) > 0) {
    }
}

// Threads one after the other, whose stacks lie at one address: no two ever run together.
void run_in_turn(unsigned threads, double seconds) {
    for (unsigned i = 0; i < threads; i++) {
        stop.store(false);
        run_threads(1, seconds / threads, stack_private);
    }
}

// Very many threads, all but two of them asleep.
void run_many(unsigned threads, double seconds) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&held);
    std::vector<pthread_t> asleep(threads);
    std::size_t made = 0;
    auto sleep = [](void *) -> void * { return pthread_mutex_lock(&held), pthread_mutex_unlock(&held), nullptr; };
    while (made < threads && pthread_create(&asleep[made], &small, sleep, nullptr) == 0)
        made++;
    std::fprintf(stderr, "%zu threads\n", made);
    run_threads(2, seconds, true_sharing);
    pthread_mutex_unlock(&held);
    for (std::size_t i = 0; i < made; i++)
        pthread_join(asleep[i], nullptr);
}

const std::map<std::string, void (*)(unsigned)> kinds = {{"true", true_sharing},
                                                         {"false", false_sharing},
                                                         {"neighbouring_lines", neighbouring_lines},
                                                         {"false_plain", false_plain},
                                                         {"private", private_lines},
                                                         {"private_plain", private_plain},
                                                         {"read_shared", read_shared},
                                                         {"reader_writer", reader_and_writer},
                                                         {"mutex", mutex_lock},
                                                         {"rwlock", rwlock_read},
                                                         {"std_mutex", std_mutex},
                                                         {"shared_mutex", shared_mutex_read},
                                                         {"stack", stack_private},
                                                         {"tls", tls_private},
                                                         {"tls_shared", tls_shared},
                                                         {"tls_library", tls_library},
                                                         {"own_lock", own_lock},
                                                         {"dlopen", loaded_later},
                                                         {"heap", heap_sharing},
                                                         {"heap_false", heap_false},
                                                         {"heap_fields", heap_fields},
                                                         {"jit", jit},
                                                         {"pool", pool},
#ifdef WITH_LINEWRIGHT
                                                         {"percpu_counter", percpu_counter},
#endif
                                                         {"slot_of_cpu", slot_of_cpu},
                                                         {"one_cpu", one_cpu},
                                                         {"fenced", fenced},
                                                         {"scattered", scattered},
                                                         {"scattered_own", scattered_own},
                                                         {"sums", sums},
                                                         {"handed_over", handed_over},
                                                         {"handed_over_fast", handed_over_fast},
                                                         {"striped", striped}};

[[gnu::noinline]] std::uint64_t *allocate_planted() { return static_cast<std::uint64_t *>(std::malloc(24)); }

} // namespace

int main(int argc, char **argv) {
    if (argc != 4)
        return std::fprintf(stderr, "planted KIND THREADS SECONDS\n"), 2;
    std::string kind = argv[1];
    auto threads = static_cast<unsigned>(std::atoi(argv[2]));
    double seconds = std::atof(argv[3]);
    if (threads < 1 || threads > (kind == "many" ? most_idle : most_threads))
        return 2;
    heap_block = static_cast<std::uint64_t *>(std::aligned_alloc(256, 256));
    for (auto &block : heap_neighbours)
        block = allocate_planted();
    // The first two must share a line, wherever malloc had room for them.
    auto line = [](std::uint64_t *block) { return reinterpret_cast<std::uintptr_t>(block) / 64; };
    auto pair = std::adjacent_find(std::begin(heap_neighbours), std::end(heap_neighbours),
                                   [&](auto *one, auto *two) { return line(one) == line(two); });
    std::rotate(std::begin(heap_neighbours), pair, std::end(heap_neighbours));
    anonymous_code = jitted();
#ifdef WITH_LINEWRIGHT
    if (lw_counter_init(&cpu_counter))
        return 3;
#endif
    if (kind == "fork")
        run_processes(threads, seconds);
    else if (kind == "many")
        run_many(threads, seconds);
    else if (kind == "turns")
        run_in_turn(threads, seconds);
    else if (auto found = kinds.find(kind); found != kinds.end())
        run_threads(threads, seconds, found->second);
    else
        return 2;
    return 0;
}
