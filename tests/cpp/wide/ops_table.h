/* SPDX-License-Identifier: MIT */
/* What the operations of one compiler, at one set of options, look like to the test: tables of plain functions. */
#ifndef WIDE_OPS_TABLE_H
#define WIDE_OPS_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__i386__)
typedef uint64_t wide_number;
typedef wide_number wide __attribute__((aligned(8)));
#else
__extension__ typedef unsigned __int128 wide_number;
typedef wide_number wide __attribute__((aligned(16)));
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One line per function; the lists end with a null name. */
struct wide_void_v {
    const char *op, *order;
    void (*call)(wide *, wide);
};
struct wide_void {
    const char *op, *order;
    void (*call)(wide *);
};
struct wide_value_v {
    const char *op, *order;
    wide (*call)(wide *, wide);
};
struct wide_value {
    const char *op, *order;
    wide (*call)(wide *);
};
struct wide_bool {
    const char *op, *order;
    bool (*call)(wide *);
};
struct wide_bool_v {
    const char *op, *order;
    bool (*call)(wide *, wide);
};
struct wide_bool_vv {
    const char *op, *order;
    bool (*call)(wide *, wide, wide);
};
struct wide_cmpxchg {
    const char *op, *order;
    wide (*call)(wide *, wide, wide);
};
struct wide_try {
    const char *op, *order;
    bool (*call)(wide *, wide *, wide);
};

struct wide_ops {
    const char *variant;
    bool needs_lse; /* compiled for LSE alone */
    bool has_read;  /* lw_read_… exists in this variant */
    bool debug;     /* compiled with LW_DEBUG */
    bool fixed;     /* forms chosen by the compiler's options alone */
    const struct wide_void_v *void_v;
    const struct wide_void *void_;
    const struct wide_value_v *value_v;
    const struct wide_value *read;
    const struct wide_value *read_rw;
    const struct wide_value *value;
    const struct wide_bool *bool_;
    const struct wide_bool_v *bool_v;
    const struct wide_bool_vv *bool_vv;
    const struct wide_cmpxchg *cmpxchg;
    const struct wide_try *try_cmpxchg;
};

#ifdef __cplusplus
}
#endif

#endif
