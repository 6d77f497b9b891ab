// SPDX-License-Identifier: MIT
// The CPUs that a program of bench/ may use, and threads that stay on one of them.
#pragma once

#include <vector>

#include <sched.h>

// To be called before any thread is kept to one of them.
inline std::vector<unsigned> lw_bench_cpus() {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    sched_getaffinity(0, sizeof usable, &usable);
    std::vector<unsigned> cpus;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &usable))
            cpus.push_back(cpu);
    return cpus;
}

// Keeps the calling thread to one; false when the kernel refuses.
inline bool lw_bench_stay_on(unsigned cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}
