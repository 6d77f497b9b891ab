/* SPDX-License-Identifier: MIT */
/* Included before everything in an explored text: what is no C there, and calls that the engine answers.
 *
 * Written by hand, each for its reason:
 *   lw_full_fence(), lw_cpu_relax(), lw_relax()   assembly; they are what their comments say
 *   lw_thread_word_inc…()             assembly, one instruction, so no signal can interrupt it; on x86 what comes before a store is
 *                                     performed before it (release), and a locked instruction is a full barrier
 *   system calls, clock, mmap         the engine's: futexes check the word and sleep, membarrier is a fence in every thread, memory is zeroed
 *   lw_slice_begin(), lw_slice_end()  counts of the thread's own: no other thread reads the bytes that they store to
 *   pthread_key_create() and others   thread ends are called by the scenarios
 *
 * In no scenario, each for its reason:
 *   sequences of src/percpu           assembly, which tests/cpp/percpu/interleave.cpp explores by instructions; so per-CPU counts and values, too
 *   src/percpu/rseq.c, percpu.c       registration and the allocator, under one lock: they decide nothing about who owns a CPU's words
 *   interpose/lookups.c               reads the dynamic linker's tables, which it does not change: each thread finds the same function
 *   interpose/statistics.c            counts for a report, all of them relaxed: no lock asks them
 *   src/srcu/debug.c, describe.c      what LW_DEBUG checks, and reports: they stop a wrong program, or print, and decide nothing for a right one
 *   src/wait, but park.c              which hint a round is, and how long a thread spins: neither orders anything
 *   signal handlers, fork()           an interrupted thread is no thread of its own; ctest -R 'stepped|every_instruction|fork' runs them
 */
#ifndef LINEWRIGHT_ARCH_CPU_H
#define LINEWRIGHT_ARCH_CPU_H

#define _GNU_SOURCE /* before the C library's first header, as the text itself has it */
#include "rc11.h"

#include <linewright/arch/select.h>

static inline void lw_full_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

static inline void lw_cpu_relax(void) { rc11_relax(); }

#define LINEWRIGHT_RELAX_H /* its choice of a hint orders nothing */
#include <linewright/api.h>
extern uint32_t lw_wait_word;
static inline void lw_relax(void) { lw_cpu_relax(); }

#define LW_HAVE_THREAD_WORDS 1

static inline void lw_thread_word_inc(unsigned long *word) {
    __atomic_store_n(word, __atomic_load_n(word, __ATOMIC_RELAXED) + 1, __ATOMIC_RELEASE);
}

static inline void lw_thread_word_inc_full(unsigned long *word) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    lw_thread_word_inc(word);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#define LINEWRIGHT_SLICE_H
static __thread unsigned rc11_sections;
static inline void lw_slice_begin(void) { rc11_sections++; }
static inline void lw_slice_end(void) { rc11_sections--; }

#define syscall rc11_syscall
#define clock_gettime rc11_clock_gettime
#define mmap rc11_mmap
#define munmap rc11_munmap
#define mprotect rc11_mprotect
#define madvise rc11_madvise
#define sched_yield rc11_sched_yield
#define sched_getcpu rc11_sched_getcpu
#define pthread_key_create rc11_pthread_key_create
#define pthread_setspecific rc11_pthread_setspecific
#define pthread_atfork rc11_pthread_atfork
#define pthread_once rc11_pthread_once
#define memset rc11_memset

#endif
