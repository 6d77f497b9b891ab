/* SPDX-License-Identifier: MIT */
/* Code that is nearly an outlined helper, each in one respect not; none of it may be touched. And one that is one. */
    .arch armv8-a+lse
    .bss
have_lse:
    .zero 1
    .section .rodata
cannot_be_set:
    .byte 1
    .section .data.rel.ro, "aw"
read_only_from_main_on:
    .byte 1

    .text
/* The common way in and the common way out, with what differs as arguments. */
.macro way_in reg=16, byte=have_lse, branch=cbz, load=ldrb
    .balign 16
    hint #34
    adrp x\reg, \byte
    \load w\reg, [x\reg, :lo12:\byte]
    \branch w\reg, 8f
.endm
.macro way_out ld=ldaxr, st=stlxr
8:  mov x16, x0
0:  \ld x0, [x1]
    add x17, x0, x16
    \st w15, x17, [x1]
    cbnz w15, 0b
    ret
.endm

    .globl lookalikes
    .type lookalikes, %function
lookalikes:
    way_in reg=17               /* another register */
    ldaddal x0, x0, [x1]
    ret
    way_out
    way_in branch=cbnz          /* the other way round */
    ldaddal x0, x0, [x1]
    ret
    way_out
    way_in byte=cannot_be_set   /* a byte that cannot be set */
    ldaddal x0, x0, [x1]
    ret
    way_out
    way_in byte=read_only_from_main_on
    ldaddal x0, x0, [x1]
    ret
    way_out
    way_in                      /* the result goes elsewhere */
    ldaddal x0, x2, [x1]
    ret
    way_out
    way_in                      /* the address comes from elsewhere */
    ldaddal x0, x0, [x2]
    ret
    way_out
    way_in                      /* the forms differ in order */
    ldaddal x0, x0, [x1]
    ret
    way_out ld=ldxr
    way_in                      /* an operation that no helper has */
    ldsmaxal x0, x0, [x1]
    ret
    way_out
    way_in                      /* one more instruction before the return */
    ldaddal x0, x0, [x1]
    nop
    ret
    way_out
    way_in                      /* not a return */
    ldaddal x0, x0, [x1]
    br x30
    way_out
    way_in                      /* the branch goes into the middle of the loop */
    ldaddal x0, x0, [x1]
    ret
    nop
    way_out
    way_in                      /* the loop computes something else */
    ldaddal x0, x0, [x1]
    ret
8:  mov x16, x0
0:  ldaxr x0, [x1]
    sub x17, x0, x16
    stlxr w15, x17, [x1]
    cbnz w15, 0b
    ret
    way_in                      /* the loop starts elsewhere */
    ldaddal x0, x0, [x1]
    ret
8:  mov x16, x0
0:  ldaxr x0, [x1]
    add x17, x0, x16
    stlxr w15, x17, [x1]
    cbnz w15, 8b
    ret
    way_in load=ldrsb           /* the byte is read otherwise */
    ldaddal x0, x0, [x1]
    ret
    way_out
    way_in                      /* half of it, at the very end */
    ldaddal x0, x0, [x1]
    ret
8:  mov x16, x0
    .size lookalikes, . - lookalikes

#ifdef ONE_REAL
    .globl real_one
    .type real_one, %function
real_one:
    way_in
    ldaddal x0, x0, [x1]
    ret
    way_out
    .size real_one, . - real_one
#endif
    .section .note.GNU-stack, "", %progbits
