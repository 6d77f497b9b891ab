// SPDX-License-Identifier: MIT
// The file that a preloaded library writes samples to and the sampler reads them from: one ring for each process.
#pragma once

#include <atomic>
#include <cstdint>

namespace lw::find {

inline constexpr std::uint64_t ring_magic = 0x31676e6972646e66; // "fndring1"
inline constexpr unsigned ring_slots = 4096;
// A register, a word of the stack; samples hold them widened.
using Word = std::uintptr_t;

inline constexpr unsigned most_registers = 33, most_frames = 12, top_words = 8;

// One sample. `full` hands it over: the writer stores 1 with release, the reader sees it with acquire and stores 0.
struct Slot {
    std::atomic<std::uint32_t> full;
    std::uint32_t tid;
    std::uint32_t cpu;
    std::uint32_t frames, words;
    std::uint64_t time_ns; // CLOCK_MONOTONIC
    std::uint64_t registers[most_registers]; // in the order of perf's numbers, those of register_mask
    std::uint64_t chain[most_frames];
    std::uint64_t top[top_words];
};

struct SharedRing {
    std::atomic<std::uint64_t> magic; // set last: the file is ready
    std::uint64_t period_ns;
    std::atomic<std::uint64_t> head; // next slot to write
    std::atomic<std::uint64_t> tail; // next slot to read
    std::atomic<std::uint64_t> lost;
    std::atomic<std::uint64_t> handler_ns; // that the handlers took
    Slot slots[ring_slots];
};

} // namespace lw::find
