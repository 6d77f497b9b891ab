/* What marks a function or word of the library as part of its interface, and the check that headers and library fit together. */
#ifndef LINEWRIGHT_API_H
#define LINEWRIGHT_API_H

#if defined(__GNUC__)
#define LW_API __attribute__((visibility("default")))
#else
#define LW_API
#endif

/* Raised whenever the inline code of percpu.h or srcu.h and the library no longer fit an older counterpart: a structure that both
 * use, the order of the counters, what a handle means. */
#define LW_INTERFACE 4

#ifdef __cplusplus
extern "C" {
#endif

/* Called before main for every file that includes percpu.h. Where `interface` is not the library's LW_INTERFACE, it prints one line
 * and aborts: the inline code would corrupt memory. */
LW_API void lw__check_interface(unsigned interface);

#ifdef __cplusplus
}
#endif

#endif
