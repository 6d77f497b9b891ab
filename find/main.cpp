// linewright-find: samples a program and writes what it sees as JSON lines; `linewright find` runs it and says what they mean.
#include "find/session.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <fcntl.h>

namespace {

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
    CLI::App app{"Samples a program's threads with CPU timers; the lines it writes are described in docs/guide/find.md."};
    lw::find::Options options;
    double period_us = 1000;
    int fd = 1;
    std::vector<std::string> environment;
    app.set_version_flag("--version", LINEWRIGHT_VERSION);
    app.add_option("--period-us", period_us, "CPU time between samples of a thread, at least")->check(CLI::Range(10.0, 1e6));
    app.add_option("--sample-share", options.sample_share, "share of the program's CPU time that samples may cost")
        ->check(CLI::Range(1e-6, 1.0));
    app.add_option("--pid", options.pid, "sample this process, its threads and its descendants")->check(CLI::PositiveNumber);
    app.add_option("--for", options.seconds, "seconds; a program that was started is then ended")
        ->check(CLI::PositiveNumber);
    app.add_option("--watch-share", options.watch_share, "share of the program's CPU time that watchpoints may cost")
        ->check(CLI::Range(0.0, 1.0));
    app.add_option("--commands", options.commands,
                   "descriptor to read requests from: watch ID TID ADDRESS BYTES w|rw MS; stop");
    app.add_option("--to", fd, "descriptor to write lines to");
    app.add_option("--signals", options.signals, "folder of the rings of the preloaded library, instead of perf_event_open");
    app.add_option("--env", environment, "NAME=VALUE for the program");
    app.add_option("command", options.command, "the program and its arguments");
    app.positionals_at_end();
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        return app.exit(error) == 0 ? done : wrong_request;
    }
    if ((options.pid == 0) == options.command.empty())
        return fail("name either a program or --pid", wrong_request);
    options.period_ns = static_cast<std::uint64_t>(period_us * 1000);
    for (const std::string &text : environment)
        options.environment.push_back(variable(text));
    return run(options, fd);
}
