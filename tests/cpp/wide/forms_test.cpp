// SPDX-License-Identifier: MIT
// The contract of each wide form: what it does to a read-only page, to copy-on-write, and to a value that changes under it.
#include <gtest/gtest.h>

#include "forms.h"

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

enum class Contract { plain, writes, tears };

struct Read_form {
    const char *name;
    wide (*read)(wide *);
    Contract contract;
    std::uint32_t needs; // LW_WIDE_… bits
};

struct Write_form {
    const char *name;
    void (*write)(wide *, wide);
    std::uint32_t needs;
};

const std::vector<Read_form> reads{
    {"read_twice", f_read_twice, Contract::tears, 0},
#if defined(__i386__)
    {"movq", f_movq_read, Contract::plain, LW_WIDE_VECTOR},
    {"fild", f_fild_read, Contract::plain, 0},
    {"fxam_fild", f_fxam_fild_read, Contract::plain, 0},
    {"fnsave_fild", f_fnsave_fild_read, Contract::plain, 0},
    {"cmpxchg8b_read_once", f_read_once, Contract::writes, LW_WIDE_CAS},
    {"read_twice_cmpxchg8b_verify", f_read_verify, Contract::writes, LW_WIDE_CAS},
#elif defined(__x86_64__)
    {"movdqa", f_vector_read, Contract::plain, LW_WIDE_VECTOR},
    {"cmpxchg16b_read_once", f_read_once, Contract::writes, LW_WIDE_CAS},
    {"read_twice_cmpxchg16b_verify", f_read_verify, Contract::writes, LW_WIDE_CAS},
#elif defined(__aarch64__)
    {"ldp", f_vector_read, Contract::plain, LW_WIDE_VECTOR},
    {"ldp_dmb", f_vector_read_acquire, Contract::plain, LW_WIDE_VECTOR},
    {"ldar_ldp_dmb", f_vector_read_seq_cst, Contract::plain, LW_WIDE_VECTOR},
    {"caspal_read", f_read_casp, Contract::writes, LW_WIDE_LSE},
    {"ldxp_stxp_read", f_read_pair, Contract::writes, 0},
    {"ldxp_stlxp_dmb_read", f_read_pair_full, Contract::writes, 0},
#endif
};

const std::vector<Write_form> writes{
#if defined(__i386__)
    {"movq", f_movq_write, LW_WIDE_VECTOR},
    {"fistp", f_fistp_write, 0},
    {"fxam_fistp", f_fxam_fistp_write, 0},
    {"fnsave_fistp", f_fnsave_fistp_write, 0},
    {"cmpxchg8b", [](wide *p, wide v) { f_xchg(p, v); }, LW_WIDE_CAS},
#elif defined(__x86_64__)
    {"movdqa", f_vector_write, LW_WIDE_VECTOR},
    {"cmpxchg16b", [](wide *p, wide v) { f_xchg(p, v); }, LW_WIDE_CAS},
#elif defined(__aarch64__)
    {"stp", f_vector_write, LW_WIDE_VECTOR},
    {"dmb_stp", f_vector_write_release, LW_WIDE_VECTOR},
    {"dmb_stp_dmb", f_vector_write_seq_cst, LW_WIDE_VECTOR},
    {"caspal", [](wide *p, wide v) { f_xchg_caspal(p, v); }, LW_WIDE_LSE},
    {"ldxp_stxp", [](wide *p, wide v) { f_xchg_pair(p, v); }, 0},
    {"ldxp_stlxp_dmb", [](wide *p, wide v) { f_xchg_pair_full(p, v); }, 0},
#endif
};

using Value = wide_number;
constexpr Value all_ones = ~Value{0};
constexpr unsigned half_bits = sizeof(wide) * 4;
constexpr Value sample = (Value{0x01020304} << half_bits) + 0x11121314;

bool has(std::uint32_t needs) { return (lw_wide_detect() & needs) == needs; }

// Forms that this CPU has; names what is left out, so that a pass says what passed.
template <class Form> std::vector<Form> at_hand(const std::vector<Form> &all) {
    std::vector<Form> here;
    for (const Form &form : all)
        if (has(form.needs))
            here.push_back(form);
        else
            std::printf("not on this CPU: %s\n", form.name);
    return here;
}

// Forms that this CPU can execute. On arm64 that is more than it has: LDP and STP run everywhere, and only with LSE2 are
// they one access, which is what the torn-value tests ask about and these do not.
template <class Form> std::vector<Form> executable(std::vector<Form> all) {
#if defined(__aarch64__)
    for (Form &form : all)
        form.needs &= ~LW_WIDE_VECTOR;
#endif
    return at_hand(all);
}

