// SPDX-License-Identifier: MIT
// Whole plans on this machine: records come out, sums hold, races and stops are seen. No assertion on any time.
#include "probe/rmw_loops.hpp"
#include "probe/window.hpp"
#include "this_machine.hpp"
#include "wire/forms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <set>

namespace {

using namespace lw;
using namespace lw::probe;

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
    run_plan(plan, back_end(), "0123456789abcdef", hooks);
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

TEST(Run, AddsUpWithEveryKindOfWork) {
    wire::Plan plan = short_plan();
    for (const char *work : {"chain", "nop_loop", "memory"})
        for (std::uint64_t units : {1, 700}) {
            plan.cells.push_back(cell_of(*wire::find_form("builtin_add", sizeof(void *) * 8), 1));
            plan.cells.back().work = work;
            plan.cells.back().work_iters = units;
        }
    auto records = run(plan);
    ASSERT_EQ(records.size(), 6u);
    for (const wire::Record &record : records) {
        EXPECT_TRUE(record.status == "ok" || record.status == "unreliable") << record.cell.id() << ": " << record.reason;
        EXPECT_EQ(record.sum_expected, record.sum_found) << record.cell.id();
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
    for (int attempt = 0; attempt < 1000 && record.status != "error"; ++attempt)
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

TEST(Run, SaysInWordsHowManyWindowsWereDisturbed) {
    EXPECT_EQ(disturbed_text(5, 4), "5 of 9 windows were disturbed");
    EXPECT_EQ(disturbed_text(2, 0), "2 of 2 windows were disturbed");
    EXPECT_EQ(disturbed_text(1, 0), "the only window was disturbed");
    EXPECT_EQ(disturbed_text(0, 0), "no window was measured");
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

// What a window of a form is to be: called with how often the form was timed before.
using Script = std::function<Window_result(unsigned before)>;

Window_result lasting(double ns) {
    Window_result result;
    result.ns_per_op = ns;
    result.ops = {100};
    result.ns = {100 * ns};
    result.ticks = {100};
    result.cpus = {0};
    return result;
}

// A machine whose windows are made up: no time passes, and what disturbs them is known.
class Scripted final : public Back_end {
public:
    std::map<std::string, Script> forms;
    std::map<std::string, unsigned> extras; // windows of single operations, by form

    const Topology &topology() const override { return machine().topology; }
    void check(const wire::Cell &) const override {}
    std::vector<Counter_event> events(const std::vector<std::string> &) const override { return {}; }
    Opened open(const wire::Cell &cell) override { return {std::make_unique<Made_up>(*this, cell.form), ""}; }

private:
    class Made_up final : public Windows {
    public:
        Made_up(Scripted &owner, std::string form) : owner_(owner), form_(std::move(form)) {}

        unsigned lines() const override { return 1; }
        std::string baseline_key() const override { return "loop"; }
        std::optional<Check> check() override { return {}; }
        unsigned small_batch_ops() const override { return 16; }
        Window_result run(const std::vector<unsigned> &, const Window_request &request, wire::Histogram *) override {
            if (request.mode == Mode::small)
                ++owner_.extras[form_];
            return request.mode == Mode::timed ? owner_.forms.at(form_)(timed_++) : lasting(1);
        }

    private:
        Scripted &owner_;
        std::string form_;
        unsigned timed_ = 0;
    };
};

// The records of forms of one point, and of form "other" at a point of its own in the same block.
std::map<std::string, wire::Record> run(Scripted &made_up, wire::Plan plan) {
    for (const auto &[form, script] : made_up.forms) {
        wire::Cell cell;
        cell.operation = "add";
        cell.form = form;
        cell.lines = 1;
        cell.work_iters = form == "other";
        plan.cells.push_back(cell);
    }
    std::map<std::string, wire::Record> records;
    Run_hooks hooks;
    hooks.record = [&](const wire::Record &record) { records[record.cell.form] = record; };
    EXPECT_TRUE(run_plan(plan, made_up, "0123456789abcdef", hooks));
    return records;
}

wire::Plan twenty_rounds() {
    wire::Plan plan = short_plan();
    plan.precision = 1e-9;
    plan.min_windows = plan.max_windows = 20;
    return plan;
}

// A neighbour that takes time from one form takes the round from all: what is left are whole rounds.
TEST(Round, IsDroppedForEveryFormOfAPointWhenOneIsStolenFrom) {
    Scripted made_up;
    auto steady = [](unsigned before) { return lasting(2 + 0.1 * (before % 3)); };
    made_up.forms = {{"a", steady}, {"other", steady}, {"b", [&](unsigned before) {
                                                            Window_result result = steady(before);
                                                            result.stolen = before == 4 || before == 11;
                                                            return result;
                                                        }}};
    auto records = run(made_up, twenty_rounds());
    EXPECT_EQ(records["a"].window_round, records["b"].window_round);
    EXPECT_EQ(records["a"].window_ns.size(), 18u);
    EXPECT_EQ(records["a"].discarded.stolen, 2u);
    EXPECT_EQ(records["b"].discarded.stolen, 2u);
    EXPECT_EQ(records["other"].window_ns.size(), 20u) << "another point of the block";
}

// A form that was interrupted loses its own window: the others of the round still compare with each other.
TEST(Round, StaysForTheOthersWhenOneIsInterrupted) {
    Scripted made_up;
    made_up.forms = {{"a", [](unsigned before) { return lasting(2 + 0.1 * (before % 3)); }},
                     {"b", [](unsigned before) {
                          Window_result result = lasting(3 + 0.1 * (before % 3));
                          result.switched = before < 5;
                          return result;
                      }}};
    auto records = run(made_up, twenty_rounds());
    EXPECT_EQ(records["a"].window_ns.size(), 20u);
    EXPECT_EQ(records["b"].window_ns.size(), 15u);
    EXPECT_EQ(records["b"].discarded.switched, 5u);
}

// Rounds that a neighbour took are no fault of the cell: what is left of a busy host still counts.
TEST(Round, LostToANeighbourMakesNoCellUnreliable) {
    Scripted made_up;
    auto stolen_in = [](unsigned residue) {
        return [residue](unsigned before) {
            Window_result result = lasting(2 + 0.1 * (before % 3));
            result.stolen = before % 4 == residue;
            return result;
        };
    };
    made_up.forms = {{"a", stolen_in(0)}, {"b", stolen_in(1)}, {"c", stolen_in(2)}};
    for (auto &[form, record] : run(made_up, twenty_rounds())) {
        EXPECT_EQ(record.window_ns.size(), 5u) << form;
        EXPECT_EQ(record.discarded.stolen, 15u) << form;
        EXPECT_EQ(record.status, "ok") << form;
    }
    made_up.forms = {{"a", [](unsigned before) {
                          Window_result result = lasting(2);
                          result.stolen = before % 4 != 0;
                          return result;
                      }}};
    EXPECT_EQ(run(made_up, twenty_rounds())["a"].status, "unreliable");
}

// A form that is precise already goes on while another of its point is not: rounds compare them.
TEST(Round, HoldsEveryFormOfAPointUntilAllArePrecise) {
    Scripted made_up;
    made_up.forms = {{"a", [](unsigned) { return lasting(2); }},
                     {"b", [](unsigned before) { return lasting(before < 20 && before % 2 ? 4 : 3); }},
                     {"other", [](unsigned) { return lasting(2); }}};
    wire::Plan plan = short_plan();
    plan.max_windows = 200;
    auto records = run(made_up, plan);
    EXPECT_GT(records["b"].window_ns.size(), 20u);
    EXPECT_EQ(records["a"].window_round, records["b"].window_round);
    EXPECT_EQ(records["a"].stop, "precision");
    EXPECT_LT(records["other"].window_ns.size(), 20u);
}

TEST(Round, TakesAsManyExtraWindowsAsThePlanSays) {
    for (unsigned asked : {wire::Plan().extra_windows, 0u, 1u}) {
        Scripted made_up;
        made_up.forms = {{"a", [](unsigned before) { return lasting(2 + 0.1 * (before % 3)); }}};
        wire::Plan plan = twenty_rounds();
        plan.min_windows = 6;
        plan.extra_windows = asked;
        run(made_up, plan);
        EXPECT_EQ(made_up.extras["a"], std::min(asked, 6u));
    }
}

} // namespace
