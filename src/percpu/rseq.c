/* SPDX-License-Identifier: MIT */
/* Restartable sequences at run time: whether the libc or this library registers threads, and the reason where neither
 * can. */
#define _GNU_SOURCE
#include "rseq.h"

#include <linewright/slice.h>

#include "../common/environment.h"
#include "../common/printable.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's layout (linux/rseq.h), spelled out so that old kernel headers will do. */
struct rseq_area {
    uint32_t cpu_id_start;
    uint32_t cpu_id;
    uint64_t rseq_cs;
    uint32_t flags;
    uint32_t node_id;
    uint32_t mm_cid;
    uint32_t slice_control;
    uint32_t later[8]; /* fields of kernels to come */
} __attribute__((aligned(32))); /* the libc's own has no more */

/* What every kernel takes; one that has fields behind these says so in the auxiliary vector since 6.3. */
#define FIRST_BYTES 32
#define AUX_FEATURE_BYTES 27
#define AUX_ALIGN 28
#define OWN_ALIGN 64

/* Where the kernel lists possible CPUs; tests use a list of their own. */
#ifndef LW_POSSIBLE_CPUS
#define LW_POSSIBLE_CPUS "/sys/devices/system/cpu/possible"
#endif

#define CPU_UNINITIALIZED ((uint32_t)-1)
#define RSEQ_UNREGISTER 1

struct lw_percpu_rt lw_percpu_rt;
const uint8_t lw__slice_areas = 0;
#ifdef LW_RSEQ_DELAY
void (*volatile lw__pause_hook)(enum lw__step step);
#endif

static const char *mode_reason = "no per-CPU memory has been allocated yet";
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* This library's own area. Static TLS, so that its distance from the thread pointer is the same in every thread, and so
 * that a signal handler can use it without allocating. Its initial value means "no CPU": where the libc's area is not in
 * use, the inline code reads this one, finds no CPU number and takes the fall-back. */
static __thread struct rseq_area own_area __attribute__((tls_model("initial-exec"), aligned(OWN_ALIGN))) = {
    .cpu_id = CPU_UNINITIALIZED,
};

enum own_state { OWN_NEW, OWN_BUSY, OWN_REGISTERED, OWN_REFUSED };
static __thread volatile sig_atomic_t own_state __attribute__((tls_model("initial-exec")));
static pthread_key_t own_key;

static uint32_t area_cpu(void)
{
    const struct rseq_area *area = (const struct rseq_area *)(const void *)(lw__thread_pointer() + lw_percpu_rt.offset);
    return __atomic_load_n(&area->cpu_id, __ATOMIC_RELAXED); /* written by the kernel, for this thread only */
}

/* The length that is registered: all of the area where the kernel has more than the first fields, and they fit. From 7.0
 * on that is a registration of the second kind (Documentation/userspace-api/rseq.rst), which time-slice extensions need. */
static uint32_t registered_bytes(void)
{
    unsigned long fields = getauxval(AUX_FEATURE_BYTES);
    bool all = fields > FIRST_BYTES && fields <= sizeof own_area && getauxval(AUX_ALIGN) <= OWN_ALIGN;
    return all ? sizeof own_area : FIRST_BYTES;
}

/* Thread ends: the kernel must let go of the area before its memory goes. Later operations of this thread (destructors that
 * run after this one) take the fall-back. */
static void own_unregister(void *unused)
{
    (void)unused;
    own_state = OWN_REFUSED;
    syscall(LW_SYS_RSEQ, &own_area, registered_bytes(), RSEQ_UNREGISTER, LW_RSEQ_SIG);
    own_area.cpu_id = CPU_UNINITIALIZED;
}

/* 0 or an errno. A signal handler that interrupts this finds OWN_BUSY and takes the fall-back. */
static int own_register(void)
{
    own_state = OWN_BUSY;
    if (syscall(LW_SYS_RSEQ, &own_area, registered_bytes(), 0, LW_RSEQ_SIG)) {
        own_state = OWN_REFUSED;
        return errno;
    }
    /* Any value but NULL makes the destructor run. For the first 32 keys the libc only stores it. */
    if (pthread_setspecific(own_key, &own_area)) {
        own_unregister(NULL);
        return ENOMEM;
    }
    own_state = OWN_REGISTERED;
    return 0;
}

bool lw__rseq_thread_ready(void)
{
    if (lw_percpu_rt.mode == LW_PERCPU_ATOMIC)
        return false;
    unsigned cpu = area_cpu();
    if (cpu < lw_percpu_rt.nr_cpus) {
        lw__percpu_use_cpu(cpu);
        return true;
    }
    if (lw_percpu_rt.mode != LW_PERCPU_RSEQ_OWN || own_state != OWN_NEW)
        return false;
    int saved = errno;
    bool ready = own_register() == 0;
    errno = saved;
    return ready;
}

