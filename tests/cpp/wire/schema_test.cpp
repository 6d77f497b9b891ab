// Plans are read strictly: each wrong one is refused with a line that says where; each right one is read whole.
#include "wire/forms.hpp"
#include "wire/schema.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace {

using namespace lw::wire;
using json = nlohmann::json;

// A small right plan of this architecture that each test bends.
json right_plan() {
    unsigned bits = sizeof(void *) * 8;
    return {{"linewright_plan", 2},
            {"name", "try"},
            {"cells", {{{"operation", "none"}, {"form", "empty"}, {"width_bits", bits}}}}};
}

std::string refusal(const json &plan) {
    try {
        parse_plan(plan.dump());
    } catch (const Invalid &error) {
        return error.what();
    }
    return "accepted";
}

TEST(Plan, ReadsWhatItIsGivenAndDefaultsTheRest) {
    json plan = right_plan();
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
    read = parse_plan(plan.dump());
    EXPECT_EQ(read.cells[0].id(), "none/empty/u" + bits + "/relaxed/none/ci0/nop20/auto/l32/t1/size=4096/state=dirty");
    EXPECT_EQ(read.line_windows, 3u);
}

TEST(Plan, RefusesNamingThePlace) {
    auto with = [](auto change) {
        json plan = right_plan();
        change(plan);
        return refusal(plan);
    };
    using J = json &;
    EXPECT_EQ(with([](J p) { p["linewright_plan"] = 3; }),
              "plan.linewright_plan: version 3 is unknown; this probe reads version 2");
    EXPECT_EQ(with([](J p) { p.erase("name"); }), "plan.name: is missing");
    EXPECT_EQ(with([](J p) { p["naem"] = 1; }), "plan: unknown field \"naem\"");
    EXPECT_EQ(with([](J p) { p["cells"] = json::array(); }), "plan.cells: is not an array of 1 to 100000 cells");
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
              "plan.cells[0].work: \"spin\" is not one of chain, nop_loop");
    EXPECT_EQ(with([](J p) { p["line_windows"] = 0; }), "plan.line_windows: 0 is not an integer from 1 to 1000");
    EXPECT_EQ(refusal(json::array()), "plan: is not an object");
    EXPECT_THROW(parse_plan("{\"linewright_plan\": 2"), Invalid);
    EXPECT_THROW(parse_plan(""), Invalid);
}

TEST(Plan, RefusesFormsOfOtherArchitectures) {
    json plan = right_plan();
    plan["cells"][0]["form"] = this_arch == Arch::arm64 ? "lock_add" : "stadd";
    plan["cells"][0]["operation"] = "add";
    EXPECT_NE(refusal(plan).find("does not belong to"), std::string::npos);
}

// The same files as the Python side's tests: plan-valid-* must be read, plan-invalid-* refused.
TEST(Plan, AgreesWithTheSharedExamples) {
    std::filesystem::path examples = LINEWRIGHT_EXAMPLES;
    if (!std::filesystem::exists(examples))
        GTEST_SKIP() << "no shared examples beside this build";
    int seen = 0;
    for (const auto &entry : std::filesystem::directory_iterator(examples)) {
        std::string name = entry.path().filename().string();
        if (!name.starts_with("plan-") || !name.ends_with(".json"))
            continue;
        std::ifstream file(entry.path());
        std::string text{std::istreambuf_iterator<char>(file), {}};
        bool of_another_arch = false;
        std::string why = "accepted";
        try {
            parse_plan(text);
        } catch (const Invalid &error) {
            why = error.what();
            of_another_arch = why.find("does not belong to") != std::string::npos;
        }
        if (of_another_arch)
            continue;
        EXPECT_EQ(why == "accepted", name.starts_with("plan-valid")) << name << ": " << why;
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
    json read = json::parse(line);
    EXPECT_EQ(read["linewright_record"], 2);
    EXPECT_EQ(read["sum_expected"], ~0ull);
    EXPECT_DOUBLE_EQ(read["window_ns"][0], 0.333333);
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
