// What limits a sequence add on x86-64, by leaving out or exchanging one step at a time; docs/percpu.md reads the table.
//
// The variants are for timing only: without its descriptor a sequence is a racy add.
#include <linewright/percpu.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <vector>

#if !defined(__x86_64__)
int main()
{
    std::printf("percpu_limits: written for x86-64 only\n");
    return 0;
}
#else
namespace {

constexpr std::size_t ops = 200'000, words = 64, line = 128;
constexpr int rounds = 51;

#define TABLE \
    ".pushsection __rseq_cs, \"aw?\", @progbits\n\t.balign 32\n" \
    "30:\t.long 0, 0\n\t.quad 31f, 32f - 31f, 34f\n\t.popsection\n\t" \
    ".pushsection .text.limits_abort, \"ax?\", @progbits\n\t.byte 0x0f, 0xb9, 0x3d\n\t.long 0x53053053\n" \
    "34:\tjmp %l[no]\n\t.popsection\n\t"
#define EAGER "leaq 30b(%%rip), %%rax\n\tmovq %%rax, %%fs:8(%[off])\n31:\t"
// Compare, and store only where the kernel has cleared it; the store is out of the way.
#define LAZY \
    "leaq 30b(%%rip), %%rax\n\tcmpq %%rax, %%fs:8(%[off])\n\tjne 35f\n31:\t" \
    ".pushsection .text.limits_abort, \"ax?\", @progbits\n35:\tmovq %%rax, %%fs:8(%[off])\n\tjmp 31b\n\t.popsection\n\t"
#define SILENT "31:\t"
#define CPU "movl %%fs:4(%[off]), %%eax\n\tcmpl %[nr], %%eax\n\tjae %l[no]\n\tshlq $16, %%rax\n\t"
#define UNCHECKED "movl %%fs:4(%[off]), %%eax\n\tshlq $16, %%rax\n\t"
#define ONE_REGISTER "addq %[q], %%rax\n\taddq $1, (%%rax)\n32:"
#define BASE_AND_INDEX "addq $1, (%[q],%%rax)\n32:"
#define THREE_STEPS "addq %[q], %%rax\n\tmovq (%%rax), %%rcx\n\taddq $1, %%rcx\n\tmovq %%rcx, (%%rax)\n32:"

std::uint64_t aborted;

#define VARIANT(name, text) \
    struct name { \
        static void add(char *q) \
        { \
            const std::ptrdiff_t off = lw__rt_offset(&lw_percpu_rt, q); \
            const unsigned nr = lw__rt_limit(&lw_percpu_rt, q) >> 16; \
            __asm__ goto(TABLE text : : [off] "r"(off), [nr] "r"(nr), [q] "r"(q) : "rax", "rcx", "memory", "cc" : no); \
            return; \
        no: \
            aborted++; \
        } \
    };
VARIANT(Ours, EAGER CPU ONE_REGISTER)
VARIANT(Lazy, LAZY CPU ONE_REGISTER)
VARIANT(Lazy_unchecked, LAZY UNCHECKED ONE_REGISTER)
VARIANT(Base_and_index, EAGER CPU BASE_AND_INDEX)
VARIANT(Three_steps, EAGER CPU THREE_STEPS)
VARIANT(No_check, EAGER UNCHECKED ONE_REGISTER)
VARIANT(No_descriptor, SILENT CPU ONE_REGISTER)

struct Globals_each_time {
    static void add(char *q)
    {
        const auto *rt = const_cast<const volatile struct lw_percpu_rt *>(&::lw_percpu_rt);
        const std::ptrdiff_t off = rt->offset;
        const unsigned nr = rt->nr_cpus;
        __asm__ goto(TABLE EAGER CPU ONE_REGISTER : : [off] "r"(off), [nr] "r"(nr), [q] "r"(q) : "rax", "memory", "cc" : no);
        return;
    no:
        aborted++;
    }
};

struct Library {
    static void add(char *q) { lw_this_cpu_add_u64(reinterpret_cast<std::uint64_t *>(q - LW_PERCPU_STRIDE), 1); }
};

struct Two_stores { // nothing but the two stores that a sequence cannot do without
    static void add(char *q)
    {
        static thread_local std::uint64_t announced;
        __asm__ volatile("movq %1, %0\n\taddq $1, (%2)" : "=m"(announced) : "r"(q), "r"(q) : "memory", "cc");
    }
};

struct Bare_add {
    static void add(char *q) { __asm__ volatile("addq $1, (%0)" : : "r"(q) : "memory", "cc"); }
};

struct Lock_add {
    static void add(char *q) { __asm__ volatile("lock addq $1, (%0)" : : "r"(q) : "memory", "cc"); }
};

template <class V> [[gnu::noinline]] void same(char *q)
{
    for (std::size_t n = ops; n; --n)
        V::add(q);
}

template <class V> [[gnu::noinline]] void rotating(char *q)
{
    for (std::size_t n = ops; n; --n)
        V::add(q + n % words * line);
}

double now_ns()
{
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

struct Row {
    const char *name;
    void (*loops[2])(char *);
    std::vector<double> ns[2];
};

template <class V> Row row(const char *name) { return {name, {same<V>, rotating<V>}, {}}; }

} // namespace

int main()
{
    auto *handle = static_cast<char *>(lw_percpu_alloc(words * line, line));
    if (!handle || !lw_percpu_thread_registered()) {
        std::fprintf(stderr, "percpu_limits: no memory, or no restartable sequences here\n");
        return 0;
    }
    std::vector<Row> rows{row<Library>("the library's"),
                          row<Ours>("the same, written out here"),
                          row<Globals_each_time>("area offset and CPU count loaded each time"),
                          row<Lazy>("descriptor compared first, stored if cleared"),
                          row<Lazy_unchecked>("... and CPU number not checked"),
                          row<No_check>("CPU number not checked"),
                          row<Base_and_index>("commit through base + index"),
                          row<Three_steps>("commit as load, add, store"),
                          row<No_descriptor>("no descriptor (racy)"),
                          row<Two_stores>("two stores, no sequence"),
                          row<Bare_add>("one add to memory"),
                          row<Lock_add>("lock add")};
    for (int round = -1; round < rounds; round++)
        for (Row &r : rows)
            for (int which = 0; which < 2; which++) {
                const double start = now_ns();
                r.loops[which](LW__CPU0(handle));
                if (round >= 0)
                    r.ns[which].push_back((now_ns() - start) / ops);
            }
    std::printf("what limits a sequence add; ns, median (10th percentile) of %d rounds of %zu\n\n", rounds, ops);
    std::printf("%-46s %18s %24s\n", "", "same word", "rotating over 64 words");
    for (Row &r : rows) {
        std::printf("%-46s", r.name);
        for (auto &ns : r.ns) {
            std::ranges::sort(ns);
            std::printf(" %10.3f (%6.3f)", ns[ns.size() / 2], ns[ns.size() / 10]);
        }
        std::printf("\n");
    }
    std::printf("\naborted attempts: %llu\n", static_cast<unsigned long long>(aborted));
    lw_percpu_free(handle);
    return 0;
}
#endif
