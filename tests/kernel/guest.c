/* SPDX-License-Identifier: MIT */
/*
 * Runs in the test machine: that linewright.ko cannot be unloaded while it works, that a killed request ends, that others
 * are refused, that the runner unloads it however it ends, and that its PCI device may go away.
 *
 *     guest MODULE                      in the machine of tests/kernel/machine.py, whose runner is /t/1/linewright-kernel
 *     guest MODULE VENDOR:DEVICE        the PCI device only
 *     guest MODULE killed               how long requests of every kind last after they have been killed
 */
#define _GNU_SOURCE
#include <dirent.h>
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
#define CELL_LINES "operation=none\nform=empty\nwidth=64\n"
#define RUNNER "/t/1/linewright-kernel"

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

static int load_with(const char *path, const char *parameters) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int error = fd < 0 || syscall(SYS_finit_module, fd, parameters, 0);

    if (fd >= 0)
        close(fd);
    return error;
}

static int load(const char *path) { return load_with(path, ""); }

static long unload(void) { return syscall(SYS_delete_module, "linewright", O_NONBLOCK); }

/* A request and its answer; 0, or what the request was refused with. */
static int ask(int fd, const char *request, char *answer, size_t room) {
    int error = write(fd, request, strlen(request)) < 0 ? errno : 0;
    ssize_t n;
    size_t used = 0;

    lseek(fd, 0, SEEK_SET);
    while (used + 1 < room && (n = read(fd, answer + used, room - 1 - used)) > 0)
        used += (size_t)n;
    answer[used] = 0;
    return error;
}

/* In a child: a window of ten seconds. */
static pid_t begin_long_window(void) {
    pid_t child = fork();

    if (child == 0) {
        static char answer[1 << 20];
        int fd = open(CELL, O_RDWR);

        _exit(fd < 0 || ask(fd, "prepare 0\n" CELL_LINES, answer, sizeof(answer)) ||
              ask(fd, "window 0\ncpus=0\nwindow_us=10000000\nlimit_ms=60000\n", answer, sizeof(answer)));
    }
    return child;
}

/* Under load: unloading is refused, and a second cell waits until the first has been killed. */
static int under_load(void) {
    pid_t child = begin_long_window();
    double start;
    int status;

    sleep_ms(1000);
    if (waitpid(child, &status, WNOHANG))
        return wrong("the long window did not run");
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

/* A window is over when its time is, however long it was to be, and says so. */
static int time_limit(void) {
    static char answer[1 << 20];
    int fd = open(CELL, O_RDWR);

    if (fd < 0 || ask(fd, "prepare 0\n" CELL_LINES, answer, sizeof(answer)) ||
        ask(fd, "window 0\ncpus=0\nwindow_us=10000000\nlimit_ms=200\n", answer, sizeof(answer)))
        return wrong("a window with a time limit");
    close(fd);
    return strstr(answer, "stop=time") ? 0 : wrong("the window does not say that its time was over");
}

/* With counters=0 no event is opened, the answers say so, and windows run. */
static int without_counters(const char *module) {
    static char answer[1 << 20];
    int fd, forms;
    ssize_t n;

    if (load_with(module, "counters=0"))
        return wrong("loading with counters=0");
    forms = open("/sys/kernel/debug/linewright/forms", O_RDONLY);
    n = forms < 0 ? -1 : read(forms, answer, 4096);
    if (n < 1 || (answer[n] = 0, !strstr(answer, " counters=0 counts= lacks=")))
        return wrong("the list of forms does not say that counters are off");
    close(forms);
    fd = open(CELL, O_RDWR);
    if (fd < 0 || ask(fd, "prepare 0\n" CELL_LINES, answer, sizeof(answer)) ||
        ask(fd, "window 0\ncpus=0\n", answer, sizeof(answer)) || !strstr(answer, "\ncounted\n"))
        return wrong("a window without counters");
    close(fd);
    return unload() ? wrong("unloading without counters") : 0;
}

/* The runner, with a pipe as its input; the pipe's end. */
static int start_runner(const char *module, pid_t *child) {
    int ends[2], answers[2];
    char line[6] = "";

    if (pipe(ends) || pipe(answers))
        return -1;
    *child = fork();
    if (*child == 0) {
        dup2(ends[0], 0);
        dup2(answers[1], 1);
        close(ends[1]);
        execl(RUNNER, "linewright-kernel", "--module", module, (char *)NULL);
        _exit(127);
    }
    close(ends[0]);
    close(answers[1]);
    if (read(answers[0], line, 5) != 5 || strcmp(line, "ready"))
        return -1;
    return ends[1];
}

/* It unloads the module at the end of its input and on a request to end; a terminal's Ctrl-C is the probe's to act on. */
static int runner_unloads(const char *module, int signal) {
    pid_t child;
    int input = start_runner(module, &child), status;

    if (input < 0)
        return wrong("the runner did not start");
    if (access(CELL, F_OK))
        return wrong("the runner did not load the module");
    kill(child, signal);
    if (signal == SIGINT && (sleep_ms(300), waitpid(child, &status, WNOHANG) != 0))
        return wrong("SIGINT ended the runner");
    if (signal == SIGINT)
        close(input);
    if (waitpid(child, &status, 0) != child)
        return wrong("the runner did not end");
    if (access(CELL, F_OK) == 0)
        return wrong("the runner left the module loaded");
    return 0;
}

static int tell_driver(const char *file, const char *device) {
    char path[64];
    int fd, bad;

    snprintf(path, sizeof(path), "/sys/bus/pci/drivers/linewright/%s", file);
    fd = open(path, O_WRONLY);
    bad = fd < 0 || write(fd, device, strlen(device)) < 0;
    if (fd >= 0)
        close(fd);
    return bad;
}

/* The name of the one device that the driver has. */
static int bound_device(char *name, size_t room) {
    DIR *folder = opendir("/sys/bus/pci/drivers/linewright");
    struct dirent *entry;
    int found = 0;

    while (folder && (entry = readdir(folder)))
        if (strchr(entry->d_name, ':')) {
            snprintf(name, room, "%.*s", (int)room - 1, entry->d_name);
            found++;
        }
    if (folder)
        closedir(folder);
    return found != 1;
}

/* Whether a window's thread is there, which is so from its start to its end. */
static int window_runs(void) {
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    int found = 0;

    while (folder && (entry = readdir(folder))) {
        char path[300], name[32] = "";
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
        file = fopen(path, "r");
        if (!file)
            continue;
        found |= fgets(name, sizeof(name), file) && !strcmp(name, "linewright/0\n");
        fclose(file);
    }
    if (folder)
        closedir(folder);
    return found;
}

/* Unbinding the device waits for no window of another family. */
static int unbound_beside_a_window(const char *name) {
    pid_t child = begin_long_window();
    int status;

    while (!window_runs())
        if (waitpid(child, &status, WNOHANG))
            return wrong("the long window did not run");
    if (tell_driver("unbind", name))
        return wrong("unbind beside a window");
    if (waitpid(child, &status, WNOHANG))
        return wrong("unbinding waited for a window without the device");
    kill(child, SIGKILL);
    if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status))
        return wrong("the long window had ended");
    return tell_driver("bind", name) ? wrong("bind") : 0;
}

