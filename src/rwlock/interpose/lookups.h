/* SPDX-License-Identifier: MIT */
/* Functions by name: the C library's, and what programs find that ask for them. */
#ifndef LINEWRIGHT_SRC_RWLOCK_LOOKUPS_H
#define LINEWRIGHT_SRC_RWLOCK_LOOKUPS_H

/* The function of the first object behind this library that has one, as dlsym(RTLD_NEXT) finds it from here, but the C library's where this library has
 * one for programs; NULL: there is none. Calls no other function. */
void *next_function(const char *name);

/* The same with the function's own type, looked for once: a function that the C library has, else the program ends here. Relaxed: each thread finds
 * the same. */
#define NEXT(name)                                                          \
    (__extension__({                                                        \
        static __typeof__(&name) found;                                     \
        __typeof__(&name) next = __atomic_load_n(&found, __ATOMIC_RELAXED); \
        if (!next) {                                                        \
            next = (__typeof__(&name))next_function(#name);                 \
            if (!next)                                                      \
                __builtin_trap();                                           \
            __atomic_store_n(&found, next, __ATOMIC_RELAXED);               \
        }                                                                   \
        next;                                                               \
    }))

/* The function that this library has for programs, by its name or that of an old libpthread; NULL: it has none. Calls no other function, since a name
 * may be asked for before any can be called. */
void *own_function(const char *name);

#endif
