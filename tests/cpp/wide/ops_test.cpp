// SPDX-License-Identifier: MIT
// Every wide operation at every order, as every compiler at hand makes it, against plain arithmetic; then contended.
#include <gtest/gtest.h>

#include <linewright/wide.h>

#include "ops_table.h"

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
// Linked with --wrap=getauxval: the CPU's features as the library sees them, changed where a test says so.
static unsigned long pretended_hwcap;
extern "C" unsigned long __real_getauxval(unsigned long type);
extern "C" unsigned long __wrap_getauxval(unsigned long type) {
    return __real_getauxval(type) | (type == AT_HWCAP ? pretended_hwcap : 0);
}
[[maybe_unused]] static unsigned long real_hwcap() { return __real_getauxval(AT_HWCAP); }
#endif

#define VARIANT(name) extern "C" const struct wide_ops wide_ops_##name;
#include "variants.def"
#undef VARIANT

namespace {

using Value = wide_number;
#if defined(__i386__)
constexpr unsigned bits = 64;
#else
constexpr unsigned bits = 128;
#endif

constexpr Value all_ones = ~Value{0};
constexpr Value high_bit = Value{1} << (bits - 1);
constexpr Value half = Value{1} << (bits / 2);

// The operand stands between canaries of its own size.
struct Slot {
    wide before = all_ones, value = 0, after = all_ones;
    bool whole() const { return before == all_ones && after == all_ones; }
};

const std::vector<Value> &samples() {
    static const std::vector<Value> values{0,
                                           1,
                                           2,
                                           5,
                                           half - 1,
                                           half,
                                           half + 1,
                                           high_bit - 1,
                                           high_bit,
                                           high_bit + 1,
                                           all_ones - 1,
                                           all_ones,
                                           all_ones / 3,
                                           all_ones / 5 * 2};
    return values;
}

// What an operation leaves and returns, by its name.
struct Outcome {
    Value left, value;
};

Outcome arithmetic(std::string op, Value old, Value v) {
    bool fetched = op.rfind("fetch_", 0) == 0;
    bool returned = op.size() > 7 && op.compare(op.size() - 7, 7, "_return") == 0;
    if (fetched)
        op = op.substr(6);
    if (returned)
        op = op.substr(0, op.size() - 7);
    if (op == "inc" || op == "dec")
        v = 1;
    Value left = op == "add" || op == "inc"   ? old + v
                 : op == "sub" || op == "dec" ? old - v
                 : op == "and"                ? old & v
                 : op == "andnot"             ? old & ~v
                 : op == "or"                 ? old | v
                 : op == "xor"                ? old ^ v
                                              : v; // write, xchg
    return {left, returned ? left : old};
}

const std::vector<const wide_ops *> &variants() {
    static const std::vector<const wide_ops *> all = [] {
        std::vector<const wide_ops *> found;
        const std::array listed{
#define VARIANT(name) &wide_ops_##name,
#include "variants.def"
#undef VARIANT
        };
        lw_wide_use(~0u);
        for (const wide_ops *ops : listed)
            if (!ops->needs_lse || (lw_wide_detect() & LW_WIDE_LSE))
                found.push_back(ops);
        return found;
    }();
    return all;
}

// Every variant with all that the CPU has, and again without each of the things it could lack.
struct Case {
    const wide_ops *ops;
    std::uint32_t caps;
};

std::vector<Case> cases() {
    std::vector<Case> all;
    for (const wide_ops *ops : variants()) {
        all.push_back({ops, ~0u});
        if (ops->fixed)
            continue;
        all.push_back({ops, LW_WIDE_CAS});
        if (lw_wide_use(~0u) & LW_WIDE_LSE)
            all.push_back({ops, LW_WIDE_CAS | LW_WIDE_LSE});
    }
    return all;
}

class Wide_ops : public testing::TestWithParam<Case> {
protected:
    void SetUp() override { lw_wide_use(GetParam().caps); }
    void TearDown() override { lw_wide_use(~0u); }
    const wide_ops &ops() const { return *GetParam().ops; }
    // Whether lw_read_… may be called: the compiler's options or the CPU say that there is one.
    bool can_read() const {
#if defined(__i386__)
        return true;
#else
        return ops().has_read && (ops().fixed || (lw_wide_detect() & LW_WIDE_VECTOR));
#endif
    }
};

std::string case_name(const testing::TestParamInfo<Case> &info) {
    return std::string(info.param.ops->variant) + (info.param.caps == ~0u          ? "_all"
                                                   : info.param.caps & LW_WIDE_LSE ? "_cas_lse"
                                                                                   : "_cas");
}

INSTANTIATE_TEST_SUITE_P(All, Wide_ops, testing::ValuesIn(cases()), case_name);

TEST_P(Wide_ops, AreNotEmpty) {
    EXPECT_NE(ops().void_v[0].op, nullptr);
    EXPECT_NE(ops().cmpxchg[0].op, nullptr);
}

TEST_P(Wide_ops, MatchArithmetic) {
    for (Value old : samples())
        for (Value v : samples()) {
            for (auto *f = ops().void_v; f->op; ++f) {
                Slot s;
                s.value = old;
                f->call(&s.value, v);
                EXPECT_TRUE(s.value == arithmetic(f->op, old, v).left && s.whole()) << f->op << f->order;
            }
            for (auto *f = ops().value_v; f->op; ++f) {
                Slot s;
                s.value = old;
                Value got = f->call(&s.value, v);
                Outcome want = arithmetic(f->op, old, v);
                EXPECT_TRUE(got == want.value && s.value == want.left && s.whole()) << f->op << f->order;
            }
            for (auto *f = ops().bool_v; f->op; ++f) { // sub_and_test
                Slot s;
                s.value = old;
                bool got = f->call(&s.value, v);
                EXPECT_TRUE(got == (old == v) && s.value == old - v && s.whole()) << f->op << f->order;
            }
            for (Value unless : {old, v, Value{0}})
                for (auto *f = ops().bool_vv; f->op; ++f) { // add_unless
                    Slot s;
                    s.value = old;
                    bool got = f->call(&s.value, v, unless);
                    EXPECT_TRUE(got == (old != unless) && s.value == (got ? old + v : old) && s.whole()) << f->op;
                }
        }
}

TEST_P(Wide_ops, WithoutOperandMatchArithmetic) {
    for (Value old : samples()) {
        for (auto *f = ops().void_; f->op; ++f) {
            Slot s;
            s.value = old;
            f->call(&s.value);
            EXPECT_TRUE(s.value == arithmetic(f->op, old, 0).left && s.whole()) << f->op << f->order;
        }
        for (auto *f = ops().read; f->op && can_read(); ++f) {
            Slot s;
            s.value = old;
            EXPECT_TRUE(f->call(&s.value) == old && s.value == old && s.whole()) << f->op << f->order;
        }
        for (auto *f = ops().read_rw; f->op; ++f) {
            Slot s;
            s.value = old;
            EXPECT_TRUE(f->call(&s.value) == old && s.value == old && s.whole()) << f->op << f->order;
        }
#if defined(__i386__)
        for (auto *f = ops().value; f->op; ++f) {
            Slot s;
            s.value = old;
            Value got = f->call(&s.value);
            Outcome want = arithmetic(f->op, old, 0);
            EXPECT_TRUE(got == want.value && s.value == want.left && s.whole()) << f->op << f->order;
        }
#endif
        for (auto *f = ops().bool_; f->op; ++f) {
            Slot s;
            s.value = old;
            bool got = f->call(&s.value);
            std::string op = f->op;
            bool test = op == "dec_and_test";
            EXPECT_TRUE(got == (test ? old == 1 : old != 0)) << op << f->order;
            Value done = op == "inc_not_zero" ? old + 1 : old - 1;
            EXPECT_TRUE(s.value == (test || old ? done : old) && s.whole()) << op << f->order;
        }
    }
}

TEST_P(Wide_ops, CompareExchange) {
    for (Value old : samples())
        for (Value expected : samples())
            for (Value desired : {Value{0}, all_ones, half, old}) {
                for (auto *f = ops().cmpxchg; f->op; ++f) {
                    Slot s;
                    s.value = old;
                    Value got = f->call(&s.value, expected, desired);
                    EXPECT_TRUE(got == old && s.value == (old == expected ? desired : old) && s.whole()) << f->order;
                }
                for (auto *f = ops().try_cmpxchg; f->op; ++f) {
                    Slot s;
                    s.value = old;
                    wide found = expected;
                    bool got = f->call(&s.value, &found, desired);
                    EXPECT_TRUE(got == (old == expected) && found == old) << f->order;
                    EXPECT_TRUE(s.value == (old == expected ? desired : old) && s.whole()) << f->order;
                }
            }
}

// Once it has written, the expected value may belong to another thread: here it lies where a store would end the test.
TEST_P(Wide_ops, ExpectedIsLeftAloneBySuccess) {
    void *page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); // zeros
    ASSERT_NE(page, MAP_FAILED);
    for (auto *f = ops().try_cmpxchg; f->op; ++f) {
        Slot s;
        EXPECT_TRUE(f->call(&s.value, static_cast<wide *>(page), half + 1) && s.value == half + 1) << f->order;
    }
    munmap(page, 4096);
}

