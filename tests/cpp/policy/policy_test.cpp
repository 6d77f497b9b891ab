// SPDX-License-Identifier: MIT
// The grammar of LINEWRIGHT_ATOMICS, its errors, and lw_policy_set() on this CPU.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>

#if defined(__aarch64__)
#include <csetjmp>
#include <csignal>

#include <linewright/atomic.h>
#endif
#include <linewright/policy.h>

namespace {

constexpr int D = LW_POLICY_DEFAULT, S = LW_POLICY_STORE, L = LW_POLICY_LOAD, X = LW_POLICY_LLSC;

struct Case {
    const char *text;
    std::array<int, LW_POLICY_CLASSES> form;     // void, fetch, xchg, cas
    std::array<int, LW_POLICY_CLASSES> prefetch;
};

TEST(PolicyParse, EverySettingOfTheGrammar) {
    const Case cases[] = {
        {nullptr, {D, D, D, D}, {0, 0, 0, 0}},
        {"", {D, D, D, D}, {0, 0, 0, 0}},
        {"default", {D, D, D, D}, {0, 0, 0, 0}},
        {"store", {S, L, L, L}, {0, 0, 0, 0}},
        {"load", {L, L, L, L}, {0, 0, 0, 0}},
        {"llsc", {X, X, X, X}, {0, 0, 0, 0}},
        {"prefetch", {D, D, D, D}, {1, 1, 1, 1}},
        {"store,prefetch", {S, L, L, L}, {1, 1, 1, 1}},
        {"prefetch,store", {S, L, L, L}, {1, 1, 1, 1}},
        {"prefetch,cas=llsc", {D, D, D, X}, {1, 1, 1, 1}},
        {"cas=llsc,prefetch", {D, D, D, X}, {1, 1, 1, 1}},
        {"llsc,cas=load", {X, X, X, L}, {0, 0, 0, 0}},
        {"void=store", {S, D, D, D}, {0, 0, 0, 0}},
        {"void=prefetch", {D, D, D, D}, {1, 0, 0, 0}},
        {"fetch=prefetch,xchg=prefetch", {D, D, D, D}, {0, 1, 1, 0}},
        {"store,fetch=llsc,fetch=prefetch", {S, X, L, L}, {0, 1, 0, 0}},
        {"load,load", {L, L, L, L}, {0, 0, 0, 0}},
    };
    for (const Case &c : cases) {
        lw_policy policy;
        char error[200] = "untouched";
        ASSERT_EQ(lw_policy_parse(c.text, &policy, error, sizeof error), 0) << c.text << ": " << error;
        for (int k = 0; k < LW_POLICY_CLASSES; k++) {
            EXPECT_EQ(policy.form[k], c.form[k]) << c.text << " class " << k;
            EXPECT_EQ(policy.prefetch[k], c.prefetch[k]) << c.text << " class " << k;
        }
    }
}

TEST(PolicyParse, WhatIsNotAllowedIsNamedWithWhatIs) {
    const std::pair<const char *, const char *> cases[] = {
        {"near", "'near' is unknown"},
        {"Store", "'Store' is unknown"},
        {" store", "' store' is unknown"},
        {"store,", "'' is an empty item"},
        {",", "'' is an empty item"},
        {"store,,prefetch", "'' is an empty item"},
        {"store,load", "'load' contradicts an earlier form"},
        {"cas=llsc,cas=load", "'cas=load' contradicts an earlier form"},
        {"cas=store", "'cas=store' is impossible"},
        {"add=llsc", "'add=llsc' names no class"},
        {"=llsc", "'=llsc' names no class"},
        {"cas=", "'cas=' is unknown"},
        {"cas==llsc", "'cas==llsc' is unknown"},
        {"default,store", "'default' stands alone"},
        {"store,default", "'default' stands alone"},
        {"cas=default", "'cas=default' stands alone"},
        {"stor\x1b[2J", "'stor?[2J' is unknown"},
    };
    for (auto [text, wanted] : cases) {
        lw_policy policy;
        char error[320];
        std::memset(&policy, 0xee, sizeof policy);
        EXPECT_EQ(lw_policy_parse(text, &policy, error, sizeof error), -EINVAL) << text;
        EXPECT_EQ(std::string(error).rfind(wanted, 0), 0u) << text << ": " << error;
        for (const char *allowed : {"default", "store", "load", "llsc", "prefetch", "cas"})
            EXPECT_NE(std::strstr(error + std::strlen(wanted), allowed), nullptr) << error;
        EXPECT_EQ(std::strpbrk(error, "\n\r\x1b"), nullptr);
        EXPECT_EQ(policy.form[LW_POLICY_CAS], D); // the default, whatever was there
    }
}

TEST(PolicyParse, ErrorNeverLeavesItsBuffer) {
    const std::string text(5000, 'x');
    for (size_t size = 0; size < 300; size++) {
        std::string buffer(size + 1, '#');
        lw_policy policy;
        EXPECT_EQ(lw_policy_parse(text.c_str(), &policy, buffer.data(), size), -EINVAL);
        EXPECT_EQ(buffer[size], '#');
        if (size > 0) {
            EXPECT_LT(std::strlen(buffer.c_str()), size);
        }
    }
    lw_policy policy;
    char error[320];
    lw_policy_parse(text.c_str(), &policy, error, sizeof error);
    EXPECT_NE(std::strstr(error, "cas=load|llsc|prefetch"), nullptr) << "the end of what is allowed is cut: " << error;
}

// Any string made of the grammar's own pieces either parses into known values or gives one clean line.
TEST(PolicyParse, RandomPieces) {
    const char *pieces[] = {"store", "load", "llsc", "prefetch", "default", "void", "fetch",
                            "xchg",  "cas",  "=",    ",",        "s",       " "};
    std::mt19937 random(4);
    unsigned parsed = 0;
    for (int round = 0; round < 50000; round++) {
        std::string text;
        for (unsigned n = random() % 8; n > 0; n--)
            text += pieces[random() % std::size(pieces)];
        lw_policy policy;
        char error[320] = "";
        int err = lw_policy_parse(text.c_str(), &policy, error, sizeof error);
        ASSERT_TRUE(err == 0 || err == -EINVAL);
        ASSERT_EQ(err == 0, error[0] == '\0') << text;
        parsed += err == 0;
        for (int k = 0; k < LW_POLICY_CLASSES; k++) {
            ASSERT_LE(policy.form[k], X);
            ASSERT_LE(policy.prefetch[k], 1);
            ASSERT_TRUE(k == LW_POLICY_VOID || policy.form[k] != S);
        }
    }
    EXPECT_GT(parsed, 1000u);
}

std::string describe() {
    char line[400];
    size_t length = lw_policy_describe(line, sizeof line);
    EXPECT_EQ(length, std::strlen(line));
    return line;
}

TEST(PolicySet, WrongOrImpossibleSettingsChangeNothing) {
    ASSERT_EQ(lw_policy_set("llsc"), 0);
    const std::string before = describe();
    const uint32_t word = lw_policy_word;
    EXPECT_EQ(lw_policy_set("nonsense"), -EINVAL);
    EXPECT_EQ(describe(), before);
    EXPECT_EQ(lw_policy_word, word);
#if defined(__aarch64__)
    if (!lw_has_lse()) {
        for (const char *text : {"store", "load", "cas=load", "void=store", "store,prefetch"})
            EXPECT_EQ(lw_policy_set(text), -EOPNOTSUPP) << text;
        EXPECT_EQ(describe(), before);
        EXPECT_EQ(lw_policy_word, word);
    }
#endif
    ASSERT_EQ(lw_policy_set(nullptr), 0);
}

TEST(PolicySet, DescribeSaysWhatIsActiveAndWhy) {
    ASSERT_EQ(lw_policy_set("llsc,void=prefetch"), 0);
    const std::string line = describe();
    EXPECT_NE(line.find("llsc,void=prefetch"), std::string::npos) << line;
    EXPECT_NE(line.find("lw_policy_set()"), std::string::npos) << line;
#if defined(__aarch64__)
    EXPECT_EQ(line.rfind("void=llsc+prefetch fetch=llsc xchg=llsc cas=llsc ", 0), 0u) << line;
    EXPECT_NE(line.find(lw_has_lse() ? "has LSE" : "has no LSE"), std::string::npos) << line;
#else
    EXPECT_NE(line.find("without effect"), std::string::npos) << line;
    EXPECT_EQ(lw_policy_word, 0u);
#endif
    char small[10];
    EXPECT_EQ(lw_policy_describe(small, sizeof small), line.size());
    EXPECT_EQ(std::strlen(small), sizeof small - 1);
    EXPECT_EQ(lw_policy_describe(nullptr, 0), line.size());
    ASSERT_EQ(lw_policy_set("default"), 0);
}

#if defined(__aarch64__)
sigjmp_buf before_operation;

extern "C" void to_before_operation(int) { siglongjmp(before_operation, 1); }

bool is_illegal(void (*operation)()) {
    if (sigsetjmp(before_operation, 1))
        return true;
    operation();
    return false;
}

uint32_t word;

#define V(name) {#name, LW_POLICY_VOID, [] { lw_##name##_u32(&word, 1); }}
#define V1(name) {#name, LW_POLICY_VOID, [] { lw_##name##_u32(&word); }}
#define F(name) {#name, LW_POLICY_FETCH, [] { lw_##name##_u32(&word, 1); }}
#define F1(name) {#name, LW_POLICY_FETCH, [] { lw_##name##_u32(&word); }}
const struct {
    const char *name;
    int of_class;
    void (*run)();
} operations[] = {
    V(add),
    V(sub),
    V1(inc),
    V1(dec),
    V(and),
    V(andnot),
    V(or),
    V(xor),
    F(fetch_add),
    F(fetch_sub),
    F(fetch_and),
    F(fetch_andnot),
    F(fetch_or),
    F(fetch_xor),
    F(add_return),
    F(sub_return),
    F1(inc_return),
    F1(dec_return),
    F(sub_and_test),
    F1(dec_and_test),
    {"xchg", LW_POLICY_XCHG, [] { lw_xchg_u32(&word, 5); }},
    {"cmpxchg", LW_POLICY_CAS, [] { lw_cmpxchg_u32(&word, 5, 6); }},
    {"try_cmpxchg", LW_POLICY_CAS,
     [] {
         uint32_t old = 7;
         lw_try_cmpxchg_u32(&word, &old, 8);
     }},
    {"add_unless", LW_POLICY_CAS,
     [] {
         word = 1;
         lw_add_unless_u32(&word, 1, 0);
     }},
    {"inc_not_zero", LW_POLICY_CAS,
     [] {
         word = 1;
         lw_inc_not_zero_u32(&word);
     }},
    {"dec_if_positive", LW_POLICY_CAS,
     [] {
         word = 1;
         lw_dec_if_positive_u32(&word);
     }},
};
#undef V
#undef V1
#undef F
#undef F1

// On a CPU without LSE a class that is set to take it, although the library would refuse, shows which operations listen.
TEST(PolicyClasses, AnOperationTakesTheFormOfItsOwnClass) {
    if (lw_has_lse())
        GTEST_SKIP() << "every form runs on this CPU: none gives itself away";
    const uint32_t llsc_everywhere = lw_policy_word;
    const auto before = std::signal(SIGILL, to_before_operation);
    for (int set_class = 0; set_class < LW_POLICY_CLASSES; set_class++)
        for (uint32_t bits : {0u, set_class == LW_POLICY_VOID ? LW_POLICY_STORE_BIT : LW_POLICY_PREFETCH_BIT}) {
            lw_policy_word = (llsc_everywhere & ~LW_POLICY_AT(set_class, LW_POLICY_MASK)) | LW_POLICY_AT(set_class, bits);
            for (const auto &operation : operations)
                EXPECT_EQ(is_illegal(operation.run), operation.of_class == set_class)
                    << operation.name << ' ' << set_class << ' ' << bits;
        }
    std::signal(SIGILL, before);
    lw_policy_word = llsc_everywhere;
}
#endif

} // namespace