/* A device that is unbound is used no more, and one that comes back is used again. */
static int device(const char *module, const char *id) {
    static char answer[1 << 20];
    static const char *const steps[] = {"dma_map", "dma_unmap", "dma_sync_for_device", "dma_sync_for_cpu"};
    char parameters[64], name[64];
    int fd, i;

    snprintf(parameters, sizeof(parameters), "dma_pci=%s", id);
    if (load_with(module, parameters) || bound_device(name, sizeof(name)))
        return wrong("loading with a PCI device");
    if (unbound_beside_a_window(name))
        return 1;
    fd = open(CELL, O_RDWR);
    for (i = 0; i < 12; i++) {
        int gone = i / 4 == 1, error;

        if (i == 4 && tell_driver("unbind", name))
            return wrong("unbind");
        if (i == 8 && tell_driver("bind", name))
            return wrong("bind");
        snprintf(answer, 200, "prepare %d\noperation=%s\nform=dma_sg\nwidth=8\nentries=4\n", i, steps[i % 4]);
        if (ask(fd, strdup(answer), answer, sizeof(answer)))
            return wrong("prepare");
        snprintf(answer, 200, "window %d\ncpus=0\n", i);
        error = ask(fd, strdup(answer), answer, sizeof(answer));
        if (error != (gone ? ENODEV : 0) || (gone && !strstr(answer, "error ")))
            return wrong(gone ? "a device that is gone was used" : "a window with the device");
    }
    close(fd);
    if (unload())
        return wrong("unloading with a device");
    return 0;
}