// Waits in a loop that gives the CPU away now and then: the other thread may be without one.
template <class Done> void spin_until(Done done) {
    for (unsigned turn = 1; !done(); ++turn)
        if (turn % 256 == 0)
            std::this_thread::yield();
}

// Two threads do `step` at once, `rounds` times each.
void both(int rounds, const std::function<void(unsigned thread)> &step) {
    std::atomic<int> ready{0};
    auto body = [&](unsigned thread) {
        ++ready;
        spin_until([&] { return ready == 2; });
        for (int i = 0; i < rounds; ++i)
            step(thread);
    };
    std::thread other(body, 1u);
    body(0);
    other.join();
}

constexpr int rounds = 4000;

// A value with the same odd amount in both halves: a half that was lost shows, and so does a carry.
constexpr Value amount(unsigned thread) { return (Value{thread + 3} << (bits / 2)) + (half - 1 - thread); }

TEST_P(Wide_ops, ContendedSumsAreExact) {
    Value total = Value(rounds) * (amount(0) + amount(1));
    for (auto *f = ops().value_v; f->op; ++f) {
        std::string op = arithmetic(f->op, 12, 5).left == 17 ? "add" : arithmetic(f->op, 12, 5).left == 7 ? "sub" : "";
        if (op.empty())
            continue;
        Slot s;
        both(rounds, [&](unsigned thread) { f->call(&s.value, amount(thread)); });
        EXPECT_TRUE(s.value == (op == "add" ? total : -total) && s.whole()) << f->op << f->order;
    }
    for (auto *f = ops().void_v; f->op; ++f) {
        std::string op = f->op;
        if (op != "add" && op != "sub")
            continue;
        Slot s;
        both(rounds, [&](unsigned thread) { f->call(&s.value, amount(thread)); });
        EXPECT_TRUE(s.value == (op == "add" ? total : -total) && s.whole()) << op << f->order;
    }
    for (auto *f = ops().try_cmpxchg; f->op; ++f) {
        Slot s;
        both(rounds, [&](unsigned thread) {
            wide seen = 0;
            while (!f->call(&s.value, &seen, seen + amount(thread)))
                ;
        });
        EXPECT_TRUE(s.value == total && s.whole()) << f->op << f->order;
    }
    for (auto *f = ops().cmpxchg; f->op; ++f) {
        Slot s;
        both(rounds, [&](unsigned thread) {
            for (Value seen = 0, was;; seen = was)
                if ((was = f->call(&s.value, seen, seen + amount(thread))) == seen)
                    return;
        });
        EXPECT_TRUE(s.value == total && s.whole()) << f->op << f->order;
    }
}

