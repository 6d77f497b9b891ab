/* SPDX-License-Identifier: MIT */
/* The forms as functions: forms.c says what each of them consists of. */
#ifndef WIDE_FORMS_H
#define WIDE_FORMS_H

#include <linewright/wide.h>

#include "ops_table.h"

#ifdef __cplusplus
extern "C" {
#endif

wide f_read_twice(wide *p);
#if defined(__i386__)
wide f_movq_read(wide *p);
wide f_fild_read(wide *p);
wide f_fxam_fild_read(wide *p);
wide f_fnsave_fild_read(wide *p);
wide f_read_once(wide *p);
wide f_read_verify(wide *p);
void f_movq_write(wide *p, wide v);
void f_fistp_write(wide *p, wide v);
void f_fxam_fistp_write(wide *p, wide v);
void f_fnsave_fistp_write(wide *p, wide v);
bool f_cas(wide *p, wide *old, wide v);
wide f_xchg(wide *p, wide v);
wide f_add_torn_first(wide *p, wide v);
void f_add_torn_first_void(wide *p, wide v);
wide f_sub_torn_first(wide *p, wide v);
wide f_and_torn_first(wide *p, wide v);
wide f_or_torn_first(wide *p, wide v);
wide f_xor_torn_first(wide *p, wide v);
wide f_add_read_first(wide *p, wide v);
wide f_add_guess_first(wide *p, wide v);
wide f_add_last_value(wide *p, wide v, wide *last);
#elif defined(__x86_64__)
wide f_vector_read(wide *p);
wide f_read_once(wide *p);
wide f_read_verify(wide *p);
void f_vector_write(wide *p, wide v);
bool f_cas(wide *p, wide *old, wide v);
wide f_xchg(wide *p, wide v);
#elif defined(__aarch64__)
wide f_vector_read(wide *p);
wide f_vector_read_acquire(wide *p);
wide f_vector_read_seq_cst(wide *p);
void f_vector_write(wide *p, wide v);
void f_vector_write_release(wide *p, wide v);
void f_vector_write_seq_cst(wide *p, wide v);
bool f_casp(wide *p, wide *old, wide v);
bool f_caspa(wide *p, wide *old, wide v);
bool f_caspl(wide *p, wide *old, wide v);
bool f_caspal(wide *p, wide *old, wide v);
bool f_pair(wide *p, wide *old, wide v);
bool f_pair_acquire(wide *p, wide *old, wide v);
bool f_pair_release(wide *p, wide *old, wide v);
bool f_pair_acq_rel(wide *p, wide *old, wide v);
bool f_pair_full(wide *p, wide *old, wide v);
wide f_xchg_caspal(wide *p, wide v);
wide f_xchg_pair(wide *p, wide v);
wide f_xchg_pair_full(wide *p, wide v);
wide f_read_casp(wide *p);
wide f_read_pair(wide *p);
wide f_read_pair_full(wide *p);
#endif

#ifdef __cplusplus
}
#endif

#endif
