// SPDX-License-Identifier: MIT
// Writes results: aligned lines whose figures a regular expression finds, the rate and the verdict first; or one JSON
// object.
#include "workload/report.hpp"

#include "wire/json.hpp"

#include <linewright/wait.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace lw::workload {
namespace {

template <class... Values> std::string print(const char *format, Values... values) {
    char line[320];
    std::snprintf(line, sizeof line, format, values...);
    return line;
}

std::string ns_text(double ns) {
    return ns < 1e3   ? print("%.1f ns", ns)
           : ns < 1e6 ? print("%.2f us", ns / 1e3)
           : ns < 1e9 ? print("%.2f ms", ns / 1e6)
                      : print("%.2f s", ns / 1e9);
}

double rate(const Result &result) {
    return result.seconds > 0 ? static_cast<double>(result.operations) / result.seconds : 0;
}

bool in_rounds(const Options &o) { return extra_threads(o.kind, o.threads) > 0; }

std::string wakers_text(const Options &o) {
    const unsigned wakers = extra_threads(o.kind, o.threads);
    return wakers == 0 ? "" : wakers == 1 ? " and a waker" : print(" and %u wakers", wakers);
}

std::string rounds_text(const Options &o, const Rounds &rounds) {
    std::string out = print("  rounds      %" PRIu64 ", medians for all %u waiters:\n", rounds.count, o.threads);
    out += print("  queued      %u threads in %.4f ms\n", o.threads, rounds.block_ms);
    if (rounds.requeues)
        out += print("  requeued    %u threads in %.4f ms\n", o.threads, rounds.requeue_ms);
    if (rounds.wakers > 1)
        out += print("  woken       %u threads in %.4f ms, the mean of the wakers\n", o.threads, rounds.wake_ms);
    else
        out += print("  woken       %u threads in %.4f ms\n", o.threads, rounds.wake_ms);
    return out;
}

std::string length_text(const Length &length) {
    return length.iterations ? print("%" PRIu64 " iterations (%s)", length.iterations, ns_text(length.ns).c_str()) : "none";
}

std::string cpus_text(const std::vector<unsigned> &cpus) {
    std::string text;
    for (unsigned cpu : cpus)
        text += (text.empty() ? "" : ",") + std::to_string(cpu);
    return text;
}

std::string per_thread_text(const std::vector<std::uint64_t> &shares) {
    std::string text;
    if (shares.size() <= 8) {
        for (std::uint64_t share : shares)
            text += (text.empty() ? "" : ", ") + std::to_string(share);
        return text;
    }
    std::vector<std::uint64_t> sorted = shares;
    std::ranges::sort(sorted);
    return print("least %" PRIu64 ", median %" PRIu64 ", most %" PRIu64, sorted.front(), sorted[sorted.size() / 2],
                 sorted.back());
}

constexpr std::size_t widest = 100, indent = 14;

// A line of text behind its label, broken between words where it would be longer than `widest`.
std::string line(const char *label, const std::string &text) {
    std::string out = print("  %-10s  ", label);
    std::size_t column = indent;
    for (std::size_t from = 0; from < text.size();) {
        const std::size_t end = std::min(text.find(' ', from), text.size());
        if (column > indent && column + 1 + end - from > widest) {
            out += "\n" + std::string(indent, ' ');
            column = indent;
        }
        const std::string space = column > indent ? " " : "";
        out += space + text.substr(from, end - from);
        column += space.size() + end - from;
        from = end + 1;
    }
    return out + "\n";
}

std::string switches_text(const Result &r) {
    const Switches &s = r.switches;
    return print("%" PRIu64 " voluntary, %" PRIu64 " involuntary; the holder lost its CPU in ", s.voluntary, s.involuntary) +
           (s.in_sections ? std::to_string(*s.in_sections) + " critical sections"
                          : "an unknown number of critical sections");
}

std::string hint() {
    char text[500];
    lw_wait_describe(text, sizeof text);
    return text;
}

// What a thread waits for, by workload.
const char *waiting(const std::string &kind) { return kind == "refcount" ? "get" : kind == "handoff" ? "turn" : "wait"; }

} // namespace