// Each thread owns every other bit and turns one of its own over, in both halves at once.
TEST_P(Wide_ops, ContendedBitsAreExact) {
    const Value own[2] = {all_ones / 3, all_ones / 3 * 2};
    for (auto *f = ops().value_v; f->op; ++f) {
        std::string op = f->op;
        if (op != "fetch_xor" && op != "fetch_or" && op != "fetch_and" && op != "fetch_andnot")
            continue;
        for (auto *g = ops().value_v; g->op; ++g) {
            // and clears what or has set; xor turns back what xor has turned
            bool fits = std::string(g->order) == f->order &&
                        (op == "fetch_xor"  ? std::string(g->op) == op
                         : op == "fetch_or" ? std::string(g->op) == "fetch_andnot" || std::string(g->op) == "fetch_and"
                                            : false);
            if (!fits)
                continue;
            Slot s;
            std::atomic<int> wrong{0};
            both(rounds / 2, [&](unsigned thread) {
                Value mine = own[thread];
                wrong += (f->call(&s.value, mine) & mine) != 0;
                wrong += (g->call(&s.value, std::string(g->op) == "fetch_and" ? ~mine : mine) & mine) != mine;
            });
            EXPECT_TRUE(s.value == 0 && wrong == 0 && s.whole()) << op << g->op << f->order;
        }
    }
}

