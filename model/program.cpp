// SPDX-License-Identifier: MIT
// Forms as programs: which steps each takes, with how many instructions the core's window holds.
#include "model/program.hpp"

#include "wire/forms.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string_view>

#include <fmt/core.h>

namespace lw::model {
namespace {

using Steps = std::vector<Step>;

Step atomic(Class of) { return {.kind = Kind::atomic, .of = of, .counts = true, .instructions = 1}; }

Step compare(Expects expects, std::uint16_t target, bool counts = true) {
    return {.kind = Kind::compare,
            .of = Class::compare,
            .expects = expects,
            .counts = counts,
            .target = target,
            .instructions = 3};
}

Step simple(Kind kind) { return {.kind = kind}; }

// Slots of a step that no iteration moves: see Shape.
constexpr std::uint8_t data = 0, beside = 255;

Step kept(Step step) {
    step.keeps = true;
    return step;
}

// An exclusive pair that goes back to its load when the store fails; `at` is where the pair begins.
Steps exclusive_pair(std::uint16_t at) {
    return {{.kind = Kind::exclusive_load, .instructions = 2},
            {.kind = Kind::exclusive_store, .counts = true, .target = at, .instructions = 2}};
}

// A compare-and-swap loop goes back to the compare: the instruction itself brings the value that it found.
Steps read_first(std::uint16_t at) {
    return {simple(Kind::load), compare(Expects::seen, static_cast<std::uint16_t>(at + 1))};
}
Steps guess_first(std::uint16_t at) {
    return {compare(Expects::wrong, 0, false), compare(Expects::seen, static_cast<std::uint16_t>(at + 1))};
}

// Sixteen bytes. A compare-and-swap of them is taken to cost what one of eight costs.
Steps two_loads(std::uint16_t) { return {simple(Kind::load), {.kind = Kind::load, .counts = true}}; }
Steps store_once(std::uint16_t) { return {{.kind = Kind::store, .counts = true, .adds = true}}; }
Steps swap_once(std::uint16_t) { return {kept(atomic(Class::compare))}; }
Steps verify(std::uint16_t at) {
    return {simple(Kind::load), simple(Kind::load), kept(compare(Expects::seen, at))}; // begins with the loads again
}
Steps swap_loop(std::uint16_t at) {
    return {simple(Kind::load), simple(Kind::load), compare(Expects::seen, static_cast<std::uint16_t>(at + 2))};
}
Steps exclusive_read(std::uint16_t at) {
    Steps steps = exclusive_pair(at);
    steps[1].keeps = true;
    return steps;
}

struct Row {
    std::string_view arch, name; // a form's name without the prefetch in front of it
    Class of;                    // class of the atomic instruction, for the machine's policy
    Steps (*steps)(std::uint16_t at);
};

template <Class of> Steps one(std::uint16_t) { return {atomic(of)}; }
Steps nothing(std::uint16_t) { return {}; }
Steps plain_read(std::uint16_t) { return {{.kind = Kind::load, .counts = true}}; }
Steps plain_add(std::uint16_t) { return {simple(Kind::load), {.kind = Kind::store, .counts = true, .adds = true}}; }
// The word that says whether the sequence is published already, then the add, which nothing aborts here.
Steps rseq_add(std::uint16_t at) {
    Steps steps{{.kind = Kind::load, .slot = beside}};
    for (const Step &step : plain_add(at))
        steps.push_back(step);
    return steps;
}

constexpr std::array rows{
    Row{"", "empty", Class::load, nothing},
    Row{"", "plain_add", Class::load, plain_add},
    Row{"", "rseq_add", Class::load, rseq_add},
    Row{"", "builtin_read", Class::load, plain_read},
    Row{"x86_64", "mov_read", Class::load, plain_read},
    Row{"x86_64", "lock_add", Class::load, one<Class::load>},
    Row{"x86_64", "lock_inc", Class::load, one<Class::load>},
    Row{"x86_64", "builtin_add", Class::load, one<Class::load>},
    Row{"x86_64", "lock_xadd", Class::load, one<Class::load>},
    Row{"x86_64", "builtin_fetch_add", Class::load, one<Class::load>},
    Row{"x86_64", "xchg", Class::swap, one<Class::swap>},
    Row{"x86_64", "builtin_xchg", Class::swap, one<Class::swap>},
    Row{"x86_64", "cmpxchg_loop_read_first", Class::compare, read_first},
    Row{"x86_64", "builtin_cmpxchg_loop_read_first", Class::compare, read_first},
    Row{"x86_64", "cmpxchg_loop_guess_first", Class::compare, guess_first},
    Row{"arm64", "ldr_read", Class::load, plain_read},
    Row{"arm64", "stadd", Class::store, one<Class::store>},
    Row{"arm64", "ldadd", Class::load, one<Class::load>},
    Row{"arm64", "ldaddal", Class::load, one<Class::load>},
    Row{"arm64", "swp", Class::swap, one<Class::swap>},
    Row{"arm64", "cas_loop_read_first", Class::compare, read_first},
    Row{"arm64", "cas_loop_guess_first", Class::compare, guess_first},
    Row{"arm64", "llsc_add", Class::load, exclusive_pair},
    Row{"arm64", "llsc_fetch_add", Class::load, exclusive_pair},
    Row{"arm64", "llsc_swp", Class::load, exclusive_pair},
    Row{"arm64", "llsc_cas_loop_read_first", Class::load, exclusive_pair},
    Row{"x86_64", "read_twice_read", Class::load, two_loads},
    Row{"x86_64", "movdqa_read", Class::load, plain_read},
    Row{"x86_64", "cmpxchg16b_read_once", Class::compare, swap_once},
    Row{"x86_64", "read_twice_cmpxchg16b_verify", Class::compare, verify},
    Row{"x86_64", "movdqa_write", Class::load, store_once},
    Row{"x86_64", "cmpxchg16b_loop_xchg", Class::compare, swap_loop},
    Row{"arm64", "read_twice_read", Class::load, two_loads},
    Row{"arm64", "ldp_read", Class::load, plain_read},
    Row{"arm64", "casp_read", Class::compare, swap_once},
    Row{"arm64", "ldxp_stxp_read", Class::load, exclusive_read},
    Row{"arm64", "stp_write", Class::load, store_once},
    Row{"arm64", "casp_loop_xchg", Class::compare, swap_loop},
    Row{"arm64", "ldxp_stxp_xchg", Class::load, exclusive_pair},
    Row{"arm64", "builtin_add", Class::load, exclusive_pair},
    Row{"arm64", "builtin_fetch_add", Class::load, exclusive_pair},
    Row{"arm64", "builtin_xchg", Class::load, exclusive_pair},
    Row{"arm64", "builtin_cmpxchg_loop_read_first", Class::load, exclusive_pair},
};

const Row *find_row(const Machine &machine, std::string_view name) {
    const auto found = std::ranges::find_if(
        rows, [&](const Row &row) { return row.name == name && (row.arch.empty() || row.arch == machine.arch); });
    return found == rows.end() ? nullptr : &*found;
}

bool is_handoff(const wire::Cell &cell) { return wire::family_of(cell.form) == "handoff"; }
bool is_percpu(const wire::Cell &cell) { return wire::family_of(cell.form) == "percpu"; }
bool is_reader(const wire::Cell &cell) { return wire::family_of(cell.form) == "readers"; }
bool is_wide(const wire::Cell &cell) { return wire::family_of(cell.form) == "wide"; }

bool is_single(const wire::Cell &cell) {
    return !is_handoff(cell) && !is_percpu(cell) && !is_reader(cell) && !is_wide(cell);
}

bool nop_work(const wire::Cell &cell) { return cell.work == "nop_loop"; }

Step work(std::uint64_t count, bool nop_loop) {
    // A NOP loop's iteration is a NOP, a subtraction and a branch; a unit of chained work is one instruction.
    return {.kind = Kind::work,
            .nop_loop = nop_loop,
            .instructions = static_cast<std::uint16_t>(nop_loop ? 3 : 1),
            .count = count};
}

// What a form of several single-line forms is made of.
struct Shape {
    std::string_view first;      // a row's name
    std::string_view second{};   // the other half of a pair; work stands between the two
    bool prefetch = false;       // in front of each half
    bool own = false;            // each thread works on lines of its own
    bool index = false;          // a word that all threads read and none writes is read first
    bool fences = false;         // a full fence behind the first half and before the second
};

// Counters: on the current CPU's word, on the thread's, or on the one that all share.
std::optional<Shape> counter_shape(std::string_view form) {
    if (form == "percpu_empty")
        return Shape{"empty"};
    if (form == "percpu_thread_local_add" || form == "percpu_padded_add")
        return Shape{.first = "plain_add", .own = true};
    if (form == "percpu_false_sharing_add")
        return Shape{"plain_add"};
    if (form == "percpu_rseq_add")
        return Shape{.first = "rseq_add", .own = true};
    if (const wire::Made_of made = wire::made_of(form); !made.word.empty())
        return Shape{.first = made.word, .prefetch = !made.prefetch.empty(), .own = made.whose == "own"};
    return std::nullopt; // asks for the CPU's number, or compares within a sequence
}

// Readers whose enter and leave are one instruction each, or one sequence.
std::optional<Shape> reader_shape(const Machine &machine, std::string_view form) {
    if (form == "readers_empty" || form == "lookup_empty")
        return Shape{"empty"};
    if (const wire::Made_of made = wire::made_of(form); !made.word.empty())
        return Shape{
            .first = made.word, .second = made.word, .prefetch = !made.prefetch.empty(), .own = true, .index = true};
    const bool x86 = machine.arch == "x86_64";
    // The library counts on a word of the thread where one instruction adds to memory, else by a sequence.
    const std::string_view counted = x86 ? "plain_add" : "rseq_add";
    if (form == "srcu_fast" || form == "srcu_fast_updown")
        return Shape{.first = counted, .second = counted, .own = true, .index = true};
    if (form == "srcu")
        return x86 ? Shape{.first = "lock_add", .second = "lock_add", .own = true, .index = true}
                   : Shape{.first = counted, .second = counted, .own = true, .index = true, .fences = true};
    if (form == "refcnt")
        return Shape{.first = "builtin_add", .second = "builtin_add"};
    if (form == "rwlock") // its reader's side, which no writer meets here
        return Shape{.first = "builtin_fetch_add", .second = "builtin_add"};
    if (form == "percpuinc")
        return Shape{.first = "builtin_add", .second = "builtin_add", .own = true};
    if (form == "incpercpu")
        return Shape{.first = "plain_add", .second = "plain_add", .own = true};
    if (form == "incpercpu_rseq")
        return Shape{.first = "rseq_add", .second = "rseq_add", .own = true};
    return std::nullopt;
}

std::optional<Shape> shape_of(const Machine &machine, const wire::Cell &cell) {
    const wire::Made_of made = wire::made_of(cell.form);
    std::optional<Shape> shape = is_percpu(cell)   ? counter_shape(cell.form)
                                 : is_reader(cell) ? reader_shape(machine, cell.form)
                                                   : Shape{.first = made.base, .prefetch = !made.prefetch.empty()};
    const bool known =
        shape && find_row(machine, shape->first) && (shape->second.empty() || find_row(machine, shape->second));
    return known ? shape : std::nullopt;
}

// Adds a single-line form, behind a prefetch or not, to a program.
void append(Steps &steps, const Machine &machine, std::string_view form, bool prefetch, std::uint8_t slot, bool counts) {
    const std::size_t began = steps.size();
    if (prefetch)
        steps.push_back(simple(Kind::prefetch));
    for (Step step : find_row(machine, form)->steps(static_cast<std::uint16_t>(steps.size()))) {
        step.counts &= counts;
        steps.push_back(step);
    }
    for (std::size_t i = began; i < steps.size(); ++i)
        if (steps[i].slot == data)
            steps[i].slot = slot;
}

// How one thread's loop is written around its operation.
struct Loop {
    std::uint64_t work = 0; // units behind the operation, for readers inside
    bool nop_loop = false;
    Harness harness = Harness::probe;
};

// One iteration: the operation, the published benchmark's store, the work, and the loop's own counter, compare and branch.
void iterate(Steps &steps, const Machine &machine, const Shape &shape, const Loop &loop, std::uint8_t slot) {
    const std::size_t began = steps.size();
    if (shape.index)
        steps.push_back({.kind = Kind::load, .slot = beside});
    append(steps, machine, shape.first, shape.prefetch, slot, shape.second.empty());
    if (!shape.second.empty()) {
        if (shape.fences)
            steps.push_back(simple(Kind::fence));
        if (loop.work)
            steps.push_back(work(loop.work, loop.nop_loop));
        if (shape.fences)
            steps.push_back(simple(Kind::fence));
        append(steps, machine, shape.second, shape.prefetch, slot, true);
    }
    if (loop.harness == Harness::published && shape.first != "stadd")
        steps.push_back({.kind = Kind::store, .slot = beside});
    if (loop.work && shape.second.empty())
        steps.push_back(work(loop.work, loop.nop_loop));
    if (steps.size() == began)
        return;
    Step &last = steps.back();
    last.ends = true;
    if (last.kind != Kind::work)
        last.instructions = static_cast<std::uint16_t>(last.instructions + 3);
}

// Reads and writes in the stated share, as the probe counts it down: one iteration for each until the pattern repeats.
void mix(Steps &steps, const Machine &machine, const wire::Cell &cell, const Loop &loop) {
    const bool arm = machine.arch == "arm64";
    const Shape read{cell.operation == "wide_read" ? std::string_view(cell.form) : arm ? "ldp_read" : "movdqa_read"};
    const Shape write{cell.operation == "wide_read" ? (arm ? "stp_write" : "movdqa_write") : std::string_view(cell.form)};
    const std::uint64_t percent = cell.number("write_percent", 0);
    std::uint64_t due = 0;
    for (std::uint64_t left = 100 / std::gcd(percent, std::uint64_t{100}); left; --left) {
        due += percent;
        iterate(steps, machine, due >= 100 ? write : read, loop, 0);
        due %= 100;
    }
}

std::uint64_t slots_of(const wire::Cell &cell) { return is_percpu(cell) ? cell.number("slots", 1) : 1; }

bool is_sequence(const Shape &shape) { return shape.first == "rseq_add"; }

// How a cell's lines are numbered: the operands first, then what stands beside them.
struct Layout {
    unsigned slots, operands, all;

