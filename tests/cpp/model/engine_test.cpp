// SPDX-License-Identifier: MIT
// The engine under its conservation laws, against sums that can be done by hand, and against itself.
#include "model/engine.hpp"
#include "model/list.hpp"
#include "model/simulate.hpp"

#include "small_machine.hpp"

#include <gtest/gtest.h>

namespace {

using namespace lw;
using namespace lw::model;
using lw::model::test::Json;
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

Simulated run_cell(const Json &described, const wire::Cell &cell) {
    return simulate(parse_machine(described.dump()), cell, {}, checked_effort(), 1);
}

Json steady(Json machine) {
    machine["constants"]["jitter"] = 0;
    machine["homes"] = 1;
    for (Json &row : machine["core_home"])
        row = {0};
    for (Json &row : machine["core_core"])
        for (Json &cell : row)
            cell = 0;
    return machine;
}

TEST(Engine, EveryFormKeepsTheLawsAtEveryContention) {
    const Json arm = machine_json();
    Json x86 = machine_json(4, "near");
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
    Json machine = steady(machine_json());
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
    Json machine = steady(machine_json());
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
    Json described = machine_json(4, "near");
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

// --- mechanisms: each of these fails without the mechanism that it names

double round_trip(const Json &machine, const char *placement = "auto") {
    wire::Cell cell = cell_of("cmpxchg_blind", 2);
    cell.operation = "handoff";
    cell.placement = placement;
    return run_cell(machine, cell).window_ns[0];
}

TEST(Mechanism, AnUpgradeAtOnceDoesNotWaitForTheOtherCopies) {
    Json machine = steady(machine_json());
    wire::Cell cell = cell_of("load_cmpxchg", 2);
    cell.operation = "handoff";
    const double waits = run_cell(machine, cell).window_ns[0], blind = round_trip(machine);
    machine["options"]["upgrade_at_once"] = true;
    EXPECT_NEAR(run_cell(machine, cell).window_ns[0], waits - 2 * 10.0, 1.0); // the snoop of each of the two upgrades
    EXPECT_NEAR(round_trip(machine), blind, 0.01); // which a blind handoff has none of
}

TEST(Mechanism, AnAtomicBehindALoadAsksAtOnce) {
    Json described = steady(machine_json());
    described["constants"]["acknowledge_ps"] = 0;
    auto first = [&] { // a load and a compare-and-swap of a line that the other core holds shared
        const Machine machine = parse_machine(described.dump());
        wire::Cell cell = cell_of("cas_loop_read_first", 2, 0, 100'000);
        cell.params["start"] = std::string("i.sc");
        const model::Setup setup = make_setup(machine, cell, {0, 1}, Harness::probe);
        const Limits limits{.ops = 1, .time = 1'000'000'000, .spread = 1};
        return static_cast<double>(run(machine, setup, limits, Start::invalid, 1, true).window) / 1000;
    };
    EXPECT_GT(first(), 54.0); // the load, then the request of the upgrade: another core comes between the two
    described["options"]["upgrade_behind_load"] = true;
    EXPECT_NEAR(first(), 50.0, 0.01); // 28 for the shared copy, 18 for the upgrade behind it, 4 to perform
}

TEST(Mechanism, LinesThatSeveralCachesUseLiveHalfWayBetweenThem) {
    Json machine = steady(machine_json());
    machine["l3"] = {0, 0, 1, 1};
    const double before = round_trip(machine, "cpus:0,2"), local = round_trip(machine, "cpus:0,1");
    machine["homes"] = 2; // the first beside core 0, the last one central
    machine["central_homes"] = 1;
    for (Json &row : machine["core_home"])
        row = {0, 20'000};
    EXPECT_NEAR(round_trip(machine, "cpus:0,1"), local, 1.0);
    // To the home and back to the holder, and the acknowledgement: each of the two handoffs crosses it twice more.
    EXPECT_NEAR(round_trip(machine, "cpus:0,2"), before + 2 * 40.0, 5.0);
}

// --- where a line is when a window opens

TEST(Start, AWindowOpensWithTheStatesThatWereAskedFor) {
    Json machine = steady(machine_json());
    Effort effort = checked_effort();
    effort.ops = 20;
    auto first = [&](const char *start) {
        wire::Cell cell = cell_of("ldadd");
        cell.params["start"] = std::string(start);
        return simulate(parse_machine(machine.dump()), cell, {}, effort, 1).window_ns[0] * 20;
    };
    EXPECT_NEAR(first("ud"), 20 * 4.0, 0.1);
    EXPECT_NEAR(first("uc"), 20 * 4.0, 0.1);
    // Not held: request 4, look-up 8, data 16 and memory 60 come before the first operation.
    EXPECT_NEAR(first("i"), 20 * 4.0 + 88.0, 0.1);
    // Held by this core and shared: an upgrade, without data.
    EXPECT_NEAR(first("sc"), 20 * 4.0 + 12.0, 0.1);
}

TEST(Start, StatesThatNoProtocolReachesAreRefused) {
    const Machine machine = parse_machine(machine_json().dump());
    wire::Cell cell = cell_of("ldadd", 2);
    auto refusal = [&](const char *start) -> std::string {
        cell.params["start"] = std::string(start);
        try {
            return obstacle(machine, cell);
        } catch (const wire::Invalid &error) {
            return error.what();
        }
    };
    EXPECT_EQ(refusal("sc.sc"), "");
    EXPECT_EQ(refusal("ud"), "");
    EXPECT_NE(refusal("ud.ud").find("is the only one that holds it"), std::string::npos);
    EXPECT_NE(refusal("uc.sc").find("is the only one that holds it"), std::string::npos);
    EXPECT_NE(refusal("i.i.i").find("3 states for 2 threads"), std::string::npos);
    EXPECT_NE(refusal("owned").find("no state owned; allowed: i, sc, uc, ud"), std::string::npos);
}

// Only a defect can make two owners at once: a debug build finds it without being asked.
TEST(Checks, ADebugBuildHoldsEveryRunAgainstTheLaws) {
    const Machine machine = parse_machine(machine_json().dump());
    model::Setup setup = make_setup(machine, cell_of("ldadd", 3), {0, 1, 2}, Harness::probe);
    setup.start = {State::I, State::UD, State::UD};
    const Limits limits{.ops = 5, .time = 1'000'000'000};
    EXPECT_THROW(run(machine, setup, limits, Start::invalid, 1, true), Broken_law);
#ifdef NDEBUG
    EXPECT_NO_THROW(run(machine, setup, limits, Start::invalid, 1, false));
#else
    EXPECT_THROW(run(machine, setup, limits, Start::invalid, 1, false), Broken_law);
#endif
}

// --- forms made of several operations

wire::Cell family_cell(const char *operation, const char *form, unsigned threads = 1) {
    wire::Cell cell = cell_of(form, threads);
    cell.operation = operation;
    return cell;
}

TEST(Families, CountersOnLinesOfTheirOwnDoNotMeet) {
    const Json machine = steady(machine_json());
    wire::Cell own = family_cell("percpu_add", "percpu_own_ldadd", 4),
               shared = family_cell("percpu_add", "percpu_shared_ldadd", 4);
    EXPECT_NEAR(run_cell(machine, own).window_ns[0], 4.0, 0.01);
    EXPECT_GT(run_cell(machine, shared).window_ns[0], 20.0);
    own.params["slots"] = std::uint64_t{16}; // a working set of 64 lines
    const Simulated many = run_cell(machine, own);
    EXPECT_NEAR(many.window_ns[0], 4.0, 0.01);
    EXPECT_EQ(many.expected, many.found);
    own.params["slots"] = std::uint64_t{65};
    EXPECT_THROW(obstacle(parse_machine(machine.dump()), own), wire::Invalid);
}

TEST(Families, NeighboursOnOneLinePayForIt) {
    const Json machine = steady(machine_json());
    const double alone = run_cell(machine, family_cell("percpu_add", "percpu_padded_add", 2)).window_ns[0];
    EXPECT_GT(run_cell(machine, family_cell("percpu_add", "percpu_false_sharing_add", 2)).window_ns[0], 2 * alone);
}

TEST(Families, AReaderIsTwoOperations) {
    const Json machine = steady(machine_json());
    EXPECT_NEAR(run_cell(machine, family_cell("readers_shape", "srcu_percpu_ldadd", 2)).window_ns[0], 9.0, 0.1);
    wire::Cell delayed = family_cell("readers_shape", "srcu_percpu_ldadd");
    delayed.params["read_delay"] = std::uint64_t{1000};
    EXPECT_GT(run_cell(machine, delayed).window_ns[0], 300.0);
    // One count for all: two atomics on one line, each fought for.
    EXPECT_GT(run_cell(machine, family_cell("readers_pair", "refcnt", 2)).window_ns[0], 20.0);
}

TEST(Families, ReadersWhoseCompareKeepsTheValueDoNotDisturbEachOther) {
    Json described = steady(machine_json(4, "near"));
    described["arch"] = "x86_64";
    wire::Cell cell = family_cell("wide_read", "read_twice_cmpxchg16b_verify", 2);
    cell.width_bits = 128;
    EXPECT_EQ(run_cell(described, cell).failed, 0u); // no value ever changes
    cell.params["write_percent"] = std::uint64_t{10}; // the other thread's writes change it between load and compare
    EXPECT_GT(run_cell(described, cell).failed, 0u);
    cell.form = "cmpxchg16b_read_once";
    EXPECT_EQ(run_cell(described, cell).failed, 0u);
}

TEST(Families, WritesComeInTheStatedShare) {
    Json described = steady(machine_json(4, "near"));
    described["arch"] = "x86_64";
    const Machine machine = parse_machine(described.dump());
    for (std::uint64_t percent : {0u, 1u, 10u, 50u, 100u}) {
        wire::Cell cell = family_cell("wide_read", "movdqa_read");
        cell.params["write_percent"] = percent;
        const model::Setup setup = make_setup(machine, cell, {0}, Harness::probe);
        std::uint64_t writes = 0, operations = 0;
        for (const Step &step : setup.programs[0].steps) {
            writes += step.kind == Kind::store;
            operations += step.counts;
        }
        EXPECT_EQ(writes * 100, percent * operations);
    }
}

TEST(Families, WhatHasNoListOfOperationsIsRefused) {
    const Machine machine = parse_machine(machine_json().dump());
    for (const char *form : {"percpu_getcpu_c11_add", "percpu_racy_add", "percpu_rseq_cmpxchg"})
        EXPECT_EQ(obstacle(machine, family_cell("percpu_add", form)),
                  std::string("machine small has no policy for form ") + form);
    for (const char *form : {"mutex", "spinlock", "clock", "typesafe_ref"})
        EXPECT_EQ(obstacle(machine, family_cell("readers_pair", form)),
                  std::string("machine small has no policy for form ") + form);
    EXPECT_EQ(lacks(family_cell("readers_grace", "srcu_fast", 2)), "the model has no updater that waits for readers");
}

TEST(Modes, AThreadThatStarvesHasNone) { EXPECT_TRUE(modes_of({}).empty()); }

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
    Json described = machine_json();
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
