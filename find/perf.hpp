// SPDX-License-Identifier: MIT
// perf_event_open as the sampler uses it: one ring of records, and the kinds of event that fill rings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <sys/types.h>
#include <utility>
#include <vector>

#include <linux/perf_event.h>

namespace lw::find {

// A file descriptor with an owner.
class Handle {
public:
    explicit Handle(int fd = -1) : fd_(fd) {}
    ~Handle();
    Handle(Handle &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Handle &operator=(Handle &&other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }

private:
    int fd_;
};

// The memory that the kernel writes an event's records to.
class Ring {
public:
    // Maps `pages` (a power of two) of records of `fd`; nothing on failure, errno says why.
    static std::optional<Ring> map(int fd, std::size_t pages);
    ~Ring();
    Ring(Ring &&other) noexcept
        : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_), copy_(std::move(other.copy_)) {}
    Ring &operator=(Ring &&other) noexcept {
        std::swap(base_, other.base_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }

    // Hands every record written so far to `take`, in the order of writing; a record is valid during the call only.
    void drain(const std::function<void(const perf_event_header &)> &take);

private:
    Ring(void *base, std::size_t bytes) : base_(base), bytes_(bytes) {}
    void *base_;
    std::size_t bytes_; // of records, without the control page before them
    std::vector<std::uint8_t> copy_;
};

// What the sampler is built for: its name in lines, and where two registers stand in a sample, by the kernel's numbers
// (asm/perf_regs.h).
#if defined(__x86_64__)
inline constexpr char arch_name[] = "x86_64";
inline constexpr unsigned stack_pointer = 7, instruction_pointer = 8;
#elif defined(__i386__)
inline constexpr char arch_name[] = "i386";
inline constexpr unsigned stack_pointer = 7, instruction_pointer = 8;
#elif defined(__aarch64__)
inline constexpr char arch_name[] = "arm64";
inline constexpr unsigned stack_pointer = 31, instruction_pointer = 32;
#else
#error "the sampler knows the registers of x86-64, i386 and arm64"
#endif
// Width of a register, and so of what the preloaded library sampled.
inline constexpr unsigned own_bits = 8 * sizeof(void *);
// Registers of user space that a sample carries.
extern const std::uint64_t register_mask;
// Bytes of the stack's top that a sample carries: the return address of a leaf without a frame is among them.
inline constexpr std::uint32_t stack_bytes = 64;

// One sample of either kind of event, as far as it was asked for.
struct Sample {
    std::uint64_t ip = 0;
    std::uint32_t pid = 0, tid = 0, cpu = 0;
    std::uint64_t time_ns = 0; // CLOCK_MONOTONIC
    bool kernel = false;
    std::vector<std::uint64_t> chain; // user addresses, innermost first
    std::uint32_t bits = 0;           // 32 or 64; 0 without registers (a kernel thread)
    std::vector<std::uint64_t> registers;
    std::vector<std::uint64_t> top; // words from the stack pointer on
};

// Reads a PERF_RECORD_SAMPLE of our sample type; false for one that is cut short.
bool parse(const perf_event_header &record, Sample &sample);

// What all kinds of event have in common: the sample type, the registers, the clock.
perf_event_attr common_attributes();
// A timer on the CPU clock of a task. `kernel`: samples inside the kernel too.
perf_event_attr timer_attributes(std::uint64_t period_ns, bool kernel, bool on_exec);
// Records of tasks that leave and take a CPU.
perf_event_attr switch_attributes();

int perf_open(const perf_event_attr &attributes, pid_t tid, int cpu, int group = -1);

} // namespace lw::find
