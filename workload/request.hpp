// SPDX-License-Identifier: MIT
// The words of the command line that are more than a number, and whether the whole request can be met here.
#pragma once

#include "workload/workload.hpp"

#include <string>

namespace lw::workload {

// "250" iterations, "250ns", "3us"; Invalid names `where`.
Length parse_length(const std::string &text, const std::string &where);

// "90", "1.5s", "200ms", "2m" in seconds, within [low, high].
double parse_duration(const std::string &text, const std::string &where, double low, double high);

// "0,2-4" in the order given, each CPU once.
std::vector<unsigned> parse_cpus(const std::string &text, const std::string &where);

// What the text of the command line says, before the machine is looked at. `threads` 0: one for every CPU.
struct Request {
    std::string kind, critical = "0", parallel = "0", cpus{}, duration = "1s", wait = "auto", long_hold{};
    unsigned threads = 0;
    unsigned write_percent = 10, time_every = 16;
    bool competitors = false;
    std::uint64_t seed = 1;
};

constexpr unsigned most_threads = 1024;

// Options for this machine; `allowed` are the CPUs that the process may run on. Throws Invalid.
Options resolve(const Request &request, const std::vector<unsigned> &allowed);

} // namespace lw::workload
