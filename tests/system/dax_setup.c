/* SPDX-License-Identifier: MIT */
/* Prepares the DAX machine: loads the modules, puts the prepared ext4 onto the persistent memory and mounts it at /dax. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int fail(const char *what) {
    printf("dax_setup: %s: %s\n", what, strerror(errno));
    return 1;
}

static int load(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int error = fd < 0 || syscall(SYS_finit_module, fd, "", 0);

    if (fd >= 0)
        close(fd);
    return error && errno != EEXIST ? fail(path) : 0;
}

static int copy(const char *from, const char *to) {
    static char buffer[1 << 20];
    int in = open(from, O_RDONLY | O_CLOEXEC), out = -1;
    ssize_t n;

    for (int tries = 0; out < 0 && tries < 200; tries++) { /* the device appears a moment after its driver */
        out = open(to, O_WRONLY | O_CLOEXEC);
        if (out < 0)
            nanosleep(&(struct timespec){0, 50000000}, NULL);
    }
    if (in < 0 || out < 0)
        return fail(in < 0 ? from : to);
    while ((n = read(in, buffer, sizeof(buffer))) > 0)
        if (write(out, buffer, (size_t)n) != n)
            return fail(to);
    return n < 0 || fsync(out) || close(out) || close(in) ? fail(to) : 0;
}

/* usage: dax_setup IMAGE MODULE…: the modules in the order in which they need each other */
int main(int argc, char **argv) {
    for (int i = 2; i < argc; i++)
        if (load(argv[i]))
            return 1;
    if (argc < 2 || copy(argv[1], "/dev/pmem0"))
        return 1;
    mkdir("/dax", 0755);
    return mount("/dev/pmem0", "/dax", "ext4", 0, "dax=always") ? fail("/dax") : 0;
}
