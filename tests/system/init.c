/* SPDX-License-Identifier: MIT */
/* First process of the test machine: runs every command of /commands, reports how each ended, switches the machine off. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define MAX_ARGS 64
#define MAX_LINE 4096

static void mount_at(const char *type, const char *path) {
    mkdir(path, 0755);
    if (mount(type, path, type, 0, NULL) && errno != EBUSY)
        printf("init: mount %s: %s\n", path, strerror(errno));
}

/* In the child. Words are separated by tabs: no shell, no quoting. A word with '=' before the program sets a variable. */
static void execute(char *line) {
    char *argv[MAX_ARGS + 1];
    int argc = 0;
    for (char *word = strtok(line, "\t\n"); word && argc < MAX_ARGS; word = strtok(NULL, "\t\n")) {
        if (!argc && strchr(word, '='))
            putenv(word);
        else
            argv[argc++] = word;
    }
    argv[argc] = NULL;
    setpgid(0, 0);
    if (argc)
        execv(argv[0], argv);
    printf("init: cannot run %s: %s\n", argc ? argv[0] : "an empty line", strerror(errno));
    _exit(127);
}

/* Exit status as a shell gives it; 124 when it had to be stopped. */
static int wait_for(pid_t child, int limit_s) {
    int status;
    for (int ticks = 0; waitpid(child, &status, WNOHANG) == 0; ticks++) {
        if (ticks == limit_s * 20) {
            kill(-child, SIGKILL);
            waitpid(child, &status, 0);
            return 124;
        }
        nanosleep(&(struct timespec){0, 50000000}, NULL);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void run_all(FILE *commands, int limit_s) {
    char line[MAX_LINE];
    for (int i = 0; fgets(line, sizeof line, commands); i++) {
        printf("\n@@run %d\n", i);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            execute(line);
        int code = child < 0 ? 126 : wait_for(child, limit_s);
        printf("\n@@exit %d %d\n", i, code);
        fflush(stdout);
    }
}

int main(void) {
    mount_at("proc", "/proc");
    mount_at("sysfs", "/sys");
    mount_at("devtmpfs", "/dev");
    mount_at("tmpfs", "/tmp");
    int console = open("/dev/console", O_RDWR);
    if (console >= 0) {
        dup2(console, 0);
        dup2(console, 1);
        dup2(console, 2);
    }
    const char *limit = getenv("limit_s"),
               *level = getenv("console_level"); /* boot parameters that the kernel does not know */
    if (level)
        klogctl(8, NULL, atoi(level)); /* of the kernel's messages only those below it reach the console */
    FILE *commands = fopen("/commands", "r");
    if (commands)
        run_all(commands, limit ? atoi(limit) : 60);
    printf("\n@@end\n");
    fflush(stdout);
    tcdrain(1); /* a serial line would be switched off with what it has not sent */
    sync();
    reboot(RB_POWER_OFF);
    for (;;)
        pause();
}
