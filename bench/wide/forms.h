/* SPDX-License-Identifier: MIT */
/* Loops over single forms, for forms that no operation uses any more, and for the run that looks for torn values. */
#ifndef WIDE_BENCH_FORMS_H
#define WIDE_BENCH_FORMS_H

#include "side.h"

struct read_form {
    const char *name;
    loop *read;                             /* times it */
    /* counts values that are neither 0 nor all ones; null for a loop that is no read of the whole value */
    uint64_t (*torn)(wide *p, uint64_t n, uint64_t *changes);
    int tears;
};

extern const struct read_form read_forms[]; /* ends with a null name */

struct add_form {
    const char *name;
    loop *add;
    waiting_loop *waiting;
};

extern const struct add_form add_forms[]; /* ends with a null name; empty but for i386 */

/* Plain stores of full width. */
loop store;

/* Turns all bits over until `*stop`. */
void flip(wide *p, const volatile int *stop);

#endif
