// The table of living heap blocks that the preloaded malloc keeps in a file, for `linewright find` to look addresses up in.
//
// Layout, read by linewright/find/heap.py: a header of 64 bytes, then `block_slots` keys of 8 bytes, then as many blocks.
#pragma once

#include <atomic>
#include <cstdint>

namespace lw::find {

inline constexpr std::uint64_t blocks_magic = 0x31736b636f6c6266; // "fblocks1"
inline constexpr std::uint64_t block_slots = 1 << 20;
inline constexpr unsigned group = 8; // keys of one cache line: all places that a block can be in

struct Block {
    std::uint64_t size;
    std::uint64_t caller; // return address of the call that allocated it
    std::uint64_t serial; // how many blocks the process had allocated before
};

struct Blocks {
    std::atomic<std::uint64_t> magic; // set last
    std::uint64_t slots;
    std::atomic<std::uint64_t> dropped; // blocks that found no place
    std::uint64_t unused[5];
    // Process in the upper 21 bits, address / 16 in the lower 43; 0 free, 1 being written.
    std::atomic<std::uint64_t> keys[block_slots];
    Block blocks[block_slots];
};

inline std::uint64_t key_of(std::uint64_t process, std::uint64_t address) {
    return process << 43 | (address >> 4 & ((1ull << 43) - 1));
}

// First key of the group that a block belongs in.
inline std::uint64_t group_of(std::uint64_t key) {
    return (key * 0x9E3779B97F4A7C15ull >> 44) & (block_slots - 1) & ~static_cast<std::uint64_t>(group - 1);
}

} // namespace lw::find
