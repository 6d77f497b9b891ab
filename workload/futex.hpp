// Sleeping on a word, by the kernel's futex.
#pragma once

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

inline void futex_wake(std::uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

} // namespace lw::workload
