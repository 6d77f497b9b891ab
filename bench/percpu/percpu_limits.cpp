// SPDX-License-Identifier: MIT
// What limits a sequence add on x86-64: one step left out or exchanged at a time, every loop at 16 places in the code.
//
// Where a loop lies against the 64-byte lines of code decides how it is fetched, which is worth more than most steps; so no
// single placement is believed. Each loop is compiled at 16 offsets, 4 bytes apart, and the table gives the best, the
// median and the worst of the 16 medians. docs/library/percpu.md reads the table.
// The variants are for timing only: without its descriptor a sequence is a racy add.
#include <cstdio>

#if !defined(__x86_64__)
int main() {
    std::printf("percpu_limits: written for x86-64 only\n");
    return 0;
}
#else
#include "patterns_x86_64.hpp"
#include "timing.hpp"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace {

using percpu_bench::line, percpu_bench::words;
constexpr std::size_t ops = 8'000, placements = 16;
const int rounds = lw_bench_times(31, 2);

#define TABLE                                                                                             \
    ".pushsection __rseq_cs, \"aw?\", @progbits\n\t.balign 32\n"                                          \
    "30:\t.long 0, 0\n\t.quad 31f, 32f - 31f, 34f\n\t.popsection\n\t"                                     \
    ".pushsection .text.limits_abort, \"ax?\", @progbits\n\t.byte 0x0f, 0xb9, 0x3d\n\t.long 0x53053053\n" \
    "34:\tjmp %l[no]\n\t.popsection\n\t"
#define EAGER "leaq 30b(%%rip), %%rax\n\tmovq %%rax, %%fs:8(%[off])\n31:\t"
#define SILENT "31:\t"
#define CPU "movl %%fs:2(%[off]), %%eax\n\tcmpl %[limit], %%eax\n\tjae %l[no]\n\t"
#define SHIFTED_CPU "movl %%fs:4(%[off]), %%eax\n\tshll $16, %%eax\n\tcmpl %[limit], %%eax\n\tjae %l[no]\n\t"
#define UNCHECKED_CPU "movl %%fs:2(%[off]), %%eax\n\t"
#define ONE_REGISTER "addq %[q], %%rax\n\taddq $1, (%%rax)\n32:"
#define BASE_AND_INDEX "addq $1, (%[q],%%rax)\n32:"
#define THREE_STEPS "addq %[q], %%rax\n\tmovq (%%rax), %%rcx\n\taddq $1, %%rcx\n\tmovq %%rcx, (%%rax)\n32:"

std::uint64_t aborted;

#define VARIANT(name, text)                                               \
    struct name {                                                         \
        [[gnu::always_inline]] static void add(char *q) {                 \
            const lw__rt_view rt = LW__RT(limit);                         \
            const std::ptrdiff_t off = rt.offset;                         \
            const unsigned limit = rt.limit;                              \
            __asm__ goto(TABLE text                                       \
                         :                                                \
                         : [off] "r"(off), [limit] "r"(limit), [q] "r"(q) \
                         : "rax", "rcx", "memory", "cc"                   \
                         : no);                                           \
            return;                                                       \
        no:                                                               \
            aborted++;                                                    \
        }                                                                 \
    };
VARIANT(Shifted, EAGER SHIFTED_CPU ONE_REGISTER)
VARIANT(Base_and_index, EAGER CPU BASE_AND_INDEX)
VARIANT(Three_steps, EAGER CPU THREE_STEPS)
VARIANT(No_check, EAGER UNCHECKED_CPU ONE_REGISTER)
VARIANT(No_descriptor, SILENT CPU ONE_REGISTER)
VARIANT(No_descriptor_no_check, SILENT UNCHECKED_CPU ONE_REGISTER)

struct Globals_each_time {
    [[gnu::always_inline]] static void add(char *q) {
        const auto *rt = const_cast<const volatile struct lw_percpu_rt *>(&::lw_percpu_rt);
        const std::ptrdiff_t off = rt->offset;
        const unsigned limit = rt->limit;
        __asm__ goto(TABLE EAGER CPU ONE_REGISTER
                     :
                     : [off] "r"(off), [limit] "r"(limit), [q] "r"(q)
                     : "rax", "memory", "cc"
                     : no);
        return;
    no:
        aborted++;
    }
};

inline std::uint64_t *handle_of(char *q) { return reinterpret_cast<std::uint64_t *>(q - LW_PERCPU_STRIDE); }

struct Library {
    [[gnu::always_inline]] static void add(char *q) { lw_this_cpu_add_u64(handle_of(q), 1); }
};

struct Load_add_store {
    [[gnu::always_inline]] static void add(char *q) { baseline::load_add_store(q, 1); }
};

struct Compare_and_store {
    [[gnu::always_inline]] static void add(char *q) { baseline::compare_and_store(q, 1); }
};

struct Two_stores { // the two stores that a published sequence cannot avoid: to the thread's area and to the word
    [[gnu::always_inline]] static void add(char *q) {
        static thread_local std::uint64_t published;
        __asm__ volatile("movq %1, %0\n\taddq $1, (%1)" : "=m"(published) : "r"(q) : "memory", "cc");
    }
};

