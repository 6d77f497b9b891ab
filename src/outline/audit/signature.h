/* SPDX-License-Identifier: MIT */
/* The exact machine code of the outlined helpers that gcc and clang put into programs, and how to know one. */
#ifndef LINEWRIGHT_AUDIT_SIGNATURE_H
#define LINEWRIGHT_AUDIT_SIGNATURE_H

#include <stddef.h>
#include <stdint.h>

#include "../outline.h"

enum lw_helper_order { LW_RELAX, LW_ACQ, LW_REL, LW_ACQ_REL, LW_SYNC, LW_ORDERS };

/* One helper, by what its instructions do; names are lost in a stripped program. */
struct lw_helper {
    enum lw_outline_op op;
    unsigned size; /* bytes: 1, 2, 4, 8, for cas also 16 */
    enum lw_helper_order order;
    unsigned writes_back; /* 1: of 16 bytes, and a failing loop stores what it read, as gcc 14 has it */
};

/*
 * A body, in words from its first instruction but for an optional BTI C before it:
 *
 *     0  adrp x16, have_lse       3  the LSE instruction
 *     1  ldrb w16, [x16, #lo12]   4  ret
 *     2  cbz  w16, 5              5… the LL/SC loop, as long as the operation needs, and its ret
 */
enum { LW_BODY_ADRP, LW_BODY_LDRB, LW_BODY_CBZ, LW_BODY_LSE, LW_BODY_RET, LW_BODY_LLSC, LW_BODY_MAX = LW_BODY_LLSC + 11 };

/* A body that was found. */
struct lw_body {
    struct lw_helper helper;
    uint64_t address;  /* of word 0 */
    uint64_t have_lse; /* of the byte that it tests */
    size_t words;
};

/*
 * Writes words 2 … of the body to out[2] … (words 0 and 1 depend on where the byte is). Returns the number of words,
 * words 0 and 1 included, or 0 for a helper that does not exist.
 */
size_t lw_body_words(const struct lw_helper *helper, uint32_t out[LW_BODY_MAX]);

/* Whether the `count` words at `words`, which run at `address`, begin with a body, every bit of it. Returns 1 or 0. */
int lw_body_match(const uint32_t *words, size_t count, uint64_t address, struct lw_body *found);

/* What words 0 … 2 become for a form (LW_OUTLINE_LSE, LW_OUTLINE_PREFETCH). Nothing else of a body ever changes. */
void lw_edit_words(const struct lw_helper *helper, unsigned form, uint32_t to[LW_BODY_CBZ + 1]);

/*
 * The index of the first word at or after `from` that could be word 0 of a body, so that only few places need
 * lw_body_match(); `count` when there is none.
 */
size_t lw_body_next(const uint32_t *words, size_t count, size_t from);

/* "__aarch64_ldadd4_acq_rel" and the like into `name` (LW_HELPER_NAME bytes are enough), for people. */
#define LW_HELPER_NAME 32
void lw_helper_name(const struct lw_helper *helper, char name[LW_HELPER_NAME]);

#endif
