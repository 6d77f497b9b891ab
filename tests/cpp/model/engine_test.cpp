// The engine under its conservation laws, against sums that can be done by hand, and against itself.
#include "model/engine.hpp"
#include "model/list.hpp"
#include "model/simulate.hpp"

#include "small_machine.hpp"

#include <gtest/gtest.h>

namespace {

using namespace lw;
using namespace lw::model;
using lw::model::test::json;
using lw::model::test::machine_json;

wire::Cell cell_of(const std::string &form, unsigned threads = 1, std::uint64_t work = 0, std::uint64_t spacing = 0) {
    wire::Cell cell;
    cell.operation = "add";
    cell.form = form;
    cell.work_iters = work;
    cell.threads = threads;
    cell.contender = threads > 1 ? "same_line" : "none";
    cell.contender_iters = spacing;
    return cell;
}

Effort checked_effort() {
    Effort effort;
    effort.checked = true;
    effort.windows = 4;
    effort.ops = 400;
    return effort;
}

Simulated run_cell(const json &described, const wire::Cell &cell) {
    return simulate(parse_machine(described.dump()), cell, {}, checked_effort(), 1);
}

json steady(json machine) {
    machine["constants"]["jitter"] = 0;
    machine["homes"] = 1;
    for (json &row : machine["core_home"])
        row = {0};
    for (json &row : machine["core_core"])
        for (json &cell : row)
            cell = 0;
    return machine;
}

TEST(Engine, EveryFormKeepsTheLawsAtEveryContention) {
    const json arm = machine_json();
    json x86 = machine_json(4, "near");
    x86["arch"] = "x86_64";
    x86["options"]["locked_drains"] = true;
    for (const auto &[described, forms] :
         {std::pair{arm,
                    std::vector<std::string>{"stadd", "ldadd", "llsc_add", "swp", "prfm_keep_stadd", "prfm_strm_llsc_add",
                                             "cas_loop_read_first", "cas_loop_guess_first", "ldr_read"}},
          {x86,
           {"lock_add", "xchg", "cmpxchg_loop_read_first", "cmpxchg_loop_guess_first", "prefetchw_lock_xadd", "mov_read"}}})
        for (const std::string &form : forms)
            for (unsigned threads : {1u, 2u, 4u})
                for (std::uint64_t spacing : {0u, 30u, 3000u}) {
                    const Simulated result =
                        run_cell(described, cell_of(form, threads, spacing % 7 * 20, threads > 1 ? spacing : 0));
                    if (!form.ends_with("llsc_add")) { // exclusives may starve a thread
                        EXPECT_GT(result.thread_ops[0], 0u) << form;
                    }
                    EXPECT_LE(result.home_utilisation, 1.0) << form;
                }
}

TEST(Engine, AFarAtomicTakesTheSumOfItsSteps) {
    json machine = steady(machine_json());
    machine["constants"]["far_busy_ps"] = 35'000;
    // request 4, home 8, far 40, one at a time on one line
    EXPECT_NEAR(run_cell(machine, cell_of("stadd")).window_ns[0], 52.0, 0.01);
    // Two cores: the home is busy for 8 + 35 with each, and serves them in turns.
    EXPECT_NEAR(run_cell(machine, cell_of("stadd", 2)).window_ns[0], 86.0, 0.5);
}

TEST(Engine, ANearAtomicCostsItsExecutionWhileTheLineIsHeld) {
    EXPECT_NEAR(run_cell(steady(machine_json()), cell_of("ldadd")).window_ns[0], 4.0, 0.01);
}

TEST(Engine, WorkHidesAPostedAtomic) {
    wire::Cell cell = cell_of("stadd", 1, 300);
    EXPECT_NEAR(run_cell(steady(machine_json()), cell).window_ns[0], 1.0 + 90.0, 0.01);
    cell.work = "nop_loop"; // its end is mispredicted
    EXPECT_NEAR(run_cell(steady(machine_json()), cell).window_ns[0], 1.0 + 90.0 + 6.0, 0.01);
}

TEST(Engine, AHandoffIsTwoTransfersAndLoadFirstPaysTwiceThat) {
    json machine = steady(machine_json());
    wire::Cell cell = cell_of("cmpxchg_blind", 2);
    cell.operation = "handoff";
    cell.form = "store_load";
    const double store = run_cell(machine, cell).window_ns[0];
    cell.form = "load_cmpxchg";
    const double load_first = run_cell(machine, cell).window_ns[0];
    cell.form = "cmpxchg_blind";
    const double blind = run_cell(machine, cell).window_ns[0];
    EXPECT_GT(blind, 100.0);
    EXPECT_GT(load_first, 1.3 * blind);
    EXPECT_GT(store, blind);
}

TEST(Engine, TheBreakdownAddsUpToTheInterval) {
    for (const char *form : {"stadd", "ldadd", "llsc_add", "cas_loop_read_first"})
        for (unsigned threads : {1u, 2u}) {
            const Simulated result = run_cell(machine_json(), cell_of(form, threads, 20));
            double sum = 0;
            for (double spent : result.spent_ns)
                sum += spent;
            EXPECT_NEAR(sum, result.window_total_ns / static_cast<double>(result.thread_ops[0]), 0.02 * sum) << form;
        }
}

TEST(Engine, TheSameSeedGivesTheSameBits) {
    const Machine machine = parse_machine(machine_json().dump());
    const wire::Cell cell = cell_of("ldadd", 4, 10, 10);
    const Simulated one = simulate(machine, cell, {}, checked_effort(), 5);
    const Simulated two = simulate(machine, cell, {}, checked_effort(), 5);
    const Simulated other = simulate(machine, cell, {}, checked_effort(), 6);
    EXPECT_EQ(one.window_ns, two.window_ns);
    EXPECT_EQ(one.events, two.events);
    EXPECT_NE(one.window_ns, other.window_ns);
}

// The figures of one seed, so that another compiler or architecture that gives other bits is found out.
TEST(Engine, ThePublishedSeedGivesThePublishedBits) {
    const Machine machine = parse_machine(machine_json().dump());
    const model::Setup setup = make_setup(machine, cell_of("ldadd", 3, 7, 20), {0, 1, 2}, Harness::probe);
    const Limits limits{.warm_ops = 50, .ops = 1000, .batch_ops = 25, .time = 1'000'000'000, .visits = 0};
    const Outcome outcome = run(machine, setup, limits, Start::invalid, 42, true);
    EXPECT_EQ(outcome.window, 15'844'432);
    EXPECT_EQ(outcome.events, 6293u);
}

TEST(Engine, SharedGlobalsMatterOnlyWhereAnOperationWaitsForTheStores) {
    json described = machine_json(4, "near");
    described["arch"] = "x86_64";
    Effort effort = checked_effort();
    auto interval = [&](Harness harness) {
        effort.harness = harness;
        return simulate(parse_machine(described.dump()), cell_of("lock_xadd", 2, 0, 10), {}, effort, 1).window_ns[0];
    };
    const double own = interval(Harness::probe);
    EXPECT_LT(interval(Harness::published), 1.2 * own); // posted: they drain behind the operations
    described["options"]["locked_drains"] = true;
    EXPECT_GT(interval(Harness::published), 2 * own); // every operation waits for the globals' line
}

TEST(Modes, OneGroupIsOneModeAndChanceIsNone) {
    EXPECT_EQ(modes_of({10, 11, 10, 10.5, 11, 10}).size(), 1u);
    std::vector<double> alternating, lasting;
    for (int i = 0; i < 80; ++i) {
        alternating.push_back(i % 2 ? 10 : 20);
        lasting.push_back(i < 40 ? 10 : 20);
    }
    EXPECT_EQ(modes_of(alternating).size(), 1u); // no state sustains itself
    const std::vector<Mode> modes = modes_of(lasting);
    ASSERT_EQ(modes.size(), 2u);
    EXPECT_DOUBLE_EQ(modes[0].ns, 10);
    EXPECT_DOUBLE_EQ(modes[1].share, 0.5);
}

TEST(List, OneWaitSavesTheWaitsOfTheOthers) {
    const Machine machine = parse_machine(machine_json().dump());
    wire::Cell cell = cell_of("dc_cvac");
    cell.operation = "clean";
    cell.params = {{"wait", std::string("each")}, {"entry_bytes", std::uint64_t{4096}}, {"entries", std::uint64_t{2560}}};
    const List_outcome each = run_list(machine, cell);
    cell.params["wait"] = std::string("once");
    const List_outcome once = run_list(machine, cell);
    EXPECT_EQ(each.lines, 64u * 2560u);
    EXPECT_EQ(each.waits, 2560u);
    EXPECT_EQ(once.waits, 1u);
    // 64 issues of 2, the rest of 100 behind the last, and 130 to drain: for each entry, or once
    EXPECT_EQ(each.pass, 2560 * (63 * 2000 + 100'000 + 130'000));
    EXPECT_EQ(once.pass, (2560 * 64 - 1) * 2000 + 100'000 + 130'000);
    cell.params["wait"] = std::string("never");
    EXPECT_THROW(run_list(machine, cell), wire::Invalid);
}

TEST(Plan, AFormWithoutAPolicyIsRefused) {
    json described = machine_json();
    described["policy"]["swap"] = {"none", "none", "none", "none"};
    const Machine machine = parse_machine(described.dump());
    EXPECT_EQ(obstacle(machine, cell_of("swp")), "machine small has no policy for form swp");
    EXPECT_EQ(obstacle(machine, cell_of("lock_add")), "machine small has no policy for form lock_add");
    EXPECT_EQ(obstacle(machine, cell_of("ldadd")), "");
    wire::Plan plan;
    plan.cells = {cell_of("swp")};
    EXPECT_THROW(check_plan(machine, plan), wire::Invalid);
    plan.cells = {cell_of("ldadd", 9)};
    EXPECT_THROW(check_plan(machine, plan), wire::Invalid);
}

} // namespace
