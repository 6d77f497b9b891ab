/* SPDX-License-Identifier: MIT */
/* Each read as a function of its own, for its size: the address comes in, the value goes out. */
#include <linewright/wide.h>

#define SIZE(name, type, expression) \
    type size_##name(type *p);       \
    type size_##name(type *p) { return expression; }

#if defined(__i386__)
SIZE(nothing, lw_u64, (uint32_t)(uintptr_t)p)
SIZE(two_loads, lw_u64, lw_read_twice_read_u64(p))
SIZE(movq, lw_u64, lw_movq_read_u64(p))
SIZE(fild, lw_u64, lw_fild_read_u64(p))
SIZE(fxam_fild, lw_u64, lw_fxam_fild_read_u64(p))
SIZE(cmpxchg8b_read_once, lw_u64, lw_cmpxchg8b_read_once_u64(p))
SIZE(read_twice_cmpxchg8b_verify, lw_u64, lw_read_twice_cmpxchg8b_verify_u64(p))
SIZE(lw_read_u64, lw_u64, lw_read_u64(p))
SIZE(gcc_load_seq_cst, lw_u64, __atomic_load_n(p, __ATOMIC_SEQ_CST))
#else
SIZE(nothing, lw_u128, (uintptr_t)p)
SIZE(two_loads, lw_u128, lw_read_twice_read_u128(p))
SIZE(movdqa, lw_u128, lw_movdqa_read_u128(p))
SIZE(cmpxchg16b_read_once, lw_u128, lw_cmpxchg16b_read_once_u128(p))
SIZE(read_twice_cmpxchg16b_verify, lw_u128, lw_read_twice_cmpxchg16b_verify_u128(p))
SIZE(lw_read_u128, lw_u128, lw_read_u128(p))
SIZE(libatomic_load_seq_cst, lw_u128, __atomic_load_n(p, __ATOMIC_SEQ_CST))
#endif
