// SPDX-License-Identifier: MIT
// The table of --quick.
#include "probe/quick.hpp"

#include "probe/rmw_loops.hpp"
#include "probe/run.hpp"
#include "probe/stats.hpp"
#include "wire/forms.hpp"

#include <cstdio>

namespace lw::probe {
namespace {

wire::Plan quick_plan() {
    wire::Plan plan;
    plan.name = "quick";
    plan.budget_s = 20;
    plan.launches = 1;
    plan.contended_window_ms = 20;
    plan.min_windows = 4;
    plan.max_windows = 64;
    for (const wire::Form &form : wire::all_forms()) {
        if (!wire::belongs_to(form, wire::this_arch) || !find_rmw_loop(form.name, form.width_bits) ||
            form.operation == "none" || form.width_bits != sizeof(void *) * 8)
            continue;
        for (bool contend : {false, true})
            for (unsigned work : {0u, 200u}) {
                if (contend && !form.atomic())
                    continue;
                wire::Cell cell;
                cell.operation = form.operation;
                cell.form = form.name;
                cell.width_bits = form.width_bits;
                cell.order = form.order;
                cell.work_iters = work;
                if (contend) {
                    cell.contender = "same_line";
                    cell.threads = 2;
                    cell.lines = 8;
                }
                plan.cells.push_back(cell);
            }
    }
    return plan;
}

void print_row(const wire::Record &record) {
    const wire::Cell &cell = record.cell;
    std::printf("%-10s %-34s %-10s %5llu ", cell.operation.c_str(), cell.form.c_str(), cell.contender.c_str(),
                static_cast<unsigned long long>(cell.work_iters));
    if (record.status != "ok") {
        std::printf(" %s: %s\n", record.status.c_str(), record.reason.c_str());
        return;
    }
    std::vector<double> exposed;
    for (std::size_t i = 0; i < record.window_ns.size(); ++i)
        exposed.push_back(record.window_ns[i] - record.baseline_ns[i]);
    std::printf("%9.2f %9.2f %9.2f %9.2f\n", record.batch ? record.batch->p50_ns : 0.0,
                record.batch ? record.batch->p95_ns : 0.0, record.batch ? record.batch->p99_ns : 0.0, median(exposed));
}

} // namespace

int print_quick_table(const Machine &machine, std::atomic<bool> &stop) {
    wire::Context context = describe(machine, "quick", 0);
    std::printf("%s, %s; %s; %zu CPUs; one unit of work %.3f ns; one cycle %.3f ns%s\n", context.cpu_model.c_str(),
                context.arch.c_str(), context.kernel.c_str(), context.cpus.size(), *context.work_unit_ns, context.cycle_ns,
                context.emulated ? "; EMULATED: times mean nothing" : "");
    std::printf("%-10s %-34s %-10s %5s %9s %9s %9s %9s\n", "operation", "form", "contender", "work", "p50 ns", "p95 ns",
                "p99 ns", "exposed");
    Run_hooks hooks;
    hooks.record = [&](const wire::Record &record) {
        print_row(record);
        if (std::fflush(stdout) != 0)
            stop = true; // the reader has gone, or the disk is full
    };
    hooks.stop = &stop;
    User_space here(machine);
    bool finished = run_plan(quick_plan(), here, context.context_id, hooks);
    std::printf("p50, p95, p99: of batch means, one launch; contended rows differ from launch to launch.\n"
                "exposed: what code around the operation pays, the loop without it subtracted.\n");
    return finished && std::fflush(stdout) == 0 ? 0 : 3;
}

} // namespace lw::probe
