// SPDX-License-Identifier: MIT
// Reads plans strictly and writes contexts and records; every rule mirrors linewright/schema.py, which
// tests/py/probe/test_both_schemas.py holds. By hand: a field is checked by the call that reads it, on some
// thirty lines, of which a generator could replace the bounds alone.
#include "wire/schema.hpp"

#include "wire/forms.hpp"
#include "wire/json.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>

#include <fmt/core.h>

namespace lw::wire {
namespace {

bool is_name(std::string_view text) {
    return !text.empty() && text.size() <= 64 &&
           std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

bool is_param_text(std::string_view text) {
    return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               std::string_view("_.+-").find(c) != std::string_view::npos;
    });
}

bool is_event(std::string_view text) {
    return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("_.-/").find(c) != std::string_view::npos;
    });
}

bool is_placement(std::string_view text) {
    constexpr std::array classes{"auto", "smt_sibling", "same_l3", "other_l3", "other_socket"};
    if (std::ranges::find(classes, text) != classes.end())
        return true;
    if (!text.starts_with("cpus:"))
        return false;
    text.remove_prefix(5);
    bool digit = false;
    for (char c : text) {
        if (c >= '0' && c <= '9')
            digit = true;
        else if (c == ',' && digit)
            digit = false;
        else
            return false;
    }
    return digit;
}

std::string joined(std::initializer_list<std::string_view> words) {
    std::string text;
    for (std::string_view word : words)
        text.append(text.empty() ? "" : ", ").append(word);
    return text;
}

// A JSON object read field by field: each access checks type and range, `finish` refuses fields that were not read.
class Fields {
public:
    Fields(const Json &object, std::string path) : object_(object), path_(std::move(path)) {
        if (!object.is_object())
            fail("", "is not an object");
    }

    [[noreturn]] void fail(const std::string &key, const std::string &what) const {
        throw Invalid(fmt::format("{}{}{}: {}", path_, key.empty() ? "" : ".", key, what));
    }

    const Json *find(const char *key) {
        seen_.insert(key);
        return object_.find(key);
    }

    const Json &require(const char *key) {
        const Json *value = find(key);
        if (!value)
            fail(key, "is missing");
        return *value;
    }

    std::uint64_t integer(const char *key, std::uint64_t low, std::uint64_t high, std::uint64_t fallback) {
        const Json *value = find(key);
        return value ? as_integer(*value, key, low, high) : fallback;
    }

    std::uint64_t as_integer(const Json &value, const std::string &key, std::uint64_t low, std::uint64_t high) const {
        if (!value.is_unsigned() || value.number() < low || value.number() > high)
            fail(key, fmt::format("{} is not an integer from {} to {}", shorten(value), low, high));
        return value.number();
    }

    // A number above `low` and up to `high`.
    double real(const char *key, double low, double high, double fallback) {
        const Json *value = find(key);
        if (!value)
            return fallback;
        if (!value->is_number() || !(value->real() > low && value->real() <= high))
            fail(key, fmt::format("{} is not a number above {} and up to {}", shorten(*value), low, high));
        return value->real();
    }

    std::string name(const char *key) {
        const Json &value = require(key);
        if (!value.is_string() || !is_name(value.string()))
            fail(key, fmt::format("{} is not a name (a-z, 0-9, _; up to 64 characters)", shorten(value)));
        return value.string();
    }

    std::string choice(const char *key, std::initializer_list<std::string_view> allowed, std::string_view fallback) {
        const Json *value = find(key);
        if (!value)
            return std::string(fallback);
        if (value->is_string() && std::ranges::find(allowed, value->string()) != allowed.end())
            return value->string();
        fail(key, fmt::format("{} is not one of {}", shorten(*value), joined(allowed)));
    }

    static std::string shorten(const Json &value) {
        std::string text = value.dump(-1, true);
        return text.size() > 60 ? text.substr(0, 57) + "..." : text;
    }

    void finish() const {
        for (const auto &item : object_.members())
            if (!seen_.contains(item.key))
                fail("", fmt::format("unknown field {}", shorten(item.key)));
    }

private:
    const Json &object_;
    std::string path_;
    std::set<std::string> seen_;
};