/* Requests that last, by what they spend their time in. One without a window is killed while its cell is prepared. */
static const struct request {
    const char *name, *cell, *window;
} requests[] = {
    {"empty", CELL_LINES, "cpus=0"},
    {"batch", "operation=add\nform=atomic_add\nwidth=64\nwork=1000000\n", "cpus=0\nbatch=150000"},
    {"contended", "operation=add\nform=atomic_add\nwidth=64\nthreads=2\ncontender=same_line\ncontender_iters=1000000\n",
     "cpus=0,1"},
    {"percpu", "operation=percpu_add\nform=this_cpu_add\nwidth=64\nslots=64\nwork=1000000\nwork_kind=memory\n", "cpus=0"},
    {"spinlock", "operation=readers_pair\nform=spinlock\nwidth=8\nthreads=2\ncontender=same_line\ndelay=500000\n",
     "cpus=0,1"},
    {"mutex", "operation=readers_pair\nform=mutex\nwidth=8\nthreads=2\ncontender=same_line\ndelay=1000000\n", "cpus=0,1"},
    {"rwsem",
     "operation=readers_pair\nform=rwsem\nwidth=8\nthreads=2\ncontender=same_line\nupdater=synchronize\ndelay=1000000\n",
     "cpus=0,1"},
    {"grace_rcu",
     "operation=readers_grace\nform=rcu\nwidth=8\nthreads=2\ncontender=same_line\nupdater=synchronize\ndelay=1000000\n",
     "cpus=0,1"},
    {"grace_srcu",
     "operation=readers_grace\nform=srcu\nwidth=8\nthreads=2\ncontender=same_line\nupdater=synchronize\ndelay=1000000\n",
     "cpus=0,1"},
    {"grace_tasks_trace",
     "operation=readers_grace\nform=tasks_trace\nwidth=8\nthreads=2\ncontender=same_line\nupdater=synchronize\ndelay=1000000\n",
     "cpus=0,1"},
    {"lookup",
     "operation=readers_lookup\nform=typesafe_lock\nwidth=8\nthreads=2\ncontender=same_line\nupdater=replace\ninstances=16384\n"
     "delay=400000\n",
     "cpus=0,1"},
    {"list", "operation=dma_map\nform=dma_sg\nwidth=8\nentries=16\nentry_bytes=4194304\n", "cpus=0"},
    {"prepare_lines", "operation=add\nform=atomic_add\nwidth=64\nlines=4096\n", NULL},
    {"prepare_srcu", "operation=readers_pair\nform=srcu\nwidth=8\nlines=4096\n", NULL},
    {"prepare_lookups", "operation=readers_lookup\nform=typesafe_ref\nwidth=8\nlines=64\ninstances=16384\n", NULL},
    {"prepare_list", "operation=dma_map\nform=dma_sg\nwidth=8\nentries=16\nentry_bytes=4194304\n", NULL},
};

/* In a child: the request, again and again until the child is killed; it writes to `begun` before the part that is asked about. */
static pid_t begin(const struct request *request, int begun) {
    static char answer[1 << 20], prepare[1024], window[256];
    pid_t child = fork();
    int fd;

    if (child)
        return child;
    snprintf(prepare, sizeof(prepare), "prepare 0\n%s", request->cell);
    snprintf(window, sizeof(window), "window 0\n%s\nwindow_us=10000000\nlimit_ms=60000\n", request->window);
    fd = open(CELL, O_RDWR);
    if (fd < 0 || (request->window && ask(fd, prepare, answer, sizeof(answer))) || write(begun, "b", 1) != 1)
        _exit(1);
    while (!ask(fd, request->window ? window : prepare, answer, sizeof(answer)))
        ;
    printf("guest: %s: %s\n", request->name, answer);
    _exit(1);
}

/* Kills a request `ms` after it has begun; how long it lasted from there, in us, or -1. */
static long last_us(const struct request *request, long ms) {
    int begun[2], status;
    double start;
    pid_t child;
    char byte;

    if (pipe(begun))
        return -1;
    child = begin(request, begun[1]);
    close(begun[1]);
    if (child < 0 || read(begun[0], &byte, 1) != 1)
        return -1;
    close(begun[0]);
    sleep_ms(ms);
    start = now_s();
    kill(child, SIGKILL);
    if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status))
        return -1;
    return (long)((now_s() - start) * 1e6);
}

/* Kills every request at several moments, and says the longest that each lasted. */
static int killed(const char *module) {
    static const long moments_ms[] = {0, 3, 11, 47};
    unsigned int i, moment;

    if (load(module))
        return wrong("load");
    for (i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
        long worst = 0;

        for (moment = 0; moment < sizeof(moments_ms) / sizeof(*moments_ms); moment++) {
            long us = last_us(&requests[i], moments_ms[moment]);

            if (us < 0)
                return wrong(requests[i].name);
            worst = us > worst ? us : worst;
        }
        printf("killed request=%s us=%ld\n", requests[i].name, worst);
    }
    return unload() ? wrong("unload") : 0;
}

int main(int argc, char **argv) {
    if (mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL) && errno != EBUSY)
        return wrong("debugfs");
    if (argc == 3 && !strcmp(argv[2], "killed"))
        return killed(argv[1]);
    if (argc == 3)
        return device(argv[1], argv[2]);
    if (argc != 2 || load(argv[1]))
        return wrong("load");
    if (under_load() || time_limit() || others())
        return 1;
    if (unload())
        return wrong("unload");
    if (access(CELL, F_OK) == 0)
        return wrong("its files stay behind the unloaded module");
    if (without_counters(argv[1]))
        return 1;
    return runner_unloads(argv[1], SIGTERM) || runner_unloads(argv[1], SIGINT);
}