// How a child that runs `body` ends: 0 or the signal that killed it.
template <class Body> int fate(Body body) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); // a sanitizer would turn it into an exit
        signal(SIGBUS, SIG_DFL);
        _exit(body() ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WIFEXITED(status) ? -WEXITSTATUS(status) : -99;
}

std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

TEST(WideContract, ReadOnlyPage) {
    void *memory = mmap(nullptr, page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    wide *p = static_cast<wide *>(memory);
    *p = sample;
    ASSERT_EQ(mprotect(memory, page(), PROT_READ), 0);
    for (const Read_form &form : executable(reads)) {
        int end = fate([&] { return form.read(p) == sample; });
        EXPECT_EQ(end, form.contract == Contract::writes ? SIGSEGV : 0) << form.name;
    }
    munmap(memory, page());
}

// A private mapping follows its file until this process writes to the page; then it keeps a copy of its own.
TEST(WideContract, CopyOnWrite) {
    for (const Read_form &form : executable(reads)) {
        std::FILE *file = std::tmpfile();
        ASSERT_NE(file, nullptr);
        int fd = fileno(file);
        ASSERT_EQ(ftruncate(fd, static_cast<off_t>(page())), 0);
        void *memory = mmap(nullptr, page(), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        ASSERT_NE(memory, MAP_FAILED);
        wide *p = static_cast<wide *>(memory);
        EXPECT_TRUE(form.read(p) == 0) << form.name;
        wide news = sample;
        ASSERT_EQ(pwrite(fd, &news, sizeof news, 0), static_cast<ssize_t>(sizeof news));
        bool broken = f_read_twice(p) != sample;
        EXPECT_EQ(broken, form.contract == Contract::writes) << form.name;
        munmap(memory, page());
        std::fclose(file);
    }
}

// Both halves, each in its place, between neighbours that stay as they are.
TEST(WideContract, EveryFormMovesTheWholeValue) {
    for (const Write_form &writer : executable(writes))
        for (const Read_form &reader : executable(reads))
            for (Value v : {sample, Value{1}, Value{1} << half_bits, all_ones, Value{0}}) {
                wide words[3] = {all_ones / 3, all_ones / 5, all_ones / 3};
                writer.write(&words[1], v);
                EXPECT_TRUE(words[1] == v) << writer.name;
                EXPECT_TRUE(reader.read(&words[1]) == v) << reader.name;
                EXPECT_TRUE(words[0] == all_ones / 3 && words[2] == all_ones / 3) << writer.name << reader.name;
            }
}

bool several_cpus() {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 1;
}

// Reads while `write` turns all bits over as fast as it can; returns how many values were neither of the two, and adds to
// `*changes` how often the value was another than just before.
long torn_reads(wide (*read)(wide *), void (*write)(wide *, wide), long count, long *changes = nullptr) {
    struct alignas(256) {
        wide value = 0;
    } shared;
    std::atomic<bool> stop{false}, running{false};
    std::thread writer([&] {
        wide v = 0;
        while (!stop.load(std::memory_order_relaxed)) {
            write(&shared.value, v);
            v = ~v;
            running.store(true, std::memory_order_relaxed);
        }
    });
    while (!running)
        ;
    long torn = 0, seen = 0;
    Value last = 0;
    for (long i = 0; i < count; ++i) {
        Value v = read(&shared.value);
        torn += v != 0 && v != all_ones;
        seen += v != last;
        last = v;
    }
    stop = true;
    writer.join();
    if (changes)
        *changes += seen;
    return torn;
}

#if defined(LW_WIDE_TORN_READS)
constexpr long torn_count = LW_WIDE_TORN_READS;
#else
constexpr long torn_count = 10'000'000;
#endif

// The control first: a test that could not see a torn value would prove nothing about the others.
TEST(WideTorn, ControlIsSeenToTear) {
    if (!several_cpus())
        GTEST_SKIP() << "one CPU: nothing tears here";
    const Write_form writer = at_hand(writes).front();
    long torn = 0, changes = 0;
    for (int runs = 0; torn == 0 && runs < 1000; runs++)
        torn = torn_reads(f_read_twice, writer.write, torn_count / 10, &changes);
    std::printf("control: %ld torn values among %ld changes\n", torn, changes);
    if (torn == 0 && changes < 1'000'000)
        GTEST_SKIP() << "the two threads hardly ever ran at once on this machine: nothing could tear";
    EXPECT_GT(torn, 0);
}

TEST(WideTorn, NoReadFormTears) {
    const Write_form writer = at_hand(writes).front();
    for (const Read_form &form : at_hand(reads))
        if (form.contract != Contract::tears) {
            EXPECT_EQ(torn_reads(form.read, writer.write, torn_count), 0) << form.name;
        }
}

TEST(WideTorn, NoWriteFormTears) {
    std::vector<Read_form> readers = at_hand(reads);
    const Read_form &reader = readers[1]; // the first after the control
    for (const Write_form &form : at_hand(writes))
        EXPECT_EQ(torn_reads(reader.read, form.write, torn_count / 5), 0) << form.name;
}

#if defined(__i386__)
// Starts of the loop: what each leaves and returns is the same.
TEST(WideForms, AddsFromEveryStart) {
    for (Value old : {Value{0}, Value{0xffffffff}, all_ones, sample}) {
        wide p = old;
        EXPECT_EQ(f_add_torn_first(&p, sample), old);
        EXPECT_EQ(f_add_read_first(&p, sample), old + sample);
        EXPECT_EQ(f_add_guess_first(&p, sample), old + 2 * sample);
        wide last = 42;
        EXPECT_EQ(f_add_last_value(&p, sample, &last), old + 3 * sample);
        EXPECT_EQ(last, old + 4 * sample);
        EXPECT_EQ(f_add_last_value(&p, sample, &last), old + 4 * sample);
        f_add_torn_first_void(&p, sample);
        EXPECT_EQ(p, old + 6 * sample);
    }
}

// The same starts of the other read-modify-writes: right and wrong guesses, halves that carry and borrow.
template <class Read_first, class Guess_first, class Last_value, class Arithmetic>
void from_every_start(const char *name, Read_first read_first, Guess_first guess_first, Last_value last_value,
                      Arithmetic arithmetic) {
    for (Value old : {Value{0}, Value{0xffffffff}, all_ones, sample})
        for (Value v : {Value{1}, sample, Value{1} << 32}) {
            const Value once = arithmetic(old, v), twice = arithmetic(once, v), thrice = arithmetic(twice, v);
            wide p = old, last = 42;
            EXPECT_EQ(read_first(&p, v), old) << name;
            EXPECT_EQ(guess_first(&p, v), once) << name;
            EXPECT_EQ(last_value(&p, v, &last), twice) << name; // a wrong value of last time
            EXPECT_EQ(last, thrice) << name;
            EXPECT_EQ(last_value(&p, v, &last), thrice) << name; // the right one
            EXPECT_EQ(p, arithmetic(thrice, v)) << name;
            EXPECT_EQ(last, p) << name;
        }
}

#define FROM_EVERY_START(op, symbol)                                                                         \
    from_every_start(#op, lw_cmpxchg8b_loop_read_first_##op##_u64, lw_cmpxchg8b_loop_guess_first_##op##_u64, \
                     lw_cmpxchg8b_loop_last_value_##op##_u64, [](Value old, Value v) { return old symbol v; })

TEST(WideForms, OthersFromEveryStart) {
    FROM_EVERY_START(add, +);
    FROM_EVERY_START(sub, -);
    FROM_EVERY_START(and, &);
    FROM_EVERY_START(or, |);
    FROM_EVERY_START(xor, ^);
}

TEST(WideX87, EveryValueComesThrough) {
    std::uint64_t v = 1;
    for (int i = 0; i < 200000; ++i) {
        v = v * 6364136223846793005u + 1442695040888963407u;
        wide in = i % 2 ? v : v >> (i % 64), out = 0;
        ASSERT_EQ(f_fild_read(&in), in);
        f_fistp_write(&out, in);
        ASSERT_EQ(out, in);
    }
    for (wide edge : {Value{1} << 63, all_ones, all_ones >> 1, Value{0}}) {
        wide out = 1;
        EXPECT_EQ(f_fild_read(&edge), edge);
        f_fistp_write(&out, edge);
        EXPECT_EQ(out, edge);
    }
}

// Single precision and truncation, as some programs set them, change nothing: integers are loaded whole.
TEST(WideX87, ControlWordDoesNotMatter) {
    std::uint16_t saved, narrow;
    __asm__ volatile("fnstcw %0" : "=m"(saved));
    narrow = static_cast<std::uint16_t>((saved & ~0x0300) | 0x0c00);
    wide in = all_ones - 12345, out = 0;
    __asm__ volatile("fldcw %0" : : "m"(narrow));
    Value got = f_fild_read(&in);
    f_fistp_write(&out, in);
    __asm__ volatile("fldcw %0" : : "m"(saved));
    EXPECT_EQ(got, in);
    EXPECT_EQ(out, in);
}

// A live MMX value: what MM0 to MM7 hold after `call` has run with them all in use.
template <class Call> std::vector<std::uint64_t> through_mmx(Call call) {
    std::vector<std::uint64_t> in, out(8);
    for (unsigned i = 0; i < 8; ++i)
        in.push_back(0x0101010101010101u * (i + 1));
    const std::uint64_t *from = in.data();
    std::uint64_t *to = out.data();
    __asm__ volatile("movq (%0), %%mm0; movq 8(%0), %%mm1; movq 16(%0), %%mm2; movq 24(%0), %%mm3\n\t"
                     "movq 32(%0), %%mm4; movq 40(%0), %%mm5; movq 48(%0), %%mm6; movq 56(%0), %%mm7"
                     :
                     : "r"(from)
                     : "memory");
    call();
    __asm__ volatile("movq %%mm0, (%0); movq %%mm1, 8(%0); movq %%mm2, 16(%0); movq %%mm3, 24(%0)\n\t"
                     "movq %%mm4, 32(%0); movq %%mm5, 40(%0); movq %%mm6, 48(%0); movq %%mm7, 56(%0)\n\t"
                     "emms"
                     :
                     : "r"(to)
                     : "memory");
    EXPECT_EQ(in.size(), out.size());
    return in == out ? std::vector<std::uint64_t>{} : out;
}

TEST(WideX87, LiveMmxValuesSurvive) {
    static wide in = sample, out, got;
    EXPECT_TRUE(through_mmx([] { got = f_fxam_fild_read(&in); }).empty()) << "read";
    EXPECT_EQ(got, sample);
    EXPECT_TRUE(through_mmx([] { f_fxam_fistp_write(&out, sample + 1); }).empty()) << "write";
    EXPECT_EQ(out, sample + 1);
    // through the operations of a CPU without SSE2
    lw_wide_use(LW_WIDE_CAS);
    EXPECT_TRUE(through_mmx([] { got = lw_wide_read_u64(&in); }).empty());
    EXPECT_EQ(got, sample);
    EXPECT_TRUE(through_mmx([] { lw_wide_write_u64(&out, sample + 2); }).empty());
    EXPECT_EQ(out, sample + 2);
    lw_wide_use(~0u);
}

// Why fxam is there: without it the same call returns garbage and destroys MMX values.
TEST(WideX87, WithoutTheCheckLiveMmxValuesDoNotSurvive) {
    static wide in = sample, got;
    bool destroyed = !through_mmx([] { got = f_fild_read(&in); }).empty();
    EXPECT_TRUE(destroyed);
    EXPECT_NE(got, sample);
}

TEST(WideX87, FullStackSurvives) {
    static wide in = sample, out;
    double sum = 0;
    Value got;
    __asm__ volatile("fld1; fld1; fld1; fld1; fld1; fld1; fld1; fld1" : : : "memory");
    got = f_fxam_fild_read(&in);
    f_fxam_fistp_write(&out, sample + 3);
    __asm__ volatile("faddp; faddp; faddp; faddp; faddp; faddp; faddp; fstpl %0" : "=m"(sum) : : "memory");
    EXPECT_EQ(got, sample);
    EXPECT_EQ(out, sample + 3);
    EXPECT_EQ(sum, 8.0);
}

// Seven live registers under a top that FFREE has emptied: a push would take the one below the top, which is in use.
TEST(WideX87, FreedTopOfAFullStackSurvives) {
    static wide in = sample, out;
    double sum = 0;
    Value got;
    __asm__ volatile("fld1; fld1; fld1; fld1; fld1; fld1; fld1; fld1; ffree %%st(0)" : : : "memory");
    got = f_fxam_fild_read(&in);
    f_fxam_fistp_write(&out, sample + 4);
    __asm__ volatile("fincstp; faddp; faddp; faddp; faddp; faddp; faddp; fstpl %0" : "=m"(sum) : : "memory");
    EXPECT_EQ(got, sample);
    EXPECT_EQ(out, sample + 4);
    EXPECT_EQ(sum, 7.0);
}

// Seven registers in use leave room for one push.
TEST(WideX87, SevenInUseSurvive) {
    static wide in = sample, out;
    double sum = 0;
    Value got;
    __asm__ volatile("fld1; fld1; fld1; fld1; fld1; fld1; fld1" : : : "memory");
    got = f_fxam_fild_read(&in);
    f_fxam_fistp_write(&out, sample + 5);
    __asm__ volatile("faddp; faddp; faddp; faddp; faddp; faddp; fstpl %0" : "=m"(sum) : : "memory");
    EXPECT_EQ(got, sample);
    EXPECT_EQ(out, sample + 5);
    EXPECT_EQ(sum, 7.0);
}

// Values of the compiler's own are put away around the forms, in code that keeps several on the x87 stack.
TEST(WideX87, CompilersOwnValuesSurvive) {
    volatile long double one = 1;
    long double a = one + 1, b = one + 2, c = one + 3, d = one + 4, e = one + 5, f = one + 6, g = one + 7;
    static wide in = sample, out;
    Value got = lw_fxam_fild_read_u64(&in);
    lw_fistp_write_u64(&out, got);
    EXPECT_EQ(a * b * c * d * e * f * g, 40320.0L);
    EXPECT_EQ(out, sample);
}
#endif

} // namespace
