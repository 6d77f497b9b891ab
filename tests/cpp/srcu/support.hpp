// SPDX-License-Identifier: MIT
// What the tests of SRCU share: the library's hooks, any flavour's reader functions, child processes, a domain as an object.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linewright/srcu.h>

extern "C" {
struct lw__srcu_domain;
extern volatile unsigned lw__srcu_test_slots;
extern int (*volatile lw__srcu_test_membarrier)(int command);
extern void (*volatile lw__srcu_test_point)(unsigned where);
void lw__srcu_test_count(struct lw__srcu_domain *d, unsigned word);
void lw__srcu_test_set_counts(struct lw__srcu_domain *d, unsigned long value);
void lw__srcu_test_set_seq(struct lw__srcu_domain *d, unsigned long seq, unsigned phase);
}

using namespace std::chrono_literals;
constexpr lw__srcu_flavour all_flavours[] = {LW__SRCU_NORMAL, LW__SRCU_FAST, LW__SRCU_FAST_UPDOWN};

// Readers of a flavour that is known at run time only, which programs do not have.
inline lw_srcu_index enter(lw_srcu *s) {
    switch (s->flavour) {
    case LW__SRCU_NORMAL: return lw_srcu_read_lock(static_cast<lw_srcu_normal *>(s));
    case LW__SRCU_FAST: return lw_srcu_read_lock_fast(static_cast<lw_srcu_fast *>(s));
    default: return lw_srcu_down_read_fast(static_cast<lw_srcu_fast_updown *>(s));
    }
}
inline void leave(lw_srcu *s, lw_srcu_index c) {
    switch (s->flavour) {
    case LW__SRCU_NORMAL: lw_srcu_read_unlock(static_cast<lw_srcu_normal *>(s), c); break;
    case LW__SRCU_FAST: lw_srcu_read_unlock_fast(static_cast<lw_srcu_fast *>(s), c); break;
    default: lw_srcu_up_read_fast(static_cast<lw_srcu_fast_updown *>(s), c); break;
    }
}
inline std::string describe(const lw_srcu *s) {
    std::string text(400, 0);
    const int n = lw_srcu_describe(s, text.data(), text.size());
    EXPECT_LT(n, 400);
    text.resize(static_cast<size_t>(n));
    return text;
}
// In a child: exit code, or 128 + signal.
inline int in_child(const std::function<int()> &body) {
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(300);
        _exit(body());
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct Domain : lw_srcu {
    explicit Domain(lw__srcu_flavour f) { EXPECT_EQ(lw__srcu_init(this, f), 0); }
    ~Domain() { EXPECT_EQ(lw_srcu_cleanup(this), 0) << describe(this); }
    Domain(const Domain &) = delete;
};
