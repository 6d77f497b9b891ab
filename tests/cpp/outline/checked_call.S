/* SPDX-License-Identifier: MIT */
/* int lw_checked_call(void (*helper)(void), uint64_t regs[5]): calls a helper with x0..x4 from `regs`, stores the same
 * registers back, and returns the number of other registers (x5..x14, x18..x30 but sp, d8..d15 and v0's and v31's whole
 * width) that came back changed. x15, x16, x17 and the flags are the helper's to change. */
    .text
    .globl lw_checked_call
    .type lw_checked_call, %function
lw_checked_call:
    hint #34
    stp x29, x30, [sp, #-192]!
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    stp x1, x18, [sp, #160]

    mov x16, x0
    mov x15, sp
    str x15, [sp, #176]
    .irp n, 5,6,7,8,9,10,11,12,13,14,19,20,21,22,23,24,25,26,27,28,29
    mov x\n, #0x5a00 + \n
    movk x\n, #0xc0de, lsl #48
    .endr
    .irp n, 8,9,10,11,12,13,14
    dup v\n\().2d, x\n
    .endr
    mov x17, x1
    dup v0.2d, x5
    dup v15.2d, x5
    dup v31.2d, x6
    ldp x0, x1, [x17]
    ldp x2, x3, [x17, #16]
    ldr x4, [x17, #32]
    blr x16

    /* Count into x16, with x15 and x17 as scratch. */
    mov x16, #0
    .irp n, 5,6,7,8,9,10,11,12,13,14,19,20,21,22,23,24,25,26,27,28,29
    mov x15, #0x5a00 + \n
    movk x15, #0xc0de, lsl #48
    cmp x15, x\n
    cinc x16, x16, ne
    .endr
    .irp n, 8,9,10,11,12,13,14
    umov x15, v\n\().d[0]
    cmp x15, x\n
    cinc x16, x16, ne
    .endr
    .irp n, 0,15
    umov x15, v\n\().d[1]
    cmp x15, x5
    cinc x16, x16, ne
    .endr
    umov x15, v31.d[1]
    cmp x15, x6
    cinc x16, x16, ne
    ldr x15, [sp, #176]
    mov x17, sp
    cmp x15, x17
    cinc x16, x16, ne
    ldr x15, [sp, #168]
    cmp x15, x18
    cinc x16, x16, ne

    ldr x17, [sp, #160]
    stp x0, x1, [x17]
    stp x2, x3, [x17, #16]
    str x4, [x17, #32]
    mov x0, x16
    ldp d14, d15, [sp, #144]
    ldp d12, d13, [sp, #128]
    ldp d10, d11, [sp, #112]
    ldp d8, d9, [sp, #96]
    ldp x27, x28, [sp, #80]
    ldp x25, x26, [sp, #64]
    ldp x23, x24, [sp, #48]
    ldp x21, x22, [sp, #32]
    ldp x19, x20, [sp, #16]
    ldp x29, x30, [sp], #192
    ret
    .size lw_checked_call, . - lw_checked_call
    .section .note.GNU-stack, "", %progbits
