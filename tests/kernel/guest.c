/* Runs in the test machine: that linewright.ko cannot be unloaded while it works, that a killed request ends, that others are refused. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CELL "/sys/kernel/debug/linewright/cell"
#define LONG_CELL "operation=none\nform=empty\nwidth=64\ncpus=0\nwindows=1000\nwindow_us=100000\nlimit_ms=60000\n"

static int wrong(const char *what) {
    printf("guest: %s: %s\n", what, strerror(errno));
    return 1;
}

static double now_s(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void sleep_ms(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

static int load(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int error = fd < 0 || syscall(SYS_finit_module, fd, "", 0);

    if (fd >= 0)
        close(fd);
    return error;
}

static long unload(void) { return syscall(SYS_delete_module, "linewright", O_NONBLOCK); }

/* In a child: a cell of a minute. */
static pid_t begin_long_cell(void) {
    pid_t child = fork();

    if (child == 0) {
        int fd = open(CELL, O_RDWR);

        _exit(fd < 0 || write(fd, LONG_CELL, sizeof(LONG_CELL) - 1) < 0);
    }
    return child;
}

/* Under load: unloading is refused, and a second cell waits until the first has been killed. */
static int under_load(void) {
    pid_t child = begin_long_cell();
    double start;
    int status;

    sleep_ms(1000);
    if (waitpid(child, &status, WNOHANG))
        return wrong("the long cell did not run");
    if (unload() == 0 || errno != EWOULDBLOCK)
        return wrong("unloaded while a cell ran");
    start = now_s();
    kill(child, SIGKILL);
    if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status))
        return wrong("the killed request did not end by its signal");
    if (now_s() - start > 5)
        return wrong("the killed request took longer than 5 s to end");
    return 0;
}

/* Other users do not reach it, whatever the file's mode says. */
static int others(void) {
    pid_t child = fork();
    int status;

    if (child == 0) {
        chmod("/sys/kernel/debug", 0755);
        chmod(CELL, 0666);
        if (setuid(65534))
            _exit(errno == ENOSYS ? 0 : 2); /* a kernel without CONFIG_MULTIUSER has no others */
        _exit(open(CELL, O_RDWR) >= 0 || (errno != EACCES && errno != EPERM));
    }
    if (waitpid(child, &status, 0) != child || status)
        return wrong("a user who is not root could open the file");
    return 0;
}

/* A cell is over when its time is, whatever it asks for. */
static int time_limit(void) {
    static const char request[] = "operation=none\nform=empty\ncpus=0\nwindows=1000\nwindow_us=100000\nlimit_ms=500\n";
    int fd = open(CELL, O_RDWR);
    char answer[4096] = "";
    double start = now_s();

    if (fd < 0 || write(fd, request, sizeof(request) - 1) < 0)
        return wrong("a cell with a time limit");
    if (now_s() - start > 10)
        return wrong("limit_ms=500 took more than 10 s");
    while (read(fd, answer, sizeof(answer) - 1) == sizeof(answer) - 1)
        ;
    close(fd);
    return strstr(answer, "end stop=time") ? 0 : wrong("the cell does not say that its time was over");
}

/* usage: guest MODULE */
int main(int argc, char **argv) {
    if (argc != 2 || load(argv[1]))
        return wrong("load");
    if (mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL) && errno != EBUSY)
        return wrong("debugfs");
    if (under_load() || time_limit() || others())
        return 1;
    if (unload())
        return wrong("unload");
    if (access(CELL, F_OK) == 0)
        return wrong("its files stay behind the unloaded module");
    return load(argv[1]) || unload() ? wrong("loading again") : 0;
}
