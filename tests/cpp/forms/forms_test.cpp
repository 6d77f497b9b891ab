// SPDX-License-Identifier: MIT
// Every form in the table exists, gives what its operation promises, and leaves its neighbours alone.
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <type_traits>

#include <linewright/arch/forms.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace {

using namespace std::literals;

bool can_execute([[maybe_unused]] std::string_view needs) {
#if defined(__aarch64__)
    constexpr unsigned long hwcap_atomics = 1UL << 8;
    return needs != "lse" || (getauxval(AT_HWCAP) & hwcap_atomics) != 0;
#else
    return true; // prefetchw is a no-op where it is missing on a 64-bit capable CPU
#endif
}

// The operation's meaning, on the middle of three words; the outer two must survive.
template <class Word, class Form> void check(std::string_view name, std::string_view operation, Form form) {
    constexpr Word canary = static_cast<Word>(0xa5a55a5aa5a55a5aU);
    const Word values[] = {
        0, 1, 7, LW_FORM_GUESS, static_cast<Word>(-1), static_cast<Word>(Word{1} << (sizeof(Word) * 8 - 1))};
    for (Word start : values)
        for (Word v : values) {
            alignas(16) Word words[5] = {canary, canary, start, canary, canary};
            Word *p = &words[2];
            Word expected = operation == "none" || operation == "read" ? start
                            : operation == "xchg"                      ? v
                                                                       : static_cast<Word>(start + v);
            if constexpr (std::is_invocable_r_v<Word, Form, const Word *>) {
                ASSERT_EQ(form(p), start) << name;
            } else if constexpr (std::is_same_v<std::invoke_result_t<Form, Word *, Word>, Word>) {
                ASSERT_EQ(form(p, v), start) << name;
            } else {
                form(p, v);
            }
            ASSERT_EQ(*p, expected) << name << " of " << v << " on " << start;
            ASSERT_TRUE(words[0] == canary && words[1] == canary && words[3] == canary && words[4] == canary) << name;
        }
}

TEST(Forms, EveryFormOfTheTable) {
    unsigned checked = 0;
#define W8 8
#define W16 16
#define W32 32
#define W64 64
#define W128 128
#define LW_CHECK(width, name, operation, needs)                                    \
    if (can_execute(#needs)) {                                                     \
        check<uint##width##_t>(#name ""sv, #operation ""sv, lw_##name##_u##width); \
        checked++;                                                                 \
    }
#define LW_FORM(arch, name, operation, order, widths, needs, ...) LW_FORM_##arch(name, operation, widths, needs)
#define LW_FORM_any(name, operation, widths, needs) LW_CHECK(32, name, operation, needs) LW_CHECK(64, name, operation, needs)
#define LW_FORM_generic(name, operation, widths, needs) LW_FORM_any(name, operation, widths, needs)
#define LW_ONLY_64(name, operation, widths, needs) \
    static_assert((widths) == W64);                \
    LW_CHECK(64, name, operation, needs)
#define LW_ONLY_32(name, operation, widths, needs) \
    static_assert((widths) == W32);                \
    LW_CHECK(32, name, operation, needs)
#define LW_ELSEWHERE(name, operation, widths, needs)
#if defined(__x86_64__)
#define LW_FORM_x86_64 LW_ONLY_64
#else
#define LW_FORM_x86_64 LW_ELSEWHERE
#endif
#if defined(__i386__)
#define LW_FORM_i386 LW_ONLY_32
#else
#define LW_FORM_i386 LW_ELSEWHERE
#endif
#if defined(__aarch64__)
#define LW_FORM_arm64 LW_ONLY_64
#else
#define LW_FORM_arm64 LW_ELSEWHERE
#endif
#include "../../../wire/forms/rmw.def"
    EXPECT_GE(checked, 12u); // the generic forms and `empty` at two widths run everywhere
}

} // namespace
