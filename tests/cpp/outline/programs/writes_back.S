/* SPDX-License-Identifier: MIT */
/* The 16-byte compare-and-swap as gcc 14 has it: a comparison that failed stores what was read, which makes two words one read. */
    .arch armv8-a+lse
    .bss
have_lse:
    .zero 1

    .text
.macro cas16 order, a, l, xa
    .balign 16
    .globl __aarch64_cas16_\order
    .hidden __aarch64_cas16_\order
    .type __aarch64_cas16_\order, %function
__aarch64_cas16_\order:
    adrp x16, have_lse
    ldrb w16, [x16, :lo12:have_lse]
    cbz w16, 8f
    casp\a\l x0, x1, x2, x3, [x4]
    ret
8:  mov x16, x0
    mov x17, x1
0:  ld\xa\()xp x0, x1, [x4]
    cmp x0, x16
    ccmp x1, x17, #0, eq
    csel x15, x2, x0, eq
    csel x14, x3, x1, eq
    st\l\()xp w13, x15, x14, [x4]
    cbnz w13, 0b
    .ifc \order,sync
    dmb ish
    .endif
    ret
    .size __aarch64_cas16_\order, . - __aarch64_cas16_\order
.endm
    cas16 relax
    cas16 acq, a, , a
    cas16 rel, , l
    cas16 acq_rel, a, l, a
    cas16 sync, a, l
    .section .note.GNU-stack, "", %progbits
