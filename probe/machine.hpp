// SPDX-License-Identifier: MIT
// The machine under the probe: topology, clock, features; what becomes the context of the records.
#pragma once

#include "probe/company.hpp"
#include "probe/topology.hpp"
#include "wire/schema.hpp"

#include <set>
#include <string>
#include <string_view>

namespace lw::probe {

// The clock that loops are timed with.
struct Clock {
    std::string source = "clock_monotonic";
    double tick_ns = 1;
    double cost_ns = 0;         // two plain reads back to back, median
    double ordered_cost_ns = 0; // two ordered reads back to back, median

    std::uint64_t ticks(double ns) const { return static_cast<std::uint64_t>(ns / tick_ns); }
    double ns(std::uint64_t ticks) const { return static_cast<double>(ticks) * tick_ns; }
};

struct Machine {
    Load_since load;         // from here to the context
    bool other_probe = false;
    unsigned loop_place = 0; // of this launch, see probe/rmw_loops.hpp
    Topology topology;
    Clock clock;
    std::set<std::string> features;

    // "none" is always there.
    bool has(std::string_view feature) const { return feature == "none" || features.contains(std::string(feature)); }
};

// The value of the first "key : value" line of /proc/cpuinfo; empty where there is none.
std::string cpuinfo(std::string_view key);

// The options on a kernel's command line that change what is measured; the rest of it is private and is not recorded.
std::string boot_parameters(std::string_view command_line);

// 16 hexadecimal digits that tell texts apart: an identifier, not a secret.
std::string fingerprint(std::string_view text);

// Reads topology and features and calibrates the clock (about 20 ms).
Machine read_machine();

// The context of one launch of a plan that counts the given events (see choose_counters).
wire::Context describe(const Machine &machine, const std::string &plan, unsigned launch,
                       const std::vector<std::string> &counted = {});

} // namespace lw::probe
