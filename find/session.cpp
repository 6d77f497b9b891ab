// SPDX-License-Identifier: MIT
// Opens the events for a program to start or a process to join, drains rings, serves requests for watchpoints.
#include "find/session.hpp"

#include "find/processes.hpp"
#include "find/signals.hpp"
#include "find/timers.hpp"
#include "find/watch.hpp"
#include "probe/company.hpp"
#include "wire/claim.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <optional>
#include <poll.h>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

namespace lw::find {

std::uint64_t monotonic_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

namespace {

std::atomic<int> signals_seen{0};
void on_signal(int) { signals_seen.fetch_add(1, std::memory_order_relaxed); }

void catch_signals() {
    struct sigaction action{};
    action.sa_handler = on_signal;
    for (int number : {SIGINT, SIGTERM, SIGHUP})
        sigaction(number, &action, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
}

// As many descriptors as are allowed: an event takes one for each thread and CPU. A program that we start was forked before
// and keeps its own limit.
rlim_t raise_descriptors() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}

// Why perf_event_open is refused to us; `joined`: for a process that was running.
[[noreturn]] void refuse(int error, bool joined) {
    std::ifstream file("/proc/sys/kernel/perf_event_paranoid");
    int paranoid = -9;
    file >> paranoid;
    std::string text = std::string("perf_event_open: ") + std::strerror(error);
    if (paranoid > 2 && (error == EACCES || error == EPERM))
        text += "; kernel.perf_event_paranoid is " + std::to_string(paranoid) + ", 2 would do";
    else if (joined && error == EACCES)
        text +=
            "; the process may not be inspected (its groups or capabilities differ, or it has cleared PR_SET_DUMPABLE): root may";
    else if (error == EPERM || error == ENOSYS)
        text += "; a container's seccomp profile can be the cause";
    throw Refused(text);
}

// A period in which one sample costs no more than its share; the fall-back's timers keep the one that they were given.
std::uint64_t affordable_period(const Options &options, const Costs &costs) {
    auto by_cost = static_cast<std::uint64_t>(static_cast<double>(costs.sample_ns) / options.sample_share);
    return options.signals.empty() ? std::max(options.period_ns, by_cost) : options.period_ns;
}

class Run {
public:
    Run(Output &output, const Options &options)
        : out_(output), options_(options), costs_(options.signals.empty() ? measure_costs() : Costs{}),
          period_ns_(affordable_period(options, costs_)), watches_(output, options.watch_share, costs_) {}
    void run();

private:
    void await_reader() const;
    bool given_up();
    void begin_program();
    void begin_process();
    std::uint64_t switches() const;
    std::uint64_t switch_cost_ns(std::uint64_t switched, std::uint64_t elapsed_ns) const;
    bool by_cpu(const std::vector<pid_t> &family);
    void join(const std::vector<pid_t> &family);
    void header(const char *scope);
    void loop();
    bool over(std::uint64_t now_ns);
    void take_commands();
    void obey(const std::string &line);
    void describe(std::uint64_t now_ns);
    void drain();
    void finish();

