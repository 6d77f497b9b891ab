// SPDX-License-Identifier: MIT
// Waiting by every hint that this CPU has: no wake-up is lost, what was stored before is seen; bad settings; back-off; sleepers, fork and signals.
#include <linewright/wait.h>

extern "C" {
#include "wait/hints.h"
}

// The linker puts this one before the library's: it counts the rounds of the thread.
static thread_local uint64_t rounds;
extern "C" {
void __real_lw__relax_chosen(uint32_t chosen);
void __wrap_lw__relax_chosen(uint32_t chosen) {
    ++rounds;
    __real_lw__relax_chosen(chosen);
}
}

#include <gtest/gtest.h>

#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

// "auto", and every hint of this CPU by itself and repeated.
std::vector<std::string> settings() {
    std::vector<std::string> all{"auto"};
    for (unsigned hint = LW__HINT_AUTO + 1; hint < LW__HINTS; hint++)
        if (lw__hint_runs(hint)) {
            all.emplace_back(lw__hint_name(hint));
            if (!lw__hint_watches(hint))
                all.emplace_back(all.back() + "*7");
        }
    return all;
}

std::string refusal(const std::string &text) {
    char error[500] = "";
    EXPECT_NE(lw_wait_set(text.c_str(), error, sizeof error), 0) << text;
    return error;
}

struct Wait : testing::Test {
    void TearDown() override { ASSERT_EQ(lw_wait_set("auto", nullptr, 0), 0); }
    static void choose(const std::string &setting) {
        char error[500] = "";
        ASSERT_EQ(lw_wait_set(setting.c_str(), error, sizeof error), 0) << error;
    }
};

// Two threads take turns: a wake-up that was lost would leave both waiting, and a load without its order would miss the plain words.
template <class Word, class Until, class While> void take_turns(Until until, While while_) {
    constexpr Word turns = 40; // a turn takes a slice of the scheduler where there are fewer CPUs than threads
    alignas(64) static Word turn;
    alignas(64) static uint64_t passed;
    turn = 0;
    passed = 0;
    const auto side = [&](Word first) {
        for (Word mine = first; mine < turns; mine += 2) {
            if (mine % 4 < 2)
                until(&turn, mine);
            else
                for (Word seen = 0; seen != mine;)
                    seen = mine == 0 ? Word{0} : while_(&turn, static_cast<Word>(mine - 1));
            passed += mine; // plain: ordered by the turn
            __atomic_store_n(&turn, static_cast<Word>(mine + 1), __ATOMIC_RELEASE); // pairs with the other side's wait
        }
    };
    std::thread other(side, Word{1});
    side(0);
    other.join();
    EXPECT_EQ(passed, uint64_t{turns} * (turns - 1) / 2);
}

TEST_F(Wait, every_hint_hands_over_what_was_stored) {
    for (const std::string &setting : settings()) {
        SCOPED_TRACE(setting);
        choose(setting);
        take_turns<uint32_t>(lw_wait_until_u32, lw_wait_while_u32);
#if UINTPTR_MAX > UINT32_MAX
        take_turns<uint64_t>(lw_wait_until_u64, lw_wait_while_u64);
#endif
#ifndef __SANITIZE_THREAD__ // which knows no fences
        take_turns<uint32_t>(
            [](const uint32_t *word, uint32_t v) {
                lw_wait_until_u32_relaxed(word, v);
                __atomic_thread_fence(__ATOMIC_ACQUIRE);
            },
            [](const uint32_t *word, uint32_t v) {
                uint32_t seen = lw_wait_while_u32_relaxed(word, v);
                __atomic_thread_fence(__ATOMIC_ACQUIRE);
                return seen;
            });
#endif
    }
}

TEST_F(Wait, a_round_on_a_word_that_has_changed_or_never_does_ends) {
    uint32_t word = 5;
    for (const std::string &setting : settings()) {
        SCOPED_TRACE(setting);
        choose(setting);
        lw_relax();
        lw_relax_on_u32(&word, 4);
        lw_relax_on_u32(&word, 5); // a watch that no store ends: by its limit, or with the next return from the kernel
#if UINTPTR_MAX > UINT32_MAX
        uint64_t wide = 5;
        lw_relax_on_u64(&wide, UINT64_C(5) << 32);
        lw_relax_on_u64(&wide, 5);
#endif
    }
    EXPECT_EQ(word, 5u);
}

TEST_F(Wait, both_halves_of_a_wide_word_count) {
#if UINTPTR_MAX > UINT32_MAX
    for (const std::string &setting : settings()) {
        SCOPED_TRACE(setting);
        choose(setting);
        uint64_t word = UINT64_C(7) << 32 | 1;
        EXPECT_EQ(lw_wait_while_u64(&word, 1), word);
        lw_wait_until_u64(&word, UINT64_C(7) << 32 | 1);
    }
#endif
}

