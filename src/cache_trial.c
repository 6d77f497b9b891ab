/* Finds out whether an instruction runs here, by running it in a child that disturbs nothing. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* clone */
#endif
#include "cache_internal.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Why a child, and why this one.  A SIGILL handler of our own, put in place for a moment, would catch other
 * threads' signals and could overwrite a handler that the program installs at that moment.  fork() would run the
 * program's atfork handlers and send it SIGCHLD.  clone(CLONE_VM | CLONE_VFORK) without an exit signal copies no
 * page, runs no handler and tells nobody but us; without CLONE_SIGHAND the child's handlers are its own copy, so
 * it can install one.  The caller stands still until the child is gone, so sharing its memory (and its thread-
 * local storage) is safe, and all signals are blocked meanwhile, so no handler of the program runs twice.  The
 * handler exits rather than let SIGILL kill the child: a core dump would end every process that shares the memory.
 */
enum { TRIAL_STACK = 16384 };

struct trial {
    void (*insn)(void *);
    void *arg;
};

static void refused(int signal)
{
    (void)signal;
    _exit(1);
}

__attribute__((no_sanitize("address", "undefined", "thread")))
static int try_it(void *arg)
{
    struct trial *trial = arg;
    struct sigaction action = { .sa_handler = refused };
    sigset_t illegal;

    sigemptyset(&action.sa_mask);
    sigemptyset(&illegal);
    sigaddset(&illegal, SIGILL);
    if (sigaction(SIGILL, &action, NULL) || sigprocmask(SIG_UNBLOCK, &illegal, NULL))
        _exit(1);
    trial->insn(trial->arg);
    _exit(0);
}

bool lw_cache_trial(void (*insn)(void *), void *arg)
{
    struct trial trial = { insn, arg };
    char stack[TRIAL_STACK] __attribute__((aligned(16)));
    sigset_t all, before;
    int saved = errno, status = -1;
    pid_t child;

    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, &before))
        return false;
    child = clone(try_it, stack + sizeof(stack), CLONE_VM | CLONE_VFORK, &trial);
    if (child < 0 && errno == EINVAL) /* an emulator that insists on SIGCHLD: the program may see one then */
        child = clone(try_it, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &trial);
    if (child > 0)
        while (waitpid(child, &status, __WALL) < 0 && errno == EINTR)
            ;
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = saved;
    /* No child (a sandbox, a limit): not known to work, hence not used. LINEWRIGHT_CACHE can name it. */
    return child > 0 && status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