    Output &out_;
    const Options &options_;
    Costs costs_;
    std::uint64_t period_ns_;
    Watches watches_;
    std::optional<Timers> timers_;
    std::optional<Signals> signals_;
    std::optional<Launched> program_;
    std::string pending_;
    std::map<std::uint32_t, std::uint64_t> described_; // when a process's mappings are written next
    std::uint64_t began_ns_ = 0, ended_at_ns_ = 0;
    std::optional<probe::Load_since> load_;
    std::size_t left_out_ = 0;
    std::uint64_t switches_before_ = 0;
    bool stop_asked_ = false, commands_open_ = true, other_run_ = false;
};

void Run::header(const char *scope) {
    Line line(out_, "start");
    line.number("linewright_find", 1)
        .text("source", signals_ ? "signal" : "timer")
        .text("arch", arch_name)
        .text("scope", scope)
        .number("pid", static_cast<std::uint64_t>(program_ ? program_->pid() : options_.pid))
        .number("period_ns", period_ns_)
        .flag("kernel", timers_ && timers_->kernel())
        .number("cpus", static_cast<std::uint64_t>(sysconf(_SC_NPROCESSORS_ONLN)))
        .flag("other_run", other_run_)
        .number("left_out", left_out_)
        .number("sample_ns", costs_.sample_ns)
        .number("hit_ns", costs_.hit_ns)
        .number("arm_ns", costs_.arm_ns)
        .number("recorded_switch_ns", timers_ && timers_->whole_machine() ? costs_.recorded_switch_ns : 0)
        .number("watch_switch_ns", costs_.watch_switch_ns)
        .number("watch_wait_ns", costs_.wait_ns)
        .flag("measured", signals_ || (costs_.sample_measured && costs_.watch_measured))
        .texts("command", options_.command)
        .number("time_ns", monotonic_ns());
}

// The first request, an empty one perhaps, says that the lines are read from now on: a program that keeps all CPUs busy
// would hold up what reads them, and nothing would be watched until it is ready.
void Run::await_reader() const {
    pollfd commands{options_.commands, POLLIN, 0};
    while (options_.commands >= 0 && poll(&commands, 1, 100) <= 0 && !signals_seen.load(std::memory_order_relaxed))
        continue;
}

void Run::begin_program() {
    program_.emplace(options_.command, options_.environment);
    raise_descriptors();
    const char *scope = "program";
    if (!options_.signals.empty())
        signals_.emplace(out_, options_.signals);
    else if (by_cpu({program_->pid()}))
        scope = "machine";
    else if (int error = timers_->add(program_->pid(), true)) {
        program_.reset();
        refuse(error, false);
    }
    header(scope);
    describe_tasks(out_, program_->pid(), {program_->pid()}, monotonic_ns());
    if (timers_ && timers_->whole_machine())
        timers_->start();
    if (int error = program_->release())
        throw WrongRequest("cannot run " + options_.command[0] + ": " + std::strerror(error));
}

void Run::begin_process() {
    long who = owner(options_.pid);
    if (who < 0)
        throw WrongRequest("no process " + std::to_string(options_.pid));
    if (geteuid() != 0 && who != static_cast<long>(geteuid()))
        throw WrongRequest("process " + std::to_string(options_.pid) + " is another user's (" + std::to_string(who) +
                           "): run as that user, or as root");
    join(family_of(options_.pid));
}

// One event for each CPU of the whole machine, where that is allowed; else `timers_` is fresh.
bool Run::by_cpu(const std::vector<pid_t> &family) {
    timers_.emplace(out_, period_ns_, costs_.recorded_switch_ns);
    if (timers_->add_machine(family) == 0)
        return true;
    timers_.emplace(out_, period_ns_, costs_.recorded_switch_ns);
    costs_.switch_ns = measure_switch();
    return false;
}

// CPU time of the program (RUSAGE_CHILDREN) or our own, with that inside the kernel, of which there may be no samples.
std::uint64_t cpu_of(decltype(RUSAGE_SELF) who) {
    rusage used{};
    getrusage(who, &used);
    auto seconds = static_cast<std::uint64_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec);
    return seconds * 1'000'000'000 + static_cast<std::uint64_t>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1'000;
}

// Whether the first request asks for the end, or nothing reads any more.
bool Run::given_up() {
    if (options_.commands >= 0 && !signals_seen.load(std::memory_order_relaxed))
        take_commands();
    return stop_asked_ || !commands_open_ || signals_seen.load(std::memory_order_relaxed);
}

// Changes of the program's tasks so far; those of children count once they were waited for.
std::uint64_t Run::switches() const {
    if (!timers_)
        return 0;
    if (options_.pid)
        return switches_of(family_of(options_.pid));
    rusage used{};
    getrusage(RUSAGE_CHILDREN, &used);
    return static_cast<std::uint64_t>(used.ru_nvcsw + used.ru_nivcsw);
}

// Events by CPU where they are allowed; else for every thread, or where there are descriptors for fewer, for those that have
// used the most CPU time.
void Run::join(const std::vector<pid_t> &family) {
    std::vector<pid_t> tids;
    for (pid_t pid : family)
        for (pid_t tid : threads_of(pid))
            tids.push_back(tid);
    auto cpus = static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_CONF));
    std::size_t most = std::max<std::size_t>(1, (raise_descriptors() - 64) / cpus);
    const char *scope = "tasks";
    if (by_cpu(family)) {
        scope = "machine";
    } else {
        if (tids.size() > most) {
            std::ranges::stable_sort(tids, std::greater{}, cpu_time);
            left_out_ = tids.size() - most;
            tids.resize(most);
        }
        int error = 0;
        for (pid_t tid : tids)
            if (int failed = timers_->add(tid, false); failed && failed != ESRCH)
                error = failed;
        if (timers_->events() == 0)
            refuse(error ? error : ESRCH, true);
    }
    header(scope);
    for (pid_t pid : family) {
        describe_tasks(out_, pid, threads_of(pid), monotonic_ns());
        describe_mappings(out_, pid, monotonic_ns());
    }
    timers_->start();
}

