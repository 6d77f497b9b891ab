/* SPDX-License-Identifier: MIT */
/* The policy word: read from LINEWRIGHT_ATOMICS before main, changed by lw_policy_set(), reported by
 * lw_policy_describe(). */
#define _GNU_SOURCE /* secure_getenv */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linewright/policy.h>

#if defined(__aarch64__)
#include <linewright/arch/cpu.h>
#include <sys/auxv.h>
#define FORMS_DIFFER 1
#else
#define FORMS_DIFFER 0
#endif

#define LLSC_EVERYWHERE                                                                                     \
    (LW_POLICY_AT(LW_POLICY_VOID, LW_POLICY_LLSC_BIT) | LW_POLICY_AT(LW_POLICY_FETCH, LW_POLICY_LLSC_BIT) | \
     LW_POLICY_AT(LW_POLICY_XCHG, LW_POLICY_LLSC_BIT) | LW_POLICY_AT(LW_POLICY_CAS, LW_POLICY_LLSC_BIT))

/* Until the constructor below has run, the CPU's features are not known: LL/SC runs on every CPU. All forms may act on the
 * same word, so an operation before the switch and one after it are atomic to each other. */
uint32_t lw_policy_word = FORMS_DIFFER ? LLSC_EVERYWHERE : 0;

/* Where the active policy came from, for lw_policy_describe(). */
static const char *origin = "no setting read yet";
static char setting[160] = "default";

bool lw_has_lse(void)
{
#if defined(__aarch64__)
    return (getauxval(AT_HWCAP) & LW_HWCAP_LSE) != 0;
#else
    return false;
#endif
}

/* The bits of one class on this CPU, or -1 when it lacks the form. */
static int class_bits(const struct lw_policy *policy, int c, bool lse)
{
    int bits = policy->prefetch[c] ? (int)LW_POLICY_PREFETCH_BIT : 0;

    switch (policy->form[c]) {
    case LW_POLICY_DEFAULT:
        return lse ? bits : bits | (int)LW_POLICY_LLSC_BIT;
    case LW_POLICY_LLSC:
        return bits | (int)LW_POLICY_LLSC_BIT;
    case LW_POLICY_STORE:
        return lse ? bits | (int)LW_POLICY_STORE_BIT : -1;
    default:
        return lse ? bits : -1;
    }
}

static int word_of(const struct lw_policy *policy, uint32_t *word)
{
    bool lse = lw_has_lse();

    *word = 0;
    for (int c = 0; FORMS_DIFFER && c < LW_POLICY_CLASSES; c++) {
        int bits = class_bits(policy, c, lse);

        if (bits < 0)
            return -EOPNOTSUPP;
        *word |= LW_POLICY_AT(c, bits);
    }
    return 0;
}

/* Parse, check against the CPU, and only then switch. */
static int adopt(const char *text, const char *whence, char *error, size_t size)
{
    struct lw_policy policy;
    uint32_t word;
    int err = lw_policy_parse(text, &policy, error, size);

    if (err)
        return err;
    err = word_of(&policy, &word);
    if (err) {
        snprintf(error, size, "'%.100s' needs LSE atomics, which this CPU lacks; allowed here: default, llsc, prefetch",
                 text);
        return err;
    }
    /* Relaxed, like the reads in atomic.h: whichever word an operation sees, its form is a right one. */
    __atomic_store_n(&lw_policy_word, word, __ATOMIC_RELAXED);
    snprintf(setting, sizeof(setting), "%s", text && text[0] ? text : "default");
    origin = whence;
    return 0;
}

int lw_policy_set(const char *text)
{
    char error[320];

    return adopt(text, "lw_policy_set()", error, sizeof(error));
}

static const char *form_name(uint32_t bits)
{
    return bits & LW_POLICY_LLSC_BIT ? "llsc" : bits & LW_POLICY_STORE_BIT ? "store" : "load";
}

size_t lw_policy_describe(char *buffer, size_t size)
{
    static const char *const class_names[LW_POLICY_CLASSES] = {"void", "fetch", "xchg", "cas"};
    char classes[120] = "";
    size_t used = 0;

    if (!FORMS_DIFFER)
        return (size_t)snprintf(buffer, size,
                                "one form per operation on this architecture; setting '%s' (%s) is without effect", setting,
                                origin);
    for (int c = 0; c < LW_POLICY_CLASSES; c++) {
        uint32_t bits = __atomic_load_n(&lw_policy_word, __ATOMIC_RELAXED) >> (c * LW_POLICY_BITS);

        used += (size_t)snprintf(classes + used, sizeof(classes) - used, "%s=%s%s ", class_names[c], form_name(bits),
                                 bits & LW_POLICY_PREFETCH_BIT ? "+prefetch" : "");
    }
    return (size_t)snprintf(buffer, size, "%sby setting '%s' (%s); this CPU has %s", classes, setting, origin,
                            lw_has_lse() ? "LSE atomics" : "no LSE atomics");
}

/* Priority 101 is the first a program may use: before every ordinary constructor of the same object. In a
 * shared library it runs before those of whatever depends on the library. */
__attribute__((constructor(101))) static void read_environment(void)
{
    const char *text = secure_getenv("LINEWRIGHT_ATOMICS");
    const char *verbose = secure_getenv("LINEWRIGHT_VERBOSE");
    char line[320];

    if (adopt(text, text ? "LINEWRIGHT_ATOMICS" : "LINEWRIGHT_ATOMICS is not set", line, sizeof(line)) != 0) {
        fprintf(stderr, "linewright: LINEWRIGHT_ATOMICS: %s; default is used\n", line);
        adopt(NULL, "LINEWRIGHT_ATOMICS was refused", line, sizeof(line));
    }
    if (verbose && strcmp(verbose, "1") == 0) {
        lw_policy_describe(line, sizeof(line));
        fprintf(stderr, "linewright: atomics: %s\n", line);
    }
}
