/* SPDX-License-Identifier: MIT */
/* Type-generic names over the per-CPU operations; part of percpu.h. A combination that is not supported does not compile.
 *
 *   counters: lw_this_cpu_{add,sub}(p, v), lw_this_cpu_{inc,dec}(p), lw_percpu_sum(p)     32 and 64 bits
 *   values:   lw_this_cpu_read(p), lw_this_cpu_{write,and,andnot,or,xor,xchg,fetch_add,add_return,sub_return}(p, v),
 *             lw_this_cpu_{inc_return,dec_return}(p), lw_this_cpu_cmpxchg(p, expected, v),
 *             lw_this_cpu_try_cmpxchg(p, &expected, v)     8, 16, 32, 64 bits, unsigned
 *   pointers: read, write, xchg, cmpxchg through void **
 *
 * _Generic has no default, the C++ overloads take exactly these types: int *, float * or a 16-bit counter are errors.
 */
#ifndef LINEWRIGHT_PERCPU_GENERIC_H
#define LINEWRIGHT_PERCPU_GENERIC_H

#ifdef __LP64__
#define LW__LONG_BITS 64
#else
#define LW__LONG_BITS 32
#endif
#define LW__CAT2(a, b) a##b
#define LW__CAT(a, b) LW__CAT2(a, b)
#define LW__WORD(bits) LW__CAT(LW__CAT(uint, bits), _t)
#define LW__SIZED(name, bits) LW__CAT(name##_u, bits)

/* Pointers: the same operations on the unsigned integer of that size. */
LW_INLINE void *lw_this_cpu_read_ptr(void *const *p)
{
    return (void *)(uintptr_t)LW__SIZED(lw_this_cpu_read, LW__LONG_BITS)((const LW__WORD(LW__LONG_BITS) *)(const void *)p);
}

LW_INLINE void lw_this_cpu_write_ptr(void **p, const void *v)
{
    LW__SIZED(lw_this_cpu_write, LW__LONG_BITS)((LW__WORD(LW__LONG_BITS) *)(void *)p, (LW__WORD(LW__LONG_BITS))(uintptr_t)v);
}

LW_INLINE void *lw_this_cpu_xchg_ptr(void **p, const void *v)
{
    return (void *)(uintptr_t)LW__SIZED(lw_this_cpu_xchg, LW__LONG_BITS)((LW__WORD(LW__LONG_BITS) *)(void *)p,
                                                                         (LW__WORD(LW__LONG_BITS))(uintptr_t)v);
}

/* Stores v if the current CPU's pointer equals `expected`; returns the pointer before. */
LW_INLINE void *lw_this_cpu_cmpxchg_ptr(void **p, const void *expected, const void *v)
{
    return (void *)(uintptr_t)LW__SIZED(lw_this_cpu_cmpxchg, LW__LONG_BITS)((LW__WORD(LW__LONG_BITS) *)(void *)p,
                                                                            (LW__WORD(LW__LONG_BITS))(uintptr_t)expected,
                                                                            (LW__WORD(LW__LONG_BITS))(uintptr_t)v);
}

