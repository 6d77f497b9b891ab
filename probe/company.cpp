// SPDX-License-Identifier: MIT
// Finds out from /proc/stat how much other programs use the machine.
#include "probe/company.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <thread>
#include <unistd.h>
#include <utility>

namespace lw::probe {
namespace {

double seconds(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// Time that all CPUs together spent on programs and interrupts: every column but idle, iowait and, since other machines
// had it, steal (proc(5)).
std::optional<double> busy_seconds(const std::string &path) {
    std::ifstream file(path);
    std::string name;
    double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0;
    if (!(file >> name >> user >> nice >> system >> idle >> iowait >> irq >> softirq) || name != "cpu")
        return std::nullopt;
    return (user + nice + system + irq + softirq) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

} // namespace

Load_since::Load_since(std::string stat)
    : stat_(std::move(stat)), busy_s_(busy_seconds(stat_)), own_s_(seconds(CLOCK_PROCESS_CPUTIME_ID)),
      at_s_(seconds(CLOCK_MONOTONIC)) {}

std::optional<double> Load_since::others() const {
    constexpr std::chrono::duration<double> least{0.1};
    if (!busy_s_)
        return std::nullopt;
    std::this_thread::sleep_for(least - std::chrono::duration<double>(seconds(CLOCK_MONOTONIC) - at_s_));
    const std::optional<double> busy_s = busy_seconds(stat_);
    const double own_s = seconds(CLOCK_PROCESS_CPUTIME_ID) - own_s_, passed_s = seconds(CLOCK_MONOTONIC) - at_s_;
    if (!busy_s)
        return std::nullopt;
    return std::max(0.0, (*busy_s - *busy_s_ - own_s) / passed_s);
}

} // namespace lw::probe
