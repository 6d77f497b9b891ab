/* SPDX-License-Identifier: MIT */
/* Every form as a function of its own: the disassembly test reads the instructions, the other tests call them.
 *
 * `expect NAME: A B !C` is what check_disassembly.py asks of the code of function NAME: mnemonics A, then somewhere
 * after it B, and no C at all. */
#include "forms.h"

#define READ(form, name) \
    wide name(wide *p) { return form(p); }
#define WRITE(form, name) \
    void name(wide *p, wide v) { form(p, v); }
#define VALUE(form, name) \
    wide name(wide *p, wide v) { return form(p, v); }
#define CAS(form, name) \
    bool name(wide *p, wide *old, wide v) { return form(p, old, v); }

#if defined(__i386__)
/* expect f_read_twice: movl movl !cmpxchg8b */
READ(lw_read_twice_read_u64, f_read_twice)
/* expect f_movq_read: movq movq !cmpxchg8b !fildll */
READ(lw_movq_read_u64, f_movq_read)
/* expect f_fild_read: fildll fistpll !cmpxchg8b !movq */
READ(lw_fild_read_u64, f_fild_read)
/* expect f_fxam_fild_read: fdecstp fxam fnstsw fincstp fildll fistpll !cmpxchg8b */
READ(lw_fxam_fild_read_u64, f_fxam_fild_read)
/* expect f_fnsave_fild_read: fnsave fildll fistpll frstor !cmpxchg8b */
READ(lw_fnsave_fild_read_u64, f_fnsave_fild_read)
/* expect f_read_once: cmpxchg8b !jne !movq !fildll */
READ(lw_cmpxchg8b_read_once_u64, f_read_once)
/* expect f_read_verify: movl movl cmpxchg8b jne !movq !fildll */
READ(lw_read_twice_cmpxchg8b_verify_u64, f_read_verify)
/* expect f_movq_write: punpckldq movq !cmpxchg8b !fistpll */
WRITE(lw_movq_write_u64, f_movq_write)
/* expect f_fistp_write: fildll fistpll !cmpxchg8b !movq */
WRITE(lw_fistp_write_u64, f_fistp_write)
/* expect f_fxam_fistp_write: fdecstp fxam fincstp fildll fistpll !cmpxchg8b */
WRITE(lw_fxam_fistp_write_u64, f_fxam_fistp_write)
/* expect f_fnsave_fistp_write: fnsave fildll fistpll frstor !cmpxchg8b */
WRITE(lw_fnsave_fistp_write_u64, f_fnsave_fistp_write)
/* expect f_cas: cmpxchg8b !jne */
CAS(lw_cmpxchg8b_u64, f_cas)
/* expect f_xchg: movl movl cmpxchg8b jne */
VALUE(lw_cmpxchg8b_loop_xchg_u64, f_xchg)
/* expect f_add_torn_first: movl movl addl adcl cmpxchg8b jne !movq */
VALUE(lw_cmpxchg8b_loop_torn_first_fetch_add_u64, f_add_torn_first)
/* expect f_add_torn_first_void: movl movl addl adcl cmpxchg8b jne !movq */
WRITE(lw_cmpxchg8b_loop_torn_first_add_u64, f_add_torn_first_void)
/* expect f_sub_torn_first: subl sbbl cmpxchg8b jne */
VALUE(lw_cmpxchg8b_loop_torn_first_fetch_sub_u64, f_sub_torn_first)
/* expect f_and_torn_first: andl andl cmpxchg8b jne */
VALUE(lw_cmpxchg8b_loop_torn_first_fetch_and_u64, f_and_torn_first)
/* expect f_or_torn_first: orl orl cmpxchg8b jne */
VALUE(lw_cmpxchg8b_loop_torn_first_fetch_or_u64, f_or_torn_first)
/* expect f_xor_torn_first: xorl xorl cmpxchg8b jne */
VALUE(lw_cmpxchg8b_loop_torn_first_fetch_xor_u64, f_xor_torn_first)
/* expect f_add_read_first: movq addl adcl cmpxchg8b jne */
VALUE(lw_cmpxchg8b_loop_read_first_add_u64, f_add_read_first)
/* expect f_add_guess_first: addl adcl cmpxchg8b jne !movq !fildll */
VALUE(lw_cmpxchg8b_loop_guess_first_add_u64, f_add_guess_first)
/* expect f_add_last_value: addl adcl cmpxchg8b jne !movq !fildll */
wide f_add_last_value(wide *p, wide v, wide *last) { return lw_cmpxchg8b_loop_last_value_add_u64(p, v, last); }

