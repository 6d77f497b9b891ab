// SPDX-License-Identifier: MIT
// What /proc says of the processes to be sampled: threads, descendants, mappings.
#pragma once

#include "find/lines.hpp"

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace lw::find {

// An address of another process, for calls that take a pointer.
inline void *pointer_to(std::uint64_t address) { return reinterpret_cast<void *>(static_cast<std::uintptr_t>(address)); }

bool exists(pid_t pid);
// The user that owns the process; -1 where it is gone.
long owner(pid_t pid);
std::vector<pid_t> threads_of(pid_t pid);
// The process and all its living descendants, the process first.
std::vector<pid_t> family_of(pid_t pid);
// CPU time of a thread in clock ticks, 0 where it is gone.
unsigned long long cpu_time(pid_t tid);
// Whether a thread runs or waits for a CPU: it does not sleep.
bool wants_cpu(pid_t tid);
// How long a thread has run, to the last tick or change of tasks; 0 where the kernel does not say.
std::uint64_t ran_ns(pid_t tid);
// How often it was given a CPU; 0 where the kernel does not say.
std::uint64_t slices_of(pid_t tid);
// How often CPUs have left the threads of these processes for other tasks.
std::uint64_t switches_of(const std::vector<pid_t> &family);
std::uint64_t switches_of(pid_t tid); // of one thread
pid_t parent_of(pid_t pid);
std::string name_of(pid_t tid);
// The file that a process runs, as its mappings name it; empty where that is not to be seen.
std::string program_of(pid_t pid);
struct Mapping {
    std::uint64_t start, end, offset, device, inode; // device: major number above 32 bits of minor number
    bool executable, writable, shared;
    std::string path;
};
// What the process has mapped now, in order of addresses.
std::vector<Mapping> mappings_of(pid_t pid);
// Writes a `map` line for each mapping that the process has now.
void describe_mappings(Output &output, pid_t pid, std::uint64_t time_ns);
// Writes a `task` line for a process and each of its threads.
void describe_tasks(Output &output, pid_t pid, const std::vector<pid_t> &threads, std::uint64_t time_ns);

} // namespace lw::find