#ifdef __cplusplus
extern "C++" { /* overloads, also where the program includes this inside extern "C" */
#endif

/* One function per C type, so that both of unsigned long and unsigned long long are covered: in C named after the type and
 * chosen by _Generic, in C++ overloads. */
#ifdef __cplusplus
#define LW__NAME(name, type) name
#else
#define LW__NAME(name, type) LW__CAT(lw__##name##_, type)
#endif

#define LW__TYPED(result, ret, name, C, type, bits, params, ...) \
    static inline result LW__NAME(name, type) params             \
    {                                                            \
        ret LW__SIZED(name, bits)(__VA_ARGS__);                  \
    }
#define LW__P(C, bits) (LW__WORD(bits) *)(void *)p
#define LW__CP(C, bits) (const LW__WORD(bits) *)(const void *)p

#define LW__COUNTER_TYPE(C, type, bits)                                                \
    LW__TYPED(void, , lw_this_cpu_add, C, type, bits, (C * p, C v), LW__P(C, bits), v) \
    LW__TYPED(void, , lw_this_cpu_sub, C, type, bits, (C * p, C v), LW__P(C, bits), v) \
    LW__TYPED(C, return, lw_percpu_sum, C, type, bits, (const C *p), LW__CP(C, bits))
LW__COUNTER_TYPE(unsigned, uint, 32)
LW__COUNTER_TYPE(unsigned long, ulong, LW__LONG_BITS)
__extension__ LW__COUNTER_TYPE(unsigned long long, ullong, 64)

#define LW__VALUE_TYPE(C, type, bits)                                                                               \
    LW__TYPED(C, return, lw_this_cpu_read, C, type, bits, (const C *p), LW__CP(C, bits))                            \
    LW__TYPED(void, , lw_this_cpu_write, C, type, bits, (C * p, C v), LW__P(C, bits), v)                            \
    LW__TYPED(void, , lw_this_cpu_and, C, type, bits, (C * p, C v), LW__P(C, bits), v)                              \
    LW__TYPED(void, , lw_this_cpu_andnot, C, type, bits, (C * p, C v), LW__P(C, bits), v)                           \
    LW__TYPED(void, , lw_this_cpu_or, C, type, bits, (C * p, C v), LW__P(C, bits), v)                               \
    LW__TYPED(C, return, lw_this_cpu_xchg, C, type, bits, (C * p, C v), LW__P(C, bits), v)                          \
    LW__TYPED(C, return, lw_this_cpu_fetch_add, C, type, bits, (C * p, C v), LW__P(C, bits), v)                     \
    LW__TYPED(C, return, lw_this_cpu_add_return, C, type, bits, (C * p, C v), LW__P(C, bits), v)                    \
    LW__TYPED(C, return, lw_this_cpu_cmpxchg, C, type, bits, (C * p, C expected, C v), LW__P(C, bits), expected, v) \
    LW__TYPED(void, , lw_this_cpu_xor, C, type, bits, (C * p, C v), LW__P(C, bits), v)                              \
    LW__TYPED(C, return, lw_this_cpu_sub_return, C, type, bits, (C * p, C v), LW__P(C, bits), v)                    \
    LW__TYPED(C, return, lw_this_cpu_inc_return, C, type, bits, (C * p), LW__P(C, bits))                            \
    LW__TYPED(C, return, lw_this_cpu_dec_return, C, type, bits, (C * p), LW__P(C, bits))                            \
    LW__TYPED(bool, return, lw_this_cpu_try_cmpxchg, C, type, bits, (C * p, C * expected, C v), LW__P(C, bits),     \
              (LW__WORD(bits) *)(void *)expected, v)
LW__VALUE_TYPE(unsigned char, uchar, 8)
LW__VALUE_TYPE(unsigned short, ushort, 16)
LW__VALUE_TYPE(unsigned, uint, 32)
LW__VALUE_TYPE(unsigned long, ulong, LW__LONG_BITS)
__extension__ LW__VALUE_TYPE(unsigned long long, ullong, 64)

#ifndef __cplusplus

#define LW__COUNTER_PICK(p, name)            \
    _Generic((p),                            \
        unsigned *: lw__##name##_uint,       \
        unsigned long *: lw__##name##_ulong, \
        unsigned long long *: lw__##name##_ullong)
#define LW__VALUE_PICK(p, name)                                                             \
    unsigned char * : lw__##name##_uchar,                                                   \
                      unsigned short * : lw__##name##_ushort,                               \
                                         unsigned * : lw__##name##_uint,                    \
                                                      unsigned long * : lw__##name##_ulong, \
                                                                        unsigned long long * : lw__##name##_ullong
#define LW__CONST_PICK(p, name)                                    \
    const unsigned * : lw__##name##_uint,                          \
                       const unsigned long * : lw__##name##_ulong, \
                                               const unsigned long long * : lw__##name##_ullong

#define lw_this_cpu_add(p, v) LW__COUNTER_PICK(p, lw_this_cpu_add)((p), (v))
#define lw_this_cpu_sub(p, v) LW__COUNTER_PICK(p, lw_this_cpu_sub)((p), (v))
#define lw_this_cpu_inc(p) lw_this_cpu_add((p), 1)
#define lw_this_cpu_dec(p) lw_this_cpu_sub((p), 1)
#define lw_percpu_sum(p)                                \
    _Generic((p),                                       \
        unsigned *: lw__lw_percpu_sum_uint,             \
        unsigned long *: lw__lw_percpu_sum_ulong,       \
        unsigned long long *: lw__lw_percpu_sum_ullong, \
        LW__CONST_PICK(p, lw_percpu_sum))(p)

#define lw_this_cpu_read(p)                                  \
    _Generic((p),                                            \
        LW__VALUE_PICK(p, lw_this_cpu_read),                 \
        const unsigned char *: lw__lw_this_cpu_read_uchar,   \
        const unsigned short *: lw__lw_this_cpu_read_ushort, \
        LW__CONST_PICK(p, lw_this_cpu_read),                 \
        void **: lw_this_cpu_read_ptr,                       \
        void *const *: lw_this_cpu_read_ptr)(p)
#define lw_this_cpu_write(p, v) _Generic((p), LW__VALUE_PICK(p, lw_this_cpu_write), void **: lw_this_cpu_write_ptr)((p), (v))
#define lw_this_cpu_xchg(p, v) _Generic((p), LW__VALUE_PICK(p, lw_this_cpu_xchg), void **: lw_this_cpu_xchg_ptr)((p), (v))
#define lw_this_cpu_cmpxchg(p, expected, v) \
    _Generic((p), LW__VALUE_PICK(p, lw_this_cpu_cmpxchg), void **: lw_this_cpu_cmpxchg_ptr)((p), (expected), (v))
#define lw_this_cpu_and(p, v) _Generic((p), LW__VALUE_PICK(p, lw_this_cpu_and))((p), (v))
#define lw_this_cpu_andnot(p, v) _Generic((p), LW__VALUE_PICK(p, lw_this_cpu_andnot))((p), (v))
#define lw_this_cpu_or(p, v) _Generic((p), LW__VALUE_PICK(p, lw_this_cpu_or))((p), (v))
#define lw_this_cpu_xor(p, v) _Generic((p), LW__VALUE_PICK(p, lw_this_cpu_xor))((p), (v))
#define lw_this_cpu_sub_return(p, v) _Generic((p), LW__VALUE_PICK(p, lw_this_cpu_sub_return))((p), (v))
#define lw_this_cpu_inc_return(p) _Generic((p), LW__VALUE_PICK(p, lw_this_cpu_inc_return))(p)
#define lw_this_cpu_dec_return(p) _Generic((p), LW__VALUE_PICK(p, lw_this_cpu_dec_return))(p)
#define lw_this_cpu_try_cmpxchg(p, expected, v) \
    _Generic((p), LW__VALUE_PICK(p, lw_this_cpu_try_cmpxchg))((p), (expected), (v))
#define lw_this_cpu_fetch_add(p, v) _Generic((p), LW__VALUE_PICK(p, lw_this_cpu_fetch_add))((p), (v))
#define lw_this_cpu_add_return(p, v) _Generic((p), LW__VALUE_PICK(p, lw_this_cpu_add_return))((p), (v))

#else

#define LW__INC_DEC(C)                       \
    static inline void lw_this_cpu_inc(C *p) \
    {                                        \
        lw_this_cpu_add(p, 1);               \
    }                                        \
    static inline void lw_this_cpu_dec(C *p) \
    {                                        \
        lw_this_cpu_sub(p, 1);               \
    }
LW__INC_DEC(unsigned)
LW__INC_DEC(unsigned long)
__extension__ LW__INC_DEC(unsigned long long)

static inline void *lw_this_cpu_read(void *const *p)
{
    return lw_this_cpu_read_ptr(p);
}

static inline void lw_this_cpu_write(void **p, const void *v)
{
    lw_this_cpu_write_ptr(p, v);
}

static inline void *lw_this_cpu_xchg(void **p, const void *v)
{
    return lw_this_cpu_xchg_ptr(p, v);
}

static inline void *lw_this_cpu_cmpxchg(void **p, const void *expected, const void *v)
{
    return lw_this_cpu_cmpxchg_ptr(p, expected, v);
}

} /* extern "C++" */

#endif

#endif
