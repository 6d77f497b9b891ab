// SPDX-License-Identifier: MIT
// CPUs and how near they are to each other, read from sysfs.
#pragma once

#include "wire/schema.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lw::probe {

// Where one CPU stands seen from another.
enum class Distance : unsigned char { same_cpu, smt_sibling, same_l3, other_l3, other_socket };

std::string_view distance_name(Distance distance);

struct Topology {
    std::vector<wire::Cpu> cpus; // online CPUs, by number; numbers need not be dense

    const wire::Cpu *find(unsigned cpu) const;
    Distance distance(unsigned from, unsigned to) const;
    bool has_smt() const;
};

// "0-3,8,10-11" as sysfs writes lists of CPUs; empty text is the empty list; nothing for anything else.
std::optional<std::vector<unsigned>> parse_cpu_list(std::string_view text);

// Reads the topology below `root` (normally "/"); `allowed` marks the CPUs that the process may run on.
Topology read_topology(const std::string &root, const std::vector<unsigned> &allowed);

// The CPUs that this process may run on, whatever their numbers.
std::vector<unsigned> allowed_cpus();

// A CPU for every thread, timed thread first; or why there is none.
struct Placed {
    std::vector<unsigned> cpus;
    std::string unavailable;
};

// `usable` are the CPUs to choose from, the timed thread's first. Explicit "cpus:…" placements are taken as they are.
// Throws wire::Invalid for a request that is wrong on this machine: a CPU that is absent, offline or not allowed, one
// named twice, fewer named than threads.
Placed place(const Topology &topology, const std::vector<unsigned> &usable, const wire::Cell &cell);

// The plan's CPUs checked (the same errors), or every allowed one where it names none.
std::vector<unsigned> usable_cpus(const Topology &topology, const std::vector<unsigned> &wanted);

} // namespace lw::probe
