// SPDX-License-Identifier: MIT
// Threads that wait for a word in a loop, one cause for each name: what `linewright find` must say of it.
//
// waits CAUSE SECONDS [LOCK]: preempted (a competitor shares the CPU of a thread that often has the lock), convoy (twice as
// many threads as CPUs queue for it), section (one that runs has it for long), asleep (it sleeps meanwhile), handed (nothing
// is done under it). LOCK: load (waiting threads read the word), exchange (they exchange it), call (they call a function
// between two looks), ticket (the one that came first is next).
#include <atomic>
#include <csignal>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <sched.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" {
alignas(256) std::uint32_t waited_word;
}

namespace {

std::atomic<bool> stop;

void hint() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

alignas(256) std::uint32_t next_ticket;

bool taken() { return __atomic_exchange_n(&waited_word, 1, __ATOMIC_ACQUIRE); }
bool seen() { return __atomic_load_n(&waited_word, __ATOMIC_RELAXED); }

void by_load() {
    while (taken())
        while (seen())
            hint();
}
void by_exchange() {
    while (taken())
        hint();
}
[[gnu::noinline]] void pause_for(unsigned *rounds) {
    hint();
    *rounds += 1;
}
void by_call() {
    unsigned rounds = 0;
    while (seen() || taken())
        pause_for(&rounds);
}
void by_ticket() {
    std::uint32_t mine = __atomic_fetch_add(&next_ticket, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&waited_word, __ATOMIC_ACQUIRE) != mine)
        hint();
}
const std::map<std::string, void (*)()> locks = {
    {"load", by_load}, {"exchange", by_exchange}, {"call", by_call}, {"ticket", by_ticket}};

void release(void (*take)()) {
    std::uint32_t next = take == by_ticket ? __atomic_load_n(&waited_word, __ATOMIC_RELAXED) + 1 : 0;
    __atomic_store_n(&waited_word, next, __ATOMIC_RELEASE);
}

// Straight work of about this many ns, in registers: a tick of a timer falls into it as into any code.
[[gnu::noinline]] void under_lock(unsigned ns) {
    for (unsigned i = 0; i < ns; i++)
        asm volatile("" : "+r"(i));
}
// Downwards, since compilers make one function of two that are alike: then nothing tells inside from outside.
[[gnu::noinline]] void outside(unsigned ns) {
    for (unsigned i = ns; i > 0; i--)
        asm volatile("" : "+r"(i));
}

void stay_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set); // refused where another's cpuset rules: then the kernel chooses
}

struct Cause {
    unsigned section_ns, outside_ns, asleep_us;
    bool competitor;
    unsigned per_cpu = 1; // threads; of more than one none is kept on its CPU
};
const std::map<std::string, Cause> causes = {
    {"preempted", {20'000, 100'000, 0, true}},
    {"convoy", {20'000, 20'000, 0, false, 2}},
    {"section", {200'000, 50'000, 0, false}},
    {"asleep", {2'000, 2'000, 2'000, false}},
    {"handed", {0, 0, 0, false}},
};

void work(const Cause &cause, void (*take)(), int cpu) {
    if (cause.per_cpu == 1)
        stay_on(cpu);
    while (!stop.load(std::memory_order_relaxed)) {
        take();
        under_lock(cause.section_ns);
        if (cause.asleep_us)
            usleep(cause.asleep_us);
        release(take);
        outside(cause.outside_ns);
    }
}

} // namespace

int main(int count, char **words) {
    auto found = causes.find(count >= 3 ? words[1] : "");
    auto lock = locks.find(count == 4 ? words[3] : "load");
    if (found == causes.end() || lock == locks.end()) {
        std::fprintf(stderr, "waits preempted|convoy|section|asleep|handed SECONDS [load|exchange|call|ticket]\n");
        return 2;
    }
    pid_t competitor = found->second.competitor ? fork() : -1;
    if (competitor == 0) {
        stay_on(0);
        while (true)
            hint();
    }
    unsigned number = found->second.per_cpu == 1 ? 2 : found->second.per_cpu * std::thread::hardware_concurrency();
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < number; i++)
        threads.emplace_back(work, std::cref(found->second), lock->second, i);
    std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(words[2])));
    stop = true;
    for (std::thread &thread : threads)
        thread.join();
    if (competitor > 0) {
        kill(competitor, SIGKILL);
        waitpid(competitor, nullptr, 0);
    }
}
