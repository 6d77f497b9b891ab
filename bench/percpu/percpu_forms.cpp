// SPDX-License-Identifier: MIT
// What each documented form of a counter costs, by gcc and by clang, against the sequence alone with everything in
// registers.
#include "form_loops.hpp"
#include "timing.hpp"

#include <cpuid.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

namespace {

using percpu_bench::Form, percpu_bench::form_placements, percpu_bench::Forms;
constexpr std::size_t ops = 20'000;
const int rounds = lw_bench_times(60, 2);

std::uint64_t *bare_handle;

// One loop of assembly: no compiler has a say in it. An attempt that was aborted is made again.
template <std::size_t offset> [[gnu::noinline]] void bare(std::size_t n) {
    const lw__rt_view rt = LW__RT(limit);
    __asm__ volatile(".pushsection __rseq_cs, \"aw?\", @progbits\n\t.balign 32\n"
                     "30:\t.long 0, 0\n\t.quad 31f, 32f - 31f, 34f\n\t.popsection\n\t"
                     ".balign 64\n\t.skip %c[skip], 0x90\n"
                     "1:\tleaq 30b(%%rip), %%rax\n\tmovq %%rax, %%fs:8(%[off])\n"
                     "31:\tmovl %%fs:2(%[off]), %%eax\n\tcmpl %[limit], %%eax\n\tjae 1b\n\t"
                     "addq %[q], %%rax\n\taddq $1, (%%rax)\n"
                     "32:\tsubq $1, %[n]\n\tjnz 1b\n\t"
                     ".pushsection .text.forms_abort, \"ax?\", @progbits\n\t.byte 0x0f, 0xb9, 0x3d\n\t.long 0x53053053\n"
                     "34:\tjmp 1b\n\t.popsection"
                     : [n] "+r"(n)
                     : [off] "r"(rt.offset), [limit] "r"(rt.limit), [q] "r"(LW__CPU0(bare_handle)), [skip] "i"(offset)
                     : "rax", "memory", "cc");
}

template <std::size_t... i> Form bare_form(std::index_sequence<i...>) {
    return {"the sequence alone, in registers", {bare<i * 8>...}};
}

std::string cpu_kind() {
    std::array<unsigned, 12> text{};
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &text[4 * i], &text[4 * i + 1], &text[4 * i + 2], &text[4 * i + 3]))
            return "not told by the processor";
    unsigned signature = 0, b = 0, c = 0, d = 0;
    __get_cpuid(1, &signature, &b, &c, &d);
    unsigned family = signature >> 8 & 15, model = signature >> 4 & 15;
    model += family == 6 || family == 15 ? (signature >> 16 & 15) << 4 : 0;
    family += family == 15 ? signature >> 20 & 255 : 0;
    const std::string name(reinterpret_cast<const char *>(text.data()), sizeof text);
    return std::string(name.c_str()) + ", family " + std::to_string(family) + ", model " + std::to_string(model);
}

// The fastest of all rounds: of the best and of the worst placement.
struct Cost {
    double best = 1e9, worst = 0;
};

Cost cost(const Form &form) {
    Cost all;
    for (auto *loop : form.loops) {
        double fastest = 1e9;
        for (int round = 0; round < rounds; round++) {
            const double start = percpu_bench::now_ns();
            loop(ops);
            fastest = std::min(fastest, (percpu_bench::now_ns() - start) / ops);
        }
        all = {std::min(all.best, fastest), std::max(all.worst, fastest)};
    }
    return all;
}

void table(const char *compiler, const Form *rows, std::size_t count, double sequence) {
    std::printf("\n%s\n", compiler);
    for (std::size_t i = 0; i < count; i++) {
        const Cost c = cost(rows[i]);
        std::printf("  %-34s %6.3f %6.3f %8.2f\n", rows[i].shape, c.best, c.worst, sequence > 0 ? c.best / sequence : 1.0);
    }
}

} // namespace

int main() {
    bare_handle = static_cast<std::uint64_t *>(lw_percpu_alloc(8, 8));
    if (!bare_handle || !lw_percpu_thread_registered()) {
        std::fprintf(stderr, "percpu_forms: no memory, or no restartable sequences here\n");
        return 0;
    }
    const Form sequence = bare_form(std::make_index_sequence<form_placements>{});
    const double best = cost(sequence).best;
    std::printf(
        "forms of a counter; processor: %s\nns per turn of the loop, fastest of %d rounds of %zu: at the best and at the "
        "worst of %zu placements; x: of the sequence alone\n\n  %-34s %6s %6s %8s\n",
        cpu_kind().c_str(), rounds, ops, form_placements, "where the handle is", "best", "worst", "x");
    table("assembly", &sequence, 1, best);
    long long turns = 0, counted = 0;
    for (const Forms &forms : {
             forms_of_this_compiler(),
#ifdef LW_FORMS_BY_CLANG
             forms_of_clang(),
#endif
         }) {
        table(forms.compiler, forms.rows, forms.count, best);
        turns += static_cast<long long>((forms.count ? forms.count + 1 : 0) * form_placements * rounds *
                                        ops); // one row counts twice
        counted += forms.counted ? forms.counted() : 0;
    }
    if (counted != turns) {
        std::fprintf(stderr, "percpu_forms: counts were lost: %lld of %lld\n", counted, turns);
        return 1;
    }
    return 0;
}
