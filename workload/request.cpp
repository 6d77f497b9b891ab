// SPDX-License-Identifier: MIT
// Reads a request and checks it against the machine; a wrong one is reported in one line.
#include "workload/request.hpp"

#include <linewright/wait.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <set>
#include <string_view>

namespace lw::workload {
namespace {

constexpr std::uint64_t most_iterations = 10'000'000;
constexpr double most_ns = 10e6; // a section of 10 ms: with 1024 threads in line the last one ends 10 s later

[[noreturn]] void refuse(const std::string &where, const std::string &what, const std::string &allowed) {
    throw Invalid(where + ": " + what + " (allowed: " + allowed + ")");
}

std::string listed(const std::vector<std::string> &names) {
    std::string all;
    for (const std::string &name : names)
        all += (all.empty() ? "" : ", ") + name;
    return all;
}

// A plain decimal number and what follows it; false when there is none.
bool split(const std::string &text, double &value, std::string &unit) {
    const std::size_t digits = std::strspn(text.c_str(), "0123456789.");
    const char *end = text.data() + digits;
    if (digits == 0 || digits > 15)
        return false;
    const auto read = std::from_chars(text.data(), end, value, std::chars_format::fixed);
    unit = text.substr(digits);
    return read.ec == std::errc() && read.ptr == end;
}

bool number(const std::string &text, unsigned &value) {
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    return !text.empty() && read.ec == std::errc() && read.ptr == text.data() + text.size();
}

constexpr unsigned short_polls = 100; // where threads outnumber CPUs the thread that is waited for may not be running

void set_wait(Options &options, const std::string &wait, unsigned threads, std::size_t cpus) {
    if (wait != "auto" && wait != "spin" && wait != "yield")
        refuse("--wait", "no wait '" + wait + "'", "auto, spin, yield");
    if (wait == "spin" && threads > cpus)
        refuse("--wait",
               "spin with " + std::to_string(threads) + " threads on " + std::to_string(cpus) + " CPUs would hardly end",
               "yield, auto, or at most a thread for every CPU");
    options.yields = wait != "spin";
    if (wait == "yield" || threads > cpus)
        options.polls = short_polls;
}

// The threads that run, wakers included.
unsigned running(const std::string &kind, unsigned threads) { return threads + extra_threads(kind, threads); }

void place(Options &options, const Request &request, const std::vector<unsigned> &allowed) {
    const std::string pinned = std::to_string(options.cpus.size());
    for (unsigned cpu : options.cpus)
        if (!std::ranges::binary_search(allowed, cpu))
            refuse("--cpus", "CPU " + std::to_string(cpu) + " is not there or not ours",
                   "the CPUs that this process may run on");
    const std::size_t places = options.cpus.empty() ? allowed.size() : options.cpus.size();
    options.threads = request.threads;
    if (options.threads == 0) {
        const unsigned least = options.kind == "handoff" ? 2 : 1;
        options.threads = std::clamp(static_cast<unsigned>(places), least, most_threads);
        while (options.threads > least && running(options.kind, options.threads) > places)
            --options.threads;
    }
    const unsigned all = running(options.kind, options.threads);
    if (!options.cpus.empty() && all > options.cpus.size())
        refuse("--threads",
               std::to_string(all) + " threads pinned to " + pinned + (pinned == "1" ? " CPU" : " CPUs") +
                   (all == options.threads       ? ""
                    : all == options.threads + 1 ? ", the waker included"
                                                 : ", the wakers included"),
               "at most one for each CPU of --cpus; without --cpus there may be more");
    set_wait(options, request.wait, all, places);
}

} // namespace

Length parse_length(const std::string &text, const std::string &where) {
    const std::string allowed = "iterations up to 10000000, or a time up to 10ms: 250, 250ns, 3us";
    double value = 0;
    std::string unit;
    if (!split(text, value, unit))
        refuse(where, "not a length: '" + text + "'", allowed);
    if (unit.empty()) {
        if (text.find('.') != std::string::npos || value > static_cast<double>(most_iterations))
            refuse(where, "out of range: '" + text + "'", allowed);
        return length_of_iterations(static_cast<std::uint64_t>(value));
    }
    const double scale = unit == "ns" ? 1 : unit == "us" ? 1e3 : unit == "ms" ? 1e6 : 0;
    if (scale == 0)
        refuse(where, "not a length: '" + text + "'", allowed);
    if (value * scale > most_ns)
        refuse(where, "out of range: '" + text + "'", allowed);
    return length_of_ns(value * scale);
}

double parse_duration(const std::string &text, const std::string &where, double low, double high) {
    const std::string allowed = "a number with m, s, ms or us, s if none; from " +
                                std::to_string(static_cast<long>(low * 1e6)) + " us to " +
                                std::to_string(static_cast<long>(high)) + " s";
    double value = 0;
    std::string unit;
    if (!split(text, value, unit))
        refuse(where, "not a duration: '" + text + "'", allowed);
    const double scale = unit.empty() || unit == "s" ? 1 : unit == "ms" ? 1e-3 : unit == "us" ? 1e-6 : unit == "m" ? 60 : 0;
    if (scale == 0)
        refuse(where, "not a duration: '" + text + "'", allowed);
    if (value * scale < low || value * scale > high)
        refuse(where, "out of range: '" + text + "'", allowed);
    return value * scale;
}

std::vector<unsigned> parse_cpus(const std::string &text, const std::string &where) {
    const std::string allowed = "a list like 0,2-4, each CPU once";
    std::vector<unsigned> cpus;
    std::set<unsigned> seen;
    std::size_t at = 0;
    while (at <= text.size()) {
        const std::size_t comma = std::min(text.find(',', at), text.size());
        const std::string part = text.substr(at, comma - at);
        const std::size_t dash = part.find('-');
        unsigned first = 0, last = 0;
        if (!number(part.substr(0, dash), first) ||
            !(dash == std::string::npos ? (last = first, true) : number(part.substr(dash + 1), last)) || last < first ||
            last > 65535)
            refuse(where, "not a list of CPUs: '" + text + "'", allowed);
        for (unsigned cpu = first; cpu <= last; ++cpu) {
            if (!seen.insert(cpu).second)
                refuse(where, "CPU " + std::to_string(cpu) + " named twice", allowed);
            cpus.push_back(cpu);
        }
        at = comma + 1;
    }
    return cpus;
}

Options resolve(const Request &request, const std::vector<unsigned> &allowed) {
    Options options;
    options.kind = request.kind;
    if (std::ranges::find(kinds(), request.kind) == kinds().end())
        refuse("KIND", "no workload '" + request.kind + "'", listed(kinds()));
    options.critical = parse_length(request.critical, "--critical");
    options.parallel = parse_length(request.parallel, "--parallel");
    options.duration_s = parse_duration(request.duration, "--duration", 1e-3, 86'400);
    if (!request.long_hold.empty()) {
        options.long_hold_ns = 1e9 * parse_duration(request.long_hold, "--long-hold", 1e-6, 1);
        if (options.kind == "handoff")
            refuse("--long-hold", "handoff holds nothing that others could have meanwhile", "any other workload");
    }
    if (!request.cpus.empty())
        options.cpus = parse_cpus(request.cpus, "--cpus");
    constexpr std::string_view locks[] = {"spinlock", "ticket", "mcs", "rwlock", "futex-lock-pi"};
    options.competitors = request.competitors;
    options.slices = lw_wait_slices() && std::ranges::find(locks, options.kind) != std::end(locks);
    options.write_percent = request.write_percent;
    options.time_every = request.time_every;
    options.seed = request.seed;
    place(options, request, allowed);
    if (options.kind == "handoff" && options.threads < 2)
        refuse("--threads", "a handoff needs a second thread", "2 to " + std::to_string(most_threads));
    return options;
}

} // namespace lw::workload
