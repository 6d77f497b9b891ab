// SPDX-License-Identifier: MIT
// Whether a thread lost its CPU between two places: in every switch the kernel clears a thread's pointer to a restartable sequence in which the thread is not.
// It does so for work of its own, too: Linux 6.18 some ten times a second in a process. So a cleared pointer counts only if the thread was switched out
// since the last one; where it is switched out outside, too, at most these ten a second are too many.
#pragma once

#include "workload/workload.hpp"

#include <linewright/percpu.h>

#include <cstdint>
#include <optional>

namespace lw::workload {

class Preemption {
public:
    // To be called by the thread itself, which has no other sequences.
    void start() {
        if (!LW_HAVE_RSEQ || !lw_percpu_thread_registered())
            return;
        nowhere_.start = reinterpret_cast<std::uintptr_t>(&nowhere_);
        nowhere_.abort = reinterpret_cast<std::uintptr_t>(&nowhere_.behind);
        pointer_ =
            static_cast<volatile std::uint64_t *>(static_cast<void *>(lw__thread_pointer() + lw_percpu_rt.offset + 8));
        switched_out();
    }

    void from_here() {
        if (pointer_)
            *pointer_ = reinterpret_cast<std::uintptr_t>(&nowhere_);
    }

    void to_here() {
        if (!pointer_)
            return;
        if (*pointer_ == 0)
            times_ += switched_out();
        *pointer_ = 0;
    }

    // How often it lost it; nothing where the kernel has no restartable sequences.
    std::optional<std::uint64_t> times() const { return pointer_ ? std::optional(times_) : std::nullopt; }

private:
    // As in the kernel's struct rseq_cs: a sequence of one byte of data, which no thread executes. The signature stands in front of the place where
    // an interrupted sequence would go on.
    struct alignas(32) Sequence {
        std::uint32_t version = 0, flags = 0;
        std::uint64_t start = 0, length = 1, abort = 0;
        std::uint32_t signature = LW_RSEQ_SIG, behind = 0;
    };

    // Since the last call.
    bool switched_out() {
        const Switches now = thread_switches();
        const std::uint64_t before = switches_;
        switches_ = now.voluntary + now.involuntary;
        return switches_ != before;
    }

    Sequence nowhere_;
    volatile std::uint64_t *pointer_ = nullptr;
    std::uint64_t times_ = 0;
    std::uint64_t switches_ = 0;
};

} // namespace lw::workload
