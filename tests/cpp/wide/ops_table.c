/* SPDX-License-Identifier: MIT */
/* The operations as one compiler makes them: built once per compiler and options, LW_VARIANT names the table. */
#include <linewright/atomic.h>

#include "ops_table.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

#if defined(__i386__)
#define BITS u64
#else
#define BITS u128
#endif

#define ORDERS_2(X, op) X(op, , "") X(op, _release, "release")
#define ORDERS_W(X, op) ORDERS_2(X, op) X(op, _seq_cst, "seq_cst")
#define ORDERS_R(X, op) X(op, , "") X(op, _acquire, "acquire") X(op, _relaxed, "relaxed")
#define ORDERS_5(X, op) ORDERS_2(X, op) X(op, _relaxed, "relaxed") X(op, _acquire, "acquire") X(op, _acq_rel, "acq_rel")

#define NAME(op, suffix) PASTE(PASTE(PASTE(lw_, op), _), PASTE(BITS, suffix))
#define WRAP(op, suffix) PASTE(PASTE(PASTE(t_, op), _), PASTE(BITS, suffix))

/* Which functions there are, by signature. */
#if defined(__i386__)
#define VOID_V(X)    \
    ORDERS_2(X, add) \
    ORDERS_2(X, sub) ORDERS_2(X, and) ORDERS_2(X, andnot) ORDERS_2(X, or) ORDERS_2(X, xor) ORDERS_W(X, write)
#define VOID(X) ORDERS_2(X, inc) ORDERS_2(X, dec)
/* Version 23 of the formatter indents these differently each time. */
/* clang-format off */
#define VALUE_V(X)                                                                                                       \
    ORDERS_5(X, fetch_add)                                                                                               \
    ORDERS_5(X, fetch_sub) ORDERS_5(X, fetch_and) ORDERS_5(X, fetch_andnot) ORDERS_5(X, fetch_or) ORDERS_5(X, fetch_xor) \
        ORDERS_5(X, add_return) ORDERS_5(X, sub_return) ORDERS_5(X, xchg)
/* clang-format on */
#define VALUE(X) ORDERS_5(X, inc_return) ORDERS_5(X, dec_return)
#define BOOL(X) ORDERS_5(X, inc_not_zero) ORDERS_5(X, dec_if_positive) ORDERS_5(X, dec_and_test)
#define BOOL_V(X) ORDERS_5(X, sub_and_test)
#define BOOL_VV(X) ORDERS_5(X, add_unless)
#define READ_RW(X)
#else
#define VOID_V(X) ORDERS_W(X, write)
#define VOID(X)
#define VALUE_V(X) ORDERS_5(X, xchg)
#define VALUE(X)
#define BOOL(X)
#define BOOL_V(X)
#define BOOL_VV(X)
#define READ_RW(X)                  \
    X(read_rw, lw_read_u128_rw, "") \
    X(read_rw, lw_read_u128_rw_acquire, "acquire") X(read_rw, lw_read_u128_rw_relaxed, "relaxed")
#endif
#if defined(LW_U128_NO_READ)
#define READ(X)
#else
#define READ(X) ORDERS_R(X, read)
#endif

#define DEFINE_VOID_V(op, suffix, order) \
    static void WRAP(op, suffix)(wide * p, wide v) { NAME(op, suffix)(p, v); }
#define DEFINE_VOID(op, suffix, order) \
    static void WRAP(op, suffix)(wide * p) { NAME(op, suffix)(p); }
#define DEFINE_VALUE_V(op, suffix, order) \
    static wide WRAP(op, suffix)(wide * p, wide v) { return NAME(op, suffix)(p, v); }
#define DEFINE_VALUE(op, suffix, order) \
    static wide WRAP(op, suffix)(wide * p) { return (wide)NAME(op, suffix)(p); }
#define DEFINE_READ_RW(op, name, order) \
    static wide PASTE(t_, name)(wide * p) { return name(p); }
#define DEFINE_BOOL(op, suffix, order) \
    static bool WRAP(op, suffix)(wide * p) { return NAME(op, suffix)(p); }
#define DEFINE_BOOL_V(op, suffix, order) \
    static bool WRAP(op, suffix)(wide * p, wide v) { return NAME(op, suffix)(p, v); }
#define DEFINE_BOOL_VV(op, suffix, order) \
    static bool WRAP(op, suffix)(wide * p, wide v, wide unless) { return NAME(op, suffix)(p, v, unless); }
#define DEFINE_CMPXCHG(op, suffix, order) \
    static wide WRAP(op, suffix)(wide * p, wide expected, wide desired) { return NAME(op, suffix)(p, expected, desired); }
#define DEFINE_TRY(op, suffix, order) \
    static bool WRAP(op, suffix)(wide * p, wide * expected, wide desired) { return NAME(op, suffix)(p, expected, desired); }
#define ROW(op, suffix, order) {#op, order, WRAP(op, suffix)},
#define ROW_READ_RW(op, name, order) {#op, order, PASTE(t_, name)},

/* clang-format off */
VOID_V(DEFINE_VOID_V) VOID(DEFINE_VOID) VALUE_V(DEFINE_VALUE_V) VALUE(DEFINE_VALUE) READ(DEFINE_VALUE)
READ_RW(DEFINE_READ_RW) BOOL(DEFINE_BOOL) BOOL_V(DEFINE_BOOL_V) BOOL_VV(DEFINE_BOOL_VV)
ORDERS_5(DEFINE_CMPXCHG, cmpxchg) ORDERS_5(DEFINE_TRY, try_cmpxchg)

static const struct wide_void_v table_void_v[] = {VOID_V(ROW){0, 0, 0}};
static const struct wide_void table_void[] = {VOID(ROW){0, 0, 0}};
static const struct wide_value_v table_value_v[] = {VALUE_V(ROW){0, 0, 0}};
static const struct wide_value table_value[] = {VALUE(ROW){0, 0, 0}};
static const struct wide_value table_read[] = {READ(ROW){0, 0, 0}};
static const struct wide_value table_read_rw[] = {READ_RW(ROW_READ_RW){0, 0, 0}};
static const struct wide_bool table_bool[] = {BOOL(ROW){0, 0, 0}};
static const struct wide_bool_v table_bool_v[] = {BOOL_V(ROW){0, 0, 0}};
static const struct wide_bool_vv table_bool_vv[] = {BOOL_VV(ROW){0, 0, 0}};
static const struct wide_cmpxchg table_cmpxchg[] = {ORDERS_5(ROW, cmpxchg){0, 0, 0}};
static const struct wide_try table_try[] = {ORDERS_5(ROW, try_cmpxchg){0, 0, 0}};
/* clang-format on */

#ifdef __cplusplus
extern "C"
#endif
    const struct wide_ops PASTE(wide_ops_, LW_VARIANT);
const struct wide_ops PASTE(wide_ops_, LW_VARIANT) = {
    TEXT(LW_VARIANT),
#if defined(__ARM_FEATURE_ATOMICS)
    true,
#else
    false,
#endif
#if defined(LW_U128_NO_READ)
    false,
#else
    true,
#endif
#if defined(LW_DEBUG)
    true,
#else
    false,
#endif
#if defined(LW_NO_POLICY) || defined(LW_WIDE_GENERIC) || defined(__SSE2__) && defined(__i386__) || defined(__AVX__)
    true,
#else
    false,
#endif
    table_void_v,
    table_void,
    table_value_v,
    table_read,
    table_read_rw,
    table_value,
    table_bool,
    table_bool_v,
    table_bool_vv,
    table_cmpxchg,
    table_try,
};