// Every value that went in comes out once or is still there.
TEST_P(Wide_ops, ContendedExchangesConserve) {
    for (auto *f = ops().value_v; f->op; ++f) {
        if (std::string(f->op) != "xchg")
            continue;
        Slot s;
        std::array<Value, 2> in{}, out{}, count{};
        both(rounds, [&](unsigned thread) {
            Value v = (++count[thread] << (bits / 2)) + (count[thread] << 1) + thread;
            in[thread] += v;
            out[thread] += f->call(&s.value, v);
        });
        EXPECT_TRUE(in[0] + in[1] == out[0] + out[1] + s.value && s.whole()) << f->order;
    }
}

#if defined(__i386__)
TEST_P(Wide_ops, ContendedConditionsHold) {
    for (auto *f = ops().bool_vv; f->op; ++f) { // add_unless stops at the limit, exactly
        Slot s;
        s.value = half - 100;
        std::atomic<int> added{0};
        both(400, [&](unsigned) { added += f->call(&s.value, 1, half + 100); });
        EXPECT_TRUE(s.value == half + 100 && added == 200) << f->op << f->order;
    }
    for (auto *f = ops().bool_; f->op; ++f) {
        if (std::string(f->op) != "dec_if_positive")
            continue;
        Slot s;
        s.value = 1000;
        std::atomic<int> taken{0};
        both(1500, [&](unsigned) { taken += f->call(&s.value); });
        EXPECT_TRUE(s.value == 0 && taken == 1000) << f->order;
    }
    for (auto *f = ops().bool_; f->op; ++f) {
        bool test = std::string(f->op) == "dec_and_test";
        if (std::string(f->op) == "dec_if_positive")
            continue;
        Slot s;
        s.value = test ? 2 * rounds : half - 5;
        std::atomic<int> yes{0};
        both(rounds, [&](unsigned) { yes += f->call(&s.value); });
        EXPECT_TRUE(test ? s.value == 0 && yes == 1 : s.value == half - 5 + 2 * rounds && yes == 2 * rounds) << f->op;
    }
}
#endif

// A write is seen whole by the reads of the same variant, whatever form each of them takes.
TEST_P(Wide_ops, WritesAreNotTorn) {
    const wide_value *read = can_read() ? ops().read : ops().read_rw;
    for (auto *f = ops().void_v; f->op; ++f) {
        if (std::string(f->op) != "write")
            continue;
        Slot s;
        std::atomic<bool> stop{false};
        std::thread writer([&] {
            for (Value v = 0; !stop; v = ~v)
                f->call(&s.value, v);
        });
        long torn = 0;
        for (int i = 0; i < 200000; ++i) {
            Value v = read->call(&s.value);
            torn += v != 0 && v != all_ones;
        }
        stop = true;
        writer.join();
        EXPECT_EQ(torn, 0) << f->order;
        EXPECT_TRUE(s.whole());
    }
}

