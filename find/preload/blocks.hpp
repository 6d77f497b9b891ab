// SPDX-License-Identifier: MIT
// The table of heap blocks that the preloaded malloc keeps in a file, for `linewright find` to look addresses up in: the
// living ones and, where there is room, those that were freed, since a sample may be older than the free and the next block
// at its address.
//
// Layout, read by linewright/find/addresses.py: a header of 64 bytes, then `block_slots` keys of 8 bytes, as many times of death,
// blocks.
#pragma once

#include <atomic>
#include <cstdint>

namespace lw::find {

inline constexpr std::uint64_t blocks_magic = 0x33736b636f6c6266; // "fblocks3"
inline constexpr std::uint64_t block_slots = 1 << 20;
inline constexpr unsigned group = 8; // keys of one cache line: all places that a block can be in

inline constexpr unsigned most_callers = 4;

struct Block {
    std::uint64_t process, start, size;
    std::uint64_t
        callers[most_callers]; // return address of the call that allocated it, then words above it on the stack that
    // point into the program's code: its callers, and stale words among them; 0: no more
    std::uint64_t born_ns; // CLOCK_MONOTONIC_COARSE
};

struct Blocks {
    std::atomic<std::uint64_t> magic; // set last
    std::uint64_t slots;
    std::atomic<std::uint64_t> dropped; // blocks that found no place
    std::uint64_t unused[5];
    // What key_of gives; 0 free, 1 being written.
    std::atomic<std::uint64_t> keys[block_slots];
    std::atomic<std::uint64_t> died_ns[block_slots]; // 0: alive
    Block blocks[block_slots];
};

// A number of a living block alone: arm64 has 48 bits of address, and of processes that run at once no two are 2^20 apart
// and have a block at one address. The block itself has both numbers in full.
inline std::uint64_t key_of(std::uint64_t process, std::uint64_t address) { return process << 44 ^ address >> 4; }

// First key of the group that a block belongs in.
inline std::uint64_t group_of(std::uint64_t key) {
    return (key * 0x9E3779B97F4A7C15ull >> 44) & (block_slots - 1) & ~static_cast<std::uint64_t>(group - 1);
}

} // namespace lw::find
