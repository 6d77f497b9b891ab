// Who else uses the machine while the probe measures: other probes, other programs' load.
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

// Claims the machine for one run until this process ends, and says whether another probe had it already. The claim is a name
// that the kernel gives back with the process; it reaches as far as the network namespace, so not into other containers.
bool claim_machine();

// The same question without a claim.
bool other_probe_runs();

} // namespace lw::probe
