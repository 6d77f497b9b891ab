// Forms as programs: which steps each takes, with how many instructions the core's window holds.
#include "model/program.hpp"

#include "wire/forms.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

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

struct Row {
    std::string_view arch, name; // a form's name without the prefetch in front of it
    Class of;                    // class of the atomic instruction, for the machine's policy
    Steps (*steps)(std::uint16_t at);
};

template <Class of> Steps one(std::uint16_t) { return {atomic(of)}; }
Steps nothing(std::uint16_t) { return {}; }
Steps plain_read(std::uint16_t) { return {{.kind = Kind::load, .counts = true}}; }
Steps plain_add(std::uint16_t) { return {simple(Kind::load), {.kind = Kind::store, .counts = true, .adds = true}}; }

constexpr std::array rows{
    Row{"", "empty", Class::load, nothing},
    Row{"", "plain_add", Class::load, plain_add},
    Row{"", "builtin_read", Class::load, plain_read},
    Row{"x86_64", "mov_read", Class::load, plain_read},
    Row{"x86_64", "lock_add", Class::load, one<Class::load>},
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
    Row{"arm64", "builtin_add", Class::load, exclusive_pair},
    Row{"arm64", "builtin_fetch_add", Class::load, exclusive_pair},
    Row{"arm64", "builtin_xchg", Class::load, exclusive_pair},
    Row{"arm64", "builtin_cmpxchg_loop_read_first", Class::load, exclusive_pair},
};

std::string_view without_prefetch(std::string_view form) {
    for (std::string_view prefix : {"prfm_keep_", "prfm_strm_", "prefetchw_"})
        if (form.starts_with(prefix))
            return form.substr(prefix.size());
    return form;
}

const Row *find_row(const Machine &machine, std::string_view form) {
    const std::string_view name = without_prefetch(form);
    const auto found = std::ranges::find_if(
        rows, [&](const Row &row) { return row.name == name && (row.arch.empty() || row.arch == machine.arch); });
    return found == rows.end() ? nullptr : &*found;
}

bool is_handoff(const wire::Cell &cell) { return cell.operation == "handoff"; }

bool nop_work(const wire::Cell &cell) { return cell.work == "nop_loop"; }

Step work(std::uint64_t count, bool nop_loop) {
    // A NOP loop's iteration is a NOP, a subtraction and a branch; a unit of chained work is one instruction.
    return {.kind = Kind::work,
            .nop_loop = nop_loop,
            .instructions = static_cast<std::uint16_t>(nop_loop ? 3 : 1),
            .count = count};
}

bool stores_outputs(const wire::Cell &cell) { return without_prefetch(cell.form) != "stadd"; }

Program form_program(const Machine &machine, const wire::Cell &cell, std::uint64_t count, bool nop_loop, Harness harness) {
    Program program{.steps = {}, .lines = {0, 1}, .turn = 0};
    Steps &steps = program.steps;
    if (without_prefetch(cell.form) != cell.form)
        steps.push_back(simple(Kind::prefetch));
    for (const Step &step : find_row(machine, cell.form)->steps(static_cast<std::uint16_t>(steps.size())))
        steps.push_back(step);
    if (harness == Harness::published && stores_outputs(cell)) {
        Step store = simple(Kind::store);
        store.slot = 1;
        steps.push_back(store);
    }
    if (count)
        steps.push_back(work(count, nop_loop));
    // The loop's own counter, compare and branch.
    if (!steps.empty())
        steps.back().instructions = static_cast<std::uint16_t>(
            steps.back().kind == Kind::work ? steps.back().instructions : steps.back().instructions + 3);
    return program;
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
    return program;
}

} // namespace

std::string obstacle(const Machine &machine, const wire::Cell &cell) {
    if (is_handoff(cell)) {
        const bool known = cell.form == "cmpxchg_blind" || cell.form == "load_cmpxchg" || cell.form == "store_load";
        if (!known || cell.contender != "same_line" || cell.threads != 2)
            return "a handoff is between 2 threads on the same_line";
        return "";
    }
    const Row *row = find_row(machine, cell.form);
    if (!row)
        return fmt::format("machine {} has no policy for form {}", machine.name, cell.form);
    for (const Step &step : row->steps(0))
        if (step.kind == Kind::atomic || step.kind == Kind::compare)
            for (Where where : machine.policy[static_cast<unsigned>(step.of)])
                if (where == Where::none)
                    return fmt::format("machine {} has no policy for form {}", machine.name, cell.form);
    if (cell.contender == "same_line" && row->name == "plain_add")
        return "a form that loses counts is not contended";
    if (cell.contender == "same_line" && row->name == "empty")
        return "an empty loop has no line to contend for";
    return "";
}

Setup make_setup(const Machine &machine, const wire::Cell &cell, const std::vector<unsigned> &cores, Harness harness,
                 bool completion) {
    Setup setup;
    setup.handoff = is_handoff(cell);
    setup.lines = harness == Harness::published ? 2 : 1;
    const unsigned active = cell.contender == "same_line" ? cell.threads : 1;
    for (unsigned thread = 0; thread < active; ++thread) {
        setup.programs.push_back(setup.handoff ? handoff_program(cell, thread)
                                 : thread == 0 ? form_program(machine, cell, cell.work_iters, nop_work(cell), harness)
                                               : form_program(machine, cell, cell.contender_iters, true, harness));
        setup.cores.push_back(cores.at(thread));
    }
    if (completion)
        setup.programs[0].steps.push_back(simple(Kind::fence));
    return setup;
}

} // namespace lw::model
