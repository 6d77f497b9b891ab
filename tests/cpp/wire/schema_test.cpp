// SPDX-License-Identifier: MIT
// Plans are read strictly: each wrong one is refused with a line that says where; each right one is read whole.
#include "wire/forms.hpp"
#include "wire/json.hpp"
#include "wire/schema.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace {

using namespace lw::wire;

// A small right plan of this architecture that each test bends.
Json right_plan() {
    unsigned bits = sizeof(void *) * 8;
    return {{"linewright_plan", 2},
            {"name", "try"},
            {"cells", {{{"operation", "none"}, {"form", "empty"}, {"width_bits", bits}}}}};
}

std::string refusal_of_text(const std::string &text) {
    try {
        parse_plan(text);
    } catch (const Invalid &error) {
        return error.what();
    }
    return "accepted";
}

std::string refusal(const Json &plan) { return refusal_of_text(plan.dump()); }

TEST(Plan, ReadsWhatItIsGivenAndDefaultsTheRest) {
    Json plan = right_plan();
    plan["seed"] = 7;
    plan["cpus"] = {3, 1};
    plan["cells"][0]["work_iters"] = 20;
    plan["cells"][0]["params"] = {{"size", 4096}, {"state", "dirty"}};
    Plan read = parse_plan(plan.dump());
    EXPECT_EQ(read.seed, 7u);
    EXPECT_EQ(read.cpus, (std::vector<unsigned>{3, 1}));
    EXPECT_DOUBLE_EQ(read.precision, 0.02);
    EXPECT_EQ(read.cells[0].number("size", 0), 4096u);
    EXPECT_EQ(read.cells[0].text("state", ""), "dirty");
    EXPECT_EQ(read.cells[0].number("absent", 5), 5u);
    EXPECT_THROW(read.cells[0].number("state", 0), Invalid);
    std::string bits = std::to_string(sizeof(void *) * 8);
    EXPECT_EQ(read.cells[0].id(), "none/empty/u" + bits + "/relaxed/none/ci0/w20/auto/l32/t1/size=4096/state=dirty");
    plan["cells"][0]["work"] = "nop_loop";
    plan["line_windows"] = 3;
    plan["extra_windows"] = 1;
    plan["looks"] = {5, 8};
    read = parse_plan(plan.dump());
    EXPECT_EQ(read.cells[0].id(), "none/empty/u" + bits + "/relaxed/none/ci0/nop20/auto/l32/t1/size=4096/state=dirty");
    EXPECT_EQ(read.line_windows, 3u);
    EXPECT_EQ(read.extra_windows, 1u);
    EXPECT_EQ(read.looks, (std::vector<unsigned>{5, 8}));
}

TEST(Plan, RefusesNamingThePlace) {
    auto with = [](auto change) {
        Json plan = right_plan();
        change(plan);
        return refusal(plan);
    };
    using J = Json &;
    EXPECT_EQ(with([](J p) { p["linewright_plan"] = 3; }),
              "plan.linewright_plan: version 3 is unknown; this probe reads version 2");
    EXPECT_EQ(with([](J p) { p.erase("name"); }), "plan.name: is missing");
    EXPECT_EQ(with([](J p) { p["naem"] = 1; }), "plan: unknown field \"naem\"");
    EXPECT_EQ(with([](J p) { p["cells"] = Json::array(); }), "plan.cells: is not an array of 1 to 100000 cells");
    EXPECT_EQ(with([](J p) { p["precision"] = 0; }), "plan.precision: 0 is not a number above 0 and up to 0.5");
    EXPECT_EQ(with([](J p) { p["precision"] = 0.51; }), "plan.precision: 0.51 is not a number above 0 and up to 0.5");
    EXPECT_EQ(with([](J p) { p["budget_s"] = -1; }), "plan.budget_s: -1 is not a number above 0 and up to 604800");
    EXPECT_EQ(with([](J p) { p["seed"] = -1; }), "plan.seed: -1 is not an integer from 0 to 9007199254740992");
    EXPECT_NE(with([](J p) { p["cells"][0]["lines"] = 18446744073709551616.0; }).find("cells[0].lines"), std::string::npos);
    EXPECT_NE(with([](J p) { p["cells"][0]["work_iters"] = 100'000'001; }).find("cells[0].work_iters"), std::string::npos);
    EXPECT_NE(with([](J p) { p["cells"][0]["form"] = "nosuch"; }).find("unknown form \"nosuch\""), std::string::npos);
    EXPECT_NE(with([](J p) { p["cells"][0]["width_bits"] = 48; }).find("not one of 8, 16"), std::string::npos);
    EXPECT_NE(with([](J p) { p["cells"][0]["contender"] = "both"; }).find("none, placebo, same_line"), std::string::npos);
    EXPECT_NE(with([](J p) { p["cells"][0]["placement"] = "cpus:"; }).find("placement"), std::string::npos);
    EXPECT_NE(with([](J p) { p["cells"][0]["threads"] = 2; }).find("without a contender"), std::string::npos);
    EXPECT_NE(with([](J p) { p["cells"][0]["contender"] = "placebo"; }).find("at least 2 threads"), std::string::npos);
    EXPECT_NE(with([](J p) { p["cells"][0]["contender_iters"] = 5; }).find("without a contender"), std::string::npos);
    EXPECT_NE(with([](J p) { p["cells"].push_back(p["cells"][0]); }).find("twice"), std::string::npos);
    EXPECT_NE(with([](J p) { p["max_windows"] = 1; }).find("below min_windows"), std::string::npos);
    EXPECT_EQ(with([](J p) { p["cells"][0]["work"] = "spin"; }),
              "plan.cells[0].work: \"spin\" is not one of chain, nop_loop, memory");
    EXPECT_EQ(with([](J p) { p["line_windows"] = 0; }), "plan.line_windows: 0 is not an integer from 1 to 1000");
    EXPECT_EQ(refusal(Json::array()), "plan: is not an object");
    EXPECT_THROW(parse_plan("{\"linewright_plan\": 2"), Invalid);
    EXPECT_THROW(parse_plan(""), Invalid);
}

