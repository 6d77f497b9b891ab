// SPDX-License-Identifier: MIT
// The bytes of code that samples point into, read from the program itself: right also for code without a file.
#pragma once

#include "find/lines.hpp"

#include <cstdint>
#include <unordered_map>

namespace lw::find {

class Code {
public:
    explicit Code(Output &output) : out_(output) {}

    // Writes the page that holds `ip` and the one before it: when they are first met in a process, and again when they have
    // changed, since a JIT compiler fills its pages bit by bit. A process that has ended, or that may not be read, leaves
    // nothing, and the reader of the lines falls back on the file.
    void want(std::uint32_t pid, std::uint64_t ip, std::uint64_t now_ns);
    // A process has a new program: what was read of the old one no longer holds.
    void forget(std::uint32_t pid);

private:
    struct Page {
        std::size_t hash;         // of what was written
        std::uint64_t again_ns; // when it is looked at next
    };
    void page(std::uint32_t pid, std::uint64_t address, std::uint64_t now_ns);
    Output &out_;
    std::unordered_map<std::uint64_t, Page> pages_;
};

} // namespace lw::find
