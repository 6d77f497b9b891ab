// SPDX-License-Identifier: MIT
// Time slice extensions with the test in the place of the kernel: it takes registrations, enables, and grants where a test says so. What a kernel really
// does is tested in one (tests/kernel/test_slices.py).
//
//   LW_KERNEL=granting|without|refusing     7.0 with extensions; built without them; whose prctl refuses. Unset: the kernel that there is
//   LW_FIELDS=33                            what the auxiliary vector says of the area
//   LW_REASON=…                             part of the sentence that says why there are none
#include <linewright/percpu.h>
#include <linewright/rwlock.h>
#include <linewright/slice.h>
#include <linewright/wait.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

// For the library's calls before main.
const char *kernel() {
    const char *name = std::getenv("LW_KERNEL");
    return name ? name : "";
}
bool granting() { return !std::strcmp(kernel(), "granting"); }

constexpr std::size_t area_bytes = 64, flags_at = 16, control_at = 28;
constexpr uint32_t available_flag = 1u << 4, enabled_flag = 1u << 5;
thread_local char *area;
std::atomic<int> enabled{0}, yields{0}; // system calls of either kind
bool refuse; // the next prctl
lw_rwlock lock = LW_RWLOCK_INIT, other_lock = LW_RWLOCK_INIT;
unsigned held_at_yield;

uint32_t flags() {
    uint32_t found;
    std::memcpy(&found, area + flags_at, sizeof found);
    return found;
}
void set_flags(uint32_t wanted) { std::memcpy(area + flags_at, &wanted, sizeof wanted); }
volatile uint8_t *control() { return reinterpret_cast<uint8_t *>(area) + control_at; }

// What the kernel stores when it grants, and when it takes a grant or a request away.
void grant() {
    ASSERT_EQ(control()[0], 1);
    control()[0] = 0;
    control()[1] = 1;
}
void revoke() {
    control()[0] = 0;
    control()[1] = 0;
}

} // namespace