Cell parse_cell(const Json &object, const std::string &path) {
    Fields fields(object, path);
    Cell cell;
    cell.operation = fields.name("operation");
    cell.form = fields.name("form");
    cell.width_bits = static_cast<unsigned>(fields.integer("width_bits", 8, 128, 64));
    if (!std::has_single_bit(cell.width_bits))
        fields.fail("width_bits", fmt::format("{} is not one of 8, 16, 32, 64, 128", cell.width_bits));
    cell.order = fields.choice("order", {"relaxed", "acquire", "release", "acq_rel", "seq_cst", "full"}, "relaxed");
    cell.contender = fields.choice("contender", {"none", "placebo", "same_line"}, "none");
    cell.contender_iters = fields.integer("contender_iters", 0, 100'000'000, 0);
    cell.work_iters = fields.integer("work_iters", 0, 100'000'000, 0);
    cell.work = fields.choice("work", {"chain", "nop_loop", "memory"}, "chain");
    if (const Json *value = fields.find("placement")) {
        if (!value->is_string() || !is_placement(value->string()))
            fields.fail("placement", fmt::format("{} is not one of auto, smt_sibling, same_l3, other_l3, other_socket, "
                                                 "cpus:A,B…",
                                                 Fields::shorten(*value)));
        cell.placement = value->string();
    }
    cell.lines = static_cast<unsigned>(fields.integer("lines", 1, 4096, 32));
    cell.threads = static_cast<unsigned>(fields.integer("threads", 1, 4096, 1));
    if (const Json *params = fields.find("params")) {
        if (!params->is_object())
            fields.fail("params", "is not an object");
        for (const auto &item : params->members()) {
            if (!is_name(item.key))
                fields.fail("params", fmt::format("{} is not a name", Fields::shorten(item.key)));
            if (item.value.is_string() && is_param_text(item.value.string()))
                cell.params[item.key] = item.value.string();
            else
                cell.params[item.key] = fields.as_integer(item.value, "params." + item.key, 0, std::uint64_t{1} << 53);
        }
    }
    fields.finish();
    return cell;
}

constexpr char every_form[] = "`linewright probe --list-forms=all` prints every form";

// What the schema's types cannot say: contradictions between fields, forms that do not exist.
void check_form(const Cell &cell, const std::string &path, Arch arch, std::span<const Form> forms) {
    auto fail = [&](const std::string &what) { throw Invalid(fmt::format("{}: {}", path, what)); };
    const auto named = [&](const Form &form) { return form.name == cell.form; };
    const auto fits = [&](const Form &form) {
        return named(form) && form.width_bits == cell.width_bits && belongs_to(form, arch);
    };
    // An updater is timed by an operation of its own, with the form of the readers that it waits for.
    const auto performs = [&](const Form &form) {
        return form.arch == Arch::any || form.operation == cell.operation ||
               (form.operation == "readers_pair" && cell.operation == "readers_grace");
    };
    const auto form = std::ranges::find_if(forms, fits);
    if (std::ranges::none_of(forms, named))
        fail(fmt::format("unknown form \"{}\"; {}", cell.form, every_form));
    if (form == forms.end())
        fail(fmt::format("form \"{}\" at {} bits does not belong to {}; {}", cell.form, cell.width_bits, arch_name(arch),
                         every_form));
    // One name may stand for several operations.
    if (std::ranges::none_of(forms, [&](const Form &one) { return fits(one) && performs(one); }))
        fail(fmt::format("form \"{}\" performs {}, not {}", cell.form, form->operation, cell.operation));
}

void check_cell(const Cell &cell, const std::string &path) {
    auto fail = [&](const std::string &what) { throw Invalid(fmt::format("{}: {}", path, what)); };
    if (cell.contender == "none" && cell.contender_iters != 0)
        fail("contender_iters without a contender");
    if (cell.contender == "none" && cell.threads != 1)
        fail(fmt::format("{} threads without a contender", cell.threads));
    if (cell.contender != "none" && cell.threads < 2)
        fail(fmt::format("contender {} needs at least 2 threads", cell.contender));
}

