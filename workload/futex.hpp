// SPDX-License-Identifier: MIT
// Sleeping on a word, by the kernel's futex.
#pragma once

#include <cerrno>
#include <cstdint>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lw::workload {

// Sleep while *word is `expected`, at most `ms`. Wakes spuriously too: the caller reads the word again.
inline void futex_sleep(std::uint32_t *word, std::uint32_t expected, long ms) {
    struct { // as the system call without _time64 takes it, whatever the C library's timespec is
        long s, ns;
    } limit{ms / 1000, ms % 1000 * 1'000'000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &limit, nullptr, 0);
}

// Enter the kernel for a lock of priority inheritance: `command` is FUTEX_LOCK_PI_PRIVATE or FUTEX_UNLOCK_PI_PRIVATE. 0, or
// a negative errno; a lock gives up with -ETIMEDOUT after some `ms`.
inline int futex_pi(std::uint32_t *word, int command, long ms) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now); // this command alone counts its limit on that clock
    struct {
        long s, ns;
    } limit{static_cast<long>(now.tv_sec) + ms / 1000 + 1, now.tv_nsec};
    return syscall(SYS_futex, word, command, 0, &limit, nullptr, 0) == 0 ? 0 : -errno;
}

inline void futex_wake(std::uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

} // namespace lw::workload
