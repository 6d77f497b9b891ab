// SPDX-License-Identifier: MIT
// What a sample and a watchpoint cost here, measured on the sampler itself before the program runs.
#pragma once

#include <cstdint>

namespace lw::find {

// Nanoseconds. `measured` is false for the values below, which are used where measuring is not possible: the upper ends of
// what one virtual machine showed (30 to 70 us for a hit), and a guess of the time to set a watchpoint.
struct Costs {
    std::uint64_t sample_ns = 4'000, hit_ns = 70'000, arm_ns = 50'000;
    bool sample_measured = false, watch_measured = false;
    std::uint64_t switch_ns = 1'000; // of events of tasks: setting a timer anew when a CPU changes tasks
    std::uint64_t recorded_switch_ns = 900; // of a change of tasks that is recorded: twice, some 450 ns each on an AMD EPYC
    // Of each change while the kernel looks for events there: 54 ns (36 to 100) on that machine.
    static constexpr std::uint64_t looked_ns = 50;
    std::uint64_t watch_switch_ns = 10'000; // of a watchpoint: setting it anew, 4 to 12 us in virtual machines
    std::uint64_t wait_ns = 100'000; // of each millisecond in which a watchpoint waits
};

// Takes about 100 ms. A sample: code of many branches with and without a timer of many samples, in turns, median of the
// differences. A hit: a store to a watched word of our own, which is disarmed by it. Setting: what a thread that runs on
// another CPU loses while watchpoints of its are opened, enabled and closed here, since each step interrupts it; with one
// CPU all that it takes. A change that is recorded: a byte that two threads of one CPU hand to each other, with records and
// without, where whole CPUs may be sampled. A watchpoint's switch: as of events of tasks below, with a timer's interrupt
// before each round trip. Waiting: what the kernel's copying loses meanwhile, for a program that copies for a tenth of its
// time.
Costs measure_costs();
// What events of tasks add to a change of tasks, from a byte that two threads of one CPU hand to each other with such events
// and without any; 0 where it does not show. Takes about 60 ms.
std::uint64_t measure_switch();

} // namespace lw::find
