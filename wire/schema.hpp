// SPDX-License-Identifier: MIT
// Plans in, contexts and records out: the C++ side of linewright/schema.py, tested against the same examples.
#pragma once

#include "wire/forms.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace lw::wire {

constexpr int schema_version = 2; // of plans and contexts
constexpr int record_version = 3; // a record of version 2 does not say what its form is made of

// A plan that cannot be accepted: one line that says where, what, and what is allowed.
struct Invalid : std::runtime_error {
    using std::runtime_error::runtime_error;
};

using Param = std::variant<std::uint64_t, std::string>;

struct Cell {
    std::string operation;
    std::string form;
    unsigned width_bits = 64;
    std::string order = "relaxed";
    std::string contender = "none";
    std::uint64_t contender_iters = 0;
    std::uint64_t work_iters = 0;
    std::string work = "chain"; // or "nop_loop", or "memory": what work_iters counts
    std::string placement = "auto";
    unsigned lines = 32;
    unsigned threads = 1;
    std::map<std::string, Param> params;

    // Canonical id: every field in a fixed order, then the parameters sorted by name.
    std::string id() const;

    // A parameter's value, or the fallback when the cell does not give it; Invalid when it has the other type.
    std::uint64_t number(const std::string &key, std::uint64_t fallback) const;
    std::string text(const std::string &key, const std::string &fallback) const;
};

struct Plan {
    std::string name;
    std::vector<Cell> cells;
    std::uint64_t seed = 1;
    double precision = 0.02;
    double budget_s = 60.0;
    unsigned launches = 5;
    unsigned block_cells = 16;
    double window_ms = 2.0;
    double contended_window_ms = 50.0;
    unsigned min_windows = 6;
    unsigned line_windows = 1; // fewest windows on each line of an uncontended cell
    unsigned max_windows = 512;
    unsigned extra_windows = 100'000; // most windows of single operations and of completion beside the first min_windows
    std::vector<unsigned> cpus;
    std::vector<unsigned> looks; // launches after which decided cells are left out, by the command, which starts launches
    unsigned launch = 0;
    std::vector<std::string> counters; // events to count; empty: cycles, instructions and what the CPU names for coherence
};

struct Quantiles {
    std::string of; // "batch_mean" or "small_batch"
    std::uint64_t ops_per_sample = 1;
    std::uint64_t samples = 0;
    double p50_ns = 0, p95_ns = 0, p99_ns = 0, max_ns = 0;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> histogram;
};

struct Interval {
    double median_ns = 0, low_ns = 0, high_ns = 0, confidence = 0.95;
};

struct Discards {
    std::uint64_t switched = 0, stolen = 0, long_batch = 0;
    std::uint64_t total() const { return switched + stolen + long_batch; }
};

struct Record {
    std::string context_id;
    Cell cell;
    std::string plan;
    unsigned launch = 0;
    std::optional<double> started_s; // the cell's first window, after the launch began
    std::string status = "ok";
    std::string reason;
    std::string stop;
    std::vector<unsigned> cpus;
    std::string placement_class;
    std::vector<double> window_ns;
    std::vector<unsigned> window_line;
    std::vector<unsigned> window_round; // windows of one launch and round met the machine in one state
    std::vector<double> baseline_ns;
    std::optional<Interval> issue;
    std::optional<Quantiles> batch;
    std::optional<Quantiles> small_batch;
    std::vector<double> completion_ns;
    std::vector<double> completion_baseline_ns;
    std::vector<std::uint64_t> thread_ops;
    std::vector<double> thread_ns, thread_ticks;
    double total_mops = 0;
    double fairness = 1;
    std::uint64_t sum_expected = 0, sum_found = 0;
    Discards discarded;
    std::vector<std::string> flags;
    std::map<std::string, double> metrics;
};

struct Cpu {
    unsigned cpu = 0;
    int core = -1, cluster = -1, l3 = -1, socket = -1, node = -1;
    bool allowed = true;
    int capacity = -1;
    std::string midr;
};

struct Context {
    std::string context_id, machine_id, started_utc, target = "local", plan;
    unsigned launch = 0, launches = 0;
    std::string tool_version, compiler, arch, cpu_model;
    std::vector<std::string> cpu_ids, features;
    std::string kernel, virtualised = "unknown";
    bool emulated = false;
    std::vector<Cpu> cpus;
    unsigned line_bytes = 64, page_bytes = 4096;
    std::string time_source = "clock_monotonic";
    double tick_ns = 1, timer_cost_ns = 0, nop_iter_ns = 0, cycle_ns = 0;
    std::optional<double> work_unit_ns, work_linearity, work_spread; // of chain work; null where it was not measured
    unsigned loop_offset_bytes = 0;
    std::string governor, smt = "unknown", counters = "unavailable", rseq = "none";
    bool locked_memory = false, realtime = false;
    std::string boot_parameters;
    std::string counters_reason;
    bool other_probe = false;         // another probe was running a plan on this machine
    std::optional<double> other_load; // CPUs that other programs kept busy meanwhile
};

// Parses and validates one plan for an architecture, by default the one built for, and the forms that there are; throws
// Invalid.
Plan parse_plan(const std::string &text, Arch arch = this_arch, std::span<const Form> forms = all_forms());

// One line of JSON each, without the newline.
std::string to_json(const Context &context);
std::string to_json(const Record &record);
std::string to_json(const std::vector<Cpu> &cpus);

} // namespace lw::wire
