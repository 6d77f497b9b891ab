// SPDX-License-Identifier: MIT
// Threads that compute, one on each of some CPUs, at the priority of the threads that want these CPUs for locks: holders are preempted.
#pragma once

#include "workload/worker.hpp"

#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>
#include <vector>

#include <pthread.h>

namespace lw::workload {

// Pins the calling thread; false when the kernel refuses.
bool pin_to(unsigned cpu);

class Competitors {
public:
    // All run when it returns.
    void start(const std::vector<unsigned> &cpus) {
        for (unsigned cpu : cpus)
            threads_.emplace_back([this, cpu](std::stop_token stop) {
                if (!pin_to(cpu))
                    unpinned_.store(true, std::memory_order_relaxed);
                running_.fetch_add(1, std::memory_order_release); // pairs with the acquire below
                while (!stop.stop_requested())
                    compute(1000);
            });
        while (running_.load(std::memory_order_acquire) < threads_.size()) // unpinned_ is seen
            std::this_thread::yield();
        if (unpinned_)
            throw std::system_error(EINVAL, std::generic_category(), "a competitor could not be pinned");
    }

    void stop() {
        for (std::jthread &thread : threads_)
            thread.request_stop();
        threads_.clear();
    }

    // CPU time of those that run.
    double cpu_ns() {
        double sum = 0;
        for (std::jthread &thread : threads_) {
            clockid_t clock{};
            timespec spent{};
            if (pthread_getcpuclockid(thread.native_handle(), &clock) == 0 && clock_gettime(clock, &spent) == 0)
                sum += static_cast<double>(spent.tv_sec) * 1e9 + static_cast<double>(spent.tv_nsec);
        }
        return sum;
    }

private:
    std::atomic<bool> unpinned_{false};
    std::atomic<std::size_t> running_{0};
    std::vector<std::jthread> threads_; // last, since they use what is above
};

} // namespace lw::workload