std::string as_text(const Options &o, const Result &r, const std::string &policy) {
    std::string out =
        print("%s: %u thread%s%s%s, %.3g s%s, seed %" PRIu64 "\n", o.kind.c_str(), o.threads, o.threads > 1 ? "s" : "",
              wakers_text(o).c_str(), o.cpus.empty() ? "" : (" on CPU " + cpus_text(o.cpus)).substr(0, 160).c_str(),
              r.seconds, r.interrupted ? " (interrupted)" : "", o.seed);
    out += print("  rate        %.0f operations/s\n", rate(r));
    for (const std::string &check : r.verified() ? r.checks : std::vector<std::string>{})
        out += line("verified", check);
    for (const std::string &failure : r.failures)
        out += line("BROKEN", failure);
    out += print("  cpu         %.1f ns of CPU time per operation, %.1f of it besides the work below\n", r.cpu_ns,
                 r.cpu_ns - o.critical.ns - o.parallel.ns);
    out += "  per thread  " + per_thread_text(r.per_thread) + "\n";
    out += print("  fairness    %.4f (Jain's index)\n", r.fairness);
    out +=
        line(waiting(o.kind), print("p50 %s, p99 %s, longest %s (%" PRIu64
                                    " timed, before and after the window too; the clock's own %s is in each)",
                                    ns_text(r.waits.p50_ns).c_str(), ns_text(r.waits.p99_ns).c_str(),
                                    ns_text(r.waits.longest_ns).c_str(), r.waits.timed, ns_text(r.waits.clock_ns).c_str()));
    out += line("switches", switches_text(r));
    if (!r.competed.empty())
        out += line("competing", print("a thread on each of CPU %s, with %s of CPU time in the window",
                                       cpus_text(r.competed).substr(0, 160).c_str(), ns_text(r.competitors_cpu_ns).c_str()));
    if (o.slices)
        out += line("slices", print("%" PRIu64 " critical sections ended within a time slice extension", r.granted));
    if (in_rounds(o))
        out += rounds_text(o, r.rounds);
    out +=
        "  work        " + length_text(o.critical) + " inside the critical section, " + length_text(o.parallel) + " outside";
    if (o.long_hold_ns > 0)
        out += print(", %" PRIu64 " long holds of %s", r.long_holds, ns_text(o.long_hold_ns).c_str());
    out += std::string("\n  waiting     ") + (o.yields ? print("%u polls, then gives up the CPU", o.polls) : "polls alone") +
           "\n";
    out += line("hint", hint());
    out += line("policy", policy);
    return out;
}

std::string as_json(const Options &o, const Result &r, const std::string &policy) {
    using wire::Json;
    const auto length = [](const Length &l) { return Json{{"iterations", l.iterations}, {"ns", l.ns}}; };
    Json out{{"linewright_workload", 1},
             {"tool_version", LINEWRIGHT_VERSION},
             {"workload", o.kind},
             {"threads", o.threads},
             {"cpus", o.cpus},
             {"critical", length(o.critical)},
             {"parallel", length(o.parallel)},
             {"long_hold_ns", o.long_hold_ns},
             {"seed", o.seed},
             {"polls", o.polls},
             {"yields", o.yields},
             {"wait", hint()},
             {"policy", policy},
             {"interrupted", r.interrupted},
             {"seconds", r.seconds},
             {"operations", r.operations},
             {"operations_per_s", rate(r)},
             {"cpu_ns_per_operation", r.cpu_ns},
             {"per_thread", r.per_thread},
             {"fairness", r.fairness},
             {"wait_ns",
              {{"timed", r.waits.timed},
               {"p50", r.waits.p50_ns},
               {"p99", r.waits.p99_ns},
               {"longest", r.waits.longest_ns},
               {"clock", r.waits.clock_ns}}},
             {"switches", {{"voluntary", r.switches.voluntary}, {"involuntary", r.switches.involuntary}}},
             {"long_holds", r.long_holds}};
    if (r.switches.in_sections)
        out["switches"]["in_sections"] = *r.switches.in_sections;
    if (!r.competed.empty())
        out["competitors"] = {{"cpus", r.competed}, {"cpu_ns", r.competitors_cpu_ns}};
    if (o.slices)
        out["slices"] = {{"granted", r.granted}};
    if (o.kind == "rwlock")
        out["write_percent"] = o.write_percent;
    if (in_rounds(o)) {
        out["rounds"] = {{"count", r.rounds.count},
                         {"block_ms", r.rounds.block_ms},
                         {"wake_ms", r.rounds.wake_ms},
                         {"wakers", r.rounds.wakers}};
        if (r.rounds.requeues)
            out["rounds"]["requeue_ms"] = r.rounds.requeue_ms;
    }
    const Figure shown = figure(o, r);
    out["figure"] = {
        {"name", shown.name}, {"unit", shown.unit}, {"value", shown.value}, {"higher_is_better", shown.higher_is_better}};
    out["verified"] = r.verified();
    out["checks"] = r.verified() ? r.checks : std::vector<std::string>{};
    out["failures"] = r.failures;
    return out.dump(1) + "\n";
}

} // namespace lw::workload