    Layout(const wire::Cell &cell, const Shape &shape, unsigned threads, Harness harness)
        : slots(static_cast<unsigned>(slots_of(cell))), operands(shape.own ? threads * slots : slots), all(operands) {
        if (is_sequence(shape))
            all += threads; // each thread's own word
        else if (shape.index || harness == Harness::published)
            all += 1;
    }

    // The lines of a thread's slots; what stands beside comes last.
    std::vector<unsigned> lines_of(const Shape &shape, unsigned thread) const {
        std::vector<unsigned> lines;
        for (unsigned slot = 0; slot < slots; ++slot)
            lines.push_back((shape.own ? thread * slots : 0) + slot);
        if (all > operands)
            lines.push_back(operands + (is_sequence(shape) ? thread : 0));
        return lines;
    }
};

Program form_program(const Machine &machine, const wire::Cell &cell, const Shape &shape, const Loop &loop) {
    Program program;
    if (shape.first == "empty")
        return program; // no operation: its time is the baseline's
    const unsigned slots = static_cast<unsigned>(slots_of(cell));
    if (is_wide(cell))
        mix(program.steps, machine, cell, loop);
    else
        for (unsigned slot = 0; slot < slots; ++slot)
            iterate(program.steps, machine, shape, loop, static_cast<std::uint8_t>(slot));
    for (Step &step : program.steps)
        if (step.slot == beside)
            step.slot = static_cast<std::uint8_t>(slots);
    return program;
}

Loop loop_of(const wire::Cell &cell, unsigned thread, Harness harness) {
    if (is_reader(cell))
        return {work_of(cell), nop_work(cell), harness};
    return thread == 0 ? Loop{work_of(cell), nop_work(cell), harness} : Loop{cell.contender_iters, true, harness};
}

Program handoff_program(const wire::Cell &cell, unsigned turn) {
    Program program{.steps = {}, .lines = {0}, .turn = turn};
    if (cell.form != "cmpxchg_blind")
        program.steps.push_back(simple(Kind::spin));
    if (cell.form == "store_load")
        program.steps.push_back({.kind = Kind::store, .counts = true, .adds = true});
    else
        program.steps.push_back(compare(Expects::turn, 0));
    if (turn == 0 && cell.work_iters)
        program.steps.push_back(work(cell.work_iters, nop_work(cell)));
    program.steps.back().ends = true;
    return program;
}

std::string form_obstacle(const Machine &machine, const Shape &shape) {
    for (std::string_view half : {shape.first, shape.second}) {
        if (half.empty())
            continue;
        for (const Step &step : find_row(machine, half)->steps(0))
            if (step.kind == Kind::atomic || step.kind == Kind::compare)
                for (Where where : machine.policy[static_cast<unsigned>(step.of)])
                    if (where == Where::none)
                        return std::string(half);
    }
    return "";
}

constexpr unsigned most_slots = 64;       // as in the probe
constexpr unsigned most_own_lines = 4096; // of all threads together

// What a parameter's value must be; throws wire::Invalid.
void check_params(const wire::Cell &cell) {
    auto wrong = [&](const std::string &what) { throw wire::Invalid(fmt::format("{}: {}", cell.id(), what)); };
    for (const auto &[key, value] : cell.params) {
        const bool known = key == "slots"           ? is_percpu(cell)
                           : key == "read_delay"    ? is_reader(cell)
                           : key == "updater"       ? is_reader(cell)
                           : key == "instances"     ? is_reader(cell)
                           : key == "write_percent" ? is_wide(cell)
                           : key == "rounds"        ? is_wide(cell)
                                                    : key == "start" && !is_percpu(cell) && !is_reader(cell);
        if (!known)
            wrong(fmt::format("no parameter {}", key));
    }
    const std::uint64_t slots = slots_of(cell);
    if (slots < 1 || slots > most_slots || slots * cell.threads > most_own_lines)
        wrong(fmt::format("slots from 1 to {}, with all threads at most {}", most_slots, most_own_lines));
    if (is_wide(cell) && cell.number("write_percent", 0) > 100)
        wrong("write_percent from 0 to 100");
    if (is_reader(cell) && cell.number("read_delay", 0) > 100'000'000)
        wrong("read_delay from 0 to 100000000");
}

constexpr std::pair<std::string_view, State> state_names[] = {
    {"i", State::I}, {"sc", State::SC}, {"uc", State::UC}, {"ud", State::UD}};

// Parameter start: a state for each thread, timed first, with full stops between them; threads that are left out have none.
std::vector<State> start_of(const wire::Cell &cell, unsigned threads) {
    auto wrong = [&](const std::string &what) { throw wire::Invalid(fmt::format("{}: start: {}", cell.id(), what)); };
    std::vector<State> states;
    std::string word;
    for (char c : cell.text("start", "") + ".") {
        if (c != '.') {
            word += c;
            continue;
        }
        const auto found =
            std::ranges::find(state_names, std::string_view(word), &std::pair<std::string_view, State>::first);
        if (found == std::end(state_names))
            wrong(fmt::format("no state {}; allowed: i, sc, uc, ud", word));
        states.push_back(found->second);
        word.clear();
    }
    if (states.size() > threads)
        wrong(fmt::format("{} states for {} threads that touch the line", states.size(), threads));
    states.resize(threads, State::I);
    const auto unique = std::ranges::count_if(states, is_unique);
    if (unique > 1 || (unique == 1 && std::ranges::count(states, State::SC)))
        wrong("a core that holds the line unique is the only one that holds it");
    return states;
}

unsigned active_threads(const wire::Cell &cell) { return cell.contender == "same_line" ? cell.threads : 1; }

} // namespace

std::uint64_t work_of(const wire::Cell &cell) { return is_reader(cell) ? cell.number("read_delay", 0) : cell.work_iters; }

std::string obstacle(const Machine &machine, const wire::Cell &cell) {
    check_params(cell);
    if (cell.params.contains("start"))
        start_of(cell, active_threads(cell));
    if (is_handoff(cell)) {
        if (cell.contender != "same_line" || cell.threads != 2)
            return "a handoff is between 2 threads on the same_line";
        return "";
    }
    const std::optional<Shape> shape = shape_of(machine, cell);
    if (!shape)
        return fmt::format("machine {} has no policy for form {}", machine.name, cell.form);
    if (is_single(cell) && cell.width_bits != 64)
        return "simulated at 64 bits only";
    if (const std::string half = form_obstacle(machine, *shape); !half.empty())
        return fmt::format("machine {} has no policy for form {}", machine.name,
                           half == cell.form ? half : fmt::format("{} of {}", half, cell.form));
    if (cell.contender == "same_line" && cell.form == "plain_add")
        return "a form that loses counts is not contended";
    if (cell.contender == "same_line" && is_single(cell) && shape->first == "empty")
        return "an empty loop has no line to contend for";
    return "";
}

std::string lacks(const wire::Cell &cell) {
    if (cell.operation == "readers_grace" || (is_reader(cell) && cell.text("updater", "none") != "none"))
        return "the model has no updater that waits for readers";
    if (cell.params.contains("rounds"))
        return "the model counts no rounds apart; metrics.failed_attempts of the timed cell has them";
    return "";
}

Setup make_setup(const Machine &machine, const wire::Cell &cell, const std::vector<unsigned> &cores, Harness harness,
                 bool completion) {
    Setup setup;
    setup.handoff = is_handoff(cell);
    setup.single = is_single(cell);
    const unsigned active = active_threads(cell);
    for (unsigned thread = 0; thread < active; ++thread)
        setup.cores.push_back(cores.at(thread));
    if (cell.params.contains("start"))
        setup.start = start_of(cell, active);
    if (setup.handoff) {
        for (unsigned thread = 0; thread < active; ++thread)
            setup.programs.push_back(handoff_program(cell, thread));
        return setup;
    }
    const Shape shape = *shape_of(machine, cell);
    const Layout layout(cell, shape, active, harness);
    setup.lines = layout.all;
    for (unsigned thread = 0; thread < active; ++thread) {
        setup.programs.push_back(form_program(machine, cell, shape, loop_of(cell, thread, harness)));
        setup.programs.back().lines = layout.lines_of(shape, thread);
    }
    if (completion)
        setup.programs[0].steps.push_back(simple(Kind::fence));
    return setup;
}

} // namespace lw::model
