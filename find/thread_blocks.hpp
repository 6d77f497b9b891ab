// SPDX-License-Identifier: MIT
// Where each thread's thread-local variables lie: its thread pointer, and its copy of each module's block, program and
// libraries alike.
#pragma once

#include "find/lines.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <sys/types.h>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace lw::find {

enum class Arch { x86_64, arm64 };
#if defined(__x86_64__)
inline constexpr Arch own_arch = Arch::x86_64;
#else
inline constexpr Arch own_arch = Arch::arm64;
#endif

// A thread's pointer and its blocks, that of module 1 first; 0 where nothing was found, or where the thread has none yet.
struct ThreadStorage {
    std::uint64_t pointer = 0;
    std::vector<std::uint64_t> blocks;
    bool operator==(const ThreadStorage &) const = default;
};

// Completes what is known of a thread. glibc's thread is found by the list of robust mutexes that it registers with the
// kernel (`list`; the list is a part of the thread's own structure); nothing is stopped for it.
void look_at_thread(pid_t pid, pid_t tid, std::uint64_t list, Arch arch, ThreadStorage &known);

// The first words of the dynamic linker's entry of each loaded module; which of them is the module's number is for the
// reader of glibc's symbols to say.
using LinkMap = std::vector<std::uint64_t>;
std::vector<LinkMap> loaded_modules(pid_t pid, const std::string &program);

void describe_thread(Output &output, std::uint32_t pid, std::uint32_t tid, const ThreadStorage &storage);
// The program first, without words where no dynamic linker is at work.
void describe_modules(Output &output, std::uint32_t pid, const std::string &program);

class ThreadBlocks {
public:
    explicit ThreadBlocks(Output &output) : out_(output) {}

    // Called with each of a thread's samples. Looks at its first, second, fourth, eighth …: blocks of libraries come into
    // being when they are first used. Writes what has changed. A block that no list leads to is looked for from the stack
    // pointer on (musl, on x86-64).
    void want(std::uint32_t pid, std::uint32_t tid, std::uint64_t stack_pointer);
    // A process has a new program.
    void forget(std::uint32_t pid);

private:
    struct Known {
        std::uint64_t samples = 0;
        ThreadStorage storage;
    };
    Output &out_;
    std::unordered_map<std::uint64_t, Known> threads_; // process above 32 bits of thread
    std::unordered_map<std::uint32_t, std::size_t> modules_; // highest number of a module that was described
};

// The thread pointer by what a block looks like, or 0: it begins with its own address and holds the thread's number. x86-64
// only.
std::uint64_t search_thread_block(pid_t pid, pid_t tid, std::uint64_t stack_pointer);

} // namespace lw::find
