// SPDX-License-Identifier: MIT
// Puts cells and windows into the words of the kernel module, and its answers into results.
#include "probe/kernel.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>

namespace lw::probe {
namespace {

constexpr std::string_view interface = "5"; // LWK_INTERFACE of kmod/linewright.h
constexpr unsigned most_cells = 256;        // LWK_MAX_CELLS

using Words = std::map<std::string, std::string>;

std::uint64_t number(const Words &words, const std::string &key) {
    const auto found = words.find(key);
    std::uint64_t value = 0;
    if (found == words.end() ||
        std::from_chars(found->second.data(), found->second.data() + found->second.size(), value).ec != std::errc())
        throw std::runtime_error("linewright.ko answered without a number for " + key);
    return value;
}

std::string text(const Words &words, const std::string &key) {
    const auto found = words.find(key);
    return found == words.end() ? "" : found->second;
}

// Parameters of cells by their key in the module.
constexpr std::array parameters{
    std::pair{"slots", "slots"},         std::pair{"instances", "instances"}, std::pair{"read_delay", "delay"},
    std::pair{"updater", "updater"},     std::pair{"entries", "entries"},     std::pair{"entry_bytes", "entry_bytes"},
    std::pair{"direction", "direction"}, std::pair{"wait", "wait"},
};

// States of lines that the module can make, by the plan's words; the list's size decides where the lines are.
constexpr std::array states{
    std::pair{"clean", "clean"},
    std::pair{"dirty_l1", "dirty"},
    std::pair{"dirty_l2", "dirty"},
    std::pair{"dirty_beyond", "dirty"},
};

std::string state_line(const wire::Cell &cell) {
    const std::string wanted = cell.text("state", "");
    if (wanted.empty())
        return "";
    for (const auto &[name, state] : states)
        if (wanted == name)
            return std::string("state=") + state + "\n";
    throw wire::Invalid(cell.id() + ": the module cannot make lines " + wanted +
                        "; allowed: clean, dirty_l1, dirty_l2, dirty_beyond");
}

std::string value_text(const wire::Param &value) {
    if (const auto *number = std::get_if<std::uint64_t>(&value))
        return std::to_string(*number);
    return std::get<std::string>(value);
}

// The cell's parameters as the module reads them; Invalid for those that it has not.
std::string parameter_lines(const wire::Cell &cell) {
    std::string lines = state_line(cell);
    for (const auto &[name, value] : cell.params) {
        const auto known = std::ranges::find(parameters, name, [](const auto &pair) { return std::string(pair.first); });
        if (known != parameters.end())
            lines += known->second + ("=" + value_text(value)) + "\n";
        else if (name != "state" && (name != "align_bytes" || cell.number("align_bytes", 0) != 0))
            throw wire::Invalid(cell.id() + ": the module has no parameter " + name);
    }
    return lines;
}

// The cell as the module reads it.
std::string cell_lines(const wire::Cell &cell) {
    if (cell.work == "nop_loop" && cell.work_iters != 0)
        throw wire::Invalid(cell.id() + ": the module's work is a chain or memory, not the NOP loop");
    auto line = [](const char *key, auto value) { return key + ("=" + std::to_string(value)) + "\n"; };
    return "operation=" + cell.operation + "\nform=" + cell.form + "\ncontender=" + cell.contender +
           "\nwork_kind=" + (cell.work == "memory" ? "memory" : "chain") + "\n" + line("width", cell.width_bits) +
           line("threads", cell.threads) + line("contender_iters", cell.contender_iters) + line("work", cell.work_iters) +
           line("lines", cell.lines) + parameter_lines(cell);
}

bool has_updater(const wire::Cell &cell) { return cell.text("updater", "none") != "none"; }

// Whether a thread leaves its CPU on purpose: in such a form, or as an updater, which is the timed thread of operation
// readers_grace, else the last one.
bool may_sleep(const wire::Cell &cell, const Kernel_form &form, unsigned thread) {
    const bool grace = cell.operation == "readers_grace";
    return form.sleeps || (has_updater(cell) && thread == (grace ? 0 : cell.threads - 1));
}

// One cell, prepared in the module under a number.
class Kernel_windows final : public Windows {
public:
    Kernel_windows(Kernel_runner &runner, std::set<unsigned> &used, unsigned id, const wire::Cell &cell,
                   const Kernel_form &form, bool elsewhere, double clock_ns)
        : runner_(runner), used_(used), id_(id), cell_(cell), form_(form), elsewhere_(elsewhere), clock_ns_(clock_ns) {
        runner_.ask("prepare " + std::to_string(id_) + "\n" + cell_lines(cell_));
        used_.insert(id_);
    }

