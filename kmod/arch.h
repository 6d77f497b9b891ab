/* SPDX-License-Identifier: GPL-2.0-only */
/* Which rows of the shared tables of forms (wire/forms) belong to this kernel: each row goes to LWK_ROW or to nothing. */
#ifndef LINEWRIGHT_KMOD_ARCH_H
#define LINEWRIGHT_KMOD_ARCH_H

/* gcc defines this one, and a table names the architecture so. */
#undef i386

#define LWK_IF_any(...) LWK_ROW(__VA_ARGS__)
/* Compilers' builtins are not what a kernel is made of. */
#define LWK_IF_generic(...)

#if defined(CONFIG_X86_64)
#define LWK_IF_x86_64(...) LWK_ROW(__VA_ARGS__)
#else
#define LWK_IF_x86_64(...)
#endif
#if defined(CONFIG_X86_32)
#define LWK_IF_i386(...) LWK_ROW(__VA_ARGS__)
#else
#define LWK_IF_i386(...)
#endif
#if defined(CONFIG_ARM64)
#define LWK_IF_arm64(...) LWK_ROW(__VA_ARGS__)
#else
#define LWK_IF_arm64(...)
#endif

#define LW_FORM(arch, ...) LWK_IF_##arch(__VA_ARGS__)

#endif