static void raise_limit(unsigned *limit, unsigned cpu)
{
    unsigned seen = __atomic_load_n(limit, __ATOMIC_RELAXED);
    while (cpu >= LW__RSEQ_CPUS(seen) &&
           !__atomic_compare_exchange_n(limit, &seen, LW__RSEQ_LIMIT(cpu + 1), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* Relaxed: a thread that sees what a sequence stored on that CPU, or has an order with it, sees the limit that was raised
 * before it. */
void lw__percpu_use_cpu(unsigned cpu)
{
    raise_limit(&lw_percpu_rt.limit, cpu); /* first: it is the one that lw__percpu_used_cpus() reads */
    if (lw_percpu_rt.value_limit)
        raise_limit(&lw_percpu_rt.value_limit, cpu);
}

bool lw_percpu_thread_registered(void)
{
    return lw__percpu_start() == 0 && lw__rseq_thread_ready();
}

bool lw__rseq_abort_cpu(unsigned cpu)
{
    int saved = errno;
    bool done = !syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, MEMBARRIER_CMD_FLAG_CPU, cpu);
    errno = saved;
    return done;
}

/* ---- possible CPUs ---- */

long lw__cpu_list_max(const char *list)
{
    long max = -1;
    const char *s = list;
    while (*s && *s != '\n') {
        char *end;
        if (*s < '0' || *s > '9')
            return -1;
        long cpu = strtol(s, &end, 10);
        if (*end == '-') {
            s = end + 1;
            if (*s < '0' || *s > '9')
                return -1;
            long last = strtol(s, &end, 10);
            if (last < cpu)
                return -1;
            cpu = last;
        }
        if (cpu > max)
            max = cpu;
        if (*end == ',')
            end++;
        else if (*end && *end != '\n')
            return -1;
        s = end;
    }
    return max;
}

/* The kernel fixes the possible CPUs at boot; hot-plugged CPUs are among them. Where sysfs cannot be read,
 * the size of the kernel's own affinity mask bounds them: memory is only reserved, so a generous bound costs addresses.
 * *allowed: how many there are up to the last one that the process may use now. */
static unsigned count_cpus(unsigned *allowed)
{
    static char text[4096];
    long max = -1;
    int fd = open(LW_POSSIBLE_CPUS, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, text, sizeof text - 1);
        close(fd);
        if (n > 0) {
            text[n] = 0;
            max = lw__cpu_list_max(text);
        }
    }
    static unsigned long mask[65536 / (8 * sizeof(unsigned long))];
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    if (max < 0 && bytes > 0)
        max = bytes * 8 - 1;
    long last = bytes * 8 - 1;
    while (last >= 0 && !(mask[(size_t)last / (8 * sizeof *mask)] >> ((size_t)last % (8 * sizeof *mask)) & 1))
        last--;
    if (last > max) /* a sysfs that does not list all CPUs this process may use */
        max = last;
    *allowed = last < 0 ? 1 : (unsigned)last + 1;
    return max < 0 ? 1 : (unsigned)max + 1;
}

/* ---- start-up ---- */

#if LW_HAVE_RSEQ
/* glibc 2.35 and later; weak, so that the library links with any libc. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

static const char *refusal(int err)
{
    switch (err) {
    case ENOSYS:
        return "the kernel has no restartable sequences (rseq: ENOSYS)";
    case EPERM:
    case EACCES:
        return "restartable sequences are denied to this process (rseq: EPERM), by a seccomp filter perhaps";
    case EBUSY:
        return "another library has registered this thread's restartable sequences with the same area (rseq: EBUSY)";
    default:
        return "another library has registered this thread's restartable sequences (rseq: EINVAL)";
    }
}

static enum lw_percpu_mode try_own(void)
{
    lw_percpu_rt.offset = (char *)&own_area - lw__thread_pointer();
    /* Keys from 32 on make glibc's pthread_setspecific allocate, which a signal handler must not. */
    if (pthread_key_create(&own_key, own_unregister) || own_key >= 32) {
        mode_reason = "too many thread-specific keys are in use to register threads from signal handlers";
        return LW_PERCPU_ATOMIC;
    }
    int err = own_register();
    if (err) {
        mode_reason = refusal(err);
        return LW_PERCPU_ATOMIC;
    }
    mode_reason = "restartable sequences, registered by Linewright for each thread at its first operation";
    return LW_PERCPU_RSEQ_OWN;
}