    ~Kernel_windows() override {
        used_.erase(id_);
        try {
            runner_.ask("forget " + std::to_string(id_));
        } catch (const std::exception &) { // the runner has gone, and its cells with it
        }
    }

    unsigned lines() const override { return cell_.lines; }
    std::optional<Check> check() override { return sum_; }

    // The loop without the operation is the family's; a list's is the same step on another device.
    std::string baseline_key() const override {
        wire::Cell key = cell_;
        key.operation = form_.family == "dma" ? cell_.operation : "";
        key.form = form_.family == "dma" ? cell_.form : form_.family;
        key.order = "";
        key.width_bits = 0;
        return key.id();
    }

    Window_result run(const std::vector<unsigned> &cpus, const Window_request &request, wire::Histogram *samples) override {
        // The hypervisor's share can only be read where this program runs.
        const std::uint64_t stolen_before = elsewhere_ ? 0 : stolen_ticks(cpus);
        Window_result result;
        std::vector<std::string> answer;
        try {
            answer = runner_.ask(window_lines(cpus, request));
        } catch (const wire::Invalid &refused) {
            result.error = refused.what();
            return result;
        }
        read(answer, cpus, request, samples, result, !elsewhere_ && stolen_ticks(cpus) != stolen_before);
        return result;
    }

private:
    std::string window_lines(const std::vector<unsigned> &cpus, const Window_request &request) const {
        std::string list;
        for (unsigned cpu : cpus)
            list += (list.empty() ? "" : ",") + std::to_string(cpu);
        auto whole = [](double value, double low, double high) {
            return std::to_string(static_cast<std::uint64_t>(std::clamp(value, low, high)));
        };
        return "window " + std::to_string(id_) + "\nline=" + std::to_string(request.line) + "\ncpus=" + list +
               "\nwindow_us=" + whole(request.length_ms * 1000, 10, 1e7) +
               "\nlimit_ms=" + whole(request.length_ms * 100, 10'000, 60'000) +
               "\nbatch=" + std::to_string(request.batch_ops) + "\nbatch_ns=" + whole(request.batch_ns, 1000, 1e6) +
               "\nbaseline=" + (request.mode == Mode::baseline ? "1" : "0");
    }

    void read(const std::vector<std::string> &answer, const std::vector<unsigned> &cpus, const Window_request &request,
              wire::Histogram *samples, Window_result &result, bool stolen) {
        std::vector<double> batch_ns;
        std::vector<Words> threads;
        Words window;
        for (const std::string &line : answer) {
            if (line.starts_with("window "))
                window = words_by_key(line);
            else if (line.starts_with("thread "))
                threads.push_back(words_by_key(line));
            else if (line.starts_with("counted"))
                for (const auto &[name, count] : words_by_key(line))
                    result.timed.value[name] = std::strtod(count.c_str(), nullptr);
            else if (line.starts_with("batches"))
                for (const char *at = line.data() + 7, *end = line.data() + line.size(); at < end;) {
                    unsigned ns = 0;
                    at = std::from_chars(at + 1, end, ns).ptr;
                    batch_ns.push_back(ns);
                }
        }
        if (threads.size() != cpus.size())
            throw std::runtime_error("linewright.ko answered with " + std::to_string(threads.size()) + " threads of " +
                                     std::to_string(cpus.size()));
        result.batch_ops = number(window, "batch");
        result.stolen = stolen;
        take_threads(threads, cpus, request.mode, result);
        // The time limit came before the window's end: its last batch took far longer than was planned.
        result.long_batch = text(window, "stop") == "time";
        judge_batches(result, batch_ns, clock_ns_, result.batch_ops, samples);
        if (request.mode != Mode::baseline)
            add_up(window, result);
    }