void Run::obey(const std::string &line) {
    std::istringstream words(line);
    std::string verb, access;
    Request request;
    words >> verb;
    if (verb == "stop")
        stop_asked_ = true;
    else if (verb == "watch" &&
             words >> request.id >> request.tid >> request.address >> request.length >> access >> request.ms) {
        request.reads = access == "rw";
        watches_.ask(request);
    }
}

void Run::take_commands() {
    char bytes[4096];
    ssize_t got = read(options_.commands, bytes, sizeof bytes);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
        commands_open_ = false;
        stop_asked_ = stop_asked_ || options_.pid; // the process that asked is gone
    }
    if (got > 0)
        pending_.append(bytes, static_cast<std::size_t>(got));
    for (std::size_t end; (end = pending_.find('\n')) != std::string::npos; pending_.erase(0, end + 1))
        obey(pending_.substr(0, end));
}

bool Run::over(std::uint64_t now_ns) {
    constexpr std::uint64_t patience_ns = 5'000'000'000;
    bool asked = stop_asked_ || signals_seen.load(std::memory_order_relaxed) > 0 || out_.broken() ||
                 (options_.seconds > 0 && static_cast<double>(now_ns - began_ns_) > options_.seconds * 1e9);
    if (!program_)
        return asked || !exists(options_.pid);
    if (program_->ended())
        return true;
    if (asked && !ended_at_ns_) {
        ended_at_ns_ = now_ns;
        program_->signal(SIGTERM);
    } else if (asked && (now_ns - ended_at_ns_ > patience_ns || signals_seen.load(std::memory_order_relaxed) > 1))
        program_->signal(SIGKILL);
    return false;
}

// Records name neither the heap nor a stack, nor what was mapped before a process was joined: /proc does.
void Run::describe(std::uint64_t now_ns) {
    constexpr std::uint64_t first_ns = 100'000'000, again_ns = 1'000'000'000;
    if (!timers_)
        return;
    for (std::uint32_t pid : timers_->take_active())
        described_.try_emplace(pid, now_ns + first_ns);
    for (auto &[pid, due_ns] : described_)
        if (now_ns >= due_ns) {
            describe_mappings(out_, static_cast<pid_t>(pid), now_ns);
            due_ns = now_ns - began_ns_ < 4 * again_ns ? now_ns + again_ns : ~0ull;
        }
}

void Run::drain() {
    if (timers_) {
        timers_->drain();
        timers_->align(monotonic_ns());
    }
    if (signals_)
        signals_->drain();
}

void Run::loop() {
    began_ns_ = monotonic_ns();
    load_.emplace();
    switches_before_ = switches();
    std::uint64_t flushed_ns = began_ns_;
    while (true) {
        bool over_now = over(monotonic_ns()); // asked before the rings are drained: nothing of the end is missed
        drain();
        watches_.step(monotonic_ns(), timers_ ? timers_->totals().samples * period_ns_ : 0,
                      timers_ ? timers_->watchable() : std::set<int>{});
        describe(monotonic_ns());
        if (over_now)
            return;
        if (monotonic_ns() - flushed_ns > 100'000'000) {
            out_.flush();
            flushed_ns = monotonic_ns();
        }
        pollfd commands{commands_open_ ? options_.commands : -1, POLLIN, 0};
        // Often at first: who changes tasks too often for a record of each is met soon.
        bool seldom = watches_.idle() && monotonic_ns() - began_ns_ > 100'000'000;
        if (poll(&commands, 1, watches_.waits() ? 1 : seldom ? 20 : 4) > 0)
            take_commands();
    }
}

