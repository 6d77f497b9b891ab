// Whole plans on this machine: records come out, sums hold, races and stops are seen. No assertion on any time.
#include "probe/machine.hpp"
#include "probe/run.hpp"
#include "probe/rmw_loops.hpp"
#include "probe/window.hpp"
#include "wire/forms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>

namespace {

using namespace lw;
using namespace lw::probe;

const Machine &machine() {
    static const Machine read = read_machine();
    return read;
}
const bool read_early = (machine(), true); // before any window pins this thread and narrows what it may use

bool two_cpus() { return usable_cpus(machine().topology, {}).size() >= 2; }

wire::Cell cell_of(const wire::Form &form, unsigned threads) {
    wire::Cell cell;
    cell.operation = form.operation;
    cell.form = form.name;
    cell.width_bits = form.width_bits;
    cell.order = form.order;
    cell.lines = 3;
    cell.threads = threads;
    cell.contender = threads > 1 ? "same_line" : "none";
    return cell;
}

wire::Plan short_plan() {
    wire::Plan plan;
    plan.name = "test";
    plan.budget_s = 600; // never the reason to stop, however slow the machine: max_windows is
    plan.min_windows = 3;
    plan.max_windows = 5;
    plan.window_ms = 0.5;
    plan.contended_window_ms = 1;
    return plan;
}

std::vector<wire::Record> run(const wire::Plan &plan, const std::atomic<bool> *stop = nullptr) {
    std::vector<wire::Record> records;
    Run_hooks hooks;
    hooks.record = [&](const wire::Record &record) { records.push_back(record); };
    hooks.stop = stop;
    run_plan(plan, machine(), "0123456789abcdef", hooks);
    return records;
}

TEST(Run, EveryFormHereAddsUp) {
    wire::Plan plan = short_plan();
    for (const wire::Form &form : wire::all_forms()) {
        if (!wire::belongs_to(form, wire::this_arch) || !find_rmw_loop(form.name, form.width_bits))
            continue;
        plan.cells.push_back(cell_of(form, 1));
        if (form.atomic())
            plan.cells.push_back(cell_of(form, 2));
    }
    auto records = run(plan);
    ASSERT_EQ(records.size(), plan.cells.size());
    for (const wire::Record &record : records) {
        SCOPED_TRACE(record.cell.id() + ": " + record.status + " " + record.reason);
        const wire::Form *form = wire::find_form(record.cell.form, record.cell.width_bits);
        if (!machine().has(form->needs) || (record.cell.threads > 1 && !two_cpus())) {
            EXPECT_EQ(record.status, "unavailable");
            EXPECT_FALSE(record.reason.empty());
            EXPECT_TRUE(record.window_ns.empty());
            continue;
        }
        EXPECT_TRUE(record.status == "ok" || record.status == "unreliable"); // a busy test machine disturbs windows
        EXPECT_EQ(record.sum_expected, record.sum_found);
        EXPECT_EQ(record.window_ns.size(), record.window_line.size());
        EXPECT_EQ(record.window_ns.size(), record.baseline_ns.size());
        EXPECT_EQ(record.window_ns.size() + record.discarded.total() >= 3, true);
        for (double ns : record.window_ns)
            EXPECT_GT(ns, 0);
        if (record.status == "ok") {
            EXPECT_EQ(record.cpus.size(), record.cell.threads);
            EXPECT_GT(record.total_mops, 0);
            EXPECT_GT(record.fairness, 0);
            EXPECT_LE(record.fairness, 1.0 + 1e-9);
        }
    }
}

TEST(Run, SeesLostCounts) {
    if (!two_cpus())
        GTEST_SKIP() << "needs two CPUs";
    const wire::Form *form = wire::find_form("plain_add", sizeof(void *) * 8);
    ASSERT_TRUE(form);
    wire::Plan plan = short_plan();
    plan.contended_window_ms = 30; // long enough that two racing threads surely overlap, also under an emulator
    plan.cells.push_back(cell_of(*form, 2));
    wire::Record record = run(plan).at(0);
    for (int attempt = 0; attempt < 20 && record.status != "error"; ++attempt)
        record = run(plan).at(0); // on a busy machine the two may have run in turn
    EXPECT_EQ(record.status, "error");
    EXPECT_NE(record.sum_expected, record.sum_found);
    EXPECT_NE(record.reason.find("sum"), std::string::npos);
}

TEST(Run, StopKeepsFinishedCellsOnly) {
    std::atomic<bool> stop{true};
    wire::Plan plan = short_plan();
    const wire::Form *form = wire::find_form("empty", sizeof(void *) * 8);
    plan.cells.push_back(cell_of(*form, 1));
    EXPECT_TRUE(run(plan, &stop).empty());
}

TEST(Run, BudgetEndsACellThatIsNotPreciseYet) {
    wire::Plan plan = short_plan();
    plan.precision = 1e-9;
    plan.max_windows = 100'000;
    plan.min_windows = 100'000;
    plan.budget_s = 0.2;
    const wire::Form *form = wire::find_form("empty", sizeof(void *) * 8);
    plan.cells.push_back(cell_of(*form, 1));
    wire::Record record = run(plan).at(0);
    EXPECT_EQ(record.stop, "budget");
    EXPECT_LT(record.window_ns.size(), 100'000u);
}

TEST(Run, MaximumOfWindowsEndsACell) {
    wire::Plan plan = short_plan();
    plan.precision = 1e-9;
    const wire::Form *form = wire::find_form("empty", sizeof(void *) * 8);
    plan.cells.push_back(cell_of(*form, 1));
    wire::Record record = run(plan).at(0);
    bool all_equal = record.issue && record.issue->low_ns == record.issue->high_ns; // a coarse clock: as precise as can be
    EXPECT_TRUE(record.stop == "windows" || record.status == "unreliable" || (record.stop == "precision" && all_equal));
    EXPECT_LE(record.window_ns.size(), plan.max_windows);
}

TEST(Run, RefusesParametersThatTheOperationDoesNotTake) {
    wire::Plan plan = short_plan();
    plan.cells.push_back(cell_of(*wire::find_form("empty", sizeof(void *) * 8), 1));
    plan.cells[0].params["nonsense"] = std::uint64_t{1};
    EXPECT_THROW(run(plan), wire::Invalid);
}

TEST(Run, RefusesMoreThreadsThanNamedCpus) {
    if (!two_cpus())
        GTEST_SKIP() << "needs two CPUs";
    wire::Plan plan = short_plan();
    plan.cpus = {usable_cpus(machine().topology, {})[0]};
    plan.cells.push_back(cell_of(*wire::find_form("empty", sizeof(void *) * 8), 2));
    EXPECT_THROW(run(plan), wire::Invalid);
}

TEST(Pin, FailsForACpuThatDoesNotExist) { EXPECT_FALSE(pin_to(65'000)); }

// A point's forms are neighbours in a plan; a block ends between points, unless one point alone is larger than any block.
TEST(Block, KeepsTheFormsOfAPointTogether) {
    wire::Plan plan;
    plan.block_cells = 4;
    auto add = [&](unsigned forms, std::uint64_t work) {
        for (unsigned i = 0; i < forms; ++i) {
            wire::Cell cell;
            cell.operation = "add";
            cell.form = "form_" + std::to_string(i);
            cell.work_iters = work;
            plan.cells.push_back(cell);
        }
    };
    add(2, 0);
    add(2, 1);
    add(7, 2);
    add(1, 3);
    add(300, 4);
    std::vector<std::size_t> ends;
    for (std::size_t first = 0; first < plan.cells.size(); first = ends.back())
        ends.push_back(block_end(plan, first));
    EXPECT_EQ(ends, (std::vector<std::size_t>{4, 11, 12, 268, 312}));
}

// Each line once a round, never twice in one order: drift cannot look like a difference of lines.
TEST(LineOrder, IsDrawnAnewForEveryRound) {
    std::mt19937_64 random(1);
    Line_order order(16);
    std::set<std::vector<unsigned>> rounds;
    for (unsigned round = 0; round < 50; ++round) {
        std::vector<unsigned> lines(16);
        std::ranges::generate(lines, [&] { return order.next(random); });
        EXPECT_EQ(std::set<unsigned>(lines.begin(), lines.end()).size(), 16u);
        EXPECT_FALSE(std::ranges::is_sorted(lines));
        rounds.insert(lines);
    }
    EXPECT_EQ(rounds.size(), 50u);
    std::vector<unsigned> in_place(16); // a line's place in a round is chance too: no line is always early or late
    for (const auto &lines : rounds)
        for (unsigned i = 0; i < 16; ++i)
            in_place[lines[i]] += i;
    for (unsigned sum : in_place)
        EXPECT_NEAR(sum / 50.0, 7.5, 3.5); // five standard deviations: the seed is fixed, other libraries shuffle otherwise
}

// What records say of a run's order. Windows visited one line after the other, discarded ones left out, would in all go
// forward by no more lines than there were windows; in a drawn order the next line is about eight further on.
TEST(Run, VisitsLinesInADrawnOrder) {
    wire::Plan plan = short_plan();
    plan.cells = {cell_of(*wire::find_form("empty", sizeof(void *) * 8), 1)};
    plan.cells[0].lines = 16;
    plan.min_windows = plan.max_windows = 64;
    wire::Record record = run(plan).at(0);
    for (int attempt = 0; attempt < 20 && record.window_line.size() < 20; ++attempt)
        record = run(plan).at(0); // a busy machine disturbed most windows
    const std::vector<unsigned> &lines = record.window_line;
    if (lines.size() < 20u)
        GTEST_SKIP() << "twenty runs were disturbed; LineOrder looks at the order itself";
    unsigned forward = 0;
    for (std::size_t i = 1; i < lines.size(); ++i)
        forward += (lines[i] - lines[i - 1] - 1) % 16 + 1;
    EXPECT_GT(forward, 64u);
}

} // namespace
