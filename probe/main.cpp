// linewright-probe: runs a plan on the machine under test. Plan on standard input, records on standard output.
#include "probe/machine.hpp"
#include "probe/programs.hpp"
#include "probe/quick.hpp"
#include "probe/rmw_loops.hpp"
#include "probe/run.hpp"
#include "probe/window.hpp"
#include "wire/claim.hpp"
#include "wire/forms.hpp"
#include "wire/schema.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <optional>
#include <thread>
#include <unistd.h>

namespace {

using namespace lw;
using json = nlohmann::ordered_json;

enum Exit { done = 0, wrong_request = 2, not_completed = 3 };

std::atomic<bool> stop_requested{false};
void on_signal(int) { stop_requested.store(true, std::memory_order_relaxed); }

// One line on standard error that a program can read; the text itself is for people.
void complain(const std::string &what) {
    std::cerr << json{{"error", what}}.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
}

wire::Plan read_plan() {
    if (isatty(STDIN_FILENO))
        std::cerr << "waiting for a plan on standard input; --quick needs none, --help says more" << std::endl;
    return wire::parse_plan({std::istreambuf_iterator<char>(std::cin), {}});
}

// Forms of this architecture, or the whole table: of other architectures no form is available.
void print_forms(const probe::Machine &machine, bool all) {
    std::vector<wire::Listed> forms;
    for (const wire::Form &form : wire::all_forms()) {
        const bool here = wire::belongs_to(form, wire::this_arch);
        if (here || all)
            forms.push_back({&form, !here                     ? "of another architecture"
                                    : machine.has(form.needs) ? ""
                                                              : "this CPU lacks " + std::string(form.needs)});
    }
    std::cout << wire::to_json(forms) << std::endl;
}

void print_topology(const probe::Machine &machine) {
    std::map<std::string, std::vector<std::string>> classes;
    const auto &cpus = machine.topology.cpus;
    for (const wire::Cpu &a : cpus)
        for (const wire::Cpu &b : cpus)
            if (a.cpu < b.cpu && a.allowed && b.allowed)
                classes[std::string(probe::distance_name(machine.topology.distance(a.cpu, b.cpu)))].push_back(
                    std::to_string(a.cpu) + "," + std::to_string(b.cpu));
    std::cout << json{{"arch", wire::arch_name(wire::this_arch)},
                      {"cpus", json::parse(wire::to_json(cpus))},
                      {"pairs", classes}}
                     .dump(1)
              << std::endl;
}

void report_progress(const probe::Progress &progress) {
    using namespace std::chrono;
    static steady_clock::time_point last;
    steady_clock::time_point now = steady_clock::now();
    if (now - last < seconds(1))
        return;
    last = now;
    std::cerr << json{{"progress",
                       {{"id", progress.id},
                        {"done", progress.done},
                        {"total", progress.total},
                        {"cells_done", progress.cells_done},
                        {"cells", progress.cells},
                        {"state", progress.cell_done ? "done" : "window"}}}}
                     .dump()
              << '\n';
    // The reader of this output wakes up and runs: here, between two windows, and not inside the next one.
    std::this_thread::sleep_for(milliseconds(15));
}

int run(probe::Machine &machine, const wire::Plan &plan) {
    probe::check_plan(plan, machine);
    machine.other_probe = wire::claim_machine();
    machine.loop_place = plan.launch % probe::loop_places;
    probe::pin_to(probe::usable_cpus(machine.topology, plan.cpus).front()); // the context describes the timed CPU
    wire::Context context = probe::describe(machine, plan.name, plan.launch, plan.counters);
    context.launches = plan.launches;
    bool writable = true;
    auto write = [&](const std::string &text) {
        std::cout << text << std::endl; // flushed: what is finished must survive a kill
        if (!std::cout) {
            writable = false;
            stop_requested = true;
        }
    };
    write(wire::to_json(context));
    probe::Run_hooks hooks;
    hooks.record = [&](const wire::Record &record) { write(wire::to_json(record)); };
    hooks.progress = report_progress;
    hooks.stop = &stop_requested;
    bool finished = probe::run_plan(plan, machine, context.context_id, hooks);
    if (!writable)
        complain("standard output could not be written");
    else if (!finished)
        complain("stopped before the end of the plan; finished cells were written");
    return finished && writable ? done : not_completed;
}

// The folder that this program was started from: where `trial --on` put it, files can be written.
std::string folder_of(const std::string &program) {
    const std::size_t slash = program.rfind('/');
    return slash == std::string::npos ? "." : program.substr(0, slash);
}

void catch_signals() {
    struct sigaction action{};
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    // A terminal that closes hangs up every process of its group. Finished cells are still written, as on a request
    // to stop. Where a hangup is to be survived (nohup) it is.
    struct sigaction hangup{};
    sigaction(SIGHUP, nullptr, &hangup);
    if (hangup.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, nullptr);
    std::signal(SIGPIPE, SIG_IGN); // a reader that went away is found by the failing write
}

struct Modes {
    bool topology = false, context = false, check = false, quick = false, programs = false;
    std::string list_forms{};
    std::optional<unsigned> launch{};
};

// What the options ask for, in the program of this path.
int act(const Modes &modes, const std::string &program) {
    if (modes.programs) {
        wire::claim_machine();
        return probe::run_programs(folder_of(program));
    }
    probe::Machine machine = probe::read_machine();
    if (!modes.list_forms.empty())
        print_forms(machine, modes.list_forms == "all");
    else if (modes.topology)
        print_topology(machine);
    else if (modes.context) {
        machine.other_probe = wire::other_run_here();
        std::cout << wire::to_json(probe::describe(machine, "none", 0)) << std::endl;
    } else if (modes.quick)
        return probe::print_quick_table(machine, stop_requested);
    else {
        wire::Plan plan = read_plan();
        plan.launch = modes.launch.value_or(plan.launch);
        if (!modes.check)
            return run(machine, plan);
        probe::check_plan(plan, machine);
        std::cout << json{{"ok", true}, {"cells", plan.cells.size()}}.dump() << std::endl;
    }
    if (!std::cout)
        complain("standard output could not be written");
    return std::cout ? done : not_completed;
}

} // namespace