// What was written before a release is there after the acquire that saw it; under ThreadSanitizer: is known to be.
TEST_P(Wide_ops, ReleasePublishesPlainData) {
    const wide_value *read = can_read() ? ops().read : ops().read_rw;
    while (std::string(read->order) != "acquire")
        ++read;
    const wide_void_v *write = ops().void_v;
    while (std::string(write->op) != "write" || std::string(write->order) != "release")
        ++write;
    for (int i = 0; i < 200; ++i) {
        Slot s;
        int data[16] = {};
        std::thread reader([&] {
            spin_until([&] { return read->call(&s.value) == all_ones - 1; });
            for (int d : data)
                EXPECT_EQ(d, i + 1);
        });
        for (int &d : data)
            d = i + 1;
        write->call(&s.value, all_ones - 1);
        reader.join();
    }
}

#if defined(__i386__)
// Four bytes off and at the end of a line: what would be a lock over two lines.
struct alignas(64) Straddle {
    std::uint32_t words[32] = {};
    wide *operand() { return reinterpret_cast<wide *>(reinterpret_cast<char *>(this) + 60); }
};

TEST(WideAlignment, LockedOperationsNeverSplitALock) {
    Straddle s;
    for (const wide_ops *ops : variants()) {
        if (std::string(ops->variant).rfind("alone", 0) == 0) // no library: a trap without words
            EXPECT_DEATH(ops->value_v[0].call(s.operand(), 1), "");
        else
            EXPECT_DEATH(ops->value_v[0].call(s.operand(), 1), "not aligned to 8 bytes; declare it lw_u64");
    }
}

TEST(WideAlignment, DebugBuildsLookAtReadsAndWritesToo) {
    Straddle s;
    for (const wide_ops *ops : variants())
        if (ops->debug) {
            for (auto *f = ops->read; f->op; ++f)
                EXPECT_DEATH(f->call(s.operand()), "not aligned to 8 bytes") << f->op << f->order;
            for (auto *f = ops->void_v; f->op; ++f)
                EXPECT_DEATH(f->call(s.operand(), 1), "not aligned to 8 bytes") << f->op;
        }
}

TEST(WideAlignment, TypeIsAlignedInsideAStruct) {
    struct Trap {
        int first;
        lw_u64 counter;
    };
    static_assert(offsetof(Trap, counter) == 8 && alignof(Trap) == 8);
    struct Plain {
        int first;
        std::uint64_t counter;
    };
    static_assert(offsetof(Plain, counter) == 4, "the trap itself: the ABI has changed if this fails");
}
#else
TEST(WideAlignment, MisalignedOperandsEndTheProgram) {
    alignas(64) unsigned char bytes[128] = {};
    for (const wide_ops *ops : variants())
        EXPECT_DEATH(ops->value_v[0].call(reinterpret_cast<wide *>(bytes + 56), 1), "");
}

TEST(WideAlignment, DebugBuildsSayWhy) {
    alignas(64) unsigned char bytes[128] = {};
    for (const wide_ops *ops : variants())
        for (auto *f = ops->void_v; ops->debug && f->op; ++f)
            EXPECT_DEATH(f->call(reinterpret_cast<wide *>(bytes + 56), 1), "not aligned to 16 bytes");
}

#ifndef LW_THREAD_SANITIZER // there the choice is ThreadSanitizer's own
TEST(WideChoice, ReadWithoutItsInstructionIsRefused) {
    lw_wide_use(LW_WIDE_CAS);
    EXPECT_FALSE(lw_has_read_u128());
    EXPECT_TRUE(lw_has_u128());
    wide value = 7;
    EXPECT_DEATH((void)lw_read_u128(&value), "lw_read_u128: this CPU lacks .*use lw_read_u128_any or lw_read_u128_rw");
    EXPECT_TRUE(lw_read_u128_rw(&value) == 7);
    lw_wide_use(~0u);
}

