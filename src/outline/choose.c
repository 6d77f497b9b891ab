/* SPDX-License-Identifier: MIT */
/* From the policy's text to the form byte of each outlined operation. */
#include <linewright/policy.h>

#include "outline.h"

/* Every helper returns the old value, wanted or not, so the class `void` has no helper: LD* are the class `fetch`. */
static const uint8_t class_of[LW_OUTLINE_OPS] = {
    [LW_OUTLINE_CAS] = LW_POLICY_CAS,   [LW_OUTLINE_SWP] = LW_POLICY_XCHG,  [LW_OUTLINE_ADD] = LW_POLICY_FETCH,
    [LW_OUTLINE_CLR] = LW_POLICY_FETCH, [LW_OUTLINE_SET] = LW_POLICY_FETCH, [LW_OUTLINE_EOR] = LW_POLICY_FETCH,
};

int lw_outline_choose(const char *text, int have_lse, uint8_t forms[LW_OUTLINE_OPS], char *error, size_t size)
{
    struct lw_policy policy;
    int err = lw_policy_parse(text, &policy, error, size);

    for (int op = 0; op < LW_OUTLINE_OPS; op++) {
        int c = class_of[op];
        uint8_t form = policy.prefetch[c] ? LW_OUTLINE_PREFETCH : 0;

        if (have_lse && policy.form[c] != LW_POLICY_LLSC)
            form |= LW_OUTLINE_LSE;
        /* Relaxed: a helper that runs at this moment may see either value, and both name a correct form (helper.inc). */
        __atomic_store_n(&forms[op], form, __ATOMIC_RELAXED);
    }
    return err;
}
