// SPDX-License-Identifier: MIT
// A lock's holder and its waiters in plan `wait`: every section is counted, by whatever hint others wait, and a preempted holder really is.
#include "probe/subject.hpp"
#include "probe/window.hpp"
#include "this_machine.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace {

using namespace lw;
using namespace lw::probe;

wire::Cell held(const std::string &hint, const char *contender, unsigned threads, bool preempted = false) {
    wire::Cell cell;
    cell.operation = "wait_held";
    cell.form = "held_" + hint;
    cell.order = "release";
    cell.width_bits = 32;
    cell.lines = 3;
    cell.contender = contender;
    cell.threads = threads;
    if (preempted)
        cell.params["preempted"] = std::uint64_t{1};
    return cell;
}

Window_result window_of(Subject &subject, const std::vector<unsigned> &cpus, Mode mode, double length_ms) {
    Window_request request;
    request.mode = mode;
    request.length_ms = length_ms;
    request.line = 2;
    return run_window(subject, machine(), cpus, request, nullptr);
}

void expect_sum(Subject &subject) {
    const std::optional<Check> check = subject.check();
    ASSERT_TRUE(check);
    EXPECT_EQ(check->expected, check->found);
    EXPECT_GT(check->found, 0u);
}

TEST(Waiting, EverySectionIsCountedAloneAndWithWaiters) {
    const std::vector<unsigned> cpus = usable_cpus(machine().topology, {});
    for (const char *hint : {"none", "pause", "tpause", "umwait", "mwaitx", "yield", "isb", "sb", "wfe", "wfet"})
        for (const char *contender : {"none", "same_line"}) {
            const unsigned threads = *contender == 'n' ? 1 : 2;
            if (cpus.size() < threads)
                continue;
            Made made = make_subject(held(hint, contender, threads), machine());
            if (!made.subject) { // of another architecture, or not of this CPU
                EXPECT_NE(made.unavailable, "");
                continue;
            }
            const std::vector<unsigned> own(cpus.begin(), cpus.begin() + threads);
            const Window_result window = window_of(*made.subject, own, Mode::timed, 0.2);
            ASSERT_EQ(window.error, "") << hint;
            EXPECT_GT(window.ops[0], 0u) << hint;
            for (unsigned thread = 1; thread < threads; ++thread)
                EXPECT_EQ(window.ops[thread], 0u) << "a waiter has no section";
            expect_sum(*made.subject);
            std::map<std::string, double> values;
            made.subject->metrics(values);
            EXPECT_TRUE(values.empty()) << "no competitor, no share";
        }
}

TEST(Waiting, MoreThanOneWaiterHasAPlaceOfItsOwn) {
    Made made = make_subject(held("none", "same_line", 5), machine());
    ASSERT_TRUE(made.subject);
    for (unsigned thread = 0; thread < 5; ++thread)
        EXPECT_NE(made.subject->arguments(thread, 0).target, nullptr);
}

// The competitor runs in windows of the holder's sections, not in those of its baseline, and a window with it counts.
TEST(Waiting, APreemptedHolderIsAwayAndItsWindowsCount) {
    const std::vector<unsigned> cpus{usable_cpus(machine().topology, {}).front()};
    Made made = make_subject(held("none", "none", 1, true), machine());
    ASSERT_TRUE(made.subject) << made.unavailable;
    std::map<std::string, double> values;
    ASSERT_EQ(window_of(*made.subject, cpus, Mode::baseline, 1).error, "");
    made.subject->metrics(values);
    EXPECT_EQ(values.at("holder_away_share"), 0);
    while (values.at("holder_away_share") < 0.1) { // a slice of each side is in 50 ms, or in some windows of them
        const Window_result window = window_of(*made.subject, cpus, Mode::timed, 50);
        ASSERT_EQ(window.error, "");
        EXPECT_FALSE(window.switched);
        EXPECT_FALSE(window.long_batch);
        made.subject->metrics(values);
    }
    EXPECT_LT(values.at("holder_away_share"), 1);
    expect_sum(*made.subject);
}

TEST(Waiting, HoldersThatMakeNoSenseAreRefused) {
    auto refused = [](const wire::Cell &cell) {
        try {
            make_subject(cell, machine());
        } catch (const wire::Invalid &) {
            return true;
        }
        return false;
    };
    EXPECT_FALSE(refused(held("none", "placebo", 2)));
    EXPECT_FALSE(refused(held("none", "same_line", 2, true)));
    EXPECT_TRUE(refused(held("none", "none", 2)));
    EXPECT_TRUE(refused(held("none", "same_line", 1)));
    wire::Cell cell = held("none", "same_line", 2);
    cell.contender_iters = 10;
    EXPECT_TRUE(refused(cell));
    for (const wire::Param &other : {wire::Param{std::uint64_t{2}}, wire::Param{std::string("yes")}}) {
        cell = held("none", "none", 1);
        cell.params["preempted"] = other;
        EXPECT_TRUE(refused(cell));
    }
    cell = held("none", "none", 1, true);
    cell.params["slots"] = std::uint64_t{1};
    EXPECT_TRUE(refused(cell));
    cell = held("none", "same_line", 2, true);
    cell.form = "woken_none";
    cell.operation = "wait_woken";
    EXPECT_TRUE(refused(cell)) << "wake-ups have no holder";
}

} // namespace
