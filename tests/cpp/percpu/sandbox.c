/* SPDX-License-Identifier: MIT */
/* Per-CPU operations under a filter that kills at every system call but those that docs/library/percpu.md names for a
 * program that has started: allocation, operations, the fall-back of a thread without sequences, and lists of another CPU.
 * Exit code 0, or 1 and a line. */
#define _GNU_SOURCE
#include <linewright/percpu.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The documented ones, and this program's own end. */
static const unsigned allowed[] = {
    __NR_mmap,  __NR_munmap,     __NR_mprotect, __NR_madvise, __NR_rt_sigprocmask,
    __NR_futex, __NR_membarrier, __NR_getcpu,   __NR_rseq,    __NR_exit_group,
};
#define ALLOWED (sizeof allowed / sizeof *allowed)

static struct lw_percpu_node **list, nodes[3];

static void on_cpu(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static int cpu_number(int nth) {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, &set) && nth-- == 0)
            return cpu;
    return -1;
}

static void *push_elsewhere(void *cpu) {
    on_cpu(*(int *)cpu);
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        lw_percpu_push(list, &nodes[i]);
    return NULL;
}

static int kill_at_others(void) {
    struct sock_filter steps[ALLOWED + 3];
    steps[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < ALLOWED; i++)
        steps[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], (unsigned char)(ALLOWED - i), 0);
    steps[ALLOWED + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    steps[ALLOWED + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {ALLOWED + 3, steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static int everything(void) {
    uint64_t *count = lw_percpu_alloc(8, 8), *value = lw_percpu_alloc(LW_PERCPU_MAX_SIZE, 8); /* a chunk of its own */
    if (!count || !value)
        return 10;
    lw_this_cpu_inc(count);
    lw_this_cpu_fetch_add(value, 1);
    size_t length = lw_percpu_length(list);
    struct lw_percpu_node *node = lw_percpu_pop_any(list);
    if (!node || lw_percpu_length(list) != length - 1)
        return 11;
    lw_percpu_push(list, node);
    int wrong = lw_percpu_sum(count) != 1 || lw_percpu_sum(value) != 1;
    return wrong | lw_percpu_free(value) | lw_percpu_free(count);
}

/* In a child: with sequences, or as a thread that has given its registration back. */
static int in_sandbox(int registered) {
    pid_t child = fork();
    if (child == 0) {
#if LW_HAVE_RSEQ
        if (!registered && lw_percpu_thread_registered())
            for (unsigned bytes = 32; bytes <= 64; bytes += 32) /* the length that it was registered with */
                syscall(LW_SYS_RSEQ, lw__thread_pointer() + lw_percpu_rt.offset, bytes, 1, LW_RSEQ_SIG);
#endif
        _exit(kill_at_others() ? 77 : everything());
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        fprintf(stderr, "sandbox: killed by signal %d, %s sequences\n", WTERMSIG(status), registered ? "with" : "without");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void) {
    int other = cpu_number(1);
    pthread_t thread;
    list = lw_percpu_alloc(sizeof *list, sizeof *list);
    if (other < 0 || !list || pthread_create(&thread, NULL, push_elsewhere, &other))
        return 77;
    pthread_join(thread, NULL);
    on_cpu(cpu_number(0));
    int with = in_sandbox(1), without = in_sandbox(0);
    printf("sandbox: with sequences %d, without %d\n", with, without);
    return with ? with : without;
}
