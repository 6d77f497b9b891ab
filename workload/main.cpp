// linewright-workload: locks and counters on the library's atomics, checked while they are timed.
#include "workload/report.hpp"
#include "workload/request.hpp"

#include <linewright/policy.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>

namespace {

using namespace lw::workload;

enum Exit { done = 0, broken = 1, wrong_request = 2, not_completed = 3 };

std::atomic<bool> stop_requested{false};
void on_signal(int) { stop_requested.store(true, std::memory_order_relaxed); }

int complain(int code, std::string what) {
    std::ranges::replace(what, '\n', ' ');
    std::cerr << "linewright: " << what << std::endl;
    return code;
}

// The library has read LINEWRIGHT_ATOMICS by itself and reported what is wrong with it; but it then goes on with the default,
// which a comparison of settings must not do.
void check_policy() {
    const char *text = std::getenv("LINEWRIGHT_ATOMICS");
    if (text && lw_policy_set(text) != 0)
        throw Invalid("LINEWRIGHT_ATOMICS: not possible, as reported above; nothing was run");
}

std::string policy() {
    std::array<char, 512> line{};
    lw_policy_describe(line.data(), line.size());
    return line.data();
}

// CLI11 takes -1 for the largest number there is.
CLI::Validator seed() {
    return {[](const std::string &text) {
                const bool number =
                    !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
                return number ? std::string() : "no seed: '" + text + "' (allowed: 0 to 999999999999999999)";
            },
            "0 to 999999999999999999"};
}

void declare(CLI::App &app, Request &request, std::string &format) {
    app.set_version_flag("--version", "linewright-workload " LINEWRIGHT_VERSION);
    app.add_option("KIND", request.kind, "refcount, spinlock, ticket, mcs, rwlock, hash-bucket or handoff")->required();
    app.add_option("-t,--threads", request.threads, "threads; more than CPUs are allowed (default: one for every CPU)")
        ->check(CLI::Range(1u, most_threads));
    app.add_option("-c,--critical", request.critical,
                   "length of the critical section: iterations of a one-NOP loop, or a time like 200ns (default: 0)");
    app.add_option("-p,--parallel", request.parallel, "the same between two critical sections (default: 0)");
    app.add_option("--cpus", request.cpus, "pin thread i to the i-th CPU of a list like 0,2-4 (default: not pinned)");
    app.add_option("--duration", request.duration, "length of the measured window: 500ms, 2s, 1m (default: 1s)");
    app.add_option("--seed", request.seed, "seed of every random choice")->capture_default_str()->check(seed());
    app.add_option(
        "--wait", request.wait,
        "spin; yield: give up the CPU after 100 polls in vain; auto: after 10000, or 100 where threads outnumber CPUs (default: auto)");
    app.add_option("--long-hold", request.long_hold,
                   "now and then a critical section of this length, as a lock torture has them: 1us to 1s");
    app.add_option("--write-percent", request.write_percent, "rwlock: share of writers")
        ->check(CLI::Range(0u, 100u))
        ->capture_default_str();
    app.add_option("--time-every", request.time_every, "one wait in N is timed, on average")
        ->check(CLI::Range(1u, 1'000'000u))
        ->capture_default_str();
    app.add_option("--format", format, "table or json (default: table)")->check(CLI::IsMember({"table", "json"}));
}

int answer(const Options &options, const std::string &format) {
    const Result result = run(options, stop_requested);
    std::cout << (format == "json" ? as_json(options, result, policy()) : as_text(options, result, policy())) << std::flush;
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
    CLI::App app{
        "Runs one lock or counter on Linewright's atomics, with LINEWRIGHT_ATOMICS in force, checks it, and reports its rate, fairness and waits."};
    Request request;
    std::string format = "table";
    declare(app, request, format);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        return error.get_exit_code() == 0 ? app.exit(error) : complain(wrong_request, error.what());
    }
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND); // a second Ctrl-C ends it at once
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    std::signal(SIGPIPE, SIG_IGN); // a reader that went away is found by the failing write
    try {
        check_policy();
        return answer(resolve(request, allowed_cpus()), format);
    } catch (const Invalid &error) {
        return complain(wrong_request, error.what());
    } catch (const std::exception &error) {
        return complain(not_completed, error.what());
    }
}
