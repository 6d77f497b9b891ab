/* SPDX-License-Identifier: MIT */
/* The check that the headers a program was compiled with fit the library that it runs with. */
#include <linewright/api.h>

#include <stdio.h>
#include <stdlib.h>

void lw__check_interface(unsigned interface)
{
    if (interface == LW_INTERFACE)
        return;
    fprintf(stderr,
            "linewright: this program was compiled with headers of interface %u, and runs with a library of interface %u; "
            "compile it again with the library's own headers\n",
            interface, (unsigned)LW_INTERFACE);
    abort();
}