static enum lw_percpu_mode choose_mode(void)
{
    const char *asked = secure_getenv("LINEWRIGHT_RSEQ");
    bool own = asked && !strcmp(asked, "own");
    char shown[41];
    if (asked && *asked && !own && strcmp(asked, "off") && strcmp(asked, "default"))
        fprintf(stderr, "linewright: LINEWRIGHT_RSEQ=%s is not known; allowed: default, own, off\n",
                lw_printable_text(shown, sizeof(shown), asked));

    lw_percpu_rt.offset = (char *)&own_area - lw__thread_pointer(); /* means "no CPU" until the mode is decided */
    if (asked && !strcmp(asked, "off")) {
        mode_reason = "switched off by LINEWRIGHT_RSEQ=off";
        return LW_PERCPU_ATOMIC;
    }
    if (lw_percpu_rt.nr_cpus > LW__RSEQ_MOST_CPUS) {
        mode_reason = "more possible CPUs than the sequences of this architecture can tell apart";
        return LW_PERCPU_ATOMIC;
    }
    bool libc_knows = &__rseq_size && &__rseq_offset;
    if (libc_knows && __rseq_size) {
        lw_percpu_rt.offset = __rseq_offset;
        if (area_cpu() < lw_percpu_rt.nr_cpus) {
            mode_reason = "restartable sequences, registered by the libc";
            return LW_PERCPU_RSEQ_LIBC;
        }
        lw_percpu_rt.offset = (char *)&own_area - lw__thread_pointer();
    }
    if (own || !libc_knows)
        return try_own();

    /* The libc supports registration and did not register. Invalid arguments show why: a kernel that has sequences answers
     * EINVAL, so the libc was configured not to. That is respected; LINEWRIGHT_RSEQ=own overrides. */
    syscall(LW_SYS_RSEQ, NULL, 0, 0, 0);
    mode_reason = errno == EINVAL
                      ? "switched off in the libc (GLIBC_TUNABLES=glibc.pthread.rseq=0); LINEWRIGHT_RSEQ=own overrides"
                      : refusal(errno);
    return LW_PERCPU_ATOMIC;
}
#else
static enum lw_percpu_mode choose_mode(void)
{
    (void)own_register;
    mode_reason = "this library was built without restartable sequences";
    return LW_PERCPU_ATOMIC;
}
#endif

unsigned lw__rseq_registered_bytes(void)
{
#if LW_HAVE_RSEQ
    if (lw_percpu_rt.mode == LW_PERCPU_RSEQ_LIBC)
        return __rseq_size;
    if (lw_percpu_rt.mode == LW_PERCPU_RSEQ_OWN)
        return registered_bytes();
#endif
    return 0;
}

static void start(void)
{
    int saved = errno;

    lw__percpu_number_process();
    pthread_atfork(NULL, NULL, lw__percpu_renumber_process);
    unsigned allowed;
    lw_percpu_rt.nr_cpus = count_cpus(&allowed);
    lw_percpu_rt.mode = choose_mode();
    /* The lock word of single threads needs the kernel to abort the sequences of a CPU; without that, no value sequences. */
    if (lw_percpu_rt.mode != LW_PERCPU_ATOMIC) {
        if (!syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0))
            lw_percpu_rt.value_limit = LW__RSEQ_LIMIT(allowed);
        else
            mode_reason =
                lw_percpu_rt.mode == LW_PERCPU_RSEQ_LIBC
                    ? "restartable sequences, registered by the libc, for counters; values take atomic instructions, since "
                      "membarrier cannot abort sequences here (before Linux 5.10, or denied)"
                    : "restartable sequences, registered by Linewright, for counters; values take atomic instructions, since "
                      "membarrier cannot abort sequences here (before Linux 5.10, or denied)";
        lw_percpu_rt.limit = LW__RSEQ_LIMIT(allowed); /* last: who finds one finds the offset that belongs to it */
    }
    if (lw_verbose())
        fprintf(stderr, "linewright: per-CPU operations: %s\n", mode_reason);
    errno = saved;
}

int lw__percpu_start(void)
{
    return -pthread_once(&once, start);
}

/* Early, so that the key is among the first and other constructors find everything decided. */
__attribute__((constructor(101))) static void start_early(void)
{
    lw__percpu_start();
}

enum lw_percpu_mode lw_percpu_mode(const char **why)
{
    lw__percpu_start();
    if (why)
        *why = mode_reason;
    return (enum lw_percpu_mode)lw_percpu_rt.mode;
}

unsigned lw_percpu_nr_cpus(void)
{
    lw__percpu_start();
    return lw_percpu_rt.nr_cpus;
}
