// Where each thread's thread pointer stands: with it, accesses through %fs have addresses and thread-local variables names.
#pragma once

#include "find/lines.hpp"

#include <cstdint>
#include <sys/types.h>
#include <unordered_set>

namespace lw::find {

class ThreadBlocks {
public:
    explicit ThreadBlocks(Output &output) : out_(output) {}

    // Writes a thread's pointer, once, if it can be found from its stack pointer on or in its process's small mappings. The kernel
    // tells no one of %fs, so the C library's block is looked for: it begins with its own address and holds the thread's number.
    // x86-64 with glibc or musl; on arm64 the register is read into a general one before every use, and nothing is looked for.
    void want(std::uint32_t pid, std::uint32_t tid, std::uint64_t stack_pointer);
    // A process has a new program.
    void forget(std::uint32_t pid);

private:
    Output &out_;
    std::unordered_set<std::uint64_t> done_; // process above 32 bits of thread
};

// The thread pointer, or 0 where no block of a known C library was found. Nothing is stopped for it.
std::uint64_t find_thread_block(pid_t pid, pid_t tid, std::uint64_t stack_pointer);

} // namespace lw::find
