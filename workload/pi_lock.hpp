// SPDX-License-Identifier: MIT
// A lock with priority inheritance: taken and given back by one compare-and-swap in user space while no thread waits, by the
// kernel otherwise. What `perf bench futex lock-pi` stresses, with the library's operations in the short way.
#pragma once

#include "workload/futex.hpp"
#include "workload/locks.hpp"
#include "workload/workload.hpp"

#include <cerrno>

namespace lw::workload {

class Pi_lock {
public:
    explicit Pi_lock(unsigned) {
        // No thread holds the word, so that a kernel with such locks says that it is not ours.
        if (futex_pi(&word_, FUTEX_UNLOCK_PI_PRIVATE, 0) == -ENOSYS)
            throw Invalid("futex-lock-pi: this kernel has no FUTEX_LOCK_PI (allowed: another workload)");
    }

    bool lock(Seat &, const Patience &patience) {
        if (lw_cmpxchg_u32_acquire(&word_, 0, me()) != 0) { // pairs with the release in unlock()
            while (futex_pi(&word_, FUTEX_LOCK_PI_PRIVATE, 1000) != 0) {
                // Relaxed: a flag that is polled.
                if (patience.abandoned && patience.abandoned->load(std::memory_order_relaxed))
                    return false;
            }
        }
        lw_read_u32_acquire(&handed_); // pairs with the release in unlock()
        return true;
    }

    void unlock(Seat &, const Patience &) {
        lw_write_u32_release(&handed_, 0); // pairs with the acquire of handed_ in lock()
        if (lw_cmpxchg_u32_release(&word_, me(), 0) != me()) // pairs with lock()'s acquire
            futex_pi(&word_, FUTEX_UNLOCK_PI_PRIVATE, 0);
    }

private:
    // The kernel knows an owner by its thread id.
    static std::uint32_t me() {
        static thread_local const auto id = static_cast<std::uint32_t>(syscall(SYS_gettid));
        return id;
    }

    alignas(apart) std::uint32_t word_ = 0;
    // The kernel frees the word without a store of this program: the next thread in, by whichever way, is ordered by this.
    std::uint32_t handed_ = 0;
};

} // namespace lw::workload