#elif defined(__x86_64__)
/* expect f_read_twice: mov mov !cmpxchg16b */
READ(lw_read_twice_read_u128, f_read_twice)
/* expect f_vector_read: movdqa !cmpxchg16b */
READ(lw_movdqa_read_u128, f_vector_read)
/* expect f_read_once: cmpxchg16b !jne !movdqa */
READ(lw_cmpxchg16b_read_once_u128, f_read_once)
/* expect f_read_verify: mov mov cmpxchg16b jne !movdqa */
READ(lw_read_twice_cmpxchg16b_verify_u128, f_read_verify)
/* expect f_vector_write: movdqa|movaps !cmpxchg16b */
WRITE(lw_movdqa_write_u128, f_vector_write)
/* expect f_cas: cmpxchg16b !jne */
CAS(lw_cmpxchg16b_u128, f_cas)
/* expect f_xchg: mov mov cmpxchg16b jne */
VALUE(lw_cmpxchg16b_loop_xchg_u128, f_xchg)

#elif defined(__aarch64__)
/* expect f_read_twice: ldr ldr !casp !ldxp */
READ(lw_read_twice_read_u128, f_read_twice)
/* expect f_vector_read: ldp !dmb !ldar !stxp */
READ(lw_ldp_read_u128, f_vector_read)
/* expect f_vector_read_acquire: ldp dmb !ldar !stxp */
READ(lw_ldp_dmb_read_u128, f_vector_read_acquire)
/* expect f_vector_read_seq_cst: ldar ldp dmb !stxp */
READ(lw_ldar_ldp_dmb_read_u128, f_vector_read_seq_cst)
/* expect f_vector_write: stp !dmb !stxp */
WRITE(lw_stp_write_u128, f_vector_write)
/* expect f_vector_write_release: dmb stp !stxp */
WRITE(lw_dmb_stp_write_u128, f_vector_write_release)
/* expect f_vector_write_seq_cst: dmb stp dmb !stxp */
WRITE(lw_dmb_stp_dmb_write_u128, f_vector_write_seq_cst)
/* expect f_casp: casp !ldxp !dmb */
CAS(lw_casp_u128, f_casp)
/* expect f_caspa: caspa !ldxp !dmb */
CAS(lw_caspa_u128, f_caspa)
/* expect f_caspl: caspl !ldxp !dmb */
CAS(lw_caspl_u128, f_caspl)
/* expect f_caspal: caspal !ldxp !dmb */
CAS(lw_caspal_u128, f_caspal)
/* expect f_pair: prfm ldxp ccmp csel stxp cbnz !dmb !casp */
CAS(lw_ldxp_stxp_u128, f_pair)
/* expect f_pair_acquire: ldaxp stxp cbnz !dmb */
CAS(lw_ldaxp_stxp_u128, f_pair_acquire)
/* expect f_pair_release: ldxp stlxp cbnz !dmb */
CAS(lw_ldxp_stlxp_u128, f_pair_release)
/* expect f_pair_acq_rel: ldaxp stlxp cbnz !dmb */
CAS(lw_ldaxp_stlxp_u128, f_pair_acq_rel)
/* expect f_pair_full: ldxp stlxp cbnz dmb */
CAS(lw_ldxp_stlxp_dmb_u128, f_pair_full)
/* expect f_xchg_caspal: ldr ldr caspal */
VALUE(lw_caspal_loop_xchg_u128, f_xchg_caspal)
/* expect f_xchg_pair: ldxp stxp cbnz !dmb */
VALUE(lw_ldxp_stxp_xchg_u128, f_xchg_pair)
/* expect f_xchg_pair_full: ldxp stlxp cbnz dmb */
VALUE(lw_ldxp_stlxp_dmb_xchg_u128, f_xchg_pair_full)
/* expect f_read_casp: caspal !ldxp */
READ(lw_caspal_read_u128, f_read_casp)
/* expect f_read_pair: ldxp stxp cbnz !dmb */
READ(lw_ldxp_stxp_read_u128, f_read_pair)
/* expect f_read_pair_full: ldxp stlxp cbnz dmb */
READ(lw_ldxp_stlxp_dmb_read_u128, f_read_pair_full)
#endif
