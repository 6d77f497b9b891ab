/* SPDX-License-Identifier: MIT */
/* A signal at every instruction of an inlined operation, whose handler does the same operation on the same words: no count
 * is lost or made twice, and no reader is left inside. A parent traces one child per address; an execution breakpoint there
 * lets restartable sequences run undisturbed up to it. Then single steps, which abort every sequence and so go through the
 * fall-back; of these every STRIDEth. Exit code 0, 77 where processes may not be traced, or a line for each place that
 * failed. */
#define _GNU_SOURCE
#include <linewright/percpu.h>
#include <linewright/srcu.h>

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define STRIDE 97

#define CHECK(x)                                                               \
    do                                                                         \
        if (!(x)) {                                                            \
            fprintf(stderr, "every_instruction: line %d: %s\n", __LINE__, #x); \
            exit(1);                                                           \
        }                                                                      \
    while (0)

/* ---- the operations ---- */

static uint64_t *count, *value;
static uint32_t *small;
static uint8_t *byte;
static struct lw_percpu_node **list, nodes[4];
static struct lw_srcu_fast fast;
static struct lw_srcu_normal normal;

/* Each in a section of its own, so that its first and last address are known. */
#define OPERATION(name)                                        \
    extern const char __start_in_##name[], __stop_in_##name[]; \
    __attribute__((noinline, section("in_" #name))) static void name(void)

OPERATION(op_add) { lw_this_cpu_add_u64(count, 0x100000001u); /* carries on 32-bit machines */ }
OPERATION(op_fetch_add) { lw_this_cpu_fetch_add_u64(value, 0x100000001u); }
OPERATION(op_byte) { lw_this_cpu_fetch_add_u8(byte, 1); }
OPERATION(op_cmpxchg) {
    uint32_t old = lw_this_cpu_read(small);
    while (!lw_this_cpu_try_cmpxchg(small, &old, old + 1))
        ;
}
OPERATION(op_list) {
    struct lw_percpu_node *node = lw_percpu_pop(list);
    if (node)
        lw_percpu_push(list, node);
}
OPERATION(op_read_fast) {
    lw_srcu_index outer = lw_srcu_read_lock_fast(&fast), inner = lw_srcu_read_lock_fast(&fast);
    lw_srcu_read_unlock_fast(&fast, outer);
    lw_srcu_read_unlock_fast(&fast, inner);
}
OPERATION(op_read_normal) {
    lw_srcu_index index = lw_srcu_read_lock(&normal);
    lw_srcu_read_unlock(&normal, index);
}

/* ---- what must hold after an operation was done `times` times ---- */

static bool counted(unsigned times) { return lw_percpu_sum(count) == times * (uint64_t)0x100000001u; }

#define SUM_OF_COPIES(type, handle)                                 \
    __extension__({                                                 \
        type sum = 0, *copy;                                        \
        lw_percpu_for_each(copy, handle) sum = (type)(sum + *copy); \
        sum;                                                        \
    })

static bool fetched(unsigned times) { return SUM_OF_COPIES(uint64_t, value) == times * (uint64_t)0x100000001u; }
static bool bytes(unsigned times) { return SUM_OF_COPIES(uint8_t, byte) == (uint8_t)times; }
static bool exchanged(unsigned times) { return SUM_OF_COPIES(uint32_t, small) == times; }

static bool listed(unsigned times) {
    unsigned found = 0;
    struct lw_percpu_node **head;
    lw_percpu_for_each(head, list) for (struct lw_percpu_node *node = *head; node && found <= 4; node = node->next) found++;
    return times && found == 4;
}

static bool left(unsigned times) {
    const uint64_t minute = 60000000000; /* waited for in vain only where a critical section is lost */
    return times && lw_srcu_synchronize_timeout(&fast, minute) == 0 && lw_srcu_synchronize_timeout(&normal, minute) == 0 &&
           lw_srcu_cleanup(&fast) == 0 && lw_srcu_cleanup(&normal) == 0;
}

static const struct {
    const char *name, *begin, *end;
    void (*run)(void);
    bool (*holds)(unsigned times);
} operations[] = {
#define ROW(name, holds) {#name, __start_in_##name, __stop_in_##name, name, holds}
    ROW(op_add, counted), ROW(op_fetch_add, fetched), ROW(op_byte, bytes),       ROW(op_cmpxchg, exchanged),
    ROW(op_list, listed), ROW(op_read_fast, left),    ROW(op_read_normal, left),
};

/* ---- the traced child ---- */

static void (*current)(void);
static volatile unsigned handled;

static void handler(int signal) {
    (void)signal;
    current();
    handled++;
}

/* Stops before and after the operation. `first`: it is the thread's first one. */
static _Noreturn void child(unsigned which, bool first) {
    count = lw_percpu_alloc(8, 8), value = lw_percpu_alloc(8, 8), small = lw_percpu_alloc(4, 4);
    byte = lw_percpu_alloc(1, 1), list = lw_percpu_alloc(sizeof *list, sizeof *list);
    CHECK(count && value && small && byte && list);
    CHECK(!lw_srcu_init(&fast) && !lw_srcu_init(&normal));
    for (int i = 0; i < 4; i++)
        lw_percpu_push(list, &nodes[i]);
    current = operations[which].run;
    if (!first)
        current();
    signal(SIGUSR1, handler);
    alarm(300);
    if (ptrace(PTRACE_TRACEME, 0, 0, 0))
        _exit(77);
    __asm__ volatile("int3");
    current();
    __asm__ volatile("int3");
    _exit(!operations[which].holds(1 + !first + handled));
}

/* ---- the tracer ---- */

static int status;

static bool stopped_by(pid_t pid, int signal) {
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFSTOPPED(status) && WSTOPSIG(status) == signal;
}

static bool go(pid_t pid, int how, int signal) {
    CHECK(ptrace(how, pid, NULL, (void *)(intptr_t)signal) == 0);
    return stopped_by(pid, SIGTRAP);
}

static uintptr_t instruction(pid_t pid) {
    struct user_regs_struct registers;
    CHECK(ptrace(PTRACE_GETREGS, pid, NULL, &registers) == 0);
#ifdef __x86_64__
    return registers.rip;
#else
    return (uintptr_t)registers.eip;
#endif
}

static void debug_register(pid_t pid, int number, uintptr_t what) {
    size_t at = offsetof(struct user, u_debugreg) + (size_t)number * sizeof(((struct user *)0)->u_debugreg[0]);
    while (ptrace(PTRACE_POKEUSER, pid, (void *)at, (void *)what) != 0) {
        CHECK(errno == ENOSPC); /* other programs watch with all debug registers, as `find` does for a while */
        usleep(1000);
    }
}

static pid_t start(unsigned which, bool first) {
    pid_t pid = fork();
    if (!pid)
        child(which, first);
    if (!stopped_by(pid, SIGTRAP))
        exit(WIFEXITED(status) && WEXITSTATUS(status) == 77 ? 77 : 1);
    return pid;
}

/* Lets the child end, with SIGUSR1 now if it is not at its last stop; whether all held. */
static bool finish(pid_t pid, int signal) {
    while (go(pid, PTRACE_CONT, signal) || WIFSTOPPED(status))
        signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static unsigned places, failures;

static void judge(unsigned which, bool first, const char *what, long where, bool held) {
    places++;
    failures += !held;
    if (!held)
        fprintf(stderr, "every_instruction: %s%s, %s %ld: status %x\n", operations[which].name, first ? " (first)" : "",
                what, where, status);
}

static void at_every_address(unsigned which, bool first) {
    for (const char *address = operations[which].begin; address < operations[which].end; address++) {
        pid_t pid = start(which, first);
        debug_register(pid, 0, (uintptr_t)address);
        debug_register(pid, 7, 1);
        bool here = go(pid, PTRACE_CONT, 0) && instruction(pid) == (uintptr_t)address;
        debug_register(pid, 7, 0);
        bool held = finish(pid, here ? SIGUSR1 : 0);
        if (here || !held)
            judge(which, first, "address", address - operations[which].begin, held);
    }
}

static void at_single_steps(unsigned which, bool first) {
    pid_t pid = start(which, first);
    CHECK(go(pid, PTRACE_CONT, 0));
    uintptr_t last = instruction(pid);
    finish(pid, 0);
    for (long steps = 1, taken = steps; taken == steps; steps += STRIDE) {
        pid = start(which, first);
        for (taken = 0; taken < steps && instruction(pid) != last; taken++)
            CHECK(go(pid, PTRACE_SINGLESTEP, 0));
        judge(which, first, "step", steps, finish(pid, taken == steps ? SIGUSR1 : 0));
    }
}

int main(void) {
    for (unsigned which = 0; which < sizeof operations / sizeof *operations; which++)
        for (int first = 0; first < 2; first++) {
            at_every_address(which, first);
            at_single_steps(which, first);
        }
    printf("signals at %u places, %u wrong\n", places, failures);
    return failures != 0 || places < 300;
}
