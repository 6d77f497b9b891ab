/* Forbids itself, on pain of death, the system calls that edits need; then opens the library named and calls its sums. */
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int main(int argc, char **argv)
{
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

    if (argc != 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("filter");
        return 1;
    }
    library = dlopen(argv[1], RTLD_NOW);
    if (!library)
        return puts(dlerror()) < 0 ? 2 : 1;
    *(void **)&tell = dlsym(library, "tell");
    *(void **)&sums = dlsym(library, "sums");
    tell(argv[1]);
    return sums();
}
