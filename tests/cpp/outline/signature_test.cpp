// SPDX-License-Identifier: MIT
// The signatures of helper bodies: each is known, none of its neighbours one bit away is, and noise never is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#if defined(__aarch64__)
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

extern "C" {
#include "audit/edit.h"
#include "audit/self.h"
#include "audit/signature.h"
}

namespace {

constexpr std::uint64_t kAddress = 0x400ff8; // word 0 ends a page but one word: ADRP counts pages from where it is
constexpr std::uint32_t kAdrp = 0x90000010, kLdrb = 0x39400210;

std::vector<lw_helper> all_helpers() {
    std::vector<lw_helper> all;
    for (int op = 0; op < LW_OUTLINE_OPS; ++op)
        for (unsigned size : {1u, 2u, 4u, 8u, 16u})
            for (int order = 0; order < LW_ORDERS; ++order)
                for (unsigned writes_back : {0u, 1u}) {
                    const lw_helper helper{static_cast<lw_outline_op>(op), size, static_cast<lw_helper_order>(order),
                                           writes_back};
                    std::uint32_t words[LW_BODY_MAX];
                    if (lw_body_words(&helper, words))
                        all.push_back(helper);
                }
    return all;
}

std::vector<std::uint32_t> body_of(const lw_helper &helper) {
    std::vector<std::uint32_t> words(LW_BODY_MAX);
    words.resize(lw_body_words(&helper, words.data()));
    words[LW_BODY_ADRP] = kAdrp;
    words[LW_BODY_LDRB] = kLdrb;
    return words;
}

bool same(const lw_helper &a, const lw_helper &b) {
    return a.op == b.op && a.size == b.size && a.order == b.order && a.writes_back == b.writes_back;
}

TEST(Signature, KnowsEveryHelperForWhatItIs) {
    EXPECT_EQ(all_helpers().size(), 125u + LW_ORDERS); // of the 16-byte compare-and-swap there are two
    for (const lw_helper &helper : all_helpers()) {
        const auto words = body_of(helper);
        lw_body found{};
        char name[LW_HELPER_NAME];
        lw_helper_name(&helper, name);
        ASSERT_TRUE(lw_body_match(words.data(), words.size(), kAddress, &found)) << name;
        EXPECT_TRUE(same(found.helper, helper)) << name;
        EXPECT_EQ(found.words, words.size()) << name;
        EXPECT_EQ(found.have_lse, kAddress & ~std::uint64_t{0xfff}) << name;
        // Cut short by one word it is none: the search must not read on.
        EXPECT_FALSE(lw_body_match(words.data(), words.size() - 1, kAddress, &found)) << name;
    }
}

TEST(Signature, OneBitAwayIsNoHelper) {
    for (const lw_helper &helper : all_helpers()) {
        const auto words = body_of(helper);
        for (std::size_t word = 0; word < words.size(); ++word)
            for (unsigned bit = 0; bit < 32; ++bit) {
                auto flipped = words;
                flipped[word] ^= std::uint32_t{1} << bit;
                lw_body found{};
                // The place of the byte is free; all else is fixed.
                const bool immediate = (word == LW_BODY_ADRP && ((bit >= 5 && bit < 24) || bit == 29 || bit == 30)) ||
                                       (word == LW_BODY_LDRB && bit >= 10 && bit < 22);
                ASSERT_EQ(lw_body_match(flipped.data(), flipped.size(), kAddress, &found) != 0, immediate)
                    << "word " << word << " bit " << bit;
            }
    }
}

TEST(Signature, FollowsTheByteForwardsAndBackwards) {
    auto words = body_of({LW_OUTLINE_ADD, 4, LW_ACQ_REL, 0});
    lw_body found{};
    words[LW_BODY_ADRP] = kAdrp | 1u << 29 | 2u << 5; // 2 * 4 + 1 pages on
    words[LW_BODY_LDRB] = kLdrb | 0xabcu << 10;
    ASSERT_TRUE(lw_body_match(words.data(), words.size(), kAddress, &found));
    EXPECT_EQ(found.have_lse, 0x409abcu);
    words[LW_BODY_ADRP] = kAdrp | 3u << 29 | 0x7ffffu << 5; // one page back
    ASSERT_TRUE(lw_body_match(words.data(), words.size(), kAddress, &found));
    EXPECT_EQ(found.have_lse, 0x3ffabcu);
}

TEST(Signature, SearchFindsEveryPlaceAndNoOther) {
    std::mt19937 random(7);
    const auto body = body_of({LW_OUTLINE_CAS, 16, LW_SYNC, 1});
    for (std::size_t count : {1u, 2u, 15u, 31u, 32u, 33u, 200u, 4000u})
        for (int round = 0; round < 50; ++round) {
            std::vector<std::uint32_t> words(count);
            for (auto &word : words)
                word = random() | 1u << 28; // ADRP's bit 28 is set too, so some come close
            std::vector<std::size_t> planted;
            for (std::size_t at = random() % 40; at + body.size() <= count; at += body.size() + random() % 300) {
                std::copy(body.begin(), body.end(), words.begin() + static_cast<std::ptrdiff_t>(at));
                planted.push_back(at);
            }
            std::vector<std::size_t> seen;
            lw_body found{};
            for (std::size_t i = lw_body_next(words.data(), count, 0); i < count;
                 i = lw_body_next(words.data(), count, i + 1))
                if (lw_body_match(&words[i], count - i, kAddress, &found))
                    seen.push_back(i);
            ASSERT_EQ(seen, planted);
        }
}

TEST(Edit, NamesWhatEachFormBecomes) {
    for (const lw_helper &helper : all_helpers())
        for (unsigned form = 0; form < 4; ++form) {
            std::uint32_t to[LW_BODY_CBZ + 1];
            lw_edit_words(&helper, form, to);
            const std::uint32_t line = helper.op != LW_OUTLINE_CAS ? 1 : helper.size == 16 ? 4 : 2;
            EXPECT_EQ(to[LW_BODY_CBZ], form & LW_OUTLINE_LSE ? 0xd503201fu : 0x14000003u);
            EXPECT_EQ(to[LW_BODY_LDRB], 0xd503201fu);
            EXPECT_EQ(to[LW_BODY_ADRP], form & LW_OUTLINE_PREFETCH ? 0xf9800011u | line << 5 : 0xd503201fu);
        }
}

#if defined(__aarch64__)
__extension__ typedef unsigned __int128 Wide;

// One helper's body where it can be run, with the byte that it tests on the page behind, and the value that it works on.
struct Bench {
    std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    char *memory =
        static_cast<char *>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    lw_body body{};
    int writes = 0, refuse_from = 3;
    bool elsewhere = false; // the memory file shows another memory
    alignas(16) Wide value = 0;