TEST(Plan, RefusesFormsOfOtherArchitectures) {
    Json plan = right_plan();
    plan["cells"][0]["form"] = this_arch == Arch::arm64 ? "lock_add" : "stadd";
    plan["cells"][0]["operation"] = "add";
    EXPECT_NE(refusal(plan).find("does not belong to"), std::string::npos);
}

const std::filesystem::path examples = LINEWRIGHT_EXAMPLES;

std::string content(const std::filesystem::path &path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

// The same files as the Python side's tests. A plan for another architecture is refused for that alone.
TEST(Plan, ReadsTheValidSharedExamples) {
    if (!std::filesystem::exists(examples))
        GTEST_SKIP() << "no shared examples beside this build";
    int seen = 0;
    for (const auto &entry : std::filesystem::directory_iterator(examples)) {
        if (!entry.path().filename().string().starts_with("plan-valid"))
            continue;
        std::string why = refusal_of_text(content(entry.path()));
        EXPECT_TRUE(why == "accepted" || why.find("does not belong to") != std::string::npos) << entry << ": " << why;
        ++seen;
    }
    EXPECT_GT(seen, 0);
}

// A JSON merge patch, RFC 7396: a null takes a member away.
void merge(Json &target, const Json &patch) {
    if (!patch.is_object() || !target.is_object()) {
        target = patch;
        return;
    }
    for (const auto &[key, value] : patch.members()) {
        if (value.is_null())
            target.erase(key);
        else
            merge(target[key], value);
    }
}

// "@x" stands for a bare x, which JSON has no way to write.
std::string with_bare_words(std::string text) {
    for (std::size_t at; (at = text.find("\"@")) != std::string::npos;) {
        text.erase(text.find('"', at + 1), 1);
        text.erase(at, 2);
    }
    return text;
}

// Each row of refused.jsonl is a valid example with one change (a JSON merge patch), or a whole text.
TEST(Plan, RefusesTheWrongSharedExamples) {
    if (!std::filesystem::exists(examples))
        GTEST_SKIP() << "no shared examples beside this build";
    std::ifstream rows(examples / "refused.jsonl");
    int seen = 0;
    for (std::string line; std::getline(rows, line);) {
        const Json row = Json::parse(line);
        const auto word = [&](const char *key) { return row.contains(key) ? row.at(key).string() : ""; };
        std::string base = row.contains("base") ? word("base") : word("shape");
        if (!base.starts_with("plan"))
            continue;
        std::string text = word("text");
        if (text.empty()) {
            Json changed = Json::parse(content(examples / (base + ".json")));
            merge(changed, row.at("change"));
            text = with_bare_words(changed.dump());
        }
        EXPECT_NE(refusal_of_text(text), "accepted") << word("because");
        ++seen;
    }
    EXPECT_GT(seen, 0);
}

TEST(Record, IsOneLineOfJsonWithoutNaN) {
    Record record;
    record.cell.operation = "add";
    record.cell.form = "x\ny\"";
    record.total_mops = 0.0 / 1e-300;
    record.window_ns = {1.0 / 3.0};
    record.metrics["bad"] = std::numeric_limits<double>::quiet_NaN();
    record.sum_expected = ~0ull;
    std::string line = to_json(record);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    Json read = Json::parse(line);
    EXPECT_EQ(read["linewright_record"], 3);
    EXPECT_EQ(read["made_of"]["base"], record.cell.form);
    EXPECT_EQ(read["sum_expected"], ~0ull);
    EXPECT_DOUBLE_EQ(read["window_ns"][0].real(), 0.333333);
    EXPECT_EQ(read["metrics"]["bad"], 0.0);
    EXPECT_TRUE(read["issue"].is_null());
}

TEST(Forms, HaveOneRowForEachArchitectureNameAndWidth) {
    std::set<std::tuple<Arch, std::string_view, unsigned>> seen;
    for (const Form &form : all_forms())
        EXPECT_TRUE(seen.insert({form.arch, form.name, form.width_bits}).second) << form.name;
    EXPECT_TRUE(find_form("stadd", 64, Arch::arm64));
    EXPECT_FALSE(find_form("stadd", 64, Arch::x86_64));
    EXPECT_FALSE(find_form("builtin_add", 64, Arch::i386));
}

} // namespace
