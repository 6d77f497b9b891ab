/* SPDX-License-Identifier: MIT */
/* What every public header has in common: the mark of the library's interface, the switch LW_C_API, and the check that
 * headers and library fit together.
 *
 * LW_C_API, defined before the first of these headers is included, leaves out what is for C++ alone (lw::shared_mutex,
 * lw::srcu_guard, lw::retire, lw::counter, lw::atomic_ref, lw::slice_guard) and with it the standard library's headers. A part may still be
 * included by its name, rwlock_mutex.h for example, where it is wanted. It changes nothing in C, and files compiled with and
 * without it may be linked together. */
#ifndef LINEWRIGHT_API_H
#define LINEWRIGHT_API_H

#if defined(__GNUC__)
#define LW_API __attribute__((visibility("default")))
#else
#define LW_API
#endif

/* Before every function of the interface that a header defines. The library has each as a real function of the same name,
 * too, for callers that do not compile these headers (Rust, Go, Python's ctypes, dlsym()): src/foreign/functions.c makes
 * them of this same text. */
#ifndef LW_INLINE
#define LW_INLINE static inline
#endif
#ifndef LW_ALWAYS_INLINE
#define LW_ALWAYS_INLINE LW_INLINE __attribute__((always_inline))
#endif

/* From C++20 on the compiler warns of a guard without a name, which ends at once. */
#if defined(__cplusplus) && __cplusplus >= 202002L
#define LW__NODISCARD [[nodiscard]]
#else
#define LW__NODISCARD
#endif

/* Raised whenever the inline code of percpu.h or srcu.h and the library no longer fit an older counterpart: a structure that
 * both use, the order of the counters, what a handle means. */
#define LW_INTERFACE 4

/* Around a header's text, which is C as well: C has no other casts and no other null pointer, and a `default` serves for
 * every other case. */
#if !defined(__cplusplus)
#define LW__HEADER_BEGINS
#define LW__HEADER_ENDS
#elif defined(__clang__)
#define LW__HEADER_BEGINS                                                                     \
    _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wold-style-cast\"") \
        _Pragma("clang diagnostic ignored \"-Wzero-as-null-pointer-constant\"")               \
            _Pragma("clang diagnostic ignored \"-Wswitch-enum\"")
#define LW__HEADER_ENDS _Pragma("clang diagnostic pop")
#else
#define LW__HEADER_BEGINS                                                                 \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wold-style-cast\"") \
        _Pragma("GCC diagnostic ignored \"-Wuseless-cast\"")                              \
            _Pragma("GCC diagnostic ignored \"-Wzero-as-null-pointer-constant\"")         \
                _Pragma("GCC diagnostic ignored \"-Wswitch-enum\"")
#define LW__HEADER_ENDS _Pragma("GCC diagnostic pop")
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Called before main for every file that includes percpu.h. Where `interface` is not the library's LW_INTERFACE, it prints
 * one line and aborts: the inline code would corrupt memory. */
LW_API void lw__check_interface(unsigned interface);

#ifdef __cplusplus
}
#endif

#endif
