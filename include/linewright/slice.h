/* SPDX-License-Identifier: MIT */
/* Time slice extensions: a thread in a short critical section asks the kernel to let it finish before another thread gets its CPU.
 *
 *   lock(&l);                                      C++: { const lw::slice_guard slice; const std::lock_guard held(l); … }
 *   lw_slice_begin();
 *   …                                              some microseconds at most, without system calls
 *   unlock(&l);
 *   lw_slice_end();                                behind the unlock: it may give the CPU away
 *
 * Where a section is interrupted and another thread shall run on that CPU, Linux 7.0 and later, built with CONFIG_RSEQ_SLICE_EXTENSION, lets the
 * section go on, once, for 5 us unless the administrator allows more (slice_ext_nsec in debugfs/rseq); lw_slice_end() then gives the CPU away. A section
 * that takes longer is preempted all the same. On other kernels both functions order the compiler and do nothing else; with LINEWRIGHT_VERBOSE=1 the
 * first section says in one line on standard error why.
 *
 * The request stands in the thread's rseq area, all of whose fields must be registered: by glibc 2.41 and later, or by this library
 * (GLIBC_TUNABLES=glibc.pthread.rseq=0 LINEWRIGHT_RSEQ=own, and wherever the libc does not know rseq). Where the first 32 bytes alone are, as by
 * glibc 2.35 to 2.40, there are no extensions.
 *
 * A thread enables its extensions in its first section, by one system call. Sections nest: one within another, or within a section of other code that
 * uses the same area, neither asks nor gives back, unless what was granted has ended by then. It ends at its limit, and with any system call, the return
 * from a signal handler included; what began before that runs without. A handler's sections are inner ones of the section that it interrupted. A child of
 * fork() goes on in its parent's section. A child of vfork() ends its own before it calls exec or _exit.
 *
 * All functions are async-signal-safe and no cancellation points, and errno stays as it was. They order nothing but the compiler. A section ends in
 * the thread that began it, and is not left by longjmp(). */
#ifndef LINEWRIGHT_SLICE_H
#define LINEWRIGHT_SLICE_H

#include <linewright/api.h>
#include <linewright/arch/cpu.h>

LW__HEADER_BEGINS

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a thread's sections; not for users ---- */

struct lw__slice {
    uint8_t *control; /* where sections store: lw__slice_new, what `outer` is, or `within` */
    /* The control bytes of the thread's rseq area; where it has no extensions, `none`, which no kernel reads. NULL until it is known. */
    uint8_t *outer;
    uint32_t inner; /* open sections that count; as long as there are any, `control` is `within` */
    uint8_t none[2] __attribute__((aligned(2)));
    uint8_t within[2] __attribute__((aligned(2))); /* [1] is 1 */
};
extern LW_API __thread struct lw__slice lw__slice __attribute__((tls_model("initial-exec")));

/* What `control` of a new thread points to; [1] is 1. */
LW_API extern uint8_t lw__slice_new[2];

#ifndef LW__SLICE_WITHOUT_AREAS
/* Links what registers threads where the libc does not; the library's locks do without. */
LW_API extern const uint8_t lw__slice_areas;
__attribute__((used)) static const uint8_t *const lw__slice_uses_areas = &lw__slice_areas;
#endif

/* What the sections below leave to do where they find a byte set. */
LW_API void lw__slice_begin_within(void);
LW_API void lw__slice_end_within(void);

/* Control bytes: [0] is the request, [1] is 1 while it is granted; the kernel clears either. Whether one is set; the request, where none is, which the kernel
 * then leaves alone; the request taken back, and whether it was granted. */
#if LW_HAVE_THREAD_WORDS
/* Both bytes at once: the kernel comes before an instruction or behind it. Loads of two bytes and stores of one would wait for each other. */
typedef uint16_t __attribute__((may_alias)) lw__slice_pair;
LW_ALWAYS_INLINE bool lw__slice_is_open(uint8_t *control)
{
    return __atomic_load_n((lw__slice_pair *)(void *)control, __ATOMIC_RELAXED) != 0;
}
LW_ALWAYS_INLINE void lw__slice_ask(uint8_t *control)
{
    __atomic_store_n((lw__slice_pair *)(void *)control, (uint16_t)1, __ATOMIC_RELAXED);
}
LW_ALWAYS_INLINE bool lw__slice_take_back(uint8_t *control)
{
    bool granted;
    __asm__ volatile("andw $0xff00, %[pair]"
                     : "=@ccne"(granted), [pair] "+m"(*(lw__slice_pair *)(void *)control)
                     :
                     : "memory");
    return granted;
}
#else
LW_ALWAYS_INLINE bool lw__slice_is_open(uint8_t *control)
{
    return __atomic_load_n(control, __ATOMIC_RELAXED) || __atomic_load_n(control + 1, __ATOMIC_RELAXED);
}
LW_ALWAYS_INLINE void lw__slice_ask(uint8_t *control)
{
    __atomic_store_n(control, (uint8_t)1, __ATOMIC_RELAXED);
}
LW_ALWAYS_INLINE bool lw__slice_take_back(uint8_t *control)
{
    __atomic_store_n(control, (uint8_t)0, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* a grant is seen behind it, or does not come */
    return __atomic_load_n(control + 1, __ATOMIC_RELAXED) != 0;
}
#endif

/* ---- sections ---- */

/* An outermost section is a request and nothing else. A section counts where it finds a request, a grant or another section that counted; the last one
 * that did ends first. A handler leaves `control` and the count as it found them, so that load and store need not be one instruction, and asks for itself
 * alone. A grant comes with the request cleared and in no other way: neither byte set stays so until this thread asks. */
LW_ALWAYS_INLINE void lw_slice_begin(void)
{
    uint8_t *control = __atomic_load_n(&lw__slice.control, __ATOMIC_RELAXED);
    if (__builtin_expect(lw__slice_is_open(control), 0))
        lw__slice_begin_within();
    else
        lw__slice_ask(control);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

LW_ALWAYS_INLINE void lw_slice_end(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(lw__slice_take_back(__atomic_load_n(&lw__slice.control, __ATOMIC_RELAXED)), 0))
        lw__slice_end_within();
}

/* Whether the calling thread has extensions, which it enables where it can. `why`, if not NULL, becomes a sentence that says who grants them, or why there
 * are none. It lives as long as the library. */
LW_API bool lw_slice_available(const char **why);

#ifdef __cplusplus
} // extern "C"

#ifndef LW_C_API
extern "C++" { /* also where the program includes this inside extern "C" */
namespace lw
{

/* A section from construction to destruction. Declare it before the lock's own guard: what is declared first ends last, behind the unlock. */
class slice_guard
{
public:
    LW__NODISCARD slice_guard() noexcept
    {
        ::lw_slice_begin();
    }
    ~slice_guard()
    {
        ::lw_slice_end();
    }
    slice_guard(const slice_guard &) = delete;
    slice_guard &operator=(const slice_guard &) = delete;
};

} // namespace lw
} // extern "C++"
#endif
#endif

LW__HEADER_ENDS

#endif
