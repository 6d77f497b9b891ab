/* SPDX-License-Identifier: MIT */
/* What the configuration of a kernel would say if clang had built it: included behind that of one that gcc has built. */
#undef CONFIG_CC_IS_GCC
#define CONFIG_CC_IS_CLANG 1
/* clang knows the address space of per-CPU variables, but leaves its prefix out of an operand of inline assembly. */
#undef CONFIG_CC_HAS_NAMED_AS
#undef CONFIG_USE_X86_SEG_SUPPORT
