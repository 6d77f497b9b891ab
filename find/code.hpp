// The bytes of code that samples point into, read from the program itself: right also for code without a file.
#pragma once

#include "find/lines.hpp"

#include <cstdint>
#include <unordered_set>

namespace lw::find {

class Code {
public:
    explicit Code(Output &output) : out_(output) {}

    // Writes the page that holds `ip` and the one before it, once for each process. A process that has ended, or that
    // may not be read, leaves nothing, and the reader of the lines falls back on the file.
    void want(std::uint32_t pid, std::uint64_t ip);
    // A process has a new program: what was read of the old one no longer holds.
    void forget(std::uint32_t pid);

private:
    void page(std::uint32_t pid, std::uint64_t address);
    Output &out_;
    std::unordered_set<std::uint64_t> done_;
};

} // namespace lw::find