    void take_threads(const std::vector<Words> &threads, const std::vector<unsigned> &cpus, Mode mode,
                      Window_result &result) const {
        const auto timed_ns = static_cast<double>(number(threads[0], "ns"));
        for (unsigned thread = 0; thread < cpus.size(); ++thread) {
            const std::uint64_t ns = number(threads[thread], "ns");
            const auto own_ns = static_cast<double>(ns);
            result.ops.push_back(number(threads[thread], "ops"));
            result.ns.push_back(own_ns);
            result.ticks.push_back(ns);
            result.cpus.push_back(static_cast<unsigned>(number(threads[thread], "cpu")));
            const bool away = switched_out(static_cast<double>(number(threads[thread], "away_ns")), timed_ns) ||
                              came_late(own_ns, timed_ns);
            result.switched |= away && (mode == Mode::baseline || !may_sleep(cell_, form_, thread));
            result.moved |= result.cpus.back() != cpus[thread];
        }
        result.ns_per_op = timed_ns / static_cast<double>(std::max<std::uint64_t>(result.ops[0], 1));
        // The module leaves out what took turns on the CPU's counters.
        result.timed.enabled_ns = result.timed.running_ns = timed_ns;
    }

    void add_up(const Words &window, Window_result &result) {
        sum_.add(number(window, "expected"), number(window, "found"));
        if (const std::uint64_t wrong = number(window, "wrong"))
            result.error = "readers saw " + std::to_string(wrong) + " times what an updater had taken away";
    }

    Kernel_runner &runner_;
    std::set<unsigned> &used_;
    unsigned id_;
    wire::Cell cell_;
    const Kernel_form &form_;
    bool elsewhere_;
    double clock_ns_;
    Check sum_;
};

std::string own_boot_id() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    std::getline(file, id);
    return id;
}

Topology topology_of(const std::string &cpus) {
    Topology topology;
    for (unsigned number : parse_cpu_list(cpus).value_or(std::vector<unsigned>{})) {
        wire::Cpu cpu;
        cpu.cpu = number;
        topology.cpus.push_back(cpu);
    }
    return topology;
}

// The kernel's name of an architecture by the house's.
wire::Arch arch_of(const std::string &machine) {
    if (machine == "aarch64")
        return wire::Arch::arm64;
    if (machine == "x86_64")
        return wire::Arch::x86_64;
    return machine.size() == 4 && machine.ends_with("86") ? wire::Arch::i386 : wire::Arch::generic;
}

Kernel_form parse_form(const std::string &line) {
    // A reason has spaces in it: it is the rest of the line.
    const std::size_t reason = std::min(line.find(" missing="), line.size());
    const Words words = words_by_key(std::string_view(line).substr(0, reason));
    Kernel_form form;
    form.name = text(words, "name");
    form.operation = text(words, "operation");
    form.order = text(words, "order");
    form.family = text(words, "family");
    form.width_bits = static_cast<unsigned>(number(words, "width"));
    form.racy = text(words, "racy") == "1";
    form.sleeps = text(words, "sleeps") == "1";
    form.missing = line.substr(std::min(reason + 9, line.size()));
    return form;
}

} // namespace

Kernel::Kernel(const std::string &command, const Machine &machine) : machine_(machine), runner_(command) {
    std::string boot_id, command_line, one_wait;
    for (const std::string &line : runner_.ask("forms")) {
        const std::string rest = line.substr(std::min(line.find(' ') + 1, line.size()));
        if (line.starts_with("machine "))
            said_ = words_by_key(line);
        else if (line.starts_with("form "))
            rows_.push_back(parse_form(line));
        else if (line.starts_with("boot_id "))
            boot_id = rest;
        else if (line.starts_with("command_line "))
            command_line = rest;
        else if (line.starts_with("dma_one_wait "))
            one_wait = rest;
    }
    if (text(said_, "interface") != interface)
        throw wire::Invalid("the loaded module is of version " + text(said_, "version") +
                            ", this is " LINEWRIGHT_VERSION
                            ": build it again (make -C kmod), unload one that stays loaded (sudo rmmod "
                            "linewright), and in place of an installed one name the new one's folder in LINEWRIGHT_KMOD");
    elsewhere_ = boot_id.empty() || boot_id != own_boot_id();
    arch_ = arch_of(text(said_, "arch"));
    topology_ = elsewhere_ ? topology_of(text(said_, "cpus")) : machine.topology;
    // The only option that can be changed while the kernel runs; of two, the last counts, as it does for the kernel.
    boot_parameters_ = boot_parameters(command_line + (one_wait.empty() ? "" : " dma_one_wait=" + one_wait));
    for (const Kernel_form &row : rows_)
        forms_.push_back({arch_, row.name, row.operation, row.order, row.width_bits, "none"});
}

