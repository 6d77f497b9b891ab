// The signatures of helper bodies: each is known, none of its neighbours one bit away is, and noise never is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <string>
#include <vector>

extern "C" {
#include "audit/signature.h"
}

namespace {

constexpr std::uint64_t kAddress = 0x400ff8; // word 0 ends a page but one word: ADRP counts pages from where it is
constexpr std::uint32_t kAdrp = 0x90000010, kLdrb = 0x39400210;

std::vector<lw_helper> all_helpers()
{
    std::vector<lw_helper> all;
    for (int op = 0; op < LW_OUTLINE_OPS; ++op)
        for (unsigned size : {1u, 2u, 4u, 8u, 16u})
            for (int order = 0; order < LW_ORDERS; ++order) {
                const lw_helper helper{static_cast<lw_outline_op>(op), size, static_cast<lw_helper_order>(order)};
                std::uint32_t words[LW_BODY_MAX];
                if (lw_body_words(&helper, words)) all.push_back(helper);
            }
    return all;
}

std::vector<std::uint32_t> body_of(const lw_helper& helper)
{
    std::vector<std::uint32_t> words(LW_BODY_MAX);
    words.resize(lw_body_words(&helper, words.data()));
    words[LW_BODY_ADRP] = kAdrp;
    words[LW_BODY_LDRB] = kLdrb;
    return words;
}

bool same(const lw_helper& a, const lw_helper& b) { return a.op == b.op && a.size == b.size && a.order == b.order; }

TEST(Signature, KnowsEveryHelperForWhatItIs)
{
    EXPECT_EQ(all_helpers().size(), 125u);
    for (const lw_helper& helper : all_helpers()) {
        const auto words = body_of(helper);
        lw_body found{};
        char name[LW_HELPER_NAME];
        lw_helper_name(&helper, name);
        ASSERT_TRUE(lw_body_match(words.data(), words.size(), kAddress, &found)) << name;
        EXPECT_TRUE(same(found.helper, helper)) << name;
        EXPECT_EQ(found.words, words.size()) << name;
        EXPECT_EQ(found.have_lse, kAddress & ~std::uint64_t{0xfff}) << name;
        // Cut short by one word it is none: nobody may read on.
        EXPECT_FALSE(lw_body_match(words.data(), words.size() - 1, kAddress, &found)) << name;
    }
}

TEST(Signature, OneBitAwayIsNoHelper)
{
    for (const lw_helper& helper : all_helpers()) {
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

TEST(Signature, FollowsTheByteForwardsAndBackwards)
{
    auto words = body_of({LW_OUTLINE_ADD, 4, LW_ACQ_REL});
    lw_body found{};
    words[LW_BODY_ADRP] = kAdrp | 1u << 29 | 2u << 5; // 2 * 4 + 1 pages on
    words[LW_BODY_LDRB] = kLdrb | 0xabcu << 10;
    ASSERT_TRUE(lw_body_match(words.data(), words.size(), kAddress, &found));
    EXPECT_EQ(found.have_lse, 0x409abcu);
    words[LW_BODY_ADRP] = kAdrp | 3u << 29 | 0x7ffffu << 5; // one page back
    ASSERT_TRUE(lw_body_match(words.data(), words.size(), kAddress, &found));
    EXPECT_EQ(found.have_lse, 0x3ffabcu);
}

TEST(Signature, SearchFindsEveryPlaceAndNoOther)
{
    std::mt19937 random(7);
    const auto body = body_of({LW_OUTLINE_CAS, 16, LW_SYNC});
    for (std::size_t count : {1u, 2u, 15u, 31u, 32u, 33u, 200u, 4000u})
        for (int round = 0; round < 50; ++round) {
            std::vector<std::uint32_t> words(count);
            for (auto& word : words) word = random() | 1u << 28; // ADRP's bit 28 is set too, so some come close
            std::vector<std::size_t> planted;
            for (std::size_t at = random() % 40; at + body.size() <= count; at += body.size() + random() % 300) {
                std::copy(body.begin(), body.end(), words.begin() + static_cast<std::ptrdiff_t>(at));
                planted.push_back(at);
            }
            std::vector<std::size_t> seen;
            lw_body found{};
            for (std::size_t i = lw_body_next(words.data(), count, 0); i < count; i = lw_body_next(words.data(), count, i + 1))
                if (lw_body_match(&words[i], count - i, kAddress, &found)) seen.push_back(i);
            ASSERT_EQ(seen, planted);
        }
}

TEST(Edit, KeepsEveryPrefixOfItsWritesRight)
{
    for (const lw_helper& helper : all_helpers())
        for (unsigned form = 0; form < 4; ++form) {
            std::uint32_t to[LW_BODY_CBZ + 1];
            lw_edit_words(&helper, form, to);
            const std::uint32_t line = helper.op != LW_OUTLINE_CAS ? 1 : helper.size == 16 ? 4 : 2;
            EXPECT_EQ(to[LW_BODY_CBZ], form & LW_OUTLINE_LSE ? 0xd503201fu : 0x14000003u);
            EXPECT_EQ(to[LW_BODY_LDRB], 0xd503201fu);
            EXPECT_EQ(to[LW_BODY_ADRP], form & LW_OUTLINE_PREFETCH ? 0xf9800011u | line << 5 : 0xd503201fu);
        }
}

TEST(Choose, FollowsThePolicyByClass)
{
    struct Case {
        const char* text;
        int lse;
        unsigned cas, swp, ld;
    };
    constexpr unsigned L = LW_OUTLINE_LSE, P = LW_OUTLINE_PREFETCH;
    for (const Case& c : {Case{nullptr, 1, L, L, L}, {"", 1, L, L, L}, {"default", 0, 0, 0, 0}, {"store", 1, L, L, L}, {"load", 1, L, L, L},
                          {"store,prefetch", 1, L | P, L | P, L | P}, {"prefetch", 0, P, P, P}, {"llsc", 1, 0, 0, 0},
                          {"llsc,prefetch", 1, P, P, P}, {"prefetch,cas=llsc", 1, P, L | P, L | P}, {"void=prefetch", 1, L, L, L},
                          {"xchg=prefetch", 1, L, L | P, L}, {"fetch=llsc", 1, L, L, 0}}) {
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
    for (auto form : forms) EXPECT_EQ(form, L);
}

} // namespace
