/* SPDX-License-Identifier: MIT */
/* The auditing library of every other architecture: there is one form per operation, so it does nothing. */
#define _GNU_SOURCE /* secure_getenv */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) unsigned la_version(unsigned version);

/* 0 makes the dynamic linker unload this library and go on as if it had not been there. */
unsigned la_version(unsigned version)
{
    const char *verbose = secure_getenv("LINEWRIGHT_VERBOSE");

    (void)version;
    if (verbose && strcmp(verbose, "1") == 0)
        fputs("linewright: audit: not arm64: there are no outlined helpers to switch; the program runs unchanged\n", stderr);
    return 0;
}
