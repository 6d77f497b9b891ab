/* SPDX-License-Identifier: MIT */
/* Which length and alignment the library registers, by what the kernel's auxiliary vector says of its area.
 *
 *   FIELDS=33 ALIGN=64 BYTES=64 registration     what the vector says, and what has to be registered; 0: the vector has neither
 *
 * With GLIBC_TUNABLES=glibc.pthread.rseq=0 LINEWRIGHT_RSEQ=own, so that it is the library that registers. */
#define _GNU_SOURCE
#include <linewright/percpu.h>

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

unsigned long __real_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

static unsigned long registered, unregistered;
static uintptr_t area;

/* From the environment: the library asks in a constructor, before main. */
static unsigned long argument(const char *name) {
    const char *value = getenv(name);
    return value ? strtoul(value, NULL, 10) : 0;
}

unsigned long __wrap_getauxval(unsigned long type) {
    if (type == 27)
        return argument("FIELDS");
    if (type == 28)
        return argument("ALIGN");
    return __real_getauxval(type);
}

/* The kernel of the test takes every registration; its area says CPU 0. */
long __wrap_syscall(long number, ...) {
    va_list rest;
    long words[6];
    va_start(rest, number);
    for (int i = 0; i < 6; i++)
        words[i] = va_arg(rest, long);
    va_end(rest);
    if (number != LW_SYS_RSEQ || !words[0])
        return __real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    if (words[2] & 1) {
        unregistered = (uint32_t)words[1];
    } else {
        area = (uintptr_t)words[0];
        registered = (uint32_t)words[1];
    }
    return 0;
}

int main(void) {
    const char *why;
    enum lw_percpu_mode mode = lw_percpu_mode(&why);
    unsigned long bytes = argument("BYTES");
    printf("%s: registered %lu bytes, %lu expected, at …%02lx\n", why, registered, bytes, (unsigned long)(area & 0xff));
    if (!LW_HAVE_RSEQ)
        return mode != LW_PERCPU_ATOMIC || registered;
    return mode != LW_PERCPU_RSEQ_OWN || registered != bytes || area % 64 || unregistered;
}
