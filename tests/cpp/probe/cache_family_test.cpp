// SPDX-License-Identifier: MIT
// The probe's passes of cache maintenance: every form and state here runs and leaves every line as it was stored.
#include "this_machine.hpp"
#include "wire/forms.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace lw;
using namespace lw::probe;

wire::Cell cell_of(const wire::Form &form, const char *state, const char *wait, std::uint64_t bytes, std::uint64_t entries) {
    wire::Cell cell;
    cell.operation = form.operation;
    cell.form = form.name;
    cell.width_bits = form.width_bits;
    cell.order = form.order;
    cell.lines = 1;
    cell.params = {{"state", std::string(state)},
                   {"wait", std::string(wait)},
                   {"entry_bytes", bytes},
                   {"entries", entries},
                   {"align_bytes", std::uint64_t{8}}};
    return cell;
}

wire::Plan plan_of(std::vector<wire::Cell> cells) {
    wire::Plan plan;
    plan.name = "test";
    plan.budget_s = 15;
    plan.min_windows = 1;
    plan.max_windows = 2;
    plan.window_ms = 0.2;
    plan.cells = std::move(cells);
    return plan;
}

std::vector<wire::Form> forms_here() {
    std::vector<wire::Form> forms;
    for (const wire::Form &form : wire::all_forms())
        if (wire::belongs_to(form, wire::this_arch) && (form.operation == "clean" || form.operation == "clean_invalidate"))
            forms.push_back(form);
    return forms;
}

TEST(Cache_family, EveryPassKeepsItsBytes) {
    std::vector<wire::Cell> cells;
    for (const wire::Form &form : forms_here())
        for (const char *state : {"absent", "clean", "dirty_l1", "dirty_l2", "dirty_beyond"})
            for (const char *wait : {"each", "once"})
                cells.push_back(cell_of(form, state, wait, 100, 7));
    ASSERT_FALSE(cells.empty());
    wire::Plan plan = plan_of(cells);
    std::vector<wire::Record> records;
    Run_hooks hooks;
    hooks.record = [&](const wire::Record &record) { records.push_back(record); };
    ASSERT_TRUE(run_plan(plan, back_end(), "0123456789abcdef", hooks));
    ASSERT_EQ(records.size(), cells.size());
    std::size_t measured = 0;
    for (const wire::Record &record : records) {
        SCOPED_TRACE(record.cell.id() + ": " + record.status + " " + record.reason);
        if (record.status == "unavailable") {
            EXPECT_FALSE(record.reason.empty());
            continue;
        }
        EXPECT_TRUE(record.status == "ok" || record.status == "unreliable"); // a busy test machine disturbs windows
        ++measured;
        EXPECT_EQ(record.sum_expected, record.sum_found);
        EXPECT_GT(record.sum_found, 0u);
        const double line = record.metrics.at("line_bytes");
        const double lines = 7 * std::ceil((8 + 100) / line);
        EXPECT_EQ(record.metrics.at("lines_per_pass"), lines);
        EXPECT_EQ(record.metrics.at("waits_per_pass"), record.cell.text("wait", "") == "each" ? 7 : 1);
        for (double ns : record.window_ns)
            EXPECT_GE(ns, 0); // an emulated clock is coarser than a short pass
    }
    EXPECT_GT(measured, 0u);
}

TEST(Cache_family, RefusesWhatMakesNoSense) {
    const auto forms = forms_here();
    ASSERT_FALSE(forms.empty());
    auto refused = [&](auto change) {
        wire::Cell cell = cell_of(forms[0], "clean", "once", 4096, 4);
        change(cell);
        EXPECT_THROW(check_plan(plan_of({cell}), back_end()), wire::Invalid) << cell.id();
    };
    refused([](wire::Cell &cell) { cell.params["state"] = std::string("dirty"); });
    refused([](wire::Cell &cell) { cell.params["wait"] = std::string("never"); });
    refused([](wire::Cell &cell) { cell.params["entry_bytes"] = std::uint64_t{0}; });
    refused([](wire::Cell &cell) { cell.params["entries"] = std::uint64_t{0}; });
    refused([](wire::Cell &cell) { cell.params["entries"] = std::uint64_t{1} << 40; });
    refused([](wire::Cell &cell) { cell.params["align_bytes"] = std::uint64_t{4096}; });
    refused([](wire::Cell &cell) { cell.params["colour"] = std::uint64_t{1}; });
    refused([](wire::Cell &cell) { cell.params["entries"] = std::string("many"); });
    refused([](wire::Cell &cell) { cell.lines = 2; });
    refused([](wire::Cell &cell) { cell.work_iters = 5; });
}

TEST(Cache_family, SaysWhenAListIsTooLargeForItsState) {
    for (const wire::Form &form : forms_here())
        for (const char *state : {"dirty_l1", "dirty_l2"}) {
            wire::Cell cell = cell_of(form, state, "once", 1 << 20, 64);
            std::vector<wire::Record> records;
            Run_hooks hooks;
            hooks.record = [&](const wire::Record &record) { records.push_back(record); };
            run_plan(plan_of({cell}), back_end(), "0123456789abcdef", hooks);
            ASSERT_EQ(records.size(), 1u);
            EXPECT_EQ(records[0].status, "unavailable");
            EXPECT_FALSE(records[0].reason.empty());
        }
}

} // namespace
