/* SPDX-License-Identifier: MIT */
/* Finds out whether an instruction runs here, by running it in a child that disturbs nothing. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* syscall, CLONE_VFORK, __WALL */
#endif
#include "trial.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Why a child, and why this one.  A SIGILL handler of our own, put in place for a moment, would catch other
 * threads' signals and could overwrite a handler that the program installs at that moment.  fork() would run the
 * program's atfork handlers and send it SIGCHLD.  The bare system call without an exit signal does neither, and a plain
 * wait() does not see the child.  It has a copy of the memory, not the memory: libraries that keep the program's
 * signal handlers in user space (sanitizers, language run-times) would otherwise be changed under its feet.  The
 * caller's signals are blocked until the child is gone, so that no handler of the program runs in the child, which
 * makes bare system calls only; what it inherited from other threads (locks held) does not matter to these.
 */

/* The kernel's struct sigaction, the same on x86 and arm64: the C library's function may be wrapped. */
struct kernel_sigaction {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

#ifndef SA_RESTORER
#define SA_RESTORER 0x04000000
#endif

static void refused(int signal)
{
    (void)signal;
    syscall(SYS_exit_group, 1);
}

/* The handler does not return, but x86 insists on an address to return to. */
static void no_return(void)
{
    syscall(SYS_exit_group, 1);
}

__attribute__((noreturn, no_sanitize("address", "undefined", "thread"))) static void try_it(void (*insn)(void *), void *arg)
{
    struct kernel_sigaction action = {.handler = refused, .flags = SA_RESTORER, .restorer = no_return};
    uint64_t illegal = UINT64_C(1) << (SIGILL - 1);

    if (!syscall(SYS_rt_sigaction, SIGILL, &action, NULL, sizeof(action.mask)) &&
        !syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &illegal, NULL, sizeof(illegal))) {
        insn(arg);
        syscall(SYS_exit_group, 0);
    }
    for (;;)
        syscall(SYS_exit_group, 1);
}

/* The child's process number; in the child it does not return. */
static long start(unsigned long flags, void (*insn)(void *), void *arg)
{
    long child = syscall(SYS_clone, flags, 0, 0, 0, 0);

    if (child == 0)
        try_it(insn, arg);
    return child;
}

/* The wait status of a child that has gone; -1 if it is unknown. */
static int status_of(pid_t child)
{
    int status = -1;
    pid_t gone;

    do
        gone = waitpid(child, &status, __WALL);
    while (gone < 0 && errno == EINTR);
    return gone == child ? status : -1;
}

bool lw__trial(void (*insn)(void *), void *arg)
{
    sigset_t all, before;
    int saved = errno, status = -1;
    long child;

    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, &before))
        return false;
    child = start(CLONE_VFORK, insn, arg);
    if (child < 0 && errno == EINVAL) /* qemu-user insists on an exit signal, so there the program may see a SIGCHLD */
        child = start(CLONE_VFORK | SIGCHLD, insn, arg);
    if (child > 0)
        status = status_of((pid_t)child);
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = saved;
    /* No child (a sandbox, a limit): not known to work, hence not used. */
    return status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
