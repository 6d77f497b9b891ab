// SPDX-License-Identifier: MIT
// From a cell to its record: several windows from several starts, so that a cell with several modes shows them.
#include "model/simulate.hpp"

#include "model/list.hpp"
#include "wire/histogram.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/core.h>

namespace lw::model {
namespace {

constexpr double ps_per_ns = 1000.0;
constexpr Ps patience = 20'000'000; // picoseconds that a window waits for a thread that should have had its turn

double median(std::vector<double> values) {
    if (values.empty())
        return 0;
    std::ranges::sort(values);
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// FNV-1a, so that a cell's random numbers depend on its id and not on its place in the plan.
std::uint64_t hash(const std::string &text, std::uint64_t seed) {
    std::uint64_t value = 0xcbf29ce484222325u ^ (seed * 0x9e3779b97f4a7c15u);
    for (unsigned char c : text)
        value = (value ^ c) * 0x100000001b3u;
    return value;
}

bool contended(const wire::Cell &cell) { return cell.contender == "same_line"; }

Ps work_time(const Machine &machine, const wire::Cell &cell) {
    const Constants &c = machine.constants;
    const bool nop = cell.work == "nop_loop";
    const std::uint64_t units = work_of(cell);
    Ps time = static_cast<Ps>(units) * (nop ? c.nop_iter : c.unit);
    if (nop && units >= static_cast<std::uint64_t>(c.nop_exit_from))
        time += c.nop_exit;
    return time;
}

double jain(const std::vector<std::uint64_t> &ops) {
    double sum = 0, squares = 0;
    for (std::uint64_t count : ops) {
        sum += static_cast<double>(count);
        squares += static_cast<double>(count) * static_cast<double>(count);
    }
    return squares > 0 ? sum * sum / (static_cast<double>(ops.size()) * squares) : 1;
}

// Where a window begins decides which of several modes it falls into, so each start has its turn.
Start start_in(const wire::Cell &cell, unsigned window) {
    constexpr Start starts[] = {Start::invalid, Start::timed_dirty, Start::other_dirty, Start::shared};
    return contended(cell) ? starts[window % 4] : Start::invalid;
}

Limits limits_of(const Machine &machine, const wire::Cell &cell, const Effort &effort) {
    Limits limits;
    limits.ops = effort.ops;
    // What ran ahead while the first miss was waited for must have drained.
    limits.warm_ops = contended(cell)
                          ? effort.ops / 10
                          : 50 + static_cast<std::uint64_t>(machine.constants.window + machine.constants.store_buffer);
    limits.batch_ops = std::max<std::uint64_t>(effort.ops / 40, 8);
    // A contender that seldom comes is waited for, within reason, and one that never succeeds is not waited for at all.
    const Ps apart = static_cast<Ps>(cell.contender_iters) * machine.constants.nop_iter;
    limits.visits = apart * static_cast<Ps>(effort.visits) <= effort.longest ? effort.visits : 0;
    limits.patience = limits.visits ? apart * static_cast<Ps>(effort.visits) + patience : 0;
    limits.spread = apart + 1'000'000;
    limits.warm_time = contended(cell) && limits.visits ? limits.spread : 0;
    limits.time = limits.spread + limits.patience + effort.longest;
    return limits;
}

void add_window(Simulated &result, const Outcome &outcome, std::uint64_t batch_ops) {
    result.starved |= outcome.starved;
    if (outcome.starved)
        result.least_fair = std::min(result.least_fair, jain(outcome.ops));
    result.events += outcome.events;
    result.thread_ops.resize(outcome.ops.size());
    result.longest_ns = std::max(result.longest_ns, static_cast<double>(outcome.elapsed) / ps_per_ns);
    if (outcome.ops[0] == 0)
        return; // the timed thread starved: there is no time per operation
    const double ops = static_cast<double>(outcome.ops[0]);
    result.window_ns.push_back(static_cast<double>(outcome.window) / ps_per_ns / ops);
    for (Ps batch : outcome.batches)
        result.batch_ns.push_back(static_cast<double>(batch) / ps_per_ns / static_cast<double>(batch_ops));
    for (unsigned phase = 0; phase < phases; ++phase)
        result.spent_ns[phase] += static_cast<double>(outcome.spent[phase]);
    for (unsigned bucket = 0; bucket < outcome.tenures.size(); ++bucket)
        result.tenures[bucket] += outcome.tenures[bucket];
    for (std::size_t thread = 0; thread < outcome.ops.size(); ++thread)
        result.thread_ops[thread] += outcome.ops[thread];
    result.window_total_ns += static_cast<double>(outcome.window) / ps_per_ns;
    result.failed += outcome.failed;
    result.expected += outcome.expected;
    result.found += outcome.found;
    if (outcome.elapsed > 0)
        result.home_utilisation =
            std::max(result.home_utilisation, static_cast<double>(outcome.home_busy) / static_cast<double>(outcome.elapsed));
}

void add_completion(Simulated &result, const Machine &machine, const wire::Cell &cell, const Effort &effort,
                    std::uint64_t seed) {
    const Setup setup = make_setup(machine, cell, result.cores, effort.harness, true);
    Limits limits = limits_of(machine, cell, effort);
    limits.ops = std::min<std::uint64_t>(limits.ops, 400);
    for (unsigned window = 0; window < 3; ++window) {
        const Outcome outcome =
            run(machine, setup, limits, Start::invalid, hash("completion", seed + window), effort.checked);
        if (outcome.ops[0])
            result.completion_ns.push_back(static_cast<double>(outcome.window) / ps_per_ns /
                                           static_cast<double>(outcome.ops[0]));
    }
    result.completion_baseline_ns = static_cast<double>(machine.constants.loop + machine.constants.fence) / ps_per_ns;
}

int distance_rank(const Machine &machine, unsigned a, unsigned b) {
    if (machine.socket[a] != machine.socket[b])
        return 3;
    if (machine.l3[a] != machine.l3[b])
        return 2;
    return 1;
}

constexpr const char *rank_names[] = {"", "same_l3", "other_l3", "other_socket"};

} // namespace

std::vector<Mode> modes_of(const std::vector<double> &batches) {
    if (batches.empty())
        return {}; // the timed thread starved: its only group would have a share of 0 / 0
    std::vector<double> sorted = batches;
    std::ranges::sort(sorted);
    const std::size_t least = std::max<std::size_t>(2, sorted.size() / 20);
    std::vector<double> cuts;
    std::size_t began = 0;
    for (std::size_t i = 1; i < sorted.size(); ++i)
        if (sorted[i] > mode_gap * sorted[i - 1] && i - began >= least && sorted.size() - i >= least) {
            cuts.push_back(sorted[i]);
            began = i;
        }
    auto mode_index = [&](double value) { return std::ranges::upper_bound(cuts, value) - cuts.begin(); };
    // A mode sustains itself: it lasts for several batches, where chance would change with nearly every one.
    std::size_t changes = 0;
    for (std::size_t i = 1; i < batches.size(); ++i)
        changes += mode_index(batches[i]) != mode_index(batches[i - 1]);
    if (changes * 4 > batches.size())
        cuts.clear();
    std::vector<std::vector<double>> groups(cuts.size() + 1);
    for (double value : batches)
        groups[static_cast<std::size_t>(mode_index(value))].push_back(value);
    std::vector<Mode> modes;
    for (std::vector<double> &group : groups)
        modes.push_back({median(group), static_cast<double>(group.size()) / static_cast<double>(batches.size())});
    return modes;
}

std::vector<unsigned> place(const Machine &machine, const wire::Cell &cell, const std::vector<unsigned> &allowed) {
    auto fail = [&](const std::string &what) { throw wire::Invalid(fmt::format("{}: {}", cell.id(), what)); };
    std::vector<unsigned> usable = allowed;
    if (usable.empty())
        for (unsigned core = 0; core < machine.cores; ++core)
            usable.push_back(core);
    if (cell.placement.starts_with("cpus:")) {
        std::vector<unsigned> cores;
        unsigned number = 0;
        for (char c : cell.placement.substr(5) + ",") {
            if (c == ',') {
                if (number >= machine.cores || std::ranges::find(cores, number) != cores.end())
                    fail(fmt::format("CPU {} is absent or named twice; machine {} has {}", number, machine.name,
                                     machine.cores));
                cores.push_back(std::exchange(number, 0));
            } else {
                number = std::min(number * 10 + static_cast<unsigned>(c - '0'), 1'000'000u);
            }
        }
        if (cores.size() < cell.threads)
            fail(fmt::format("placement names {} CPUs for {} threads", cores.size(), cell.threads));
        cores.resize(cell.threads);
        return cores;
    }
    if (cell.placement == "smt_sibling")
        fail("simulated cores have no SMT siblings");
    std::vector<unsigned> cores{usable.at(0)};
    for (unsigned core : usable)
        if (cores.size() < cell.threads && core != cores[0] &&
            (cell.placement == "auto" || cell.placement == rank_names[distance_rank(machine, cores[0], core)]))
            cores.push_back(core);
    if (cores.size() < cell.threads)
        fail(fmt::format("machine {} has no {} cores placed as {}", machine.name, cell.threads, cell.placement));
    return cores;
}

std::string placement_class(const Machine &machine, const std::vector<unsigned> &cores) {
    int farthest = 0;
    for (std::size_t i = 1; i < cores.size(); ++i)
        farthest = std::max(farthest, distance_rank(machine, cores[0], cores[i]));
    return rank_names[farthest];
}

Simulated simulate(const Machine &machine, const wire::Cell &cell, const std::vector<unsigned> &allowed,
                   const Effort &effort, std::uint64_t seed) {
    Simulated result;
    result.cores = place(machine, cell, allowed);
    result.placement_class = placement_class(machine, result.cores);
    const Ps baseline = machine.constants.loop + work_time(machine, cell);
    result.baseline_ns = static_cast<double>(baseline) / ps_per_ns;
    const Setup setup = make_setup(machine, cell, result.cores, effort.harness);
    if (setup.programs[0].steps.empty()) {
        result.window_ns.assign(3, result.baseline_ns);
        result.modes = {{result.baseline_ns, 1}};
        result.spent_ns[0] = result.baseline_ns;
        return result;
    }
    Limits limits = limits_of(machine, cell, effort);
    if (!setup.start.empty())
        limits.warm_ops = 0; // the states that were asked for are those that a window opens with
    result.batch_ops = limits.batch_ops;
    const Ps apart = static_cast<Ps>(cell.contender_iters) * machine.constants.nop_iter;
    // A rare contender makes windows long: four of them, one for each start.
    const bool rare = contended(cell) && apart > 10'000'000;
    const unsigned windows = !contended(cell) ? std::min(3u, effort.windows)
                             : rare           ? std::min(4u, effort.windows)
                                              : effort.windows;
    for (unsigned window = 0; window < windows; ++window) {
        Limits own = limits;
        if ((rare && window % 2 == 0) || !setup.start.empty())
            own.warm_time = 0; // what lasts until the contender comes is a mode of its own
        add_window(result, run(machine, setup, own, start_in(cell, window), hash(cell.id(), seed + window), effort.checked),
                   limits.batch_ops);
    }
    const double ops = static_cast<double>(std::max<std::uint64_t>(result.thread_ops[0], 1));
    for (double &spent : result.spent_ns)
        spent /= ops * ps_per_ns;
    result.modes = modes_of(result.batch_ns.empty() ? result.window_ns : result.batch_ns);
    if (effort.completion && cell.work_iters == 0 && setup.single)
        add_completion(result, machine, cell, effort, seed);
    return result;
}

void check_plan(const Machine &machine, const wire::Plan &plan) {
    for (unsigned core : plan.cpus)
        if (core >= machine.cores)
            throw wire::Invalid(
                fmt::format("plan.cpus: CPU {} is absent; machine {} has {}", core, machine.name, machine.cores));
    for (const wire::Cell &cell : plan.cells) {
        if (cell.work == "memory")
            throw wire::Invalid(cell.id() + ": the model has no work in memory");
        if (is_list(cell)) {
            run_list(machine, cell);
            continue;
        }
        if (const std::string why = obstacle(machine, cell); !why.empty())
            throw wire::Invalid(fmt::format("{}: {}", cell.id(), why));
        place(machine, cell, plan.cpus);
    }
}

namespace {

void add_simulated(wire::Record &record, const wire::Cell &cell, const Simulated &result) {
    record.cpus = result.cores;
    record.placement_class = result.placement_class;
    record.window_ns = result.window_ns;
    record.window_line.assign(result.window_ns.size(), 0);
    record.baseline_ns.assign(result.window_ns.size(), result.baseline_ns);
    if (result.window_ns.empty()) {
        record.status = "unreliable";
        record.reason =
            fmt::format("the timed thread starved: no operation within {:.0f} us in any window", result.longest_ns / 1e3);
    } else {
        const auto [low, high] = std::ranges::minmax(result.window_ns);
        record.issue = wire::Interval{median(result.window_ns), low, high, 0.95};
    }
    if (!result.batch_ns.empty()) {
        wire::Histogram histogram;
        for (double ns : result.batch_ns)
            histogram.add(ns);
        record.batch = histogram.quantiles("batch_mean", result.batch_ops);
    }
    record.completion_ns = result.completion_ns;
    record.completion_baseline_ns.assign(result.completion_ns.size(), result.completion_baseline_ns);
    record.thread_ops = result.thread_ops;
    for (std::uint64_t ops : result.thread_ops)
        record.thread_ns.push_back(result.window_total_ns / static_cast<double>(std::max<std::uint64_t>(ops, 1)));
    const double total =
        static_cast<double>(std::accumulate(result.thread_ops.begin(), result.thread_ops.end(), std::uint64_t{0}));
    record.total_mops = result.window_total_ns > 0 ? total / result.window_total_ns * 1000 : 0;
    // Windows in which different threads starve would add up to equal shares.
    record.fairness = std::min(jain(result.thread_ops), result.least_fair);
    record.sum_expected = result.expected;
    record.sum_found = result.found;
    if (result.modes.size() > 1)
        record.flags.push_back("metastable");
    if (result.starved)
        record.flags.push_back("starved");
    for (unsigned phase = 0; phase < phases; ++phase)
        record.metrics[fmt::format("{}_ns", phase_name(static_cast<Phase>(phase)))] = result.spent_ns[phase];
    for (std::size_t mode = 0; mode < result.modes.size() && result.modes.size() > 1; ++mode) {
        record.metrics[fmt::format("mode_{}_ns", mode + 1)] = result.modes[mode].ns;
        record.metrics[fmt::format("mode_{}_share", mode + 1)] = result.modes[mode].share;
    }
    for (std::size_t bucket = 0; bucket < result.tenures.size(); ++bucket)
        if (result.tenures[bucket])
            record.metrics[fmt::format("tenures_below_{}_ops", std::uint64_t{1} << bucket)] =
                static_cast<double>(result.tenures[bucket]);
    if (contended(cell))
        record.metrics["home_utilisation"] = result.home_utilisation;
    record.metrics["failed_attempts"] = static_cast<double>(result.failed);
}

void add_list(wire::Record &record, const List_outcome &outcome) {
    record.window_ns.assign(6, static_cast<double>(outcome.pass) / ps_per_ns);
    record.window_line.assign(6, 0);
    record.baseline_ns.assign(6, static_cast<double>(outcome.walk) / ps_per_ns);
    record.issue = wire::Interval{record.window_ns[0], record.window_ns[0], record.window_ns[0], 0.95};
    record.metrics["lines_per_pass"] = static_cast<double>(outcome.lines);
    record.metrics["waits_per_pass"] = static_cast<double>(outcome.waits);
    record.metrics["line_bytes"] = list_line_bytes;
}

} // namespace

wire::Record record_of(const Machine &machine, const wire::Plan &plan, const wire::Cell &cell, const Effort &effort) {
    wire::Record record;
    record.cell = cell;
    record.plan = plan.name;
    record.launch = plan.launch;
    record.started_s = 0.0;
    record.stop = "windows";
    record.flags = {"simulated"};
    if (const std::string what = lacks(cell); !what.empty()) {
        record.status = "unavailable";
        record.reason = what;
        record.stop = "";
    } else if (is_list(cell))
        add_list(record, run_list(machine, cell));
    else
        add_simulated(record, cell, simulate(machine, cell, plan.cpus, effort, plan.seed + plan.launch * 1000));
    return record;
}

} // namespace lw::model
