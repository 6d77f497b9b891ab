// SPDX-License-Identifier: MIT
// Other programs' load while the probe measures.
#pragma once

#include <optional>
#include <string>

namespace lw::probe {

// Processor time of the whole machine and of this process, at one moment.
class Load_since {
public:
    // `stat` is /proc/stat, or a file like it.
    explicit Load_since(std::string stat = "/proc/stat");

    // CPUs that other programs kept busy since construction; nothing where /proc/stat does not say. Waits until 100 ms have
    // passed: the kernel counts in steps of 10 ms.
    std::optional<double> others() const;

private:
    std::string stat_;
    std::optional<double> busy_s_;
    double own_s_, at_s_;
};

} // namespace lw::probe
