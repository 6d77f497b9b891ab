// SPDX-License-Identifier: MIT
// Threads that wait for a word in a loop, one cause for each name: what `linewright find` must say of it.
//
// waits CAUSE SECONDS: preempted (a competitor shares the CPU of a thread that often has the lock), section (one that runs
// has it for long), asleep (it sleeps meanwhile), handed (nothing is done under it).
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

void take() {
    while (__atomic_exchange_n(&waited_word, 1, __ATOMIC_ACQUIRE))
        while (__atomic_load_n(&waited_word, __ATOMIC_RELAXED))
            hint();
}
void release() { __atomic_store_n(&waited_word, 0, __ATOMIC_RELEASE); }

// Straight work of about this many ns, in registers: a tick of a timer falls into it as into any code.
[[gnu::noinline]] void under_lock(unsigned ns) {
    for (unsigned i = 0; i < ns; i++)
        asm volatile("" : "+r"(i));
}
[[gnu::noinline]] void outside(unsigned ns) {
    for (unsigned i = 0; i < ns; i++)
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
};
const std::map<std::string, Cause> causes = {
    {"preempted", {20'000, 100'000, 0, true}},
    {"section", {200'000, 50'000, 0, false}},
    {"asleep", {2'000, 2'000, 2'000, false}},
    {"handed", {0, 0, 0, false}},
};

void work(const Cause &cause, int cpu) {
    stay_on(cpu);
    while (!stop.load(std::memory_order_relaxed)) {
        take();
        under_lock(cause.section_ns);
        if (cause.asleep_us)
            usleep(cause.asleep_us);
        release();
        outside(cause.outside_ns);
    }
}

} // namespace

int main(int count, char **words) {
    auto found = causes.find(count == 3 ? words[1] : "");
    if (found == causes.end()) {
        std::fprintf(stderr, "waits preempted|section|asleep|handed SECONDS\n");
        return 2;
    }
    pid_t competitor = found->second.competitor ? fork() : -1;
    if (competitor == 0) {
        stay_on(0);
        while (true)
            hint();
    }
    std::thread threads[2];
    for (int i = 0; i < 2; i++)
        threads[i] = std::thread(work, std::cref(found->second), i);
    std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(words[2])));
    stop = true;
    for (std::thread &thread : threads)
        thread.join();
    if (competitor > 0) {
        kill(competitor, SIGKILL);
        waitpid(competitor, nullptr, 0);
    }
}
