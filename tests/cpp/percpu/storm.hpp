// SPDX-License-Identifier: MIT
// Disturbances for proofs on per-CPU operations: threads that migrate, interrupt and restart the workers.
#pragma once

#include <linewright/percpu.h>

#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

namespace storm {

inline std::vector<int> allowed_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::vector<int> cpus;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &set))
                cpus.push_back(cpu);
    return cpus;
}

inline void pin(pid_t tid, const std::vector<int> &cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : cpus)
        CPU_SET(cpu, &set);
    sched_setaffinity(tid, sizeof set, &set);
}

// The calling thread, to one CPU; allocates nothing, for signal handlers.
inline void move_to(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

// Removes the calling thread's registration, the libc's or the library's; its operations use the fall-back from then on.
inline bool unregister_this_thread() {
#if LW_HAVE_RSEQ
    if (!lw_percpu_thread_registered())
        return false;
    char *area = lw__thread_pointer() + lw_percpu_rt.offset;
    const bool gone = syscall(__NR_rseq, area, 32, 1, LW_RSEQ_SIG) == 0 || syscall(__NR_rseq, area, 64, 1, LW_RSEQ_SIG) == 0;
    return gone && !lw_percpu_thread_registered();
#else
    return false;
#endif
}

// From now on the system call fails with EPERM for the calling thread. False: the kernel does not take such filters here.
inline bool deny_this_thread(unsigned call) {
    sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog filter = {sizeof steps / sizeof *steps, steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

struct Worker {
    pthread_t thread;
    std::atomic<pid_t> tid{0};
};

// What happens around the workers while they run.
struct Weather {
    bool migrate = false;
    bool signals = false;
    bool membarrier = false;
    bool fork = false;
    bool shrink = false; // all threads end up on one CPU half-way
    bool half_unregistered = false;
};

// Whether a forked child ends by itself with code 0 from `on_fork`.
template <typename Child> bool child_succeeds(Child on_fork) {
    pid_t child = ::fork();
    if (child == 0) {
        alarm(200); // a child that waits for a thread it does not have
        _exit(on_fork());
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

// Runs `body(index, stop)` in `count` threads for `length` under the given weather; bodies return when `stop` is set, or
// earlier. `on_fork` runs in forked children and returns their exit code. Returns the number of children that failed.
template <typename Body, typename Child>
int run(int count, std::chrono::milliseconds length, const Weather &weather, Body body, Child on_fork) {
    std::vector<Worker> workers(static_cast<size_t>(count));
    std::atomic<bool> go{false}, stop{false}, leave{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < count; i++)
        threads.emplace_back([&, i] {
            if (weather.half_unregistered && i % 2)
                unregister_this_thread();
            workers[static_cast<size_t>(i)].thread = pthread_self();
            workers[static_cast<size_t>(i)].tid = static_cast<pid_t>(syscall(SYS_gettid));
            while (!go)
                sched_yield();
            body(i, static_cast<const std::atomic<bool> &>(stop));
            while (!leave) // stays a valid target for signals
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
        });
    for (auto &w : workers)
        while (!w.tid)
            sched_yield();

    const std::vector<int> cpus = allowed_cpus();
    const auto begin = std::chrono::steady_clock::now();
    auto passed = [&] { return std::chrono::steady_clock::now() - begin; };
    int failed = 0;
    unsigned round = 0;
    bool shrunk = false;
    go = true;
    while (passed() < length || round < workers.size()) { // each has its weather, however little of the time this thread got
        Worker &w = workers[round % workers.size()];
        if (weather.signals)
            pthread_kill(w.thread, SIGUSR1);
        if (weather.migrate && !shrunk)
            pin(w.tid, {cpus[(round / workers.size()) % cpus.size()]});
        if (weather.membarrier) {
            syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0);
            syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, MEMBARRIER_CMD_FLAG_CPU,
                    cpus[round % cpus.size()]);
        }
        if (weather.fork && round % 64 == 0)
            failed += !child_succeeds(on_fork);
        if (weather.shrink && !shrunk && passed() > length / 2) {
            shrunk = true;
            for (auto &each : workers)
                pin(each.tid, {cpus.front()});
        }
        round++;
        if (!(weather.signals || weather.migrate || weather.membarrier))
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    stop = true;
    leave = true;
    for (auto &t : threads)
        t.join();
    return failed;
}

} // namespace storm