std::vector<wire::Listed> Kernel::listed() const {
    std::vector<wire::Listed> list;
    for (std::size_t i = 0; i < forms_.size(); ++i)
        list.push_back({&forms_[i], rows_[i].missing, rows_[i].racy});
    return list;
}

const Kernel_form &Kernel::form_of(const wire::Cell &cell) const {
    const std::string operation = cell.operation == "readers_grace" ? "readers_pair" : cell.operation;
    for (const Kernel_form &row : rows_)
        if (row.name == cell.form && row.operation == operation && row.width_bits == cell.width_bits)
            return row;
    throw wire::Invalid(cell.id() + ": the module has no form " + cell.form + " of " + cell.operation);
}

void Kernel::check(const wire::Cell &cell) const {
    form_of(cell);
    cell_lines(cell);
}

Opened Kernel::open(const wire::Cell &cell) {
    const Kernel_form &form = form_of(cell);
    if (!form.missing.empty())
        return {nullptr, form.missing};
    unsigned id = 0;
    while (used_.contains(id))
        ++id;
    if (id == most_cells)
        throw std::logic_error("a block of more cells than the module holds");
    const auto clock_ns = static_cast<double>(number(said_, "clock_ns"));
    try {
        return {std::make_unique<Kernel_windows>(runner_, used_, id, cell, form, elsewhere_, clock_ns), ""};
    } catch (const wire::Invalid &refused) {
        return {nullptr, refused.what()};
    }
}

void Kernel::describe_elsewhere(wire::Context &context) const {
    // What the module says of its kernel, but for what it has measured.
    std::string all;
    for (const auto &[key, value] : said_)
        if (key != "clock_ns" && key != "cpuectlr" && key != "counters" && key != "counts" && key != "lacks")
            all += key + "=" + value + " ";
    const char *emulated = std::getenv("LINEWRIGHT_KERNEL_EMULATED");
    context.machine_id = fingerprint(all);
    context.arch = wire::arch_name(arch_);
    context.cpu_model = text(said_, "arch") + " of another machine";
    context.cpu_ids.clear();
    context.features.clear();
    context.virtualised = "unknown";
    context.emulated = emulated && std::string_view(emulated) == "1";
    context.cpus = topology_.cpus;
    context.line_bytes = static_cast<unsigned>(number(said_, "line_bytes"));
    context.page_bytes = static_cast<unsigned>(number(said_, "page_bytes"));
    context.nop_iter_ns = context.cycle_ns = 0;
    context.work_unit_ns = context.work_linearity = context.work_spread = std::nullopt;
    context.governor = "";
    context.smt = "unknown";
    context.locked_memory = context.realtime = false;
    context.other_probe = false;
    context.other_load = std::nullopt;
}

wire::Context Kernel::describe(const std::string &plan, unsigned launch) const {
    wire::Context context = probe::describe(machine_, plan, launch, {"none"});
    if (elsewhere_)
        describe_elsewhere(context);
    context.machine_id = fingerprint(context.machine_id + ":" + text(said_, "release") + ":kernel");
    context.target = "kernel";
    context.kernel = text(said_, "release");
    context.cpu_model += ", inside the kernel";
    context.time_source = "clock_monotonic";
    context.tick_ns = 1;
    context.timer_cost_ns = static_cast<double>(number(said_, "clock_ns"));
    context.loop_offset_bytes = 0;
    const std::string counts = text(said_, "counts"), lacks = text(said_, "lacks");
    context.counters = counts.empty() ? "unavailable" : "available";
    context.counters_reason = text(said_, "counters") == "0" ? "the module was loaded with counters=0"
                              : lacks.empty()                ? ""
                                                             : "this kernel and its CPU do not count " + lacks;
    if (said_.contains("cpuectlr"))
        context.features.push_back("cpuectlr_el1=" + text(said_, "cpuectlr"));
    context.rseq = "none";
    context.boot_parameters = boot_parameters_;
    return context;
}

} // namespace lw::probe
