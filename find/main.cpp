// SPDX-License-Identifier: MIT
// linewright-find: samples a program and writes what it sees as JSON lines; `linewright find` runs it and says what they
// mean.
#include "find/session.hpp"
#include "wire/options.hpp"

#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <limits>

namespace {

constexpr int most_descriptor = 1 << 20;

enum Exit { done = 0, wrong_request = 2, not_completed = 3, refused = 4 };

int fail(const char *what, Exit code) {
    std::fprintf(stderr, "linewright-find: %s\n", what);
    return code;
}

// The reader of the lines hears of a failure there: standard error belongs to the program.
int fail(lw::find::Output &output, const char *what, Exit code) {
    lw::find::Line(output, "failure").text("why", what).number("code", static_cast<std::uint64_t>(code));
    return code;
}

lw::find::Variable variable(const std::string &text) {
    std::size_t equals = text.find('=');
    return {text.substr(0, equals), equals == std::string::npos ? "" : text.substr(equals + 1)};
}

int run(const lw::find::Options &options, int fd) {
    fcntl(fd, F_SETFD, FD_CLOEXEC); // the program under test has no business with our channels
    if (options.commands >= 0)
        fcntl(options.commands, F_SETFD, FD_CLOEXEC);
    lw::find::Output output(fd);
    try {
        lw::find::sample(output, options);
        return done;
    } catch (const lw::find::WrongRequest &error) {
        return fail(output, error.what(), wrong_request);
    } catch (const lw::find::Refused &error) {
        return fail(output, error.what(), refused);
    } catch (const std::exception &error) {
        return fail(output, error.what(), not_completed);
    }
}

} // namespace

int main(int argc, char **argv) {
    lw::wire::Options parser(
        "Samples a program's threads with CPU timers; the lines it writes are described in docs/guide/find.md.",
        LINEWRIGHT_VERSION);
    lw::find::Options options;
    double period_us = 1000;
    int fd = 1;
    std::vector<std::string> environment;
    parser.number("--period-us", period_us, 10, 1e6, "CPU time between samples of a thread, at least");
    parser.number("--sample-share", options.sample_share, 1e-6, 1, "share of the program's CPU time that samples may cost");
    parser.number("--pid", options.pid, 1, std::numeric_limits<pid_t>::max(),
                  "sample this process, its threads and its descendants");
    parser.number("--for", options.seconds, 1e-6, 1e9, "seconds; a program that was started is then ended");
    parser.number("--watch-share", options.watch_share, 0, 1, "share of the program's CPU time that watchpoints may cost");
    parser.number(
        "--commands", options.commands, 0, most_descriptor,
        "descriptor to read requests from, nothing begins before the first: watch ID TID ADDRESS BYTES w|rw MS; stop");
    parser.number("--to", fd, 0, most_descriptor, "descriptor to write lines to");
    parser.text("--signals", options.signals, "folder of the rings of the preloaded library, instead of perf_event_open");
    parser.texts("--env", environment, "NAME=VALUE for the program");
    parser.rest("command", options.command, "the program and its arguments");
    try {
        if (!parser.parse(argc, argv))
            return done;
    } catch (const lw::wire::Options::Wrong &error) {
        return fail(error.what(), wrong_request);
    }
    if ((options.pid == 0) == options.command.empty())
        return fail("name either a program or --pid", wrong_request);
    options.period_ns = static_cast<std::uint64_t>(period_us * 1000);
    for (const std::string &text : environment)
        options.environment.push_back(variable(text));
    return run(options, fd);
}
