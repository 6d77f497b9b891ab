// SPDX-License-Identifier: MIT
// The two published ways to add to a per-CPU counter in a restartable sequence, written here as a baseline for x86-64.
// Both get the CPU number outside the sequence and check it inside, take the counter through base + index, and retry
// without an end; ours does neither.
#pragma once

#include <linewright/percpu.h>

#include <cstdint>

namespace baseline {

#define BASELINE_TABLE                                                \
    ".pushsection __rseq_cs, \"aw?\", @progbits\n\t.balign 32\n"      \
    "30:\t.long 0, 0\n\t.quad 31f, 32f - 31f, 34f\n\t.popsection\n\t" \
    "leaq 30b(%%rip), %%rax\n\tmovq %%rax, %%fs:8(%[off])\n"          \
    "31:\tcmpl %[cpu], %%fs:4(%[off])\n\tjnz %l[again]\n\t"
#define BASELINE_END                                                                                               \
    "32:\n\t.pushsection .text.baseline_abort, \"ax?\", @progbits\n\t.byte 0x0f, 0xb9, 0x3d\n\t.long 0x53053053\n" \
    "34:\tjmp %l[again]\n\t.popsection\n"

inline std::uint32_t cpu_start(std::ptrdiff_t off) {
    std::uint32_t cpu;
    __asm__ volatile("movl %%fs:(%1), %0" : "=r"(cpu) : "r"(off));
    return cpu;
}

// Load, add, store: three steps inside the sequence.
[[gnu::always_inline]] inline void load_add_store(char *base, std::uint64_t v) {
again:
    const std::ptrdiff_t off = LW__RT(limit).offset;
    const std::uint32_t cpu = cpu_start(off);
    const std::size_t index = std::size_t{cpu} << LW_PERCPU_SHIFT;
    __asm__ goto(BASELINE_TABLE
                 "movq (%[base],%[index]), %%rcx\n\taddq %[v], %%rcx\n\tmovq %%rcx, (%[base],%[index])\n" BASELINE_END
                 :
                 : [off] "r"(off), [cpu] "r"(cpu), [base] "r"(base), [index] "r"(index), [v] "er"(v)
                 : "rax", "rcx", "memory", "cc"
                 : again);
}

// Load and compute outside, compare and store inside, through one register.
[[gnu::always_inline]] inline void compare_and_store(char *base, std::uint64_t v) {
again:
    const std::ptrdiff_t off = LW__RT(limit).offset;
    const std::uint32_t cpu = cpu_start(off);
    auto *word = reinterpret_cast<volatile std::uint64_t *>(base + (std::size_t{cpu} << LW_PERCPU_SHIFT));
    const std::uint64_t old = *word;
    __asm__ goto(BASELINE_TABLE "cmpq %[old], (%[word])\n\tjnz %l[again]\n\tmovq %[sum], (%[word])\n" BASELINE_END
                 :
                 : [off] "r"(off), [cpu] "r"(cpu), [word] "r"(word), [old] "r"(old), [sum] "r"(old + v)
                 : "rax", "memory", "cc"
                 : again);
}

} // namespace baseline
