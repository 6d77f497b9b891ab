/* SPDX-License-Identifier: MIT */
/* Which form each outlined operation takes: the byte array that the helpers of helper.inc test, and who fills it. */
#ifndef LINEWRIGHT_OUTLINE_H
#define LINEWRIGHT_OUTLINE_H

#include <stddef.h>
#include <stdint.h>

/* Order known to helper.inc by number. */
enum lw_outline_op {
    LW_OUTLINE_CAS,
    LW_OUTLINE_SWP,
    LW_OUTLINE_ADD,
    LW_OUTLINE_CLR,
    LW_OUTLINE_SET,
    LW_OUTLINE_EOR,
    LW_OUTLINE_OPS
};

#define LW_OUTLINE_LSE 1u      /* the LSE instruction; clear: LL/SC */
#define LW_OUTLINE_PREFETCH 2u /* PRFM PSTL1STRM first, for either */

/*
 * Hidden: each linked object (program or library) has its own, as with libgcc. Read relaxed by the helpers while another
 * thread may be filling it in; whichever value a helper sees names a right form.
 */
extern __attribute__((visibility("hidden"))) uint8_t lw_outline_forms[LW_OUTLINE_OPS];

/*
 * Fills `forms` by the value of LINEWRIGHT_ATOMICS (NULL: unset) for a CPU that has LSE or not. On a CPU without LSE every
 * setting means LL/SC. `store` and `load` mean the LSE instruction: a helper returns the old value, which a store form
 * cannot. Returns 0; or -EINVAL for a text that names no policy, with `forms` as for "default" and the reason in `error`,
 * one line cut to size - 1 bytes.
 */
int lw_outline_choose(const char *text, int have_lse, uint8_t forms[LW_OUTLINE_OPS], char *error, size_t size);

#endif
