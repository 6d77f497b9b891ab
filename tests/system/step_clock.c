/* SPDX-License-Identifier: MIT */
/* Runs a program while the wall clock is stepped by an hour again and again: step_clock forward|back INPUT PROGRAM [ARGS…].
 * As root. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOUR_S 3600

static void step(long seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec += seconds;
    if (clock_settime(CLOCK_REALTIME, &now)) {
        perror("step_clock: clock_settime");
        exit(126);
    }
}

/* INPUT is the program's standard input. */
static pid_t begin(const char *input, char **command) {
    int ends[2];
    pid_t child = pipe(ends) ? -1 : fork();
    if (child == 0) {
        dup2(ends[0], 0);
        close(ends[0]);
        close(ends[1]);
        execv(command[0], command);
        perror(command[0]);
        _exit(127);
    }
    close(ends[0]);
    if (write(ends[1], input, strlen(input)) < 0)
        perror("step_clock: input");
    close(ends[1]);
    return child;
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    long by = strcmp(argv[1], "back") ? HOUR_S : -HOUR_S;
    pid_t child = begin(argv[2], argv + 3);
    int status = 0, steps = 0;
    /* One way alone, several times in a window of a millisecond: there is no window in which steps cancel out. */
    for (; child > 0 && waitpid(child, &status, WNOHANG) == 0; steps++) {
        step(by);
        nanosleep(&(struct timespec){0, 300000}, NULL);
    }
    printf("\nsteps %d\n", steps);
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 126;
}