extern "C" {
unsigned long __real_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

unsigned long __wrap_getauxval(unsigned long type) {
    const char *fields = std::getenv("LW_FIELDS");
    if (!fields || (type != 27 && type != 28))
        return __real_getauxval(type);
    return type == 27 ? std::strtoul(fields, nullptr, 10) : area_bytes;
}

long __wrap_syscall(long number, ...) {
    va_list rest;
    long words[6];
    va_start(rest, number);
    for (long &word : words)
        word = va_arg(rest, long);
    va_end(rest);
    if (*kernel() && number == LW_SYS_RSEQ && words[0]) {
        area = words[2] & 1 ? nullptr : reinterpret_cast<char *>(words[0]);
        if (area) {
            std::memset(area, 0, area_bytes); // CPU 0
            set_flags(std::strcmp(kernel(), "without") != 0 && words[1] > 32 ? available_flag : 0);
        }
        return 0;
    }
    if (number == SYS_prctl && words[0] == 79) {
        enabled++;
        if (words[1] != 2 || words[2] != 1 || words[3] || words[4] || refuse || !std::strcmp(kernel(), "refusing")) {
            errno = EPERM;
            return -1;
        }
        set_flags(flags() | enabled_flag);
        return 0;
    }
    if (number == 471) {
        yields++;
        held_at_yield += lock.state != 0;
        revoke();
        errno = ENOSYS;
        return 1;
    }
    return __real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
}

namespace {

// What standard error receives from `run`.
template <class Run> std::string said(Run run) {
    char path[] = "/tmp/slice_test.XXXXXX";
    const int file = mkstemp(path), saved = dup(2);
    unlink(path);
    dup2(file, 2);
    run();
    dup2(saved, 2);
    char text[1000] = "";
    const ssize_t length = pread(file, text, sizeof text, 0);
    close(file);
    close(saved);
    return {text, length > 0 ? static_cast<std::size_t>(length) : 0};
}

struct Granting : testing::Test {
    void SetUp() override {
        if (!granting() || !LW_HAVE_RSEQ)
            GTEST_SKIP() << "needs the test's kernel";
        ASSERT_TRUE(lw_slice_available(nullptr));
        ASSERT_NE(area, nullptr);
        ASSERT_EQ(reinterpret_cast<uintptr_t>(area) % 64, 0u);
        yields = 0;
        refuse = false;
        ASSERT_EQ(lw__slice.inner, 0u);
    }
    void TearDown() override {
        if (!IsSkipped()) {
            EXPECT_EQ(lw__slice.inner, 0u);
            EXPECT_EQ(control()[0], 0);
            EXPECT_EQ(control()[1], 0);
        }
    }
};

TEST_F(Granting, asks_in_its_byte_alone) {
    char before[area_bytes];
    std::memcpy(before, area, sizeof before);
    lw_slice_begin();
    EXPECT_EQ(control()[0], 1);
    before[control_at] = 1;
    EXPECT_EQ(std::memcmp(before, area, sizeof before), 0);
    lw_slice_end();
    before[control_at] = 0;
    EXPECT_EQ(std::memcmp(before, area, sizeof before), 0);
    EXPECT_EQ(yields, 0);
}

TEST_F(Granting, gives_back_what_was_granted) {
    lw_slice_begin();
    grant();
    errno = 0;
    lw_slice_end();
    EXPECT_EQ(yields, 1);
    EXPECT_EQ(errno, 0);
}

TEST_F(Granting, gives_nothing_back_where_the_grant_was_revoked) {
    lw_slice_begin();
    grant();
    revoke();
    lw_slice_end();
    EXPECT_EQ(yields, 0);
}

TEST_F(Granting, a_section_within_one_whose_grant_was_revoked_asks_anew) {
    lw_slice_begin();
    lw_slice_begin();
    grant();
    revoke();
    lw_slice_begin();
    lw_slice_end();
    EXPECT_EQ(control()[0], 0) << "one that counted is open";
    lw_slice_end();
    lw_slice_begin();
    EXPECT_EQ(control()[0], 1);
    grant();
    lw_slice_end();
    EXPECT_EQ(yields, 1);
    lw_slice_end();
    EXPECT_EQ(yields, 1);
}

TEST_F(Granting, the_outermost_section_asks_and_gives_back) {
    lw_slice_begin();
    lw_slice_begin();
    lw_slice_end();
    EXPECT_EQ(control()[0], 1);
    grant();
    lw_slice_begin();
    EXPECT_EQ(control()[0], 0) << "the kernel kills who asks while it is granted";
    lw_slice_end();
    EXPECT_EQ(yields, 0);
    lw_slice_end();
    EXPECT_EQ(yields, 1);
}

TEST_F(Granting, a_section_of_other_code_stays_as_it_is) {
    control()[0] = 1;
    lw_slice_begin();
    lw_slice_end();
    EXPECT_EQ(control()[0], 1);
    grant();
    lw_slice_begin();
    EXPECT_EQ(control()[0], 0);
    lw_slice_end();
    EXPECT_EQ(control()[1], 1);
    EXPECT_EQ(yields, 0);
    revoke();
    lw_slice_begin();
    EXPECT_EQ(control()[0], 1) << "and is forgotten when it has ended";
    lw_slice_end();
}

std::atomic<unsigned> handled{0}, changed{0}, asked_outside{0};

void section_in_handler(int) {
    const uint8_t request = control()[0], granted = control()[1];
    const bool outside = !request && !granted;
    lw_slice_begin();
    if (outside && control()[0] == 1)
        asked_outside++;
    lw_slice_end();
    if (control()[0] != request || control()[1] != granted)
        changed++;
    handled++;
}

TEST_F(Granting, a_handler_in_a_section_changes_nothing) {
    std::signal(SIGUSR1, section_in_handler);
    handled = changed = asked_outside = 0;
    lw_slice_begin();
    raise(SIGUSR1);
    EXPECT_EQ(control()[0], 1);
    grant();
    raise(SIGUSR1);
    EXPECT_EQ(control()[1], 1);
    EXPECT_EQ(yields, 0);
    lw_slice_end();
    EXPECT_EQ(asked_outside, 0u);
    raise(SIGUSR1);
    EXPECT_EQ(asked_outside, 1u);
    EXPECT_EQ(handled, 3u);
    EXPECT_EQ(changed, 0u);
}

TEST_F(Granting, a_handler_may_come_between_any_two_instructions) {
    std::signal(SIGALRM, section_in_handler);
    handled = changed = asked_outside = 0;
    const itimerval often = {{0, 50}, {0, 50}}, never = {};
    ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
    while (handled < 500) {
        lw_slice_begin();
        lw_slice_begin();
        lw_slice_end();
        lw_slice_end();
    }
    setitimer(ITIMER_REAL, &never, nullptr);
    EXPECT_EQ(changed, 0u);
}

// The kernel answers at any instruction, and what it grants does not outlive the section.
TEST_F(Granting, a_grant_at_any_instruction_is_given_back) {
    std::signal(SIGALRM, [](int) {
        handled++;
        if (control()[0])
            grant();
    });
    handled = 0;
    const itimerval often = {{0, 50}, {0, 50}}, never = {};
    ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
    unsigned outlived = 0;
    for (unsigned round = 0; yields < 200 || handled < 500; round++) {
        lw_slice_begin();
        for (unsigned i = 0; i < round % 32; i++) // without work few signals come between the request and its end
            __asm__ volatile("" : : : "memory");
        lw_slice_end();
        outlived += control()[0] || control()[1];
        control()[1] = 0;
    }
    setitimer(ITIMER_REAL, &never, nullptr);
    EXPECT_EQ(outlived, 0u);
}

TEST_F(Granting, each_thread_enables_once_and_asks_in_its_own_area) {
    char *const mine = area;
    const int before = enabled;
    std::thread([&] {
        for (int i = 0; i < 3; i++) {
            lw_slice_begin();
            ASSERT_NE(area, nullptr);
            EXPECT_NE(area, mine);
            EXPECT_EQ(control()[0], 1);
            EXPECT_EQ(flags(), available_flag | enabled_flag);
            EXPECT_EQ(reinterpret_cast<uint8_t *>(mine)[control_at], 0);
            lw_slice_end();
        }
    }).join();
    EXPECT_EQ(enabled, before + 1);
}

TEST_F(Granting, what_is_enabled_already_is_not_enabled_again) {
    const int before = enabled;
    std::thread([] {
        ASSERT_TRUE(lw_percpu_thread_registered());
        set_flags(flags() | enabled_flag);
        lw_slice_begin();
        EXPECT_EQ(control()[0], 1);
        lw_slice_end();
    }).join();
    EXPECT_EQ(enabled, before);
}

TEST_F(Granting, a_thread_that_is_refused_runs_without_and_others_with) {
    const int before = enabled;
    refuse = true;
    std::thread([] {
        for (int i = 0; i < 3; i++) {
            errno = 0;
            lw_slice_begin();
            EXPECT_EQ(control()[0], 0);
            lw_slice_end();
            EXPECT_EQ(errno, 0);
        }
        const char *why;
        EXPECT_FALSE(lw_slice_available(&why));
        EXPECT_NE(std::strstr(why, "prctl"), nullptr) << why;
    }).join();
    EXPECT_EQ(enabled, before + 1);
    lw_slice_begin();
    EXPECT_EQ(control()[0], 1);
    lw_slice_end();
}

TEST_F(Granting, a_child_of_fork_goes_on_in_the_section) {
    lw_slice_begin();
    const pid_t child = fork();
    if (child == 0) {
        bool right = control()[0] == 1;
        grant();
        lw_slice_end();
        right = right && yields == 1;
        lw_slice_begin();
        right = right && control()[0] == 1;
        lw_slice_end();
        _exit(right && lw__slice.inner == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(control()[0], 1);
    lw_slice_end();
    EXPECT_EQ(yields, 0);
}

TEST_F(Granting, a_guard_ends_with_its_scope_and_by_an_exception) {
    {
        const lw::slice_guard slice;
        EXPECT_EQ(control()[0], 1);
    }
    EXPECT_EQ(control()[0], 0);
    EXPECT_THROW(
        {
            const lw::slice_guard slice;
            grant();
            throw std::runtime_error("");
        },
        std::runtime_error);
    EXPECT_EQ(yields, 1);
}

// The library's own locks by LINEWRIGHT_WAIT=slice.
struct Locks : Granting {
    void SetUp() override {
        Granting::SetUp();
        if (IsSkipped())
            return;
        choose("slice");
        ASSERT_TRUE(lw_wait_slices());
        held_at_yield = 0;
    }
    void TearDown() override {
        Granting::TearDown();
        EXPECT_EQ(held_at_yield, 0u);
        EXPECT_EQ(lw_wait_set("auto", nullptr, 0), 0);
        EXPECT_FALSE(lw_wait_slices());
    }
    static void choose(const char *text) { ASSERT_EQ(lw_wait_set(text, nullptr, 0), 0); }
    static void take(lw_rwlock &l) { ASSERT_EQ(lw_rwlock_write_lock(&l), 0); }
    static void release(lw_rwlock &l) { ASSERT_EQ(lw_rwlock_write_unlock(&l), 0); }
    // In a thread that holds the lock.
    template <class Meanwhile> static void beside_another(Meanwhile meanwhile) {
        std::atomic<bool> has{false}, over{false};
        std::thread holder([&] {
            take(lock);
            has = true;
            while (!over)
                std::this_thread::yield();
            release(lock);
        });
        while (!has)
            std::this_thread::yield();
        meanwhile();
        over = true;
        holder.join();
    }
};

TEST_F(Locks, a_writer_asks_until_it_has_released_the_lock) {
    const auto asks = [](int taken) {
        EXPECT_EQ(taken, 0);
        EXPECT_EQ(control()[0], 1);
        release(lock);
        EXPECT_EQ(control()[0], 0);
        EXPECT_EQ(yields, 0);
    };
    asks(lw_rwlock_write_lock(&lock));
    asks(lw_rwlock_try_write(&lock));
    asks(lw_rwlock_write_lock_timeout(&lock, 1));
    lock.biased = LW__RW_BIASED; // a barrier, and a look at every mark
    asks(lw_rwlock_write_lock(&lock));
    take(lock);
    grant();
    release(lock);
    EXPECT_EQ(yields, 1);
}

TEST_F(Locks, who_does_not_get_the_lock_asks_for_nothing) {
    beside_another([] {
        EXPECT_EQ(lw_rwlock_try_write(&lock), -EBUSY);
        EXPECT_EQ(lw_rwlock_write_lock_timeout(&lock, 1000), -ETIMEDOUT);
        EXPECT_EQ(control()[0], 0);
    });
    take(lock);
    EXPECT_EQ(lw_rwlock_write_lock(&lock), -EDEADLK);
    release(lock);
}

TEST_F(Locks, readers_ask_for_nothing_and_a_writer_that_becomes_one_no_longer) {
    ASSERT_EQ(lw_rwlock_read_lock(&lock), 0);
    EXPECT_EQ(control()[0], 0);
    ASSERT_EQ(lw_rwlock_read_unlock(&lock), 0);
    take(lock);
    ASSERT_EQ(lw_rwlock_downgrade(&lock), 0);
    EXPECT_EQ(control()[0], 0);
    ASSERT_EQ(lw_rwlock_read_unlock(&lock), 0);
}

TEST_F(Locks, the_last_of_nested_locks_gives_back) {
    take(lock);
    take(other_lock);
    grant();
    release(lock);
    EXPECT_EQ(yields, 0);
    EXPECT_EQ(control()[1], 1);
    release(other_lock);
    EXPECT_EQ(yields, 1);
    lw_slice_begin();
    take(lock);
    release(lock);
    EXPECT_EQ(control()[0], 1) << "a section of the program's around it";
    lw_slice_end();
}

TEST_F(Locks, a_setting_that_changes_meanwhile_leaves_no_section_open) {
    take(lock);
    choose("auto");
    take(other_lock);
    release(other_lock);
    EXPECT_EQ(control()[0], 0);
    release(lock);
    take(lock);
    EXPECT_EQ(control()[0], 0);
    choose("none,slice");
    take(other_lock);
    EXPECT_EQ(control()[0], 1);
    release(lock);
    EXPECT_EQ(control()[0], 0);
    release(other_lock);
    take(lock);
    EXPECT_EQ(control()[0], 1);
    release(lock);
}

TEST_F(Locks, another_thread_ends_no_section_of_the_holder) {
    beside_another([] {
        EXPECT_EQ(lw_rwlock_write_unlock(&lock), -EPERM);
        EXPECT_EQ(control()[0], 0);
    });
    take(lock);
    std::thread([] { EXPECT_EQ(lw_rwlock_write_unlock(&lock), -EPERM); }).join();
    EXPECT_EQ(control()[0], 1);
    grant();
    release(lock);
    EXPECT_EQ(yields, 1);
}

TEST_F(Locks, a_holder_that_slept_gives_nothing_back) {
    take(lock);
    grant();
    revoke(); // as any system call does
    take(other_lock);
    EXPECT_EQ(control()[0], 1) << "asked anew, since what was granted has ended";
    release(other_lock);
    EXPECT_EQ(control()[0], 0);
    release(lock);
    EXPECT_EQ(yields, 0);
}

TEST_F(Locks, a_handler_that_reads_leaves_the_section_open) {
    std::signal(SIGUSR1, [](int) {
        handled += lw_rwlock_try_read(&other_lock) == 0 && lw_rwlock_read_unlock(&other_lock) == 0;
        lw_slice_begin();
        lw_slice_end();
    });
    handled = 0;
    take(lock);
    raise(SIGUSR1);
    EXPECT_EQ(handled, 1u);
    EXPECT_EQ(control()[0], 1);
    release(lock);
}

TEST_F(Locks, a_child_of_fork_ends_the_section_of_its_own) {
    take(lock);
    const pid_t child = fork();
    if (child == 0) {
        grant();
        release(lock);
        const bool once = yields == 1;
        take(lock);
        const bool asks = control()[0] == 1;
        release(lock);
        _exit(once && asks && control()[0] == 0 && lw__slice.inner == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(control()[0], 1);
    release(lock);
    EXPECT_EQ(yields, 0);
}

TEST(Without, the_program_runs_and_is_told_once) {
    if (granting())
        GTEST_SKIP() << "this kernel has them";
    const bool refusing = !std::strcmp(kernel(), "refusing");
    const std::string text = said([] {
        for (int i = 0; i < 3; i++) {
            errno = 0;
            lw_slice_begin();
            if (area) {
                EXPECT_EQ(control()[0], 0);
            }
            const lw::slice_guard inner;
            lw_slice_end();
            EXPECT_EQ(errno, 0);
        }
        std::thread([] { const lw::slice_guard slice; }).join();
    });
    const char *why = nullptr, *reason = std::getenv("LW_REASON");
    ASSERT_FALSE(lw_slice_available(&why));
    EXPECT_EQ(text, "linewright: no time slice extensions: " + std::string(why) + "\n");
    EXPECT_TRUE(!reason || std::strstr(why, reason)) << why;
    EXPECT_EQ(yields, 0);
    EXPECT_EQ(enabled, refusing ? 2 : 0) << "nothing is asked of a kernel that has none";
    EXPECT_EQ(lw__slice.control, lw__slice.none);
}

TEST(Without, locks_do_nothing_and_the_description_says_why) {
    if (granting())
        GTEST_SKIP() << "this kernel has them";
    char text[600];
    const char *why = nullptr;
    ASSERT_EQ(lw_wait_set("slice", nullptr, 0), 0);
    ASSERT_FALSE(lw_slice_available(&why));
    EXPECT_FALSE(lw_wait_slices());
    lw_wait_describe(text, sizeof text);
    EXPECT_NE(std::strstr(text, (", no time slice extensions: " + std::string(why) + ", by setting 'slice'").c_str()),
              nullptr)
        << text;
    ASSERT_EQ(lw_rwlock_write_lock(&lock), 0);
    if (area) {
        EXPECT_EQ(control()[0], 0);
    }
    ASSERT_EQ(lw_rwlock_write_unlock(&lock), 0);
    ASSERT_EQ(lw_wait_set("auto", nullptr, 0), 0);
    lw_wait_describe(text, sizeof text);
    EXPECT_EQ(std::strstr(text, "time slice"), nullptr) << text;
}

} // namespace