TEST_F(Wait, sleepers_are_woken_however_long_they_spin) {
    for (const char *park : {"park=0", "park=1", "park=20000", "backoff=none,park=2000", "backoff=linear,park=2000,cap=1"})
        for (int round = 0; round < 40; round++) {
            SCOPED_TRACE(park);
            choose(park);
            alignas(4) uint32_t word = 0;
            uint64_t before = 0, seen = 0;
            std::vector<std::thread> threads;
            threads.emplace_back([&] {
                errno = 77;
                EXPECT_EQ(lw_park_while_u32(&word, 0), 1u);
                EXPECT_EQ(errno, 77);
                seen = before;
                __atomic_store_n(&word, 2, __ATOMIC_RELEASE); // pairs with the waits for 2
                lw_unpark_u32(&word);
            });
            for (int i = 0; i < 3; i++)
                threads.emplace_back([&] { lw_park_until_u32(&word, 2); });
            before = 9;
            __atomic_store_n(&word, 1, __ATOMIC_RELEASE); // pairs with lw_park_while_u32()
            lw_unpark_u32(&word);
            for (std::thread &thread : threads)
                thread.join();
            EXPECT_EQ(seen, 9u);
        }
}

TEST_F(Wait, a_child_waits_and_is_woken_as_its_parent) {
    choose("park=0");
    alignas(4) static uint32_t asleep, word;
    std::thread parents([] {
        __atomic_store_n(&asleep, 1, __ATOMIC_RELEASE); // pairs with the wait below
        lw_park_until_u32(&word, 1);
    });
    lw_wait_until_u32(&asleep, 1);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        alarm(800); // a wake-up that is lost: as long as a whole test may take
        alignas(4) uint32_t own = 0;
#if !defined(__aarch64__) && !defined(__SANITIZE_THREAD__) // qemu-user and ThreadSanitizer end a child that starts a thread
        std::thread waiter([&] { lw_park_until_u32(&own, 1); });
#endif
        __atomic_store_n(&own, 1, __ATOMIC_RELEASE); // pairs with the waiter
        lw_unpark_u32(&own);
#if !defined(__aarch64__) && !defined(__SANITIZE_THREAD__)
        waiter.join();
#endif
        lw_park_until_u32(&own, 1);
        lw_backoff backoff = LW_BACKOFF_INIT;
        lw_backoff_wait(&backoff);
        char line[400];
        lw_wait_describe(line, sizeof line);
        _exit(std::strstr(line, "'park=0'") ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE); // pairs with the parent's thread
    lw_unpark_u32(&word);
    parents.join();
}

alignas(4) uint32_t from_handler;

void handler(int) {
    const uint32_t one = 1;
    lw_relax();
    lw_wait_until_u32(&one, 1);
    lw_relax_ns(1);
    __atomic_store_n(&from_handler, 1, __ATOMIC_RELEASE); // pairs with the wait of the thread that it interrupts
    lw_unpark_u32(&from_handler);
}

TEST_F(Wait, a_handler_ends_the_wait_that_it_interrupts) {
    struct sigaction action = {}, before = {};
    action.sa_handler = handler;
    sigaction(SIGUSR1, &action, &before);
    for (const std::string &setting : settings())
        for (bool parked : {false, true}) {
            SCOPED_TRACE(setting);
            choose(setting);
            from_handler = 0;
            alignas(4) static uint32_t begun;
            begun = 0;
            std::thread waiter([&] {
                __atomic_store_n(&begun, 1, __ATOMIC_RELEASE); // pairs with the wait below
                parked ? lw_park_until_u32(&from_handler, 1) : lw_wait_until_u32(&from_handler, 1);
            });
            lw_wait_until_u32(&begun, 1);
            pthread_kill(waiter.native_handle(), SIGUSR1);
            waiter.join();
        }
    sigaction(SIGUSR1, &before, nullptr);
}

