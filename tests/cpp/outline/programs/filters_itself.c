/* SPDX-License-Identifier: MIT */
/* Forbids itself, on pain of death, the system calls that edits need; then opens the library named and calls its sums.
 * With -t a second thread does so, whose filter the first has not. */
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static int open_filtered(const char *path) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pwrite64, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof(rules) / sizeof(rules[0]), rules};
    void *library;
    void (*tell)(const char *);
    int (*sums)(void);

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("filter");
        return 1;
    }
    library = dlopen(path, RTLD_NOW);
    if (!library)
        return puts(dlerror()) < 0 ? 2 : 1;
    *(void **)&tell = dlsym(library, "tell");
    *(void **)&sums = dlsym(library, "sums");
    tell(path);
    return sums();
}

static void *in_a_thread(void *path) { return open_filtered(path) ? path : NULL; }

int main(int argc, char **argv) {
    pthread_t thread;
    void *failed;

    if (argc != 3 || strcmp(argv[1], "-t"))
        return argc == 2 ? open_filtered(argv[1]) : 1;
    if (pthread_create(&thread, NULL, in_a_thread, argv[2]) || pthread_join(thread, &failed))
        return 1;
    return failed != NULL;
}
