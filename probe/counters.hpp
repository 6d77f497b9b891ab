// SPDX-License-Identifier: MIT
// Performance counters of the kernel's perf_event: opened per thread before a window, read around it, never inside.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct perf_event_attr;

namespace lw::probe {

// One event that can be asked for by name.
struct Counter_event {
    std::string name; // [a-z0-9_]+: part of the metrics' names
    std::uint32_t type = 0;
    std::uint64_t config = 0, config1 = 0, config2 = 0;
};

// The system calls, exchangeable so that tests can refuse them. `open` returns a descriptor or a negative errno.
struct Counter_calls {
    std::function<int(perf_event_attr &attr, int group)> open;
    static Counter_calls of_kernel();
};

// What was counted, by event; `enabled_ns` the time that the counters were asked for, `running_ns` the time they had.
struct Counted {
    std::map<std::string, double> value;
    double enabled_ns = 0, running_ns = 0;

    void add(const Counted &other);
    // Whether anything was counted at all: events that never got a hardware counter say nothing.
    bool any() const { return running_ns > 0 && !value.empty(); }
};

// Which events a run counts, and why others are absent.
struct Counter_choice {
    std::vector<Counter_event> events;
    std::string reason; // one sentence; empty when every event asked for can be counted
};

// Names that are understood without the CPU's own list: cycles, instructions and the kernel's software events.
std::optional<Counter_event> common_event(std::string_view name);

// The event PMU/NAME or NAME of any CPU's PMU below root/sys/bus/event_source/devices, resolved by the format files there.
std::optional<Counter_event> named_event(const std::string &root, const std::string &name);

// What the CPU names for snoops and failed exclusives below `root`, if it names any; nothing is guessed.
std::vector<std::string> coherence_events(const std::string &root);

// The events to count: those of `wanted`, or without any cycles, instructions and coherence_events; "none" alone: none.
// Each is opened once; those that the kernel refuses are left out and named in `reason`. Throws wire::Invalid for a name
// that neither the kernel nor the CPU has.
Counter_choice choose_counters(const std::vector<std::string> &wanted, const std::string &root, const Counter_calls &calls);

// Counters of the calling thread, as one group: all of them count the same time or none does.
class Counters {
public:
    Counters() = default;
    Counters(const std::vector<Counter_event> &events, const Counter_calls &calls);
    ~Counters();
    Counters(Counters &&other) noexcept;
    Counters &operator=(Counters &&other) noexcept;
    Counters(const Counters &) = delete;
    Counters &operator=(const Counters &) = delete;

    bool active() const { return !descriptors_.empty(); }
    // One system call: where the group stands.
    void start() { before_ = read(); }
    // One system call: what was counted since start().
    Counted stop() const;

private:
    struct Reading {
        bool valid = false;
        std::uint64_t enabled = 0, running = 0;
        std::vector<std::uint64_t> values;
    };
    Reading read() const;

    std::vector<int> descriptors_; // the group's leader first
    std::vector<std::string> names_;
    Reading before_;
};

} // namespace lw::probe