Json param_json(const Param &param) {
    return std::visit([](const auto &value) { return Json(value); }, param);
}

Json cell_json(const Cell &cell) {
    Json object{{"operation", cell.operation},   {"form", cell.form},           {"width_bits", cell.width_bits},
                {"order", cell.order},           {"contender", cell.contender}, {"contender_iters", cell.contender_iters},
                {"work_iters", cell.work_iters}, {"work", cell.work},           {"placement", cell.placement},
                {"lines", cell.lines},           {"threads", cell.threads}};
    Json params = Json::object();
    for (const auto &[key, value] : cell.params)
        params[key] = param_json(value);
    object["params"] = params;
    return object;
}

// Six significant digits and never NaN: JSON has no word for it, and a quotient of nothing is no measurement.
Json number(double value) {
    if (!std::isfinite(value))
        return 0.0;
    double rounded = 0;
    std::string text = fmt::format("{:.6g}", value);
    std::from_chars(text.data(), text.data() + text.size(), rounded);
    return rounded;
}

Json optional_number(const std::optional<double> &value) { return value ? number(*value) : Json(nullptr); }

Json numbers(const std::vector<double> &values) {
    Json array = Json::array();
    for (double value : values)
        array.push_back(number(value));
    return array;
}

Json quantiles_json(const std::optional<Quantiles> &quantiles) {
    if (!quantiles)
        return nullptr;
    return {{"of", quantiles->of},
            {"ops_per_sample", quantiles->ops_per_sample},
            {"samples", quantiles->samples},
            {"p50_ns", number(quantiles->p50_ns)},
            {"p95_ns", number(quantiles->p95_ns)},
            {"p99_ns", number(quantiles->p99_ns)},
            {"max_ns", number(quantiles->max_ns)},
            {"histogram", quantiles->histogram}};
}

Json interval_json(const std::optional<Interval> &interval) {
    if (!interval)
        return nullptr;
    return {{"median_ns", number(interval->median_ns)},
            {"low_ns", number(interval->low_ns)},
            {"high_ns", number(interval->high_ns)},
            {"confidence", interval->confidence}};
}

Json cpu_json(const Cpu &cpu) {
    return {{"cpu", cpu.cpu},         {"core", cpu.core},         {"cluster", cpu.cluster},
            {"l3", cpu.l3},           {"socket", cpu.socket},     {"node", cpu.node},
            {"allowed", cpu.allowed}, {"capacity", cpu.capacity}, {"midr", cpu.midr}};
}

std::string line(const Json &object) { return object.dump(-1, true); }

} // namespace

std::string Cell::id() const {
    std::string id =
        fmt::format("{}/{}/u{}/{}/{}/ci{}/{}{}/{}/l{}/t{}", operation, form, width_bits, order, contender, contender_iters,
                    work == "memory"  ? "mem"
                    : work == "chain" ? "w"
                                      : "nop",
                    work_iters, placement, lines, threads);
    for (const auto &param : params) // a binding's name in a lambda is refused by clang before 16
        std::visit([&](const auto &v) { id += fmt::format("/{}={}", param.first, v); }, param.second);
    return id;
}

std::uint64_t Cell::number(const std::string &key, std::uint64_t fallback) const {
    auto found = params.find(key);
    if (found == params.end())
        return fallback;
    if (const auto *value = std::get_if<std::uint64_t>(&found->second))
        return *value;
    throw Invalid(fmt::format("{}: parameter {} is not a number", id(), key));
}

std::string Cell::text(const std::string &key, const std::string &fallback) const {
    auto found = params.find(key);
    if (found == params.end())
        return fallback;
    if (const auto *value = std::get_if<std::string>(&found->second))
        return *value;
    throw Invalid(fmt::format("{}: parameter {} is not a word", id(), key));
}