TEST_F(Wait, settings_that_are_wrong_are_named_with_what_is_allowed) {
    const std::string usual = lw__hint_name(LW__HINT_AUTO), tick = std::to_string(lw_wait_tick_ns());
    const std::pair<std::string, std::string> cases[] = {
        {"puase", "'puase' is no hint of this architecture"},
        {usual + "," + usual, "'" + usual + "' is a second hint"},
        {usual + "*0", "*0' is not repeated 1 to 1000 times"},
        {usual + "*1001", "*1001' is not repeated 1 to 1000 times"},
        {usual + "*", "*' is not repeated 1 to 1000 times"},
        {usual + "*-1", "*-1' is not repeated 1 to 1000 times"},
        {usual + "*4294967297", "is not repeated 1 to 1000 times"},
        {"auto,cap=5", "'auto' stands alone"},
        {"cap=0", "'cap=0' is not a number of ns from 1 to a tick of the scheduler"},
        {"cap=" + std::to_string(lw_wait_tick_ns() + 1), "is not a number of ns from 1 to a tick of the scheduler"},
        {"cap=18446744073709551617", "is not a number of ns from 1"},
        {"cap=", "is not a number of ns from 1"},
        {"cap=5,cap=6", "'cap=6' stands there twice"},
        {"park=1000000001", "is not a number of ns from 0 to a second"},
        {"park=1,park=1", "stands there twice"},
        {"backoff=quadratic", "'backoff=quadratic' is no kind of back-off"},
        {"backoff=none,backoff=none", "stands there twice"},
        {"hint=" + usual, "is unknown"},
        {"slice,cap=5,slice", "'slice' stands there twice"},
        {"slice*2", "is no hint"},
        {",", "'' is an empty item"},
        {usual + ",", "'' is an empty item"},
        {" " + usual, "is no hint of this architecture"},
        {"\033[2J", "'?[2J' is no hint"},
        {std::string(5000, 'x'), "' is no hint of this architecture; allowed: auto"},
    };
    for (const auto &[text, said] : cases) {
        char error[500] = "";
        EXPECT_EQ(lw_wait_set(text.c_str(), error, sizeof error), -EINVAL) << text;
        EXPECT_NE(std::string(error).find(said), std::string::npos) << text << ": " << error;
        EXPECT_NE(std::string(error).find("; allowed: auto, or a comma list of a hint (none"), std::string::npos) << error;
        EXPECT_NE(std::string(error).find("cap=" + tick), std::string::npos) << error;
        EXPECT_EQ(std::string(error).find('\n'), std::string::npos);
        EXPECT_EQ(lw_wait_word, 0u) << "the choice stays as it was";
    }
    char tiny[4] = "zzz";
    EXPECT_EQ(lw_wait_set("puase", tiny, sizeof tiny), -EINVAL);
    EXPECT_EQ(std::strlen(tiny), 3u);
    EXPECT_EQ(lw_wait_set("puase", nullptr, 0), -EINVAL);
    for (unsigned hint = LW__HINT_AUTO + 1; hint < LW__HINTS; hint++)
        if (lw__hint_watches(hint)) {
            EXPECT_NE(refusal(std::string(lw__hint_name(hint)) + "*2").find("watches a word, and is not repeated"),
                      std::string::npos);
        }
}

TEST_F(Wait, a_hint_that_the_CPU_lacks_is_named_with_what_it_has) {
    std::string has;
    for (unsigned hint = LW__HINT_AUTO + 1; hint < LW__HINTS; hint++)
        if (lw__hint_runs(hint))
            has += (has.empty() ? "" : ", ") + std::string(lw__hint_name(hint));
    for (unsigned hint = LW__HINT_AUTO + 1; hint < LW__HINTS; hint++) {
        const char *name = lw__hint_name(hint);
        char error[500] = "untouched";
        EXPECT_EQ(lw_wait_has(name), lw__hint_runs(hint));
        if (lw__hint_runs(hint)) {
            EXPECT_EQ(lw_wait_set(name, error, sizeof error), 0) << error;
            char line[400];
            lw_wait_describe(line, sizeof line);
            EXPECT_EQ(std::string(line).find(name), 0u) << line;
            EXPECT_NE(std::string(line).find("this CPU has " + has), std::string::npos) << line;
        } else {
            EXPECT_EQ(lw_wait_set(name, error, sizeof error), -EOPNOTSUPP);
            EXPECT_EQ(error, "this CPU lacks '" + std::string(name) + "', or refused it when tried; it has " + has);
        }
    }
    EXPECT_FALSE(lw_wait_has("puase"));
    EXPECT_FALSE(lw_wait_has(""));
    EXPECT_TRUE(lw_wait_has("none"));
}

TEST_F(Wait, random_text_is_refused_or_taken_and_never_half) {
    std::mt19937 random(46);
    const std::string letters = "autopnesibwfkcd=*,0129 \x01\xff";
    for (int i = 0; i < 20000; i++) {
        std::string text(random() % 24, ' ');
        for (char &c : text)
            c = letters[random() % letters.size()];
        char error[400];
        std::memset(error, 'z', sizeof error);
        const int answer = lw_wait_set(text.c_str(), error, 300);
        ASSERT_TRUE(answer == 0 || answer == -EINVAL || answer == -EOPNOTSUPP);
        EXPECT_EQ(error[300], 'z');
        EXPECT_EQ(answer != 0, std::memchr(error, '\0', 300) != nullptr);
    }
}