TEST(WideChoice, ReadOfAnyKindFallsBackToOneThatWrites) {
    auto *page = static_cast<wide *>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(static_cast<void *>(page), MAP_FAILED);
    *page = 7;
    for (std::uint32_t caps : {~0u, LW_WIDE_CAS | LW_WIDE_LSE, LW_WIDE_CAS}) {
        lw_wide_use(caps);
        EXPECT_TRUE(lw_read_u128_any(page) == 7 && lw_read_u128_any_relaxed(page) == 7 &&
                    lw_read_u128_any_acquire(page) == 7);
        ASSERT_EQ(mprotect(page, 4096, PROT_READ), 0);
        if (lw_has_read_u128())
            EXPECT_TRUE(lw_read_u128_any(page) == 7) << "writes although it need not";
        else
            EXPECT_DEATH((void)lw_read_u128_any(page), "");
        ASSERT_EQ(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
    }
    lw_wide_use(~0u);
    munmap(page, 4096);
}

#if defined(__x86_64__)
TEST(WideChoice, CompareExchangeWithoutItsInstructionIsRefused) {
    lw_wide_use(0);
    EXPECT_FALSE(lw_has_u128());
    wide value = 7;
    EXPECT_DEATH(lw_xchg_u128(&value, 1), "this CPU lacks the instruction cmpxchg16b");
    EXPECT_DEATH(lw_cmpxchg_u128(&value, 1, 2), "this CPU lacks the instruction cmpxchg16b");
    EXPECT_DEATH((void)lw_read_u128_rw(&value), "this CPU lacks the instruction cmpxchg16b");
    EXPECT_DEATH(lw_write_u128(&value, 1), "this CPU lacks the instruction cmpxchg16b");
    lw_wide_use(~0u);
}
#endif
#endif
#endif

#if defined(__aarch64__) && !defined(LW_THREAD_SANITIZER)
// LSE2 pretended: the emulator at hand has none, but LDP and STP execute everywhere. That they are one access cannot be
// tested here; that the operations take them, and move whole values by them, can.
TEST(WideChoice, AKernelThatSaysUscatGetsLdpAndStp) {
    pretended_hwcap = 1ul << 25; // HWCAP_USCAT
    EXPECT_TRUE(lw_wide_use(~0u) & LW_WIDE_VECTOR);
    EXPECT_TRUE(lw_has_read_u128());
    void *memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto *page = static_cast<wide *>(memory);
    for (const wide_ops *ops : variants()) {
        if (!ops->has_read)
            continue;
        for (Value v : samples()) {
            for (auto *f = ops->void_v; f->op; ++f) {
                ASSERT_EQ(mprotect(memory, 4096, PROT_READ | PROT_WRITE), 0);
                f->call(page, v);
                EXPECT_TRUE(*page == v) << ops->variant << f->op << f->order;
            }
            // Any other read would write here, and die of it.
            ASSERT_EQ(mprotect(memory, 4096, PROT_READ), 0);
            for (auto *f = ops->read; f->op; ++f)
                EXPECT_TRUE(f->call(page) == v) << ops->variant << f->op << f->order;
        }
    }
    munmap(memory, 4096);
    pretended_hwcap = 0;
    EXPECT_EQ(lw_wide_use(~0u) & LW_WIDE_VECTOR, real_hwcap() & 1ul << 25 ? LW_WIDE_VECTOR : 0u);
}
#endif

TEST(WideChoice, UseNeverAddsWhatTheCpuLacks) {
    std::uint32_t all = lw_wide_use(~0u);
    EXPECT_TRUE(all & LW_WIDE_READY);
    EXPECT_EQ(lw_wide_use(LW_WIDE_CAS) & ~(LW_WIDE_CAS | LW_WIDE_READY), 0u);
    EXPECT_EQ(lw_wide_use(~0u), all);
}

} // namespace
