/* SPDX-License-Identifier: MIT */
/* What the library asks of the environment. A set-user-ID program's environment is not asked. */
#ifndef LW_ENVIRONMENT_H
#define LW_ENVIRONMENT_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* LINEWRIGHT_VERBOSE=1: the library may write to standard error. Include after _GNU_SOURCE is defined. */
static inline bool lw_verbose(void)
{
    const char *value = secure_getenv("LINEWRIGHT_VERBOSE");
    return value && !strcmp(value, "1");
}

#endif