int main(int argc, char **argv) {
    CLI::App app{"Runs a plan of timed cells on this machine: plan (JSON) on standard input, a context line and one "
                 "record for each cell (JSON lines) on standard output."};
    app.set_version_flag("--version", "linewright-probe " LINEWRIGHT_VERSION);
    Modes modes;
    auto *options = app.add_option_group("instead of running a plan");
    options
        ->add_flag(
            "--list-forms{here}", modes.list_forms,
            "print the forms of this architecture and which this CPU can run; --list-forms=all: of every architecture")
        ->check(CLI::IsMember({"here", "all"}));
    options->add_flag("--topology", modes.topology, "print the CPUs and how near they are to each other");
    options->add_flag("--context", modes.context, "print the context line alone");
    options->add_flag("--check", modes.check, "validate the plan on standard input; run nothing");
    options->add_flag("--quick", modes.quick, "measure a few cells of every form and print a plain text table");
    options->add_flag("--programs", modes.programs,
                      "run the programs that standard input names and say what each took: for `linewright trial --on`");
    options->require_option(0, 1);
    app.add_option("--launch", modes.launch,
                   "run the plan as this launch, in place of the one that it names: 0, 1 and so on")
        ->check(CLI::Range(0u, 1'000'000u));
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        if (error.get_exit_code() == 0)
            return app.exit(error);
        complain(error.what());
        return wrong_request;
    }

    catch_signals();
    try {
        return act(modes, argv[0]);
    } catch (const wire::Invalid &error) {
        complain(error.what());
        return wrong_request;
    } catch (const std::exception &error) {
        complain(error.what());
        return not_completed;
    }
}
