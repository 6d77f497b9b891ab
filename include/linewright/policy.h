/* SPDX-License-Identifier: MIT */
/* Which form the operations of atomic.h take, chosen once at start-up by LINEWRIGHT_ATOMICS or lw_policy_set().
 *
 *     LINEWRIGHT_ATOMICS = "default" | item { "," item }
 *     item               = form | "prefetch" | class "=" form | class "=" "prefetch"
 *     form               = "store" | "load" | "llsc"
 *     class              = "void" | "fetch" | "xchg" | "cas"
 *
 *   store     void operations have no destination (STADD …); value-returning ones keep their load form
 *   load      void operations are load forms whose value is dropped (LDADD …)
 *   llsc      every operation is a load-exclusive/store-exclusive loop
 *   prefetch  every read-modify-write prefetches the line for write first (PRFM PSTL1STRM)
 *   CLASS=…   the same for one class of operations; it overrides the general item, in whatever order they stand
 *
 * At most one form for all and one per class; only `void` has a store form; no spaces; an empty value is
 * "default". `default` is what a compiler emits: load forms where the CPU has LSE, LL/SC where it has not.
 * `store,prefetch` is what the first published kernel patch does; `load` is what was merged for per-CPU counters.
 *
 * A setting chooses instructions. Whether the core or the line's home node performs them is up to the machine, and
 * `linewright measure` finds out. Only arm64 has more than one form; elsewhere every setting is accepted and has no
 * effect, as lw_policy_describe() reports. */
#ifndef LINEWRIGHT_POLICY_H
#define LINEWRIGHT_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum lw_policy_class {
    LW_POLICY_VOID,  /* lw_add, lw_sub, lw_inc, lw_dec, lw_and, lw_andnot, lw_or, lw_xor */
    LW_POLICY_FETCH, /* lw_fetch_*, lw_*_return, lw_*_and_test */
    LW_POLICY_XCHG,  /* lw_xchg */
    LW_POLICY_CAS,   /* lw_cmpxchg, lw_try_cmpxchg, lw_add_unless, lw_inc_not_zero, lw_dec_if_positive */
    LW_POLICY_CLASSES,
};

enum lw_policy_form {
    LW_POLICY_DEFAULT, /* the compiler's choice for this CPU */
    LW_POLICY_STORE,
    LW_POLICY_LOAD,
    LW_POLICY_LLSC,
};

/* A parsed setting; the CPU has not been asked yet whether it has the instructions. */
struct lw_policy {
    uint8_t form[LW_POLICY_CLASSES];     /* enum lw_policy_form */
    uint8_t prefetch[LW_POLICY_CLASSES]; /* 0 or 1 */
};

/* Parse `text` by the grammar above; NULL and "" are "default". Returns 0, or -EINVAL with `out` set to the
 * default and, if `size` > 0, one line without newline in `error` (cut to size - 1 bytes) that names the wrong item and
 * what is allowed. Pure: reads only `text`, and calls only memory and string functions. */
LW_API int lw_policy_parse(const char *text, struct lw_policy *out, char *error, size_t size);

/* Make `text` the policy of this process from now on. Returns 0; -EINVAL when it does not parse; -EOPNOTSUPP
 * when it asks for an instruction that this CPU lacks. On an error the policy stays as it was. Call it before threads
 * start. Later calls are safe too, because all forms may act on the same word, but other threads follow at an unspecified
 * time. Do not call it from two threads at once. */
LW_API int lw_policy_set(const char *text);

/* Write one line without newline into `buffer` (cut to size - 1 bytes): the active policy and where it came from.
 * Returns the length of the whole line, as snprintf does. */
LW_API size_t lw_policy_describe(char *buffer, size_t size);

/* Whether this CPU, as the kernel reports it, has the LSE atomics; false on anything but arm64. */
LW_API bool lw_has_lse(void);

/* The word that every operation tests: LW_POLICY_* bits of each class, LW_POLICY_BITS apart. Until the library's
 * constructor has read the environment, it selects LL/SC on arm64, which runs on every CPU, so that operations in earlier
 * constructors and resolvers are correct too. Write it only through lw_policy_set(). */
LW_API extern uint32_t lw_policy_word;

#define LW_POLICY_BITS 4
#define LW_POLICY_PREFETCH_BIT 1u
#define LW_POLICY_LLSC_BIT 2u
#define LW_POLICY_STORE_BIT 4u
#define LW_POLICY_MASK 7u
/* The bits of one class, shifted to their place in the word. */
#define LW_POLICY_AT(class_, bits) ((uint32_t)(bits) << ((class_) * LW_POLICY_BITS))

#ifdef __cplusplus
}
#endif

#endif
