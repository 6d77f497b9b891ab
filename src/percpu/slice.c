/* SPDX-License-Identifier: MIT */
/* Time slice extensions at run time: whether there are any, and each thread's permission to ask (Documentation/userspace-api/rseq.rst of Linux 7.0). */
#define _GNU_SOURCE
#define LW__SLICE_WITHOUT_AREAS
#include <linewright/slice.h>

#include "rseq.h"

#include "../common/environment.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The kernel's names and numbers, spelled out so that old kernel headers will do. */
#define RSEQ_FLAGS 16 /* bytes before these fields of an rseq area */
#define RSEQ_SLICE_CTRL 28
#define FLAG_AVAILABLE (1u << 4)
#define FLAG_ENABLED (1u << 5)
#define PR_SLICE_EXTENSION 79
#define PR_SLICE_EXTENSION_SET 2
#define PR_SLICE_EXT_ENABLE 1
#define NR_SLICE_YIELD 471
#define AUX_FEATURE_BYTES 27
#define FIRST_BYTES 32 /* registrations of that many have no extensions, and kernels that have them say 33 */

uint8_t lw__slice_new[2] __attribute__((aligned(2))) = {0, 1};
__thread struct lw__slice lw__slice __attribute__((tls_model("initial-exec"))) = {
    .control = lw__slice_new,
    .within = {0, 1},
};

static bool verbose; /* since a handler must not read the environment */
static const char *none_reason; /* no thread of this process can have extensions */
static const char no_area[] = "this thread has no registered rseq area";
static const char not_enabled[] = "the kernel did not enable them for this thread (prctl)";

__attribute__((constructor(102))) static void start(void)
{
    verbose = lw_verbose();
}

/* One line in a process, by a call that handlers may make. */
static void say(const char *reason)
{
    static uint32_t said;
    if (!verbose || __atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
        return;
    const struct iovec line[] = {
        {.iov_base = (void *)"linewright: no time slice extensions: ", .iov_len = 38},
        {.iov_base = (void *)reason, .iov_len = strlen(reason)},
        {.iov_base = (void *)"\n", .iov_len = 1},
    };
    (void)!writev(STDERR_FILENO, line, 3);
}

/* Locks alone do not bring per-CPU operations into a program, nor are these in the preloaded locks: the libc registers threads there, or none does. */
#pragma weak lw__percpu_start
#pragma weak lw__rseq_registered_bytes
#pragma weak lw__rseq_thread_ready
#pragma weak lw_percpu_rt
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

static unsigned registered_bytes(void)
{
    if (!lw__percpu_start)
        return &__rseq_size && &__rseq_offset ? __rseq_size : 0;
    lw__percpu_start();
    return lw__rseq_registered_bytes();
}

/* The calling thread's; NULL: not registered yet. */
static char *area(void)
{
    if (!lw__percpu_start)
        return lw__thread_pointer() + __rseq_offset;
    return lw__rseq_thread_ready() ? lw__thread_pointer() + lw_percpu_rt.offset : NULL;
}

/* What keeps every thread of this process from having them; NULL: nothing, as far as is known without a thread's area. */
static const char *lacking(void)
{
    unsigned bytes = registered_bytes();
    if (!bytes)
        return "there are no restartable sequences in this process";
    if (getauxval(AUX_FEATURE_BYTES) <= FIRST_BYTES)
        return "this kernel has none (Linux 7.0 is the first that does)";
    if (bytes > FIRST_BYTES)
        return NULL;
    if (!lw__percpu_start)
        return "the libc registers only the first 32 bytes of its threads' areas; glibc 2.41 and later registers them whole";
    return lw_percpu_rt.mode == LW_PERCPU_RSEQ_LIBC
               ? "the libc registers only the first 32 bytes of its threads' areas; "
                 "GLIBC_TUNABLES=glibc.pthread.rseq=0 LINEWRIGHT_RSEQ=own lets Linewright register them whole"
               : "this kernel's rseq area is larger than the one of this version of Linewright";
}

static uint8_t *none(const char *reason)
{
    __atomic_store_n(&none_reason, reason, __ATOMIC_RELEASE); /* pairs with the loads */
    say(reason);
    return lw__slice.none;
}

/* The calling thread's control bytes; NULL: not yet known. Through the kernel's own flags: where it says "available" the system call is known, and nowhere
 * else is it made. */
static uint8_t *prepare(void)
{
    if (__atomic_load_n(&none_reason, __ATOMIC_ACQUIRE)) /* pairs with the store above */
        return lw__slice.none;
    const char *reason = lacking();
    if (reason)
        return none(reason);
    char *own = area();
    if (!own)
        return NULL;
    uint32_t flags = __atomic_load_n((uint32_t *)(void *)(own + RSEQ_FLAGS),
                                     __ATOMIC_RELAXED); /* the kernel writes it for this thread only */
    if (!(flags & FLAG_AVAILABLE))
        return none("this kernel was built or booted without them");
    if (!(flags & FLAG_ENABLED) &&
        syscall(SYS_prctl, PR_SLICE_EXTENSION, PR_SLICE_EXTENSION_SET, PR_SLICE_EXT_ENABLE, 0, 0)) {
        say(not_enabled);
        return lw__slice.none;
    }
    return (uint8_t *)own + RSEQ_SLICE_CTRL;
}

/* False: sections of this thread do nothing as yet. */
static bool prepared(void)
{
    struct lw__slice *own = &lw__slice;
    if (own->control == lw__slice_new) {
        int saved = errno;
        uint8_t *control = prepare(); /* twice where a handler interrupts it: the same */
        errno = saved;
        if (!control)
            return false;
        own->outer = control;
        own->control = control;
    }
    return true;
}

void lw__slice_begin_within(void)
{
    struct lw__slice *own = &lw__slice;
    if (own->control == lw__slice_new) {
        if (prepared())
            lw_slice_begin();
        return;
    }
    __atomic_store_n(&own->inner, own->inner + 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* a handler in between ends with this count, and `within` */
    __atomic_store_n(&own->control, own->within, __ATOMIC_RELAXED);
}

void lw__slice_end_within(void)
{
    struct lw__slice *own = &lw__slice;
    if (own->control == own->within) {
        __atomic_store_n(&own->inner, own->inner - 1, __ATOMIC_RELAXED);
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* a handler in between begins within, and ends with what `outer` is */
        if (!own->inner)
            __atomic_store_n(&own->control, own->outer, __ATOMIC_RELAXED);
    } else if (own->control != lw__slice_new) {
        int saved = errno;
        syscall(NR_SLICE_YIELD); /* for nothing where the kernel took the grant away since: no harm */
        errno = saved;
    }
}

bool lw_slice_available(const char **why)
{
    bool known = prepared(), available = known && lw__slice.outer != lw__slice.none;
    if (why) {
        const char *reason = __atomic_load_n(&none_reason, __ATOMIC_ACQUIRE); /* pairs with the store in none() */
        *why = available ? "time slice extensions, on request" : reason ? reason : known ? not_enabled : no_area;
    }
    return available;
}
