/* SPDX-License-Identifier: MIT */
/* Runs a program, by its path, as a user without rights: as_nobody PROGRAM [ARGUMENT…] */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc > 1 && setgid(65534) == 0 && setuid(65534) == 0)
        execv(argv[1], argv + 1);
    perror("as_nobody");
    return 1;
}
