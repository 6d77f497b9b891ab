// SPDX-License-Identifier: MIT
// Reads resolved machines strictly: every field known, every number in range, every matrix complete.
#include "model/machine.hpp"

#include "wire/json.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include <fmt/core.h>

namespace lw::model {
namespace {

using wire::Json;

constexpr std::int64_t longest = 1'000'000'000; // a millisecond in picoseconds: no constant of a machine is longer

[[noreturn]] void fail(const std::string &where, const std::string &what) {
    throw Bad_machine(fmt::format("machine{}{}: {}", where.empty() ? "" : ".", where, what));
}

const Json &field(const Json &object, const char *key, const char *where) {
    const Json *found = object.find(key);
    if (!found)
        fail(fmt::format("{}{}{}", where, *where ? "." : "", key), "is missing");
    return *found;
}

std::int64_t integer(const Json &value, const std::string &where, std::int64_t low, std::int64_t high) {
    const bool fits = value.is_unsigned() && value.number() <= static_cast<std::uint64_t>(high);
    if (!fits || value.integer() < low)
        fail(where, fmt::format("is not an integer from {} to {}", low, high));
    return value.integer();
}

std::string text(const Json &object, const char *key, std::size_t most) {
    const Json &value = field(object, key, "");
    if (!value.is_string() || value.string().empty() || value.string().size() > most)
        fail(key, fmt::format("is not a text of 1 to {} characters", most));
    return value.string();
}

std::vector<std::int64_t> integers(const Json &value, const std::string &where, std::size_t size, std::int64_t high) {
    if (!value.is_array() || value.size() != size)
        fail(where, fmt::format("is not an array of {}", size));
    std::vector<std::int64_t> numbers;
    for (std::size_t i = 0; i < size; ++i)
        numbers.push_back(integer(value[i], fmt::format("{}[{}]", where, i), 0, high));
    return numbers;
}

std::vector<Ps> matrix(const Json &object, const char *key, std::size_t rows, std::size_t columns) {
    const Json &value = field(object, key, "");
    if (!value.is_array() || value.size() != rows)
        fail(key, fmt::format("is not a matrix of {} rows", rows));
    std::vector<Ps> cells;
    for (std::size_t row = 0; row < rows; ++row)
        for (std::int64_t cell : integers(value[row], fmt::format("{}[{}]", key, row), columns, longest))
            cells.push_back(cell);
    return cells;
}

std::vector<unsigned> groups(const Json &object, const char *key, unsigned cores) {
    std::vector<unsigned> of;
    for (std::int64_t group : integers(field(object, key, ""), key, cores, max_cores))
        of.push_back(static_cast<unsigned>(group));
    return of;
}

// The constants by their names in machine files. A time's name ends in _ps here and in _ns there.
struct Named {
    const char *name;
    std::int64_t Constants::*member;
    std::int64_t low, high;
};

constexpr Named named[] = {
    {"unit_ps", &Constants::unit, 1, longest},
    {"nop_iter_ps", &Constants::nop_iter, 1, longest},
    {"nop_exit_ps", &Constants::nop_exit, 0, longest},
    {"nop_exit_from", &Constants::nop_exit_from, 1, 1'000'000},
    {"loop_ps", &Constants::loop, 1, longest},
    {"window", &Constants::window, 1, 10'000},
    {"store_buffer", &Constants::store_buffer, 1, 1'000},
    {"near_load_ps", &Constants::near_load, 1, longest},
    {"near_store_ps", &Constants::near_store, 1, longest},
    {"near_swap_ps", &Constants::near_swap, 1, longest},
    {"near_compare_ps", &Constants::near_compare, 1, longest},
    {"exclusive_load_ps", &Constants::exclusive_load, 1, longest},
    {"exclusive_store_ps", &Constants::exclusive_store, 1, longest},
    {"plain_load_ps", &Constants::plain_load, 1, longest},
    {"plain_store_ps", &Constants::plain_store, 1, longest},
    {"prefetch_ps", &Constants::prefetch, 0, longest},
    {"fence_ps", &Constants::fence, 0, longest},
    {"retry_ps", &Constants::retry, 0, longest},
    {"poll_ps", &Constants::poll, 1, longest},
    {"request_ps", &Constants::request, 1, longest},
    {"home_ps", &Constants::home, 0, longest},
    {"snoop_ps", &Constants::snoop, 1, longest},
    {"data_ps", &Constants::data, 1, longest},
    {"memory_ps", &Constants::memory, 0, longest},
    {"acknowledge_ps", &Constants::acknowledge, 0, longest},
    {"far_ps", &Constants::far, 1, longest},
    {"far_busy_ps", &Constants::far_busy, 1, longest},
    {"far_outstanding", &Constants::far_outstanding, 1, 1'000},
    {"prefetch_dropped_ps", &Constants::prefetch_dropped, 0, longest},
    {"jitter", &Constants::jitter, 0, 500},
    {"maintain_issue_ps", &Constants::maintain_issue, 1, longest},
    {"maintain_busy_ps", &Constants::maintain_busy, 1, longest},
    {"maintain_drain_ps", &Constants::maintain_drain, 0, longest},
    {"maintain_outstanding", &Constants::maintain_outstanding, 1, 1'000},
};

Constants constants(const Json &object) {
    if (!object.is_object())
        fail("constants", "is not an object");
    Constants read;
    for (const Named &row : named)
        read.*row.member =
            integer(field(object, row.name, "constants"), fmt::format("constants.{}", row.name), row.low, row.high);
    if (object.size() != std::size(named))
        for (const auto &item : object.members())
            if (std::ranges::none_of(named, [&](const Named &row) { return item.key == row.name; }))
                fail("constants", fmt::format("unknown constant {}", Json(item.key.substr(0, 60)).dump(-1, true)));
    return read;
}

Options options(const Json &object) {
    if (!object.is_object())
        fail("options", "is not an object");
    Options read;
    const std::pair<const char *, bool Options::*> all[] = {
        {"prefetch_dropped_while_far", &Options::prefetch_dropped_while_far},
        {"locked_drains", &Options::locked_drains},
        {"upgrade_at_once", &Options::upgrade_at_once},
        {"upgrade_behind_load", &Options::upgrade_behind_load},
    };
    for (const auto &[name, member] : all) {
        const Json &value = field(object, name, "options");
        if (!value.is_boolean())
            fail(fmt::format("options.{}", name), "is not true or false");
        read.*member = value.boolean();
    }
    if (object.size() != std::size(all))
        fail("options", "has an unknown option");
    return read;
}

void policies(const Json &object, Machine &machine) {
    constexpr const char *names[classes] = {"load", "store", "swap", "compare"};
    if (!object.is_object() || object.size() != classes)
        fail("policy", "is not an object of load, store, swap and compare");
    for (unsigned row = 0; row < classes; ++row) {
        const std::string where = fmt::format("policy.{}", names[row]);
        const Json &value = field(object, names[row], "policy");
        if (!value.is_array() || value.size() != 4)
            fail(where, "is not an array of 4: for the states I, SC, UC, UD");
        for (unsigned state = 0; state < 4; ++state) {
            const Json &word = value[state];
            if (word == "near")
                machine.policy[row][state] = Where::near;
            else if (word == "far")
                machine.policy[row][state] = Where::far;
            else if (word == "none")
                machine.policy[row][state] = Where::none;
            else
                fail(where, "each is one of near, far, none");
        }
    }
}

} // namespace

Machine parse_machine(const std::string &source) {
    Json object;
    try {
        object = Json::parse(source);
    } catch (const Json::Wrong &) {
        fail("", "is not JSON");
    }
    if (!object.is_object())
        fail("", "is not an object");
    if (field(object, "linewright_machine", "") != 1)
        fail("linewright_machine", "is not version 1");
    Machine machine;
    machine.name = text(object, "name", 64);
    machine.arch = text(object, "arch", 16);
    if (machine.arch != "arm64" && machine.arch != "x86_64")
        fail("arch", "is not one of arm64, x86_64");
    machine.cores = static_cast<unsigned>(integer(field(object, "cores", ""), "cores", 1, max_cores));
    machine.homes = static_cast<unsigned>(integer(field(object, "homes", ""), "homes", 1, max_cores));
    machine.central_homes =
        static_cast<unsigned>(integer(field(object, "central_homes", ""), "central_homes", 0, machine.homes - 1));
    machine.core_home = matrix(object, "core_home", machine.cores, machine.homes);
    machine.core_core = matrix(object, "core_core", machine.cores, machine.cores);
    machine.l3 = groups(object, "l3", machine.cores);
    machine.socket = groups(object, "socket", machine.cores);
    machine.constants = constants(field(object, "constants", ""));
    machine.options = options(field(object, "options", ""));
    policies(field(object, "policy", ""), machine);
    if (object.size() != 13)
        fail("", "has an unknown field");
    return machine;
}

} // namespace lw::model
