/* SPDX-License-Identifier: MIT */
/* LW_THREAD_SANITIZER: defined when this file is compiled for ThreadSanitizer, which sees builtins but no assembly. */
#ifndef LINEWRIGHT_ARCH_THREAD_SANITIZER_H
#define LINEWRIGHT_ARCH_THREAD_SANITIZER_H

#ifdef __SANITIZE_THREAD__
#define LW_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LW_THREAD_SANITIZER 1
#endif
#endif

#endif