namespace {

Json parse_document(const std::string &text) {
    try {
        return Json::parse(text);
    } catch (const Json::Wrong &error) {
        throw Invalid(fmt::format("plan: {}", error.what()));
    }
}

// Seed, precision, time and windows: the fields that hold one number.
void parse_limits(Fields &fields, Plan &plan) {
    auto count = [&](const char *key, std::uint64_t low, std::uint64_t high, unsigned &field) {
        field = static_cast<unsigned>(fields.integer(key, low, high, field));
    };
    plan.seed = fields.integer("seed", 0, std::uint64_t{1} << 53, plan.seed);
    plan.precision = fields.real("precision", 0, 0.5, plan.precision);
    plan.budget_s = fields.real("budget_s", 0, 604'800, plan.budget_s);
    plan.window_ms = fields.real("window_ms", 0, 10'000, plan.window_ms);
    plan.contended_window_ms = fields.real("contended_window_ms", 0, 10'000, plan.contended_window_ms);
    count("launches", 1, 1000, plan.launches);
    count("launch", 0, 1000, plan.launch);
    count("block_cells", 1, 256, plan.block_cells);
    count("line_windows", 1, 1000, plan.line_windows);
    count("min_windows", 1, 100'000, plan.min_windows);
    count("max_windows", 1, 100'000, plan.max_windows);
    count("extra_windows", 0, 100'000, plan.extra_windows);
    if (plan.max_windows < plan.min_windows)
        fields.fail("max_windows", fmt::format("{} is below min_windows {}", plan.max_windows, plan.min_windows));
}

// CPUs to use, launches to look after, and events to count.
void parse_lists(Fields &fields, Plan &plan) {
    if (const Json *cpus = fields.find("cpus")) {
        if (!cpus->is_array())
            fields.fail("cpus", "is not an array");
        for (std::size_t i = 0; i < cpus->size(); ++i)
            plan.cpus.push_back(static_cast<unsigned>(fields.as_integer((*cpus)[i], fmt::format("cpus[{}]", i), 0, 65'535)));
    }
    if (const Json *looks = fields.find("looks")) {
        if (!looks->is_array() || looks->size() > 2)
            fields.fail("looks", "is not an array of at most 2 numbers");
        for (std::size_t i = 0; i < looks->size(); ++i)
            plan.looks.push_back(
                static_cast<unsigned>(fields.as_integer((*looks)[i], fmt::format("looks[{}]", i), 1, 1000)));
    }
    if (const Json *counters = fields.find("counters")) {
        if (!counters->is_array() || counters->size() > 16)
            fields.fail("counters", "is not an array of at most 16 names");
        for (const Json &name : counters->elements()) {
            if (!name.is_string() || !is_event(name.string()))
                fields.fail("counters", fmt::format("{} is not the name of an event", Fields::shorten(name)));
            plan.counters.push_back(name.string());
        }
    }
}

std::vector<Cell> parse_cells(Fields &fields, Arch arch, std::span<const Form> forms) {
    const Json &cells = fields.require("cells");
    if (!cells.is_array() || cells.empty() || cells.size() > 100'000)
        fields.fail("cells", "is not an array of 1 to 100000 cells");
    std::vector<Cell> out;
    std::set<std::string> ids;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        std::string path = fmt::format("plan.cells[{}]", i);
        out.push_back(parse_cell(cells[i], path));
        check_form(out.back(), path, arch, forms);
        check_cell(out.back(), path);
        if (!ids.insert(out.back().id()).second)
            throw Invalid(fmt::format("{}: {} stands in the plan twice", path, out.back().id()));
    }
    return out;
}

} // namespace

Plan parse_plan(const std::string &text, Arch arch, std::span<const Form> forms) {
    const Json document = parse_document(text);
    Fields fields(document, "plan");
    const Json &version = fields.require("linewright_plan");
    if (version != schema_version)
        fields.fail("linewright_plan", fmt::format("version {} is unknown; this probe reads version {}",
                                                   Fields::shorten(version), schema_version));
    Plan plan;
    plan.name = fields.name("name");
    parse_limits(fields, plan);
    parse_lists(fields, plan);
    plan.cells = parse_cells(fields, arch, forms);
    fields.finish();
    return plan;
}

std::string to_json(const Record &record) {
    Json metrics = Json::object();
    for (const auto &[key, value] : record.metrics)
        metrics[key] = number(value);
    return line({{"linewright_record", record_version},
                 {"context_id", record.context_id},
                 {"id", record.cell.id()},
                 {"cell", cell_json(record.cell)},
                 {"made_of", to_json(made_of(record.cell.form))},
                 {"plan", record.plan},
                 {"launch", record.launch},
                 {"started_s", optional_number(record.started_s)},
                 {"status", record.status},
                 {"reason", record.reason},
                 {"stop", record.stop},
                 {"cpus", record.cpus},
                 {"placement_class", record.placement_class},
                 {"window_ns", numbers(record.window_ns)},
                 {"window_line", record.window_line},
                 {"window_round", record.window_round},
                 {"baseline_ns", numbers(record.baseline_ns)},
                 {"issue", interval_json(record.issue)},
                 {"batch", quantiles_json(record.batch)},
                 {"small_batch", quantiles_json(record.small_batch)},
                 {"completion_ns", numbers(record.completion_ns)},
                 {"completion_baseline_ns", numbers(record.completion_baseline_ns)},
                 {"thread_ops", record.thread_ops},
                 {"thread_ns", numbers(record.thread_ns)},
                 {"thread_ticks", numbers(record.thread_ticks)},
                 {"total_mops", number(record.total_mops)},
                 {"fairness", number(record.fairness)},
                 {"sum_expected", record.sum_expected},
                 {"sum_found", record.sum_found},
                 {"discarded",
                  {{"switched", record.discarded.switched},
                   {"stolen", record.discarded.stolen},
                   {"long_batch", record.discarded.long_batch}}},
                 {"flags", record.flags},
                 {"metrics", metrics}});
}

std::string to_json(const std::vector<Cpu> &cpus) {
    Json array = Json::array();
    for (const Cpu &cpu : cpus)
        array.push_back(cpu_json(cpu));
    return line(array);
}

std::string to_json(const Context &context) {
    Json cpus = Json::array();
    for (const Cpu &cpu : context.cpus)
        cpus.push_back(cpu_json(cpu));
    return line({{"linewright_context", schema_version},
                 {"context_id", context.context_id},
                 {"machine_id", context.machine_id},
                 {"started_utc", context.started_utc},
                 {"target", context.target},
                 {"plan", context.plan},
                 {"launch", context.launch},
                 {"launches", context.launches},
                 {"tool_version", context.tool_version},
                 {"compiler", context.compiler},
                 {"arch", context.arch},
                 {"cpu_model", context.cpu_model},
                 {"cpu_ids", context.cpu_ids},
                 {"features", context.features},
                 {"kernel", context.kernel},
                 {"virtualised", context.virtualised},
                 {"emulated", context.emulated},
                 {"cpus", cpus},
                 {"line_bytes", context.line_bytes},
                 {"page_bytes", context.page_bytes},
                 {"time_source", context.time_source},
                 {"tick_ns", number(context.tick_ns)},
                 {"timer_cost_ns", number(context.timer_cost_ns)},
                 {"work_unit_ns", optional_number(context.work_unit_ns)},
                 {"work_linearity", optional_number(context.work_linearity)},
                 {"work_spread", optional_number(context.work_spread)},
                 {"nop_iter_ns", number(context.nop_iter_ns)},
                 {"loop_offset_bytes", context.loop_offset_bytes},
                 {"cycle_ns", number(context.cycle_ns)},
                 {"governor", context.governor},
                 {"smt", context.smt},
                 {"counters", context.counters},
                 {"rseq", context.rseq},
                 {"locked_memory", context.locked_memory},
                 {"realtime", context.realtime},
                 {"boot_parameters", context.boot_parameters},
                 {"counters_reason", context.counters_reason},
                 {"other_probe", context.other_probe},
                 {"other_load", optional_number(context.other_load)}});
}

} // namespace lw::wire
