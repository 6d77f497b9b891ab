// SPDX-License-Identifier: MIT
// How a thread waits for another: it polls, by the hint and with the back-off of LINEWRIGHT_WAIT, and after a number of polls in vain it yields its CPU
// between them. A wait of the back-off counts as its length divided by that of the first wait, in polls: the time before a thread yields does not
// depend on how its waits grow.
#pragma once

#include <linewright/wait.h>

#include <algorithm>
#include <atomic>

#include <sched.h>

namespace lw::workload {

// What every wait of a run goes by; written before the threads start.
struct Patience {
    unsigned polls = 100; // before the CPU is given up, or between two reads of `abandoned`
    bool yields = true; // give up the CPU at every further poll
    const std::atomic<bool> *abandoned = nullptr; // set when the run is stuck: threads that still wait leave
};

class Wait {
public:
    explicit Wait(const Patience &patience) : patience_(patience) {}

    // To be called after a poll that failed. False: leave without what was waited for, the run was given up.
    bool again() {
        polls_ += std::max(1u, backoff_.next_ns / LW_BACKOFF_FIRST_NS);
        if (polls_ < patience_.polls) {
            lw_backoff_wait(&backoff_);
            return true;
        }
        if (patience_.yields)
            sched_yield();
        else
            polls_ = 0;
        // Relaxed: a flag that is polled; what happened before it was set is read after the threads are joined.
        return !patience_.abandoned || !patience_.abandoned->load(std::memory_order_relaxed);
    }

private:
    const Patience &patience_;
    unsigned polls_ = 0;
    lw_backoff backoff_{LW_BACKOFF_NONE, 0, 0, 0}; // unless the setting says another kind
};

} // namespace lw::workload