// An exit code, or of signal N 128 + N.
int as_of_a_shell(int code) { return code < 0 ? 128 - code : code; }

// CPU time of all programs but this one meanwhile; 0 of a time in which the kernel counts too few ticks.
std::uint64_t beside_ns(const probe::Load_since &load, std::uint64_t elapsed_ns) {
    constexpr std::uint64_t least_ns = 500'000'000;
    const std::optional<double> cpus = elapsed_ns < least_ns ? std::nullopt : load.others();
    return static_cast<std::uint64_t>(cpus.value_or(0.0) * static_cast<double>(elapsed_ns));
}

// Events of tasks are set anew at each change. Where CPUs are sampled, those that were recorded cost, and all for as long as the
// kernel looks for events there: until a second after the recording ended.
std::uint64_t Run::switch_cost_ns(std::uint64_t switched, std::uint64_t elapsed_ns) const {
    constexpr std::uint64_t behind_ns = 1'000'000'000;
    if (!timers_ || !timers_->whole_machine())
        return switched * costs_.switch_ns;
    const Totals &totals = timers_->totals();
    std::uint64_t looked_for_ns = elapsed_ns;
    if (totals.recording_ended_ns)
        looked_for_ns = std::min(elapsed_ns, std::max(totals.recording_ended_ns, began_ns_) - began_ns_ + behind_ns);
    double part = static_cast<double>(looked_for_ns) / static_cast<double>(std::max<std::uint64_t>(elapsed_ns, 1));
    auto looked = static_cast<std::uint64_t>(part * static_cast<double>(switched));
    return looked * Costs::looked_ns + totals.switches * costs_.recorded_switch_ns;
}

void Run::finish() {
    const std::uint64_t elapsed_ns = monotonic_ns() - began_ns_;
    std::uint64_t switched = switches();
    switched -= std::min(switched, switches_before_); // threads that ended took theirs with them
    if (timers_)
        timers_->stop();
    drain();
    const Totals &totals = timers_ ? timers_->totals() : signals_->totals();
    Line line(out_, "end");
    line.number("samples", totals.samples)
        .number("kernel", totals.kernel)
        .number("lost", totals.lost)
        .number("throttled", totals.throttled)
        .number("watch_hits", watches_.hits())
        .number("watch_armed", watches_.armed())
        .number("watch_cost_ns", watches_.cost_ns())
        .number("sample_cost_ns", signals_ ? signals_->handler_ns() : totals.samples * costs_.sample_ns)
        .number("switches", switched)
        .number("switches_recorded", totals.switches)
        .number("switch_cost_ns", switch_cost_ns(switched, elapsed_ns))
        .number("recorded_until_ns", totals.recorded_until_ns)
        .number("cpu_ns", program_ ? cpu_of(RUSAGE_CHILDREN) : 0)
        .number("own_cpu_ns", cpu_of(RUSAGE_SELF))
        .number("beside_ns", beside_ns(*load_, elapsed_ns))
        .number("elapsed_ns", elapsed_ns);
    if (program_)
        line.text("ending", program_->exit_code() < 0 ? strsignal(-program_->exit_code()) : "exit")
            .number("exit_code", static_cast<std::uint64_t>(as_of_a_shell(program_->exit_code())))
            .flag("stopped", ended_at_ns_ != 0);
}

void Run::run() {
    catch_signals();
    other_run_ = wire::claim_machine();
    await_reader();
    if (given_up())
        throw std::runtime_error("ended before the program began");
    if (options_.pid)
        begin_process();
    else
        begin_program();
    loop();
    finish();
}

} // namespace

void sample(Output &output, const Options &options) { Run(output, options).run(); }

} // namespace lw::find
