/* SPDX-License-Identifier: MIT */
/* Whether this CPU has a 16-byte read that never writes: "yes" or "no", as the argument expects. Run on emulated CPUs. */
#include <linewright/wide.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    const char *has = lw_has_read_u128() ? "yes" : "no";

    puts(has);
    return argc != 2 || strcmp(argv[1], has) != 0;
}
