/* SPDX-License-Identifier: MIT */
/* Rewrites one helper's body in place, so that it is a correct helper after every single write. */
#ifndef LINEWRIGHT_AUDIT_EDIT_H
#define LINEWRIGHT_AUDIT_EDIT_H

#include "signature.h"

enum lw_edit_result {
    LW_EDIT_DONE,
    LW_EDIT_NONE, /* the memory file refused the first write, or is not this memory: unchanged */
    LW_EDIT_PART, /* it refused a later one: the helper is right, without the prefetch */
};

/*
 * Edits the body through `memory`, the process's own memory file open for writing. The CPU has LSE. The caller makes the
 * threads refetch (lw_edits_done) before it counts on the new form; before that they run the old, the new or a mixture,
 * each of them correct.
 */
enum lw_edit_result lw_edit(long memory, const struct lw_body *body, unsigned form);

/* Makes this thread and, if the kernel can, all others of the process fetch what was edited. */
void lw_edits_done(void);

#endif