struct Bare_add {
    [[gnu::always_inline]] static void add(char *q) { __asm__ volatile("addq $1, (%0)" : : "r"(q) : "memory", "cc"); }
};

struct Lock_add {
    [[gnu::always_inline]] static void add(char *q) { __asm__ volatile("lock addq $1, (%0)" : : "r"(q) : "memory", "cc"); }
};

// ---- the loops: at `offset` bytes behind the begin of a line of code, or as much further as the compiler's set-up takes
// ----

using Loop = void (*)(char *);

template <std::size_t offset> [[gnu::always_inline]] inline void place() {
    __asm__ volatile(".balign 64\n\t.skip %c0, 0x90" : : "i"(offset));
}

template <class V, std::size_t offset> [[gnu::noinline]] void same(char *q) {
    place<offset>();
    for (std::size_t n = ops; n; --n)
        V::add(q);
}

template <class V, std::size_t offset> [[gnu::noinline]] void rotating(char *q) {
    place<offset>();
    for (std::size_t n = ops; n; --n)
        V::add(q + n % words * line);
}

// Two places in the code, each with its own descriptor and word, in turn.
template <class V, std::size_t offset> [[gnu::noinline]] void in_turn(char *q) {
    char *other = q + line;
    place<offset>();
    for (std::size_t n = ops; n; n -= 2) {
        V::add(q);
        V::add(other);
    }
}

constexpr std::array kinds{"same word", "rotating over 64 words", "two places in turn"};

struct Row {
    const char *name;
    std::array<std::array<Loop, placements>, kinds.size()> loops;
    std::array<std::array<std::vector<double>, placements>, kinds.size()> ns;

    double of(std::size_t kind, double q) const {
        std::vector<double> medians;
        for (const auto &each : ns[kind])
            medians.push_back(percpu_bench::quantile(each, 0.5));
        return percpu_bench::quantile(medians, q);
    }
};

template <class V, std::size_t... i> Row row(const char *name, std::index_sequence<i...>) {
    return {name, {{{same<V, i * 4>...}, {rotating<V, i * 4>...}, {in_turn<V, i * 4>...}}}, {}};
}

template <class V> Row row(const char *name) { return row<V>(name, std::make_index_sequence<placements>{}); }

} // namespace

int main() {
    auto *handle = static_cast<char *>(lw_percpu_alloc(words * line, line));
    if (!handle || !lw_percpu_thread_registered()) {
        std::fprintf(stderr, "percpu_limits: no memory, or no restartable sequences here\n");
        return 0;
    }
    std::vector<Row> rows{row<Library>("lw_this_cpu_add"),
                          row<Load_add_store>("pattern: load, add, store"),
                          row<Compare_and_store>("pattern: load, compare-and-store"),
                          row<Shifted>("CPU number shifted after the load"),
                          row<Globals_each_time>("area offset and limit loaded each time"),
                          row<No_check>("CPU number not checked"),
                          row<Base_and_index>("commit through base + index"),
                          row<Three_steps>("commit as load, add, store"),
                          row<No_descriptor>("no descriptor (racy)"),
                          row<No_descriptor_no_check>("... and CPU number not checked"),
                          row<Two_stores>("two stores, no sequence"),
                          row<Bare_add>("one add to memory"),
                          row<Lock_add>("lock add")};
    for (int round = -1; round < rounds; round++) // the first only warms up
        for (Row &r : rows)
            for (std::size_t kind = 0; kind < kinds.size(); kind++)
                for (std::size_t p = 0; p < placements; p++) {
                    const double start = percpu_bench::now_ns();
                    r.loops[kind][p](LW__CPU0(handle));
                    if (round >= 0)
                        r.ns[kind][p].push_back((percpu_bench::now_ns() - start) / ops);
                }
    std::printf(
        "what limits a sequence add; ns per add, medians of %d rounds of %zu: best, median and worst of %zu placements "
        "of the loop\n\n%-42s",
        rounds, ops, placements, "");
    for (const char *kind : kinds)
        std::printf(" %23s", kind);
    std::printf("\n");
    for (const Row &r : rows) {
        std::printf("%-42s", r.name);
        for (std::size_t kind = 0; kind < kinds.size(); kind++)
            std::printf("   %6.3f %6.3f %6.3f", r.of(kind, 0), r.of(kind, 0.5), r.of(kind, 1));
        std::printf("\n");
    }
    auto best = [&](std::string_view name) {
        return std::ranges::find_if(rows, [&](const Row &r) { return r.name == name; })->of(0, 0);
    };
    std::printf("\nlock add, in multiples (best placement, same word): of lw_this_cpu_add %.1f, of two stores "
                "%.1f, of one add to memory %.1f\n",
                best("lock add") / best("lw_this_cpu_add"), best("lock add") / best("two stores, no sequence"),
                best("lock add") / best("one add to memory"));
    std::printf("aborted attempts: %llu\n", static_cast<unsigned long long>(aborted));
    lw_percpu_free(handle);
    return 0;
}
#endif