    ~Bench() { munmap(memory, 2 * page); }
    std::uint32_t *words() const { return reinterpret_cast<std::uint32_t *>(memory); }
    void put(const lw_helper &helper, int byte) {
        auto text = body_of(helper);
        const auto pages = static_cast<std::uint32_t>(page / 4096);
        text[LW_BODY_ADRP] |= (pages & 3) << 29 | pages >> 2 << 5;
        std::copy(text.begin(), text.end(), words());
        __builtin___clear_cache(memory, memory + page);
        memory[page] = static_cast<char>(byte);
        ASSERT_TRUE(lw_body_match(words(), text.size(), reinterpret_cast<std::uintptr_t>(memory), &body));
        writes = 0;
    }
    void works();
};

// Calls the body as it stands. The operand's upper bytes must not matter, nor may what lies above the value change.
void Bench::works() {
    const Wide mask = body.helper.size == 16 ? ~Wide{0} : (Wide{1} << 8 * body.helper.size) - 1;
    const Wide old = Wide{0x8899aabbccddeeff} << 64 | 0x0123456789abcdef,
               operand = Wide{0x1122334455667788} << 64 | 0xf0e1d2c3b4a59687;
    const auto same_but = [&](Wide low) { return (old & ~mask) | (low & mask); };
    const auto as = [&](auto type) { return reinterpret_cast<decltype(type)>(memory); };
    Wide got, wanted = same_but(operand);

    value = old;
    switch (body.helper.op) {
    case LW_OUTLINE_CAS:
        for (const Wide expected : {old ^ 1, old}) { // the second one succeeds
            ASSERT_TRUE(value == old) << "stored by a comparison that failed";
            got = body.helper.size == 16
                      ? as(static_cast<Wide (*)(Wide, Wide, void *)>(nullptr))(expected, operand, &value)
                      : as(static_cast<std::uint64_t (*)(std::uint64_t, std::uint64_t, void *)>(nullptr))(
                            static_cast<std::uint64_t>(expected), static_cast<std::uint64_t>(operand), &value);
            ASSERT_TRUE((got & mask) == (old & mask));
        }
        break;
    default:
        got =
            as(static_cast<std::uint64_t (*)(std::uint64_t, void *)>(nullptr))(static_cast<std::uint64_t>(operand), &value);
        ASSERT_TRUE((got & mask) == (old & mask));
        const Wide by_op[] = {0, operand, old + operand, old & ~operand, old | operand, old ^ operand};
        wanted = same_but(by_op[body.helper.op]);
    }
    ASSERT_TRUE(value == wanted);
}

Bench *bench;

bool has_lse() { return (getauxval(AT_HWCAP) & 1 << 8) != 0; }

// The library edits through these; here every single write is followed by a call of what it left behind.
extern "C" long lw_pread(long, void *to, std::size_t size, std::uint64_t at) {
    std::memcpy(to, reinterpret_cast<const void *>(at), size);
    static_cast<char *>(to)[size - 1] ^= bench->elsewhere;
    return static_cast<long>(size);
}

extern "C" long lw_pwrite(long, const void *from, std::size_t size, std::uint64_t at) {
    if (bench->writes == bench->refuse_from)
        return -EIO;
    EXPECT_EQ(size, 4u);
    EXPECT_EQ(at, bench->body.address + 4 * static_cast<unsigned>(LW_BODY_CBZ - bench->writes)) << "the wrong one first";
    bench->writes++;
    std::memcpy(reinterpret_cast<void *>(at), from, size);
    __builtin___clear_cache(reinterpret_cast<char *>(at), reinterpret_cast<char *>(at) + size);
    if (!testing::Test::HasFailure())
        bench->works();
    return static_cast<long>(size);
}

extern "C" long lw_membarrier(int) { return 0; }

TEST(Edit, LeavesAHelperThatWorksAfterEveryWrite) {
    if (!has_lse())
        GTEST_SKIP() << "without LSE nothing is edited";
    Bench here;
    bench = &here;
    if (here.memory == MAP_FAILED)
        GTEST_SKIP() << "no memory that is written and executed";
    for (const lw_helper &helper : all_helpers())
        for (unsigned form = 0; form < 4; ++form)
            for (int byte : {0, 1}) {
                here.put(helper, byte);
                here.works();
                ASSERT_EQ(lw_edit(0, &here.body, form), LW_EDIT_DONE);
                ASSERT_EQ(here.writes, 3);
                ASSERT_FALSE(HasFailure())
                    << "op " << helper.op << " size " << helper.size << " order " << helper.order << " form " << form;
            }
}

TEST(Edit, StopsWhereAWriteIsRefusedAndSaysHowFarItCame) {
    if (!has_lse())
        GTEST_SKIP() << "without LSE nothing is edited";
    Bench here;
    bench = &here;
    if (here.memory == MAP_FAILED)
        GTEST_SKIP() << "no memory that is written and executed";
    for (int refuse_from : {0, 1, 2}) {
        here.refuse_from = refuse_from;
        here.put({LW_OUTLINE_SET, 4, LW_ACQ_REL, 0}, 1);
        EXPECT_EQ(lw_edit(0, &here.body, LW_OUTLINE_LSE | LW_OUTLINE_PREFETCH), refuse_from ? LW_EDIT_PART : LW_EDIT_NONE);
        EXPECT_EQ(here.writes, refuse_from);
        here.works();
    }
    here.refuse_from = 3;
    here.elsewhere = true;
    here.put({LW_OUTLINE_SET, 4, LW_ACQ_REL, 0}, 1);
    EXPECT_EQ(lw_edit(0, &here.body, LW_OUTLINE_LSE | LW_OUTLINE_PREFETCH), LW_EDIT_NONE);
    EXPECT_EQ(here.writes, 0);
}
#endif

TEST(Choose, FollowsThePolicyByClass) {
    struct Case {
        const char *text;
        int lse;
        unsigned cas, swp, ld;
    };
    constexpr unsigned L = LW_OUTLINE_LSE, P = LW_OUTLINE_PREFETCH;
    for (const Case &c : {Case{nullptr, 1, L, L, L},
                          {"", 1, L, L, L},
                          {"default", 0, 0, 0, 0},
                          {"store", 1, L, L, L},
                          {"load", 1, L, L, L},
                          {"store,prefetch", 1, L | P, L | P, L | P},
                          {"prefetch", 0, P, P, P},
                          {"llsc", 1, 0, 0, 0},
                          {"llsc,prefetch", 1, P, P, P},
                          {"prefetch,cas=llsc", 1, P, L | P, L | P},
                          {"void=prefetch", 1, L, L, L},
                          {"xchg=prefetch", 1, L, L | P, L},
                          {"fetch=llsc", 1, L, L, 0}}) {
        std::uint8_t forms[LW_OUTLINE_OPS];
        char error[200] = "";
        EXPECT_EQ(lw_outline_choose(c.text, c.lse, forms, error, sizeof error), 0) << c.text << error;
        const std::vector<unsigned> have(forms, forms + LW_OUTLINE_OPS), want{c.cas, c.swp, c.ld, c.ld, c.ld, c.ld};
        EXPECT_EQ(have, want) << (c.text ? c.text : "unset");
    }
    std::uint8_t forms[LW_OUTLINE_OPS];
    char error[200] = "";
    EXPECT_EQ(lw_outline_choose("near", 1, forms, error, sizeof error), -EINVAL);
    EXPECT_NE(std::string(error).find("'near'"), std::string::npos);
    for (auto form : forms)
        EXPECT_EQ(form, L);
}

} // namespace
