/* SPDX-License-Identifier: MIT */
/* Fills the form bytes of one linked object before its other constructors run. */
#define _GNU_SOURCE /* secure_getenv */
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include <linewright/arch/cpu.h>

#include "outline.h"

uint8_t lw_outline_forms[LW_OUTLINE_OPS];

/* 101 is the first priority that is not the implementation's: every later constructor finds the bytes filled, every
 * earlier one finds them clear, which is LL/SC. secure_getenv: a set-user-id program must not obey its caller. */
__attribute__((constructor(101))) static void lw_outline_init(void)
{
    char error[320];
    int lse = (getauxval(AT_HWCAP) & LW_HWCAP_LSE) != 0;

    if (lw_outline_choose(secure_getenv("LINEWRIGHT_ATOMICS"), lse, lw_outline_forms, error, sizeof(error)) != 0)
        fprintf(stderr, "linewright: LINEWRIGHT_ATOMICS: %s; default is used\n", error);
}
