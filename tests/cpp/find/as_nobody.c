/* SPDX-License-Identifier: MIT */
/* as_nobody PROGRAM ARGS…: runs a program as a user without any privilege, for emulated machines that have no other
 * program. */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 2 || setgid(65534) || setuid(65534))
        return 125;
    execv(argv[1], argv + 1);
    perror(argv[1]);
    return 127;
}
