// SPDX-License-Identifier: MIT
// The fall-back's samples: rings that the preloaded library fills from a signal handler in every thread.
#pragma once

#include "find/code.hpp"
#include "find/lines.hpp"
#include "find/preload/ring.hpp"
#include "find/thread_blocks.hpp"
#include "find/timers.hpp"

#include <map>
#include <string>

namespace lw::find {

class Signals {
public:
    // `folder` is where processes make their rings, each named by its process number.
    Signals(Output &output, std::string folder) : out_(output), code_(output), blocks_(output), folder_(std::move(folder)) {}
    ~Signals();
    Signals(const Signals &) = delete;
    Signals &operator=(const Signals &) = delete;

    void drain();
    const Totals &totals() const { return totals_; }
    // Time that the program's threads have spent in the handler so far; the kernel's part of a signal is not in it.
    std::uint64_t handler_ns() const;

private:
    struct Process {
        SharedRing *ring;
        std::uint64_t described_ns;
        std::size_t mappings;
    };
    void look_for_rings();
    void describe(std::uint32_t pid, Process &process);
    void take(std::uint32_t pid, const Slot &slot);

    Output &out_;
    Code code_;
    ThreadBlocks blocks_;
    std::string folder_;
    std::map<std::uint32_t, Process> processes_;
    Totals totals_;
};

} // namespace lw::find