TEST_F(Wait, back_off_grows_as_its_kind_says_up_to_the_cap) {
    lw_backoff b;
    const auto waits = [&](int n) {
        std::vector<uint32_t> next;
        for (int i = 0; i < n; i++) {
            lw_backoff_wait(&b);
            next.push_back(b.next_ns);
        }
        return next;
    };
    ASSERT_EQ(lw_backoff_init(&b, LW_BACKOFF_EXPONENTIAL, 10, 70), 0);
    EXPECT_EQ(waits(4), (std::vector<uint32_t>{20, 40, 70, 70}));
    lw_backoff_reset(&b);
    EXPECT_EQ(waits(1), (std::vector<uint32_t>{20}));
    ASSERT_EQ(lw_backoff_init(&b, LW_BACKOFF_LINEAR, 10, 35), 0);
    EXPECT_EQ(waits(4), (std::vector<uint32_t>{20, 30, 35, 35}));
    ASSERT_EQ(lw_backoff_init(&b, LW_BACKOFF_NONE, 10, 35), 0);
    EXPECT_EQ(waits(2), (std::vector<uint32_t>{0, 0}));
    b = LW_BACKOFF_INIT;
    EXPECT_EQ(waits(7), (std::vector<uint32_t>{100, 200, 400, 800, 1600, LW_BACKOFF_CAP_NS, LW_BACKOFF_CAP_NS}));
    lw_backoff_wait_behind(&b, 0);
    lw_backoff_wait_behind(&b, UINT32_MAX);

    choose("backoff=linear,cap=120"); // over what the program says
    ASSERT_EQ(lw_backoff_init(&b, LW_BACKOFF_EXPONENTIAL, 50, 1000), 0);
    EXPECT_EQ(waits(3), (std::vector<uint32_t>{100, 120, 120}));
    choose("backoff=none");
    lw_backoff_reset(&b);
    EXPECT_EQ(waits(2), (std::vector<uint32_t>{0, 0}));
}

TEST_F(Wait, back_offs_of_nothing_or_beyond_a_tick_are_refused) {
    const uint32_t tick = lw_wait_tick_ns();
    EXPECT_GE(tick, 1000000u);
    EXPECT_LE(tick, 10000000u);
    lw_backoff b = {1, 2, 3, 4};
    EXPECT_EQ(lw_backoff_init(&b, LW_BACKOFF_LINEAR, 0, 5), -EINVAL);
    EXPECT_EQ(lw_backoff_init(&b, LW_BACKOFF_LINEAR, 1, 0), -EINVAL);
    EXPECT_EQ(lw_backoff_init(&b, LW_BACKOFF_LINEAR, 6, 5), -EINVAL);
    EXPECT_EQ(lw_backoff_init(&b, LW_BACKOFF_LINEAR, 1, tick + 1), -EINVAL);
    EXPECT_EQ(lw_backoff_init(&b, static_cast<lw_backoff_kind>(LW_BACKOFF_EXPONENTIAL + 1), 1, 5), -EINVAL);
    EXPECT_EQ(b.next_ns, 4u) << "untouched";
    EXPECT_EQ(lw_backoff_init(&b, LW_BACKOFF_LINEAR, 1, tick), 0);
}

TEST_F(Wait, the_event_stream_is_off_where_the_machine_is_said_to_have_none) {
#ifdef __aarch64__
    const char *expected = std::getenv("LW_EXPECT_EVENT_STREAM");
    if (!expected)
        GTEST_SKIP() << "set under tests/system alone";
    EXPECT_EQ((getauxval(AT_HWCAP) & LW_HWCAP_EVTSTRM) != 0, std::strcmp(expected, "0") != 0);
#else
    GTEST_SKIP() << "arm64 alone has one";
#endif
}

TEST_F(Wait, a_round_is_measured_for_each_choice) {
    for (const std::string &setting : settings()) {
        choose(setting);
        EXPECT_GE(lw_wait_round_ps(), 100u);
        EXPECT_EQ(lw_wait_round_ps(), lw_wait_round_ps()) << "once";
        lw_relax_ns(0);
        lw_relax_ns(500);
    }
}

TEST_F(Wait, a_wait_is_the_nearest_number_of_rounds_and_one_at_least) {
    for (const std::string &setting : settings()) {
        choose(setting);
        if (lw_wait_word == 0)
            continue; // the usual hint is executed in place
        const uint64_t round = lw_wait_round_ps();
        for (uint64_t ns :
             {uint64_t{0}, uint64_t{50}, uint64_t{1999}, 7 * round / 2000, 9 * round / 2500, 3 * round / 1000}) {
            rounds = 0;
            lw_relax_ns(static_cast<uint32_t>(ns));
            EXPECT_EQ(rounds, std::max<uint64_t>(1, (ns * 1000 + round / 2) / round))
                << setting << ", " << ns << " ns of " << round;
        }
    }
}

} // namespace
