// SPDX-License-Identifier: MIT
// linewright-workload: locks and counters on the library's atomics, checked while they are timed.
#include "wire/options.hpp"
#include "workload/report.hpp"
#include "workload/request.hpp"

#include <linewright/policy.h>
#include <linewright/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>

namespace {

using namespace lw::workload;
namespace wire = lw::wire;

enum Exit { done = 0, broken = 1, wrong_request = 2, not_completed = 3 };

std::atomic<bool> stop_requested{false};
void on_signal(int) { stop_requested.store(true, std::memory_order_relaxed); }

int complain(int code, std::string what) {
    std::ranges::replace(what, '\n', ' ');
    std::cerr << "linewright: " << what << std::endl;
    return code;
}

// A comparison of settings must not run under another one than it asked for, so a setting that is refused ends the program. The
// library's own constructors have this priority too and come later in the link: their lines, by which the default is used, are not printed.
__attribute__((constructor(101))) void refuse_wrong_settings() {
    std::array<char, 512> why{};
    const auto refuse = [](const char *name, const char *reason) {
        std::fprintf(stderr, "linewright: %s: %s; nothing was run\n", name, reason);
        std::_Exit(wrong_request);
    };
    const char *text = std::getenv("LINEWRIGHT_ATOMICS");
    lw_policy policy;
    if (text && lw_policy_set(text) != 0)
        refuse("LINEWRIGHT_ATOMICS", lw_policy_parse(text, &policy, why.data(), why.size()) == 0
                                         ? "this CPU lacks the LSE atomics that it needs"
                                         : why.data());
    text = std::getenv("LINEWRIGHT_WAIT");
    if (text && lw_wait_set(text, why.data(), why.size()) != 0)
        refuse("LINEWRIGHT_WAIT", why.data());
}

std::string policy() {
    std::array<char, 512> line{};
    lw_policy_describe(line.data(), line.size());
    return line.data();
}

void declare(wire::Options &options, Request &request, bool &json) {
    std::string names;
    for (const std::string &kind : kinds())
        names += (names.empty() ? "" : ", ") + kind;
    options.argument("KIND", request.kind, names.c_str());
    options.number("-t,--threads", request.threads, 1, most_threads,
                   "threads; more than CPUs are allowed (default: one for every CPU)");
    options.text("-c,--critical", request.critical,
                 "length of the critical section: iterations of a one-NOP loop, or a time like 200ns (default: 0)");
    options.text("-p,--parallel", request.parallel, "the same between two critical sections (default: 0)");
    options.text("--cpus", request.cpus, "pin thread i to the i-th CPU of a list like 0,2-4 (default: not pinned)");
    options.text("--duration", request.duration, "length of the measured window: 500ms, 2s, 1m (default: 1s)");
    options.number("--seed", request.seed, 0, 999'999'999'999'999'999, "seed of every random choice (default: 1)");
    options.text(
        "--wait", request.wait,
        "spin; yield: give up the CPU after 100 polls in vain; auto: after 10000, or 100 where threads outnumber CPUs (default: auto)");
    options.text("--long-hold", request.long_hold,
                 "now and then a critical section of this length, as a lock torture has them: 1us to 1s");
    options.number("--write-percent", request.write_percent, 0, 100, "rwlock: share of writers (default: 10)");
    options.number("--time-every", request.time_every, 1, 1'000'000, "one wait in N is timed, on average (default: 16)");
    options.flag("--competitors", request.competitors,
                 "another thread computes on each of the CPUs, at the same priority: holders are preempted");
    options.flag("--json", json, "print JSON, for programs");
}

int answer(const Options &options, bool json) {
    const Result result = run(options, stop_requested);
    std::cout << (json ? as_json(options, result, policy()) : as_text(options, result, policy())) << std::flush;
    if (!result.verified())
        return complain(broken, options.kind + ": " + result.failures.front());
    if (!std::cout)
        return complain(not_completed, "standard output could not be written");
    if (result.interrupted)
        return complain(not_completed, "interrupted; what was done until then is shown");
    return done;
}

} // namespace

int main(int argc, char **argv) {
    wire::Options options(
        "Runs one lock or counter on Linewright's atomics, with LINEWRIGHT_ATOMICS in force, checks it, and reports its rate, fairness and waits.",
        "linewright-workload " LINEWRIGHT_VERSION);
    Request request;
    bool json = false;
    declare(options, request, json);
    try {
        if (!options.parse(argc, argv))
            return done;
    } catch (const wire::Options::Wrong &error) {
        return complain(wrong_request, error.what());
    }
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND); // a second Ctrl-C ends it at once
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    std::signal(SIGPIPE, SIG_IGN); // a reader that went away is found by the failing write
    try {
        return answer(resolve(request, allowed_cpus()), json);
    } catch (const Invalid &error) {
        return complain(wrong_request, error.what());
    } catch (const std::exception &error) {
        return complain(not_completed, error.what());
    }
}
