// SPDX-License-Identifier: MIT
// Runs a plan block by block: the cells of a block interleaved in random order, until each is precise enough or time is up.
#include "probe/run.hpp"

#include "probe/stats.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <random>

namespace lw::probe {
namespace {

using Clock_point = std::chrono::steady_clock::time_point;

double seconds_since(Clock_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool contended(const wire::Cell &cell) { return cell.contender == "same_line"; }

double window_ms(const wire::Plan &plan, const wire::Cell &cell) {
    return contended(cell) ? plan.contended_window_ms : plan.window_ms;
}

// Fewest windows: uncontended cells visit every line `line_windows` times.
unsigned least_windows(const wire::Plan &plan, const wire::Cell &cell) {
    unsigned lines = contended(cell) ? 1 : cell.lines * plan.line_windows;
    return std::min(std::max(plan.min_windows, lines), plan.max_windows);
}

// Whether two cells are forms of one point: they differ in nothing but the form, its operation, order and width.
bool same_point(const wire::Cell &a, const wire::Cell &b) {
    return a.contender == b.contender && a.contender_iters == b.contender_iters && a.work_iters == b.work_iters &&
           a.work == b.work && a.placement == b.placement && a.lines == b.lines && a.threads == b.threads &&
           a.params == b.params;
}

// Counts of a group of threads as metrics: each event per operation, the frequency where cycles are among them, and the
// share of the time in which the counters really counted (below 1: they took turns with another program's).
void put_counts(std::map<std::string, double> &metrics, const std::string &who, const Counted &counted, std::uint64_t ops) {
    if (!counted.any() || ops == 0)
        return;
    const double share = counted.running_ns / counted.enabled_ns;
    for (const auto &[name, count] : counted.value)
        metrics[who + "_" + name.substr(0, 50) + "_per_op"] = // names of metrics have at most 64 characters
            count / share / static_cast<double>(ops);
    if (auto cycles = counted.value.find("cycles"); cycles != counted.value.end())
        metrics[who + "_ghz"] = cycles->second / counted.running_ns;
    metrics[who + "_counted_share"] = share;
}

// A cell while it is being measured.
struct Cell_run {
    wire::Cell cell;
    std::unique_ptr<Windows> windows;
    std::vector<unsigned> cpus;
    wire::Record record;
    wire::Histogram batch, small;
    std::size_t batch_ops = 0;
    double small_overhead_ns = 0;
    std::vector<double> ns_sum, ticks_sum;
    Counted timed, others; // of kept windows
    std::uint64_t others_ops = 0;
    unsigned tries = 0; // windows run, discarded ones included
    unsigned lost = 0;  // of these, windows that were disturbed themselves
    Line_order order{0};
    unsigned line = 0; // of the window that is being run
    bool done = false;
};

struct Baseline {
    std::size_t batch_ops = 0;
    double ns = 0;         // this round's value
    bool fresh = false;    // measured in this round
    bool disturbed = true; // by the rules for windows: no value to compare with
    bool stolen = false;   // disturbed by a neighbour of the virtual machine
};

// A window that has been run. Whether it counts is known when all forms of its point have run in this round.
struct Taken {
    Cell_run &run;
    Window_result window;
    Baseline baseline;
    unsigned line;
    wire::Histogram batch;
};

class Runner {
public:
    Runner(const wire::Plan &plan, Back_end &back_end, const std::string &context_id, const Run_hooks &hooks)
        : plan_(plan), back_end_(back_end), context_id_(context_id), hooks_(hooks), random_(plan.seed + plan.launch),
          usable_(usable_cpus(back_end.topology(), plan.cpus)), events_(back_end.events(plan.counters)),
          counters_(events_, Counter_calls::of_kernel()) {
        for (const wire::Cell &cell : plan.cells)
            total_windows_ += least_windows(plan, cell);
    }

    bool run() {
        double weight_left = 0;
        for (const wire::Cell &cell : plan_.cells)
            weight_left += weight(cell);
        const Clock_point start = start_;
        for (std::size_t first = 0, end; first < plan_.cells.size(); first = end) {
            end = block_end(plan_, first);
            double block_weight = 0;
            for (std::size_t i = first; i < end; ++i)
                block_weight += weight(plan_.cells[i]);
            // What earlier blocks did not use is shared among those that are left.
            double left_s = std::max(0.0, plan_.budget_s - seconds_since(start));
            bool finished = run_block(first, end, left_s * block_weight / weight_left);
            weight_left -= block_weight;
            if (!finished)
                return false;
        }
        return true;
    }

private:
    double weight(const wire::Cell &cell) const { return least_windows(plan_, cell) * window_ms(plan_, cell); }

    bool stopping() const { return hooks_.stop && hooks_.stop->load(std::memory_order_relaxed); }

    Cell_run prepare(const wire::Cell &cell) {
        Cell_run run;
        run.cell = cell;
        run.record.context_id = context_id_;
        run.record.cell = cell;
        run.record.plan = plan_.name;
        run.record.launch = plan_.launch;
        Opened opened = back_end_.open(cell);
        Placed placed;
        if (opened.windows)
            placed = place(back_end_.topology(), usable_, cell);
        if (!opened.windows || !placed.unavailable.empty()) {
            run.record.status = "unavailable";
            run.record.reason = opened.windows ? placed.unavailable : opened.unavailable;
            run.done = true;
            return run;
        }
        run.windows = std::move(opened.windows);
        run.order = Line_order(run.windows->lines());
        run.cpus = placed.cpus;
        run.record.thread_ops.assign(run.cpus.size(), 0);
        run.ns_sum.assign(run.cpus.size(), 0);
        run.ticks_sum.assign(run.cpus.size(), 0);
        Distance farthest = Distance::same_cpu;
        for (unsigned cpu : run.cpus)
            farthest = std::max(farthest, back_end_.topology().distance(run.cpus[0], cpu));
        if (run.cpus.size() > 1)
            run.record.placement_class = distance_name(farthest);
        return run;
    }

    Window_request request(const Cell_run &run, Mode mode, double length_ms, std::size_t batch_ops) const {
        Window_request request;
        request.mode = mode;
        request.line = run.line;
        request.length_ms = length_ms;
        request.batch_ops = batch_ops;
        // A short window still holds at least a hundred batches.
        request.batch_ns = std::min(15'000.0, length_ms * 1e6 / 100);
        return request;
    }

    // The baseline of a cell's loop, once a round for all cells that share it; a disturbed one is tried twice more.
    const Baseline &baseline_of(Cell_run &run, std::map<std::string, Baseline> &baselines) {
        Baseline &baseline = baselines[run.windows->baseline_key()];
        for (int attempt = 0; attempt < 3 && !baseline.fresh; ++attempt) {
            Window_result window =
                run.windows->run(run.cpus, request(run, Mode::baseline, plan_.window_ms, baseline.batch_ops), nullptr);
            baseline.batch_ops = window.batch_ops;
            baseline.ns = window.ns_per_op;
            baseline.disturbed = !usable(window);
            baseline.stolen = window.stolen;
            baseline.fresh = !baseline.disturbed || attempt == 2;
        }
        return baseline;
    }

    static bool disturbed(const Window_result &window) { return window.stolen || window.switched || window.long_batch; }

    // Of the windows beside the timed ones, where an error is no cell's end: is there a value?
    static bool usable(const Window_result &window) { return window.error.empty() && !window.moved && !disturbed(window); }

    void fail(Cell_run &run, const std::string &reason) {
        run.record.status = "error";
        run.record.reason = reason;
        run.done = true;
    }

    // One window of a cell; nothing where it could not be run.
    std::optional<Taken> run_once(Cell_run &run, std::map<std::string, Baseline> &baselines) {
        if (run.tries == 0)
            run.record.started_s = seconds_since(start_);
        run.line = run.order.next(random_);
        Taken taken{run, {}, baseline_of(run, baselines), run.line, {}};
        Window_request timed = request(run, Mode::timed, window_ms(plan_, run.cell), run.batch_ops);
        if (counters_.active()) {
            timed.counters = &counters_;
            timed.events = &events_;
        }
        taken.window = run.windows->run(run.cpus, timed, &taken.batch);
        if (taken.window.error.empty() && taken.window.moved)
            taken.window.error = "a pinned thread was found on another CPU";
        if (!taken.window.error.empty()) {
            fail(run, taken.window.error);
            return std::nullopt;
        }
        run.batch_ops = taken.window.batch_ops;
        if (run.tries < std::min(plan_.extra_windows, plan_.min_windows))
            run_extras(run);
        ++run.tries;
        return taken;
    }

    // Keeps a window, or counts it as discarded; `stolen`: a neighbour took time from a form of this point in this round.
    void keep(const Taken &taken, bool stolen) {
        Cell_run &run = taken.run;
        const Window_result &window = taken.window;
        wire::Discards &discarded = run.record.discarded;
        const bool itself = disturbed(window) || taken.baseline.disturbed;
        run.lost += itself;
        if (itself || stolen) {
            // One cause for each window, the most telling first; a disturbed baseline was switched out more often than not.
            ++(window.stolen || stolen                 ? discarded.stolen
               : window.long_batch && !window.switched ? discarded.long_batch
                                                       : discarded.switched);
            return;
        }
        run.batch.merge(taken.batch);
        run.record.cpus = window.cpus;
        run.record.window_ns.push_back(window.ns_per_op);
        run.record.window_line.push_back(taken.line);
        run.record.window_round.push_back(round_);
        run.record.baseline_ns.push_back(taken.baseline.ns);
        run.timed.add(window.timed);
        run.others.add(window.others);
        run.others_ops += window.others_ops;
        for (std::size_t thread = 0; thread < window.ops.size(); ++thread) {
            run.record.thread_ops[thread] += window.ops[thread];
            run.ns_sum[thread] += window.ns[thread];
            run.ticks_sum[thread] += static_cast<double>(window.ticks[thread]);
        }
    }

    // One round of a point: every form once, in an order drawn anew. Forms are compared within a round, so a neighbour that
    // takes time from one of them takes the round from all.
    void run_round(std::vector<Cell_run *> &point, std::map<std::string, Baseline> &baselines) {
        std::ranges::shuffle(point, random_);
        std::vector<Taken> taken;
        taken.reserve(point.size());
        for (Cell_run *run : point) {
            if (run->done)
                continue;
            if (stopping())
                return;
            if (std::optional<Taken> one = run_once(*run, baselines))
                taken.push_back(std::move(*one));
            ++windows_done_;
            report(*run);
        }
        const bool stolen = std::ranges::any_of(taken, [](const Taken &each) {
            return each.window.stolen || (each.baseline.disturbed && each.baseline.stolen);
        });
        for (const Taken &each : taken)
            keep(each, stolen);
        judge(point);
    }

    // Single-operation percentiles and completion cost, in short windows of their own beside the first timed ones.
    void run_extras(Cell_run &run) {
        if (unsigned ops = run.windows->small_batch_ops()) {
            if (run.small_overhead_ns == 0)
                run.small_overhead_ns = run.windows->small_batch_overhead_ns(ops);
            Window_request small = request(run, Mode::small, plan_.window_ms, 0);
            small.small_ops = ops;
            small.small_overhead_ns = run.small_overhead_ns;
            run.windows->run(run.cpus, small, &run.small);
        }
        if (run.cell.work_iters == 0 && run.windows->completes()) {
            auto window = [&](Mode mode) {
                return run.windows->run(run.cpus, request(run, mode, plan_.window_ms, 0), nullptr);
            };
            const Window_result with = window(Mode::completed), wait = window(Mode::completed_baseline);
            if (usable(with) && usable(wait)) {
                run.record.completion_ns.push_back(with.ns_per_op);
                run.record.completion_baseline_ns.push_back(wait.ns_per_op);
            }
        }
    }

    // Why a cell needs no more windows; null: it needs more.
    const char *settled(const Cell_run &run) const {
        if (run.record.window_ns.size() >= least_windows(plan_, run.cell) &&
            relative_half_width(median_interval(run.record.window_ns)) <= plan_.precision)
            return "precision";
        return run.tries >= plan_.max_windows ? "windows" : nullptr;
    }

    // The forms of a point end together: a round without one of them compares nothing with it.
    void judge(const std::vector<Cell_run *> &point) {
        if (std::ranges::all_of(point, [&](const Cell_run *run) { return run->done || settled(*run); }))
            for (Cell_run *run : point)
                if (!run->done)
                    end(*run, settled(*run));
    }

    void end(Cell_run &run, const char *why) {
        run.record.stop = why;
        run.done = true;
    }

    void finish(Cell_run &run) {
        wire::Record &record = run.record;
        if (!run.windows || record.status == "error")
            return;
        if (auto sum = run.windows->check()) {
            record.sum_expected = sum->expected;
            record.sum_found = sum->found;
            if (sum->expected != sum->found)
                return fail(run, "the final value is not the sum of the operations: some were lost or invented");
        }
        if (record.window_ns.empty() || run.lost > record.window_ns.size()) {
            record.status = "unreliable";
            record.reason = disturbed_text(record.discarded.total(), record.window_ns.size());
        }
        if (!record.window_ns.empty())
            record.issue = median_interval(record.window_ns);
        if (run.batch.samples())
            record.batch = run.batch.quantiles("batch_mean", run.batch_ops);
        if (run.small.samples())
            record.small_batch = run.small.quantiles("small_batch", run.windows->small_batch_ops());
        std::vector<double> rates;
        for (std::size_t thread = 0; thread < record.thread_ops.size(); ++thread) {
            double ops = static_cast<double>(record.thread_ops[thread]), ns = run.ns_sum[thread];
            record.thread_ns.push_back(ops > 0 ? ns / ops : 0);
            record.thread_ticks.push_back(ops > 0 ? run.ticks_sum[thread] / ops : 0);
            // A placebo's operations touch nothing: they are no part of the line's rate or of fairness.
            if (run.cell.contender != "placebo" || thread == 0)
                rates.push_back(ns > 0 ? ops / ns * 1000 : 0);
        }
        for (double rate : rates)
            record.total_mops += rate;
        record.fairness = jain(rates);
        run.windows->metrics(record.metrics);
        if (!record.thread_ops.empty())
            put_counts(record.metrics, "timed", run.timed, record.thread_ops[0]);
        put_counts(record.metrics, "others", run.others, run.others_ops);
    }

    bool run_block(std::size_t first, std::size_t end_cell, double budget_s) {
        Clock_point start = std::chrono::steady_clock::now();
        std::vector<Cell_run> runs;
        for (std::size_t i = first; i < end_cell; ++i)
            runs.push_back(prepare(plan_.cells[i]));
        std::map<std::string, Baseline> baselines;
        std::vector<std::vector<Cell_run *>> points;
        for (Cell_run &run : runs) {
            if (points.empty() || !same_point(points.back().front()->cell, run.cell))
                points.emplace_back();
            points.back().push_back(&run);
        }
        std::size_t counted = 0;
        while (!stopping()) {
            std::ranges::shuffle(points, random_);
            ++round_;
            for (auto &[key, baseline] : baselines)
                baseline.fresh = false;
            for (std::vector<Cell_run *> &point : points)
                if (!stopping())
                    run_round(point, baselines);
            if (std::ranges::all_of(runs, [](const Cell_run &run) { return run.done; }))
                break;
            if (seconds_since(start) > budget_s)
                for (Cell_run &run : runs)
                    if (!run.done && run.tries > 0)
                        end(run, "budget");
        }
        for (Cell_run &run : runs) {
            if (!run.done)
                continue; // stopped in the middle of it: it would not be what the plan asked for
            finish(run);
            hooks_.record(run.record);
            ++counted;
        }
        cells_done_ += counted;
        return counted == runs.size();
    }

    void report(const Cell_run &run) {
        if (hooks_.progress)
            hooks_.progress({run.cell.id(), windows_done_, std::max(total_windows_, windows_done_), cells_done_,
                             plan_.cells.size(), run.done});
    }

    const wire::Plan &plan_;
    Back_end &back_end_;
    const std::string &context_id_;
    const Run_hooks &hooks_;
    const Clock_point start_ = std::chrono::steady_clock::now();
    std::mt19937_64 random_;
    std::vector<unsigned> usable_;
    std::vector<Counter_event> events_;
    Counters counters_; // of this thread, which is the timed one
    unsigned round_ = 0; // over all blocks: cells of two blocks share none
    std::size_t windows_done_ = 0, total_windows_ = 0, cells_done_ = 0;
};

} // namespace

Line_order::Line_order(unsigned lines) : lines_(lines), visited_(lines) { std::iota(lines_.begin(), lines_.end(), 0u); }

unsigned Line_order::next(std::mt19937_64 &random) {
    if (visited_ == lines_.size()) {
        std::ranges::shuffle(lines_, random);
        visited_ = 0;
    }
    return lines_[visited_++];
}

std::string disturbed_text(std::uint64_t disturbed, std::uint64_t kept) {
    std::uint64_t windows = disturbed + kept;
    if (windows <= 1)
        return windows == 0 ? "no window was measured" : "the only window was disturbed";
    return std::to_string(disturbed) + " of " + std::to_string(windows) + " windows were disturbed";
}

std::size_t block_end(const wire::Plan &plan, std::size_t first) {
    constexpr std::size_t most = 256; // cells whose memory is held at a time
    const std::vector<wire::Cell> &cells = plan.cells;
    std::size_t end = first;
    while (end < cells.size() && end - first < most) {
        std::size_t point_end = end + 1;
        while (point_end < cells.size() && same_point(cells[end], cells[point_end]))
            ++point_end;
        if (end > first && point_end - first > plan.block_cells)
            break;
        end = std::min(point_end, first + most);
    }
    return end;
}

void check_plan(const wire::Plan &plan, const Back_end &back_end) {
    back_end.events(plan.counters); // throws for an unknown name
    const std::vector<unsigned> usable = usable_cpus(back_end.topology(), plan.cpus);
    for (const wire::Cell &cell : plan.cells) {
        back_end.check(cell);
        const Placed placed = place(back_end.topology(), usable, cell);
        if (!placed.unavailable.empty() && !plan.cpus.empty())
            throw wire::Invalid(cell.id() + ": " + placed.unavailable);
    }
}

bool run_plan(const wire::Plan &plan, Back_end &back_end, const std::string &context_id, const Run_hooks &hooks) {
    check_plan(plan, back_end);
    return Runner(plan, back_end, context_id, hooks).run();
}

} // namespace lw::probe
