/* Runs a program while the wall clock is stepped to and fro by a day: step_clock INPUT PROGRAM [ARGS…]. As root. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DAY_S 86400

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
    if (argc < 3)
        return 2;
    pid_t child = begin(argv[1], argv + 2);
    int status = 0, steps = 0;
    /* Forward and back in turn, every few milliseconds: any time taken from this clock is off by a day. */
    while (child > 0 && waitpid(child, &status, WNOHANG) == 0) {
        step(steps++ % 2 ? -DAY_S : DAY_S);
        nanosleep(&(struct timespec){0, 7000000}, NULL);
    }
    printf("\nsteps %d\n", steps);
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 126;
}
