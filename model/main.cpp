// SPDX-License-Identifier: MIT
// linewright-model: runs a plan on a described machine. Plan on standard input, simulated records on standard output.
#include "model/list.hpp"
#include "model/simulate.hpp"

#include "wire/forms.hpp"
#include "wire/json.hpp"
#include "wire/options.hpp"

#include <fmt/core.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>

namespace {

using namespace lw;
using wire::Json;

enum Exit { done = 0, wrong_request = 2, not_completed = 3 };

volatile std::sig_atomic_t stop_requested = 0;
void on_signal(int) { stop_requested = 1; }

// One line on standard error that a program can read; the text itself is for people.
void complain(const std::string &what) { std::cerr << Json{{"error", what}}.dump() << std::endl; }

std::string all_of(std::istream &stream) { return {std::istreambuf_iterator<char>(stream), {}}; }

std::string read_file(const std::string &path) {
    std::ifstream stream(path);
    if (!stream)
        throw model::Bad_machine("machine: cannot read " + path);
    return all_of(stream);
}

wire::Arch arch_of(const model::Machine &machine) { return wire::arch_named(machine.arch); }

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

std::uint64_t fingerprint(const std::string &text) {
    std::uint64_t value = 0xcbf29ce484222325u;
    for (unsigned char c : text)
        value = (value ^ c) * 0x100000001b3u;
    return value;
}

// A form's own cell, to ask whether the machine can run it.
wire::Cell cell_of(const wire::Form &form) {
    wire::Cell cell;
    cell.operation = form.operation;
    cell.form = form.name;
    cell.width_bits = form.width_bits;
    if (form.operation == "handoff") {
        cell.contender = "same_line";
        cell.threads = 2;
    }
    return cell;
}

std::string why_not(const model::Machine &machine, const wire::Form &form) {
    const wire::Cell cell = cell_of(form);
    if (model::is_list(cell))
        return form.needs == "none" || form.name == "clwb" || form.name == "clflushopt" ? ""
                                                                                        : "not described for this machine";
    return model::obstacle(machine, cell);
}

void print_forms(const model::Machine &machine) {
    std::vector<wire::Listed> forms;
    for (const wire::Form &form : wire::all_forms()) {
        if (!wire::belongs_to(form, arch_of(machine)))
            continue;
        const std::string reason = why_not(machine, form);
        if (!reason.empty() && form.operation != "clean" && form.operation != "clean_invalidate")
            continue; // plans are made of what the model knows; a plan file that names another form is refused
        forms.push_back({&form, reason});
    }
    std::cout << wire::to_json(forms) << std::endl;
}

std::vector<wire::Cpu> cpus_of(const model::Machine &machine) {
    std::vector<wire::Cpu> cpus(machine.cores);
    for (unsigned core = 0; core < machine.cores; ++core) {
        cpus[core].cpu = core;
        cpus[core].core = static_cast<int>(core);
        cpus[core].l3 = static_cast<int>(machine.l3[core]);
        cpus[core].socket = static_cast<int>(machine.socket[core]);
        cpus[core].node = static_cast<int>(machine.socket[core]);
    }
    return cpus;
}

void print_topology(const model::Machine &machine) {
    Json pairs = Json::object();
    for (unsigned a = 0; a < machine.cores; ++a)
        for (unsigned b = a + 1; b < machine.cores; ++b)
            pairs[model::placement_class(machine, {a, b})].push_back(fmt::format("{},{}", a, b));
    std::cout << Json{{"arch", machine.arch}, {"cpus", Json::parse(wire::to_json(cpus_of(machine)))}, {"pairs", pairs}}.dump(
                     1)
              << std::endl;
}

wire::Context describe(const model::Machine &machine, const std::string &source, const wire::Plan &plan) {
    wire::Context context;
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
    context.started_utc = text;
    context.machine_id = hex(fingerprint(source));
    context.context_id = hex(fingerprint(fmt::format("{}/{}/{}/{}/{}", source, plan.name, plan.seed, plan.launch, text)));
    context.target = "simulated:" + machine.name;
    context.plan = plan.name;
    context.launch = plan.launch;
    context.launches = plan.launches;
    context.tool_version = LINEWRIGHT_VERSION;
    context.compiler = "none: simulated";
    context.arch = machine.arch;
    context.cpu_model = "simulated: " + machine.name;
    context.cpu_ids = {"simulated"};
    context.features =
        machine.arch == "arm64" ? std::vector<std::string>{"lse"} : std::vector<std::string>{"prefetchw", "sse2"};
    context.kernel = "none: simulated";
    context.cpus = cpus_of(machine);
    context.tick_ns = 0.001;
    context.nop_iter_ns = static_cast<double>(machine.constants.nop_iter) / 1000;
    context.work_unit_ns = static_cast<double>(machine.constants.unit) / 1000;
    context.work_linearity = 0.0;
    context.work_spread = 0.0;
    context.cycle_ns = static_cast<double>(machine.constants.unit) / 1000;
    context.smt = "off";
    context.counters_reason = "a simulated machine has none";
    return context;
}

wire::Plan no_plan() {
    wire::Plan plan;
    plan.name = "none";
    return plan;
}

void write(const std::string &text) {
    std::cout << text << std::endl;
    if (!std::cout)
        throw std::runtime_error("standard output could not be written");
}

void report_progress(const wire::Plan &plan, std::size_t cells_done, const std::string &id) {
    std::cerr << Json{{"progress",
                       {{"id", id},
                        {"done", cells_done},
                        {"total", plan.cells.size()},
                        {"cells_done", cells_done},
                        {"cells", plan.cells.size()},
                        {"state", "done"}}}}
                     .dump()
              << '\n';
}

int run_plan(const model::Machine &machine, const std::string &source, const wire::Plan &plan, const model::Effort &effort) {
    model::check_plan(machine, plan);
    const wire::Context context = describe(machine, source, plan);
    write(wire::to_json(context));
    for (std::size_t i = 0; i < plan.cells.size() && !stop_requested; ++i) {
        wire::Record record = model::record_of(machine, plan, plan.cells[i], effort);
        record.context_id = context.context_id;
        write(wire::to_json(record));
        report_progress(plan, i + 1, plan.cells[i].id());
    }
    if (stop_requested)
        complain("stopped before the end of the plan; finished cells were written");
    return stop_requested ? not_completed : done;
}

// One cell's window as a Chrome trace: a track for the timed core, one for each thread's transactions at the home.
int print_trace(const model::Machine &machine, const wire::Plan &plan, model::Harness harness) {
    const wire::Cell &cell = plan.cells.at(0);
    model::check_plan(machine, plan);
    if (model::is_list(cell))
        throw wire::Invalid(cell.id() + ": a pass over a list has no trace");
    const model::Setup setup = model::make_setup(machine, cell, model::place(machine, cell, plan.cpus), harness);
    if (setup.programs[0].steps.empty())
        throw wire::Invalid(cell.id() + ": an empty loop has no trace");
    std::vector<model::Trace_event> events;
    model::Limits limits{.warm_ops = 200, .ops = 60, .batch_ops = 10, .time = 4'000'000'000, .visits = 0};
    model::run(machine, setup, limits, model::Start::invalid, plan.seed, false, &events);
    Json rows = Json::array();
    for (const auto &[track, name] : {std::pair{0, "timed core"}, std::pair{1, "home of the line"}})
        rows.push_back({{"ph", "M"}, {"pid", 1}, {"tid", track}, {"name", "thread_name"}, {"args", {{"name", name}}}});
    const model::Ps origin = events.empty() ? 0 : events.front().begin;
    for (const model::Trace_event &event : events)
        rows.push_back(
            {{"ph", "X"},
             {"pid", 1},
             {"tid", event.home ? 1 : 0},
             {"name", event.home ? fmt::format("transaction of thread {}", event.core) : model::phase_name(event.phase)},
             {"ts", static_cast<double>(event.begin - origin) / 1e6},
             {"dur", static_cast<double>(event.end - event.begin) / 1e6}});
    write(Json{
        {"displayTimeUnit", "ns"}, {"otherData", {{"cell", cell.id()}, {"machine", machine.name}}}, {"traceEvents", rows}}
              .dump());
    return done;
}

Json figures(const model::Simulated &result) {
    std::vector<double> sorted = result.window_ns;
    if (sorted.empty())
        sorted = {result.longest_ns}; // starved: one operation takes at least that long
    std::ranges::sort(sorted);
    Json modes = Json::array();
    for (const model::Mode &mode : result.modes)
        modes.push_back({mode.ns, mode.share});
    return {{"p50", sorted[sorted.size() / 2]}, {"low", sorted.front()},    {"high", sorted.back()}, {"modes", modes},
            {"events", result.events},          {"starved", result.starved}};
}

// One request a line, {"machine": …, "plan": …}; one answer a line. What calibration and its draws call by the thousand.
int serve(const model::Effort &effort) {
    std::string line;
    while (!stop_requested && std::getline(std::cin, line)) {
        Json request = Json::parse(line);
        if (!request.is_object() || !request.contains("machine") || !request.contains("plan"))
            throw wire::Invalid("request: is not an object with machine and plan");
        const model::Machine machine = model::parse_machine(request["machine"].dump());
        const wire::Plan plan = wire::parse_plan(request["plan"].dump(), arch_of(machine));
        model::check_plan(machine, plan);
        Json cells = Json::array();
        for (const wire::Cell &cell : plan.cells) {
            if (!model::lacks(cell).empty()) {
                cells.push_back({{"p50", 0.0}, {"low", 0.0}, {"high", 0.0}, {"modes", Json::array()}, {"events", 0}});
            } else if (model::is_list(cell)) {
                const double ns = static_cast<double>(model::run_list(machine, cell).pass) / 1000;
                cells.push_back({{"p50", ns}, {"low", ns}, {"high", ns}, {"modes", {{ns, 1.0}}}, {"events", 0}});
            } else {
                cells.push_back(figures(model::simulate(machine, cell, plan.cpus, effort, plan.seed)));
            }
        }
        write(Json{{"cells", cells}}.dump());
    }
    return done;
}

struct Request {
    std::string machine;
    bool list_forms = false, topology = false, context = false, check = false, serve = false, trace = false;
    bool published = false, checked = false;
    unsigned windows = 12;
    std::uint64_t ops = 2000;
};

int answer(const Request &request) {
    model::Effort effort;
    effort.windows = request.windows;
    effort.ops = request.ops;
    effort.checked = request.checked;
    effort.harness = request.published ? model::Harness::published : model::Harness::probe;
    if (request.serve) {
        effort.completion = false;
        return serve(effort);
    }
    const std::string source = read_file(request.machine);
    const model::Machine machine = model::parse_machine(source);
    if (request.list_forms)
        print_forms(machine);
    else if (request.topology)
        print_topology(machine);
    else if (request.context)
        write(wire::to_json(describe(machine, source, no_plan())));
    else {
        const wire::Plan plan = wire::parse_plan(all_of(std::cin), arch_of(machine));
        if (request.trace)
            return print_trace(machine, plan, effort.harness);
        if (!request.check)
            return run_plan(machine, source, plan, effort);
        model::check_plan(machine, plan);
        write(Json{{"ok", true}, {"cells", plan.cells.size()}}.dump());
    }
    return done;
}

void declare(wire::Options &options, Request &request) {
    options.text("--machine", request.machine,
                 "machine (JSON) with every constant resolved, as `linewright measure` hands it over");
    wire::Options modes = options.one_of("instead of running a plan");
    modes.flag("--list-forms", request.list_forms, "print the forms that this machine can run");
    modes.flag("--topology", request.topology, "print the cores and how near they are to each other");
    modes.flag("--context", request.context, "print the context line alone");
    modes.flag("--check", request.check, "validate the plan on standard input; run nothing");
    modes.flag("--trace", request.trace, "print a Chrome trace of the plan's first cell");
    modes.flag("--serve", request.serve, "answer requests, one JSON object a line, until standard input ends");
    options.flag("--published-harness", request.published,
                 "the published benchmark's loops: outputs stored to shared globals");
    options.flag("--checked", request.checked, "hold every step against the conservation laws");
    options.number("--windows", request.windows, 1, 1000, "windows of a contended cell");
    options.number("--ops", request.ops, 20, 10'000'000, "operations of a window, at least");
}

} // namespace

int main(int argc, char **argv) {
    wire::Options options(
        "Runs a plan of cells on a described machine: plan (JSON) on standard input, a context line and one "
        "simulated record for each cell (JSON lines) on standard output.",
        "linewright-model " LINEWRIGHT_VERSION);
    Request request;
    declare(options, request);
    try {
        if (!options.parse(argc, argv))
            return done;
        if (request.machine.empty() && !request.serve)
            throw wire::Options::Wrong("--machine is required");
    } catch (const wire::Options::Wrong &error) {
        complain(error.what());
        return wrong_request;
    }
    std::signal(SIGINT, on_signal);
    std::signal(SIGTERM, on_signal);
    std::signal(SIGPIPE, SIG_IGN); // a reader that went away is found by the failing write
    try {
        return answer(request);
    } catch (const wire::Invalid &error) {
        complain(error.what());
        return wrong_request;
    } catch (const model::Bad_machine &error) {
        complain(error.what());
        return wrong_request;
    } catch (const std::exception &error) {
        complain(error.what());
        return not_completed;
    }
}
