// SPDX-License-Identifier: MIT
// Words of plan `spacing`: where they lie, that each thread's operations are all counted, and what is refused.
#include "probe/run.hpp"
#include "probe/subject.hpp"
#include "probe/window.hpp"
#include "this_machine.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>

namespace {

using namespace lw;
using namespace lw::probe;

const std::pair<const char *, const char *> forms[] = {
    {"apart_plain_add", "apart_writers"},        {"apart_c11_add", "apart_writers"},          {"apart_read", "apart_reader"},
    {"apart_add_beside_reader", "apart_writer"}, {"apart_add_beside_shared", "apart_shared"},
};
constexpr std::uint64_t distances[] = {8, 16, 32, 64, 128, 256, 512};

wire::Cell cell_of(const char *form, const char *operation, std::uint64_t bytes_apart, const char *half) {
    wire::Cell cell;
    cell.form = form;
    cell.operation = operation;
    cell.width_bits = sizeof(void *) * 8;
    cell.threads = 2;
    cell.contender = bytes_apart ? "same_line" : "placebo";
    cell.lines = 9; // the ninth lies at the page offset of the first
    cell.params["half"] = std::string(half);
    if (bytes_apart)
        cell.params["bytes_apart"] = bytes_apart;
    return cell;
}

std::uintptr_t word(Subject &subject, unsigned thread, unsigned line) {
    return reinterpret_cast<std::uintptr_t>(subject.arguments(thread, line).target);
}

TEST(Spacing, WordsLieAsFarApartAndInTheHalfThatTheCellSays) {
    for (const std::uint64_t distance : distances)
        for (const char *half : {"lower", "upper"}) {
            Made made = make_subject(cell_of("apart_plain_add", "apart_writers", distance, half), machine());
            ASSERT_TRUE(made.subject) << made.unavailable;
            ASSERT_EQ(made.subject->lines(), 9u);
            std::set<std::uintptr_t> words, pages;
            for (unsigned line = 0; line < 9; ++line) {
                const std::uintptr_t timed = word(*made.subject, 0, line), other = word(*made.subject, 1, line);
                EXPECT_EQ(other - timed, distance);
                EXPECT_EQ(timed % 128, std::string(half) == "upper" ? 64u : 0u);
                EXPECT_EQ(timed / 128 == other / 128, distance + timed % 128 < 128); // the same pair of lines
                words.insert({timed, other});
                pages.insert(timed / 4096);
            }
            EXPECT_EQ(words.size(), 18u) << "two places share a word";
            EXPECT_EQ(pages.size(), 9u);
        }
}

TEST(Spacing, AWordBesideAWordThatBothWriteIsTheTimedThreadsOwn) {
    Made made = make_subject(cell_of("apart_add_beside_shared", "apart_shared", 64, "lower"), machine());
    ASSERT_TRUE(made.subject);
    const Loop_args timed = made.subject->arguments(0, 3), other = made.subject->arguments(1, 3);
    EXPECT_EQ(timed.state, other.target);
    EXPECT_NE(timed.target, other.target);
}

// Both threads' operations are counted, and each word holds those of the threads that write it.
TEST(Spacing, SumsComeOut) {
    const std::vector<unsigned> cpus = usable_cpus(machine().topology, {});
    if (cpus.size() < 2)
        GTEST_SKIP() << "needs two CPUs";
    for (const auto &[form, operation] : forms)
        for (const std::uint64_t distance : {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{512}}) {
            Made made = make_subject(cell_of(form, operation, distance, "upper"), machine());
            ASSERT_TRUE(made.subject) << made.unavailable;
            for (unsigned line : {0u, 8u}) {
                Window_request request;
                request.length_ms = 0.2;
                request.line = line;
                const Window_result window = run_window(*made.subject, machine(), {cpus[0], cpus[1]}, request, nullptr);
                ASSERT_EQ(window.error, "");
                ASSERT_EQ(window.ops.size(), 2u);
                EXPECT_GT(window.ops[0], 0u);
            }
            const std::optional<Check> check = made.subject->check();
            ASSERT_TRUE(check);
            EXPECT_EQ(check->expected, check->found) << form << " " << distance;
            // A reader beside a placebo writes nothing.
            EXPECT_EQ(check->found > 0, distance > 0 || std::string(form) != "apart_read") << form << " " << distance;
        }
}

// An add that is lost, or one too many, in either word.
TEST(Spacing, AWrongSumIsSeen) {
    for (unsigned thread : {0u, 1u}) {
        Made made = make_subject(cell_of("apart_plain_add", "apart_writers", 64, "lower"), machine());
        ASSERT_TRUE(made.subject);
        *reinterpret_cast<std::uintptr_t *>(word(*made.subject, thread, 5)) += 1;
        const std::optional<Check> check = made.subject->check();
        ASSERT_TRUE(check);
        EXPECT_NE(check->expected, check->found);
    }
}

TEST(Spacing, CellsThatMakeNoSenseAreRefused) {
    auto refused = [](auto change) {
        wire::Cell cell = cell_of("apart_plain_add", "apart_writers", 64, "lower");
        change(cell);
        try {
            make_subject(cell, machine());
        } catch (const wire::Invalid &) {
            return true;
        }
        return false;
    };
    EXPECT_FALSE(refused([](wire::Cell &) {}));
    EXPECT_TRUE(refused([](wire::Cell &cell) { cell.params["bytes_apart"] = std::uint64_t{12}; }));
    EXPECT_TRUE(refused([](wire::Cell &cell) { cell.params["bytes_apart"] = std::uint64_t{520}; }));
    EXPECT_TRUE(refused([](wire::Cell &cell) { cell.params["half"] = std::string("middle"); }));
    EXPECT_TRUE(refused([](wire::Cell &cell) { cell.params.erase("half"); }));
    EXPECT_TRUE(refused([](wire::Cell &cell) { cell.params.erase("bytes_apart"); }));
    EXPECT_TRUE(refused([](wire::Cell &cell) { cell.params["slots"] = std::uint64_t{1}; }));
    EXPECT_TRUE(refused([](wire::Cell &cell) { cell.contender = "placebo"; }));
    EXPECT_TRUE(refused([](wire::Cell &cell) { cell.threads = 3; }));
}

} // namespace
