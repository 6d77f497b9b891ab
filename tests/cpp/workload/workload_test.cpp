// SPDX-License-Identifier: MIT
// Every workload holds under contention and with more threads than CPUs; and with its lock broken it is found out.
//
// The holder gives up its CPU in every section, so that a broken lock is found on a single CPU and under emulation too:
// nothing here depends on how fast anything is.
#include <gtest/gtest.h>

#include "workload/bucket.hpp"
#include "workload/exclusive.hpp"
#include "workload/futex_table.hpp"
#include "workload/pi_lock.hpp"
#include "workload/request.hpp"
#include "workload/run.hpp"
#include "workload/shared.hpp"

#include <chrono>
#include <ctime>

namespace {

using namespace lw::workload;

const std::atomic<bool> never{false};

Options options(const std::string &kind, unsigned threads) {
    Options o;
    o.kind = kind;
    o.threads = threads;
    o.duration_s = 0.03;
    o.time_every = 2;
    o.polls = 10;
    o.yield_inside = true;
    o.write_percent = 40;
    return o;
}

std::string all(const std::vector<std::string> &lines) {
    std::string text;
    for (const std::string &line : lines)
        text += line + "\n";
    return text;
}

class Kinds : public testing::TestWithParam<std::string> {};

TEST_P(Kinds, HoldWithFewThreadsAndWithMany) {
    for (unsigned threads : {2u, 9u}) {
        const Result r = run(options(GetParam(), threads), never);
        EXPECT_TRUE(r.verified()) << all(r.failures);
        EXPECT_FALSE(r.checks.empty());
        EXPECT_GT(r.all_operations, 0u);
        EXPECT_EQ(r.per_thread.size(), threads);
        EXPECT_GE(r.all_operations, r.operations);
        EXPECT_LE(r.waits.p50_ns, r.waits.p99_ns);
        EXPECT_LE(r.waits.p99_ns, r.waits.longest_ns);
        EXPECT_GT(r.waits.timed, 0u);
    }
}

TEST_P(Kinds, EndAtOnceWhenInterrupted) {
    const std::atomic<bool> already{true};
    Options o = options(GetParam(), 3);
    o.duration_s = 3600;
    const Result r = run(o, already);
    EXPECT_TRUE(r.interrupted);
    EXPECT_TRUE(r.verified()) << all(r.failures);
}

INSTANTIATE_TEST_SUITE_P(Workload, Kinds, testing::ValuesIn(kinds()), [](const auto &info) {
    std::string name = info.param;
    std::ranges::replace(name, '-', '_');
    return name;
});

TEST(Workload, LongHoldsAreCounted) {
    Options o = options("spinlock", 2);
    o.yield_inside = false;
    o.long_hold_ns = 1000;
    o.duration_s = 0.2;
    const Result r = run(o, never);
    EXPECT_TRUE(r.verified()) << all(r.failures);
    // One distance between long holds is at most 2 × 2000 × 2 × 0.001 ms sections of one thread: 7.
    EXPECT_GE(r.long_holds + 2, r.all_operations / 7);
    EXPECT_LE(r.long_holds, r.all_operations);
}

// Until the thread has been switched out: a sleep that is over before it begins, as on a machine whose host stops it just then, is none.
void sleep_a_little() {
    const timespec moment{0, 1000};
    for (const auto before = thread_switches().voluntary; thread_switches().voluntary == before;)
        nanosleep(&moment, nullptr);
}

TEST(Workload, AThreadThatSleepsLosesItsCpuAndOneThatComputesHardlyDoes) {
    std::thread([] {
        Preemption preemption;
        preemption.start();
        if (!preemption.times())
            GTEST_SKIP() << "this kernel has no restartable sequences";
        for (int i = 0; i < 20; i++) {
            sleep_a_little(); // outside
            preemption.from_here();
            sleep_a_little();
            preemption.to_here();
        }
        EXPECT_EQ(*preemption.times(), 20u);
        const Switches before = thread_switches();
        // For half a second, in which the kernel clears the pointer some five times for work of its own.
        using Clock = std::chrono::steady_clock;
        for (const auto end = Clock::now() + std::chrono::milliseconds(500); Clock::now() < end;) {
            preemption.from_here();
            compute(1'000);
            preemption.to_here();
        }
        const Switches after = thread_switches();
        // One more may have been between the last look and `before`.
        const auto switched = after.voluntary + after.involuntary - before.voluntary - before.involuntary;
        EXPECT_LE(*preemption.times() - 20, switched + 1);
    }).join();
}

// Long sections, so that a preempted thread is mostly in one.
Options long_sections(const std::string &kind) {
    Options o = options(kind, 2);
    o.yield_inside = false;
    o.critical = length_of_ns(100'000);
    return o;
}

TEST(Workload, CompetitorsPreemptHolders) {
    Options o = long_sections("spinlock");
    o.competitors = true;
    Result r;
    double all_ns = 0; // of the run with its window
    do { // until they did
        const double before = now_ns();
        r = run(o, never);
        all_ns = now_ns() - before;
        ASSERT_TRUE(r.verified()) << all(r.failures);
        EXPECT_EQ(r.competed, allowed_cpus());
        if (!r.switches.in_sections)
            break;
        EXPECT_LE(*r.switches.in_sections, r.switches.voluntary + r.switches.involuntary);
        EXPECT_LE(*r.switches.in_sections, r.all_operations);
        o.duration_s *= 2;
    } while (!*r.switches.in_sections || !r.switches.involuntary || !(r.competitors_cpu_ns > 0));
    // Their time is not the workload's, and no thread had a CPU twice. The clocks of CPU time and of the day run apart by less than 1 %.
    EXPECT_LE(r.competitors_cpu_ns, 1.01 * all_ns * static_cast<double>(r.competed.size()));
    EXPECT_GE(r.cpu_ns, 0);
}

TEST(Workload, WithoutCompetitorsNoOneCompetes) {
    const Result r = run(long_sections("ticket"), never);
    EXPECT_TRUE(r.competed.empty());
    EXPECT_EQ(r.competitors_cpu_ns, 0);
    if (r.switches.in_sections) {
        EXPECT_LE(*r.switches.in_sections, r.switches.voluntary + r.switches.involuntary);
    }
}

TEST(Workload, SectionsWithSlicesHoldWithAndWithoutAKernelThatHasThem) {
    for (const char *kind : {"spinlock", "rwlock", "futex-lock-pi"}) {
        Options o = options(kind, 3);
        o.slices = true;
        const Result r = run(o, never);
        EXPECT_TRUE(r.verified()) << all(r.failures);
        EXPECT_LE(r.granted, r.all_operations);
    }
}

TEST(Workload, TheSameSeedMakesTheSameChoices) {
    const Patience patience;
    const std::atomic<bool> stop{false};
    Options o = options("rwlock", 2);
    auto first = std::make_unique<Worker>(1, o, patience, stop), again = std::make_unique<Worker>(1, o, patience, stop);
    auto other = std::make_unique<Worker>(0, o, patience, stop);
    unsigned alike = 0;
    for (int i = 0; i < 100; i++) {
        const std::uint64_t value = first->random();
        EXPECT_EQ(value, again->random());
        alike += value == other->random();
    }
    EXPECT_EQ(alike, 0u);
}

TEST(Workload, TheFigureIsThatOfTheFutexBenchmark) {
    Result r;
    r.seconds = 2;
    r.operations = 100;
    r.rounds = {5, 1, 2, 3, true, 1};
    const auto of = [&](const char *kind) { return figure(options(kind, 2), r); };
    EXPECT_EQ(of("futex-requeue").value, 2);
    EXPECT_EQ(of("futex-wake").value, 3);
    EXPECT_EQ(of("futex-wake-parallel").unit, "ms");
    EXPECT_FALSE(of("futex-wake").higher_is_better);
    EXPECT_EQ(of("futex-lock-pi").value, 50);
    EXPECT_TRUE(of("futex-hash").higher_is_better);
}

TEST(Workload, EveryWaiterOfAParallelWakeHasAWaker) {
    const Result r = run(options("futex-wake-parallel", 5), never);
    EXPECT_TRUE(r.verified()) << all(r.failures);
    EXPECT_EQ(r.rounds.wakers, 5u);
    EXPECT_EQ(r.all_operations, r.rounds.count * 5);
    EXPECT_FALSE(r.rounds.requeues);
}

TEST(Workload, FairnessIsJains) {
    EXPECT_DOUBLE_EQ(jain({5, 5, 5, 5}), 1.0);
    EXPECT_DOUBLE_EQ(jain({8, 0, 0, 0}), 0.25);
    EXPECT_DOUBLE_EQ(jain({0, 0}), 0.0);
}

// ---- Broken ones: each must be found out. ThreadSanitizer would stop at the first race, so not under it. --------

#ifndef __SANITIZE_THREAD__
constexpr const char *any_failure = "\n"; // all() ends each with one

// Whether `text` is among what is found broken, soon: on a busy machine a run may end before its threads have met.
template <class Workload> bool caught(Options o, const std::string &text) {
    o.stall_s = 1; // a mutant may lose a thread for good
    o.duration_s = 0.1;
    for (int tries = 0; tries < 100; tries++)
        if (all(run_team<Workload>(o, never).failures).find(text) != std::string::npos)
            return true;
    return false;
}

// A lock that never keeps anybody out.
struct Open_lock : Spinlock {
    using Spinlock::Spinlock;
    bool lock(Seat &, const Patience &) { return true; }
    void unlock(Seat &, const Patience &) {}
};

// Test, then set: two may have tested before either sets.
struct Test_then_set {
    explicit Test_then_set(unsigned) {}
    bool lock(Seat &, const Patience &patience) {
        Wait wait(patience);
        while (lw_read_u32_acquire(&word_))
            if (!wait.again())
                return false;
        sched_yield();
        lw_write_u32(&word_, 1);
        return true;
    }
    void unlock(Seat &, const Patience &) { lw_write_u32_release(&word_, 0); }
    std::uint32_t word_ = 0;
};

// Tickets drawn without an atomic addition: two may draw the same.
struct Twin_tickets : Ticket_lock {
    using Ticket_lock::Ticket_lock;
    bool lock(Seat &seat, const Patience &patience) {
        Wait wait(patience);
        seat.ticket = lw_read_u32_relaxed(&next_);
        sched_yield();
        lw_write_u32(&next_, seat.ticket + 1);
        while (static_cast<std::int32_t>(lw_read_u32_acquire(&serving_) - seat.ticket) < 0)
            if (!wait.again())
                return false;
        return true;
    }
    void unlock(Seat &seat, const Patience &) { lw_write_u32_release(&serving_, seat.ticket + 1); }
    std::uint32_t next_ = 0, serving_ = 0;
};

// Excludes, but serves the thread that comes at the right moment: numbers are drawn and then ignored.
struct Unordered_tickets : Ticket_lock {
    explicit Unordered_tickets(unsigned threads) : Ticket_lock(threads), inner(threads) {}
    bool lock(Seat &seat, const Patience &patience) {
        seat.ticket = lw_fetch_add_u32(&next_, 1);
        sched_yield();
        return inner.lock(seat, patience);
    }
    void unlock(Seat &seat, const Patience &patience) { inner.unlock(seat, patience); }
    std::uint32_t next_ = 0;
    Spinlock inner;
};

// Excludes, but claims a place behind the wrong thread.
struct Queue_jumper : Mcs_lock {
    using Mcs_lock::Mcs_lock;
    bool lock(Seat &seat, const Patience &patience) {
        const bool had = Mcs_lock::lock(seat, patience);
        if (seat.behind)
            seat.behind = seat.behind % 3 + 1;
        return had;
    }
};

// Passes the lock on without waiting for the heir to say who it is: the queue is lost and its waiters with it.
struct Forgetful_queue : Mcs_lock {
    explicit Forgetful_queue(unsigned threads) : Mcs_lock(threads), inner(threads) {}
    bool lock(Seat &seat, const Patience &patience) {
        if (++entries % 5 == 0)
            return Wait(patience).again() && stay(patience);
        return inner.lock(seat, patience);
    }
    void unlock(Seat &seat, const Patience &patience) { inner.unlock(seat, patience); }
    static bool stay(const Patience &patience) {
        for (Wait wait(patience); wait.again();) {
        }
        return false;
    }
    std::atomic<unsigned> entries{0};
    Mcs_lock inner;
};

TEST(Broken, LocksThatLetTwoIn) {
    EXPECT_TRUE((caught<Exclusive<Open_lock>>(options("spinlock", 3), "overlapped")));
    EXPECT_TRUE((caught<Exclusive<Test_then_set>>(options("spinlock", 3), "overlapped")));
    EXPECT_TRUE((caught<Exclusive<Twin_tickets>>(options("ticket", 3), any_failure)));
}

TEST(Broken, LocksThatServeOutOfOrder) {
    EXPECT_TRUE((caught<Exclusive<Unordered_tickets>>(options("ticket", 4), "passed by others")));
    EXPECT_TRUE((caught<Exclusive<Queue_jumper>>(options("mcs", 3), "passed by others")));
}

TEST(Broken, AWaiterForgottenForGoodEndsTheRunAndIsTold) {
    EXPECT_TRUE((caught<Exclusive<Forgetful_queue>>(options("mcs", 3), "waited in vain")));
}

struct Unlocked_rw : Rw_lock {
    using Rw_lock::Rw_lock;
    bool write_lock(const Patience &) { return true; }
    void write_unlock() {}
};

struct Readers_ignored : Rw_lock {
    using Rw_lock::Rw_lock;
    bool read_lock(const Patience &) { return true; }
    void read_unlock() {}
};

TEST(Broken, ReaderWriterLocks) {
    EXPECT_TRUE((caught<Reader_writer<Unlocked_rw>>(options("rwlock", 4), any_failure)));
    EXPECT_TRUE((caught<Reader_writer<Readers_ignored>>(options("rwlock", 4), "half a write")));
}

struct Lossy_get : Counting {
    static void get(std::uint32_t *count) {
        const std::uint32_t seen = lw_read_u32_relaxed(count);
        sched_yield();
        lw_write_u32(count, seen + 1);
    }
};

struct Keeps_one : Counting {
    static bool put(std::uint32_t *count) { return lw_read_u32_relaxed(count) > 1 && Counting::put(count); }
};

TEST(Broken, ReferenceCounts) {
    EXPECT_TRUE((caught<Refcount<Lossy_get>>(options("refcount", 4), any_failure)));
    EXPECT_TRUE((caught<Refcount<Keeps_one>>(options("refcount", 2), "left a count of 1")));
}

struct Double_pass : Passing {
    static void pass(std::uint32_t *turn) {
        Passing::pass(turn);
        if (lw_read_u32_relaxed(turn) % 64 == 7)
            Passing::pass(turn);
    }
};

TEST(Broken, ATurnHandedOnTwice) { EXPECT_TRUE((caught<Handoff<Double_pass>>(options("handoff", 3), any_failure))); }

TEST(Broken, BucketsWithoutALock) {
    EXPECT_TRUE((caught<Hash_bucket<Open_lock>>(options("hash-bucket", 8), "overlapped")));
    EXPECT_TRUE((caught<Hash_bucket<Open_lock, false>>(options("futex-wake", 8), any_failure)));
    EXPECT_TRUE((caught<Parallel_wake<Open_lock>>(options("futex-wake-parallel", 4), any_failure)));
}

TEST(Broken, ATableWithoutLocks) { EXPECT_TRUE((caught<Futex_hash<Open_lock, 1>>(options("futex-hash", 4), "overlapped"))); }

// Enters after one try in vain, held or not.
struct Hasty_pi : Pi_lock {
    using Pi_lock::Pi_lock;
    bool lock(Seat &, const Patience &) {
        lw_cmpxchg_u32_acquire(&held, 0, 1);
        return true;
    }
    void unlock(Seat &, const Patience &) { lw_write_u32_release(&held, 0); }
    std::uint32_t held = 0;
};

TEST(Broken, ALockOfPriorityInheritance) {
    EXPECT_TRUE((caught<Exclusive<Hasty_pi>>(options("futex-lock-pi", 3), "overlapped")));
}
#endif

// An unlock without release: right on many machines most of the time, and a data race all the same.
struct Unordered_unlock : Ticket_lock {
    using Ticket_lock::Ticket_lock;
    bool lock(Seat &seat, const Patience &patience) {
        Wait wait(patience);
        seat.ticket = lw_fetch_add_u32_relaxed(&next_, 1);
        while (lw_read_u32_relaxed(&serving_) != seat.ticket)
            if (!wait.again())
                return false;
        return true;
    }
    void unlock(Seat &seat, const Patience &) { lw_write_u32(&serving_, seat.ticket + 1); }
    std::uint32_t next_ = 0, serving_ = 0;
};

TEST(Unordered, DISABLED_OnlyThreadSanitizerSeesIt) { run_team<Exclusive<Unordered_unlock>>(options("ticket", 3), never); }

// ---- Requests ---------------------------------------------------------------------------------------------------

std::string refused(Request request, const std::vector<unsigned> &allowed = {0, 1}) {
    try {
        resolve(request, allowed);
    } catch (const Invalid &error) {
        return error.what();
    }
    return "";
}

TEST(Requests, ThatAreWrongSayWhatWhereAndWhatIsAllowed) {
    const auto expect = [](const std::string &said, const std::string &where, const std::string &what) {
        EXPECT_EQ(said.rfind(where + ": ", 0), 0u) << said;
        EXPECT_NE(said.find(what), std::string::npos) << said;
        EXPECT_NE(said.find("(allowed: "), std::string::npos) << said;
        EXPECT_EQ(said.find('\n'), std::string::npos) << said;
    };
    for (const char *bad :
         {"", "-1", "x", "1.5", "10000001", "11ms", "5 ns", "1h", "99999999999999999999", "1e3", "nan", "1..2ns"})
        expect(refused({.kind = "mcs", .critical = bad}), "--critical", "");
    expect(refused({.kind = "mcs", .parallel = "3s"}), "--parallel", "not a length");
    for (const char *bad : {"", "0", "0s", "-1s", "2d", "25h", "86401", "1s2"})
        expect(refused({.kind = "mcs", .duration = bad}), "--duration", "");
    for (const char *bad : {",", "0,", "0,0", "1-0", "0-65536", "a", "0-", "-1", "0,1,0"})
        expect(refused({.kind = "mcs", .cpus = bad}), "--cpus", "");
    expect(refused({.kind = "mcs", .cpus = "0,7"}), "--cpus", "CPU 7");
    expect(refused({.kind = "mutex"}), "KIND", "no workload 'mutex'");
    expect(refused({.kind = "mcs", .cpus = "0,1", .threads = 3}), "--threads", "3 threads pinned to 2 CPUs");
    expect(refused({.kind = "hash-bucket", .cpus = "0,1", .threads = 2}), "--threads", "the waker included");
    expect(refused({.kind = "futex-wake-parallel", .cpus = "0,1", .threads = 2}), "--threads", "the wakers included");
    expect(refused({.kind = "mcs", .wait = "spin", .threads = 3}), "--wait", "would hardly end");
    expect(refused({.kind = "mcs", .wait = "sleep"}), "--wait", "no wait 'sleep'");
    expect(refused({.kind = "mcs", .long_hold = "2s"}), "--long-hold", "out of range");
    expect(refused({.kind = "handoff", .long_hold = "1ms"}), "--long-hold", "");
    expect(refused({.kind = "handoff", .threads = 1}), "--threads", "second thread");
}

TEST(Requests, GetWhatTheyAskFor) {
    Options o =
        resolve({.kind = "mcs", .critical = "100", .parallel = "1us", .cpus = "4,2-3", .duration = "1.5m"}, {2, 3, 4, 9});
    EXPECT_EQ(o.cpus, (std::vector<unsigned>{4, 2, 3}));
    EXPECT_EQ(o.threads, 3u);
    EXPECT_EQ(o.critical.iterations, 100u);
    EXPECT_GT(o.parallel.iterations, 0u);
    EXPECT_DOUBLE_EQ(o.duration_s, 90);
    EXPECT_TRUE(o.yields);
    EXPECT_EQ(resolve({.kind = "mcs"}, {0, 5}).threads, 2u);
    EXPECT_EQ(resolve({.kind = "handoff"}, {0}).threads, 2u);
    EXPECT_EQ(resolve({.kind = "hash-bucket"}, {0, 1, 2}).threads, 2u);
    EXPECT_EQ(resolve({.kind = "hash-bucket"}, {0}).threads, 1u);
    EXPECT_EQ(resolve({.kind = "futex-wake-parallel"}, {0, 1, 2, 3, 4}).threads, 2u);
    EXPECT_EQ(resolve({.kind = "futex-wake-parallel"}, {0}).threads, 1u);
    EXPECT_FALSE(resolve({.kind = "mcs", .wait = "spin", .threads = 2}, {0, 1}).yields);
    EXPECT_LT(resolve({.kind = "mcs", .threads = 256}, {0, 1}).polls, resolve({.kind = "mcs"}, {0, 1}).polls);
}

} // namespace
