// SPDX-License-Identifier: MIT
// linewright-probe: runs a plan on the machine under test. Plan on standard input, records on standard output.
#include "probe/kernel.hpp"
#include "probe/machine.hpp"
#include "probe/programs.hpp"
#include "probe/quick.hpp"
#include "probe/rmw_loops.hpp"
#include "probe/run.hpp"
#include "probe/window.hpp"
#include "wire/claim.hpp"
#include "wire/forms.hpp"
#include "wire/json.hpp"
#include "wire/options.hpp"
#include "wire/schema.hpp"

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
using wire::Json;

enum Exit { done = 0, wrong_request = 2, not_completed = 3 };

std::atomic<bool> stop_requested{false};
void on_signal(int) { stop_requested.store(true, std::memory_order_relaxed); }

// One line on standard error that a program can read; the text itself is for people.
void complain(const std::string &what) { std::cerr << Json{{"error", what}}.dump() << std::endl; }

// Where the plan's cells run: in this program, or in the kernel behind `kernel`.
struct Place {
    probe::Machine machine = probe::read_machine();
    std::optional<probe::Kernel> kernel{};
    probe::User_space own{machine};

    explicit Place(const std::string &command) {
        if (!command.empty())
            kernel.emplace(command, machine);
    }

    probe::Back_end &back_end() { return kernel ? static_cast<probe::Back_end &>(*kernel) : own; }

    wire::Context describe(const std::string &plan, unsigned launch, const std::vector<std::string> &counters) const {
        return kernel ? kernel->describe(plan, launch) : probe::describe(machine, plan, launch, counters);
    }
};

wire::Plan read_plan(const Place &place) {
    if (isatty(STDIN_FILENO))
        std::cerr << "waiting for a plan on standard input; --quick needs none, --help says more" << std::endl;
    const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
    return place.kernel ? wire::parse_plan(text, place.kernel->arch(), place.kernel->forms()) : wire::parse_plan(text);
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

void print_topology(const probe::Topology &topology, wire::Arch arch) {
    Json classes = Json::object();
    const auto &cpus = topology.cpus;
    for (const wire::Cpu &a : cpus)
        for (const wire::Cpu &b : cpus)
            if (a.cpu < b.cpu && a.allowed && b.allowed)
                classes[probe::distance_name(topology.distance(a.cpu, b.cpu))].push_back(std::to_string(a.cpu) + "," +
                                                                                         std::to_string(b.cpu));
    std::cout << Json{{"arch", wire::arch_name(arch)}, {"cpus", Json::parse(wire::to_json(cpus))}, {"pairs", classes}}.dump(
                     1)
              << std::endl;
}

void report_progress(const probe::Progress &progress) {
    using namespace std::chrono;
    static steady_clock::time_point last;
    steady_clock::time_point now = steady_clock::now();
    if (now - last < seconds(1))
        return;
    last = now;
    std::cerr << Json{{"progress",
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

int run(Place &place, const wire::Plan &plan) {
    probe::check_plan(plan, place.back_end());
    place.machine.other_probe = wire::claim_machine();
    place.machine.loop_place = plan.launch % probe::loop_places;
    // The context describes the timed CPU.
    probe::pin_to(probe::usable_cpus(place.back_end().topology(), plan.cpus).front());
    wire::Context context = place.describe(plan.name, plan.launch, plan.counters);
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
    bool finished = probe::run_plan(plan, place.back_end(), context.context_id, hooks);
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
    std::string kernel{}; // the command that starts the module's runner
    std::optional<unsigned> launch{};
};

// What the options ask for, in the program of this path.
int act(const Modes &modes, const std::string &program) {
    if (modes.programs) {
        wire::claim_machine();
        return probe::run_programs(folder_of(program));
    }
    Place place(modes.kernel);
    if (!modes.list_forms.empty() && place.kernel)
        std::cout << wire::to_json(place.kernel->listed()) << std::endl;
    else if (!modes.list_forms.empty())
        print_forms(place.machine, modes.list_forms == "all");
    else if (modes.topology)
        print_topology(place.back_end().topology(), place.kernel ? place.kernel->arch() : wire::this_arch);
    else if (modes.context) {
        place.machine.other_probe = wire::other_run_here();
        std::cout << wire::to_json(place.describe("none", 0, {})) << std::endl;
    } else if (modes.quick)
        return probe::print_quick_table(place.machine, stop_requested);
    else {
        wire::Plan plan = read_plan(place);
        plan.launch = modes.launch.value_or(plan.launch);
        if (!modes.check)
            return run(place, plan);
        probe::check_plan(plan, place.back_end());
        std::cout << Json{{"ok", true}, {"cells", plan.cells.size()}}.dump() << std::endl;
    }
    if (!std::cout)
        complain("standard output could not be written");
    return std::cout ? done : not_completed;
}

void declare(wire::Options &options, Modes &modes) {
    wire::Options instead = options.one_of("instead of running a plan");
    instead.flag("--list-forms", modes.list_forms, {"here", "all"},
                 "print the forms of this architecture and which this CPU can run; --list-forms=all: of every architecture");
    instead.flag("--topology", modes.topology, "print the CPUs and how near they are to each other");
    instead.flag("--context", modes.context, "print the context line alone");
    instead.flag("--check", modes.check, "validate the plan on standard input; run nothing");
    instead.flag("--quick", modes.quick, "measure a few cells of every form and print a plain text table");
    instead.flag("--programs", modes.programs,
                 "run the programs that standard input names and say what each took: for `linewright trial`");
    options.text("--kernel", modes.kernel,
                 "run inside the kernel: the command that starts the runner of the kernel module, such as "
                 "'sudo ./linewright-kernel --module linewright.ko'");
    options.number("--launch", modes.launch, 0, 1'000'000,
                   "run the plan as this launch, in place of the one that it names: 0, 1 and so on");
}

} // namespace

int main(int argc, char **argv) {
    wire::Options options(
        "Runs a plan of timed cells on this machine: plan (JSON) on standard input, a context line and one "
        "record for each cell (JSON lines) on standard output.",
        "linewright-probe " LINEWRIGHT_VERSION);
    Modes modes;
    declare(options, modes);
    try {
        if (!options.parse(argc, argv))
            return done;
    } catch (const wire::Options::Wrong &error) {
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
