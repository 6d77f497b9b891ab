// SPDX-License-Identifier: MIT
// Machines are read strictly: each wrong one is refused with a line that says where.
#include "model/machine.hpp"

#include "small_machine.hpp"

#include <gtest/gtest.h>

#include <random>

namespace {

using namespace lw::model;
using lw::model::test::Json;
using lw::model::test::machine_json;

template <class Change> std::string refusal(Change change) {
    Json machine = machine_json();
    change(machine);
    try {
        parse_machine(machine.dump());
    } catch (const Bad_machine &error) {
        return error.what();
    }
    return "accepted";
}

TEST(Machine, ReadsTheRightOne) {
    const Machine machine = parse_machine(machine_json().dump());
    EXPECT_EQ(machine.cores, 4u);
    EXPECT_EQ(machine.between(0, 3), 5000);
    EXPECT_EQ(machine.policy[static_cast<unsigned>(Class::store)][0], Where::far);
    EXPECT_EQ(machine.constants.window, 200);
}

TEST(Machine, RefusesNamingThePlace) {
    using J = Json &;
    EXPECT_EQ(refusal([](J m) { m.erase("cores"); }), "machine.cores: is missing");
    EXPECT_EQ(refusal([](J m) { m["cores"] = 0; }), "machine.cores: is not an integer from 1 to 256");
    EXPECT_EQ(refusal([](J m) { m["core_home"].erase(0); }), "machine.core_home: is not a matrix of 4 rows");
    EXPECT_EQ(refusal([](J m) { m["core_core"][2].erase(0); }), "machine.core_core[2]: is not an array of 4");
    EXPECT_EQ(refusal([](J m) { m["constants"].erase("far_ps"); }), "machine.constants.far_ps: is missing");
    EXPECT_EQ(refusal([](J m) { m["constants"]["far_ps"] = -1; }),
              "machine.constants.far_ps: is not an integer from 1 to 1000000000");
    EXPECT_EQ(refusal([](J m) { m["constants"]["loop_ps"] = 0.5; }),
              "machine.constants.loop_ps: is not an integer from 1 to 1000000000");
    EXPECT_EQ(refusal([](J m) { m["constants"]["more"] = 1; }), "machine.constants: unknown constant \"more\"");
    EXPECT_EQ(refusal([](J m) { m["policy"]["store"][0] = "away"; }),
              "machine.policy.store: each is one of near, far, none");
    EXPECT_EQ(refusal([](J m) { m["policy"]["store"].erase(0); }),
              "machine.policy.store: is not an array of 4: for the states I, SC, UC, UD");
    EXPECT_EQ(refusal([](J m) { m["more"] = 1; }), "machine: has an unknown field");
    EXPECT_EQ(refusal([](J m) { m["arch"] = "vax"; }), "machine.arch: is not one of arm64, x86_64");
    EXPECT_EQ(refusal([](J m) { m = Json::array(); }), "machine: is not an object");
    EXPECT_THROW(parse_machine("{"), Bad_machine);
    EXPECT_THROW(parse_machine("1e999"), Bad_machine);
}

// Whatever is done to the text, the reader answers with a machine or with Bad_machine.
TEST(Machine, AMangledTextIsNeverMoreThanRefused) {
    const std::string right = machine_json(2).dump();
    std::mt19937_64 random(7);
    for (int round = 0; round < 3000; ++round) {
        std::string text = right;
        for (int change = 0; change < 1 + round % 4; ++change) {
            const std::size_t at = random() % text.size();
            if (random() % 3 == 0)
                text.erase(at, 1 + random() % 8);
            else if (random() % 2)
                text[at] = static_cast<char>(random());
            else
                text.insert(at, text.substr(random() % text.size(), random() % 12));
        }
        try {
            parse_machine(text);
        } catch (const Bad_machine &) {
        }
    }
}

} // namespace
