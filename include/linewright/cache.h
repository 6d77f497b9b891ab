/* SPDX-License-Identifier: MIT */
/*
 * Cache maintenance for whole scatter lists: issues everything, then waits once.
 *
 * For memory shared with devices that do not see the CPU's caches, and for persistent memory.  Every function
 * works in whole cache lines of the hardware's size: a range covers each line that holds at least one of its
 * bytes, a zero-length range covers none (whatever its address), and a range may end with the last byte of the
 * address space.  Ranges in one list that overlap or share or adjoin lines in rising order are merged.
 *
 * Errors: 0, or
 *   -EINVAL      a length above half the address space, or a range that runs past its end; an unknown operation or
 *                direction; a list that is NULL and not empty.  Nothing was done.  Of a list with an impossible entry, the
 *                entries before it have been done and waited for, and none after it.
 *   -EOPNOTSUPP  this machine has no instruction for it (each function says what was done instead).
 * An unmapped address faults as a load from it would.
 *
 * Threads and signals: everything here may be called from any thread and from a signal handler, except
 * lw_cache_configure().  A batch belongs to one thread at a time.  The instructions are chosen before main() or
 * by the first call, whichever is earlier.  On arm64 that executes each instruction once in a short-lived child process,
 * which sends no signal and needs no wait() of the program.
 *
 * Ordering.  Maintenance is not ordered by itself.  It includes the calling thread's earlier stores.  It is in effect only
 * after a wait:
 *   lw_cache_wait()          every later access of this thread (doorbell, copy, read) comes after it
 *   lw_cache_persist_wait()  every later store of this thread comes after it; later loads may not
 * The functions without `_nowait` wait before they return, if there was anything to wait for.
 */
#ifndef LINEWRIGHT_CACHE_H
#define LINEWRIGHT_CACHE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who will write the memory next, with the kernel's meanings and values. */
enum lw_dma_direction { LW_DMA_BIDIRECTIONAL = 0, LW_DMA_TO_DEVICE = 1, LW_DMA_FROM_DEVICE = 2 };

/* What to do to a range. */
enum lw_cache_op {
    LW_CACHE_CLEAN = 1,        /* write dirty lines back, so that other agents see the CPU's stores */
    LW_CACHE_INVALIDATE,       /* drop lines, so that the CPU sees other agents' stores; see below */
    LW_CACHE_CLEAN_INVALIDATE, /* both: write back, then drop */
    LW_CACHE_PERSIST,          /* write dirty lines back to the point of persistence */
    LW_CACHE_PERSIST_DEEP      /* … of deep persistence: arm64 with FEAT_DPB2 only */
};

/*
 * LW_CACHE_INVALIDATE writes back first: no instruction open to a user program drops a dirty line without
 * that.  So a line that is dirty in the cache *overwrites what the device has written there*, the whole line.  To receive
 * data: call lw_sync_for_device(), which leaves the lines clean; store to none of those lines; let the device write; call
 * lw_sync_for_cpu().  A buffer that begins and ends on a multiple of lw_cache_granule() shares no line with other data.
 */

/* One range: issue and wait.  Return 0, -EINVAL or -EOPNOTSUPP (nothing was done). */
LW_API int lw_cache_clean(const void *p, size_t n);
LW_API int lw_cache_invalidate(const void *p, size_t n);
LW_API int lw_cache_clean_invalidate(const void *p, size_t n);

/*
 * The issuing halves.  Not in effect before lw_cache_wait().  lw_cache_invalidate_nowait() does not call
 * lw_cache_order(); the waiting forms and lists do.
 */
LW_API int lw_cache_clean_nowait(const void *p, size_t n);
LW_API int lw_cache_invalidate_nowait(const void *p, size_t n);
LW_API int lw_cache_clean_invalidate_nowait(const void *p, size_t n);

/*
 * Wait for all maintenance this thread has issued: arm64 `dsb sy`; x86 MFENCE, since SFENCE would let a later
 * load overtake CLFLUSHOPT.  Pairs with nothing on another CPU: the other side is the device, or memory.
 */
LW_API void lw_cache_wait(void);

/*
 * Order this thread's earlier loads before maintenance issued later: the load that said "the device is done"
 * before the invalidation of what it wrote.  arm64 `dmb sy`, x86 MFENCE.
 */
LW_API void lw_cache_order(void);

/*
 * To the point of persistence.  0: the range has reached it.  -EOPNOTSUPP: no such instruction here (arm64
 * without DC CVAP); the range was cleaned to the point of coherency and waited for, which promises nothing across
 * a power failure.  Coherent mode does not change these, so `_nowait` is waited for with lw_cache_persist_wait(), not
 * with lw_cache_wait(), which does nothing there.  x86: CLWB (or CLFLUSHOPT, CLFLUSH) and SFENCE.
 */
LW_API int lw_cache_persist(const void *p, size_t n);
LW_API int lw_cache_persist_nowait(const void *p, size_t n);
LW_API void lw_cache_persist_wait(void);

/* To the point of deep persistence.  -EOPNOTSUPP where there is none; the range was then persisted as above. */
LW_API int lw_cache_persist_deep(const void *p, size_t n);

/* One operation over a list, waited for once.  Same results as the one-range function of that operation; -EINVAL: it
 * ended at the first impossible entry, as if the list did. */
LW_API int lw_cache_list(const struct iovec *list, size_t n, enum lw_cache_op op);

/*
 * Hand memory to a device, or take it back, by the kernel's rules.  For the device: clean, whatever the
 * direction (a dirty line evicted later would overwrite what the device wrote).  For the CPU: nothing for
 * LW_DMA_TO_DEVICE, else invalidate.  After lw_sync_for_device() returns, later *stores* come after it (ring the
 * doorbell with a store); after lw_sync_for_cpu() every later access does (copy from a bounce buffer, read).
 * In coherent mode both return 0 at once and order nothing.
 */
LW_API int lw_sync_for_device(const struct iovec *list, size_t n, enum lw_dma_direction direction);
LW_API int lw_sync_for_cpu(const struct iovec *list, size_t n, enum lw_dma_direction direction);

/*
 * A batch, for code that finds its pieces one by one.  No allocation; nothing to release.
 *   struct lw_cache_batch batch;
 *   lw_cache_batch_for_device(&batch, LW_DMA_TO_DEVICE);
 *   while (...) lw_cache_batch_add(&batch, piece, length);
 *   lw_cache_batch_flush(&batch);
 * Stores to a piece come before its add.  A piece may be issued only by a later add or by the flush (that is
 * how adjacent pieces merge), and is in effect only after the flush, which ends the batch.  A batch for the CPU takes back
 * what the device is known to have written before the batch begins.  Where that becomes known piece by piece, call
 * lw_cache_order() between the load that shows it and the piece's add.
 */
struct lw_cache_batch {
    uintptr_t first; /* first line of the range not issued yet */
    uintptr_t last;  /* its last line */
    uint32_t word;   /* the choice of instructions when the batch began */
    uint8_t op;      /* enum lw_cache_op; 0: nothing is to be done */
    uint8_t state;
    uint8_t held;    /* first and last are valid */
    int8_t error;    /* of the first piece that was refused; that piece was not touched */
};

LW_API int lw_cache_batch_begin(struct lw_cache_batch *batch, enum lw_cache_op op);
LW_API int lw_cache_batch_for_device(struct lw_cache_batch *batch, enum lw_dma_direction direction);
LW_API int lw_cache_batch_for_cpu(struct lw_cache_batch *batch, enum lw_dma_direction direction);
/* 0, or -EINVAL: the piece is impossible, or the batch has not begun or has ended. */
LW_API int lw_cache_batch_add(struct lw_cache_batch *batch, const void *p, size_t n);
/* Issue the rest and wait.  The error of the first refused piece (the others are in effect), or the operation's result. */
LW_API int lw_cache_batch_flush(struct lw_cache_batch *batch);

/* Bytes per cache line, the smallest on this machine; from CPUID or CTR_EL0. */
LW_API size_t lw_cache_line_size(void);

/* Alignment at which a buffer shares no line with its neighbours at any level: the largest line (arm64 CTR_EL0.CWG). */
LW_API size_t lw_cache_granule(void);

/* The chosen instructions by name; "none" where there is none. */
struct lw_cache_description {
    size_t line_bytes;
    size_t granule_bytes;
    const char *clean;
    const char *invalidate; /* always one that writes back too */
    const char *persist;    /* "none": lw_cache_persist() answers -EOPNOTSUPP */
    const char *persist_deep;
    const char *wait_stores; /* barrier after clean and persist */
    const char *wait_all;    /* barrier after invalidate, and lw_cache_wait() */
    int coherent;            /* devices are taken to be coherent */
    int trapped;             /* an advertised instruction was refused when tried, and is not used */
};
LW_API void lw_cache_describe(struct lw_cache_description *description);

/*
 * Change the choice: a comma list, applied left to right, of
 *   default | coherent | noncoherent | clean=INSN | invalidate=INSN | persist=INSN
 * with INSN a name as lw_cache_describe() gives it.  Also read at start-up from LINEWRIGHT_CACHE (empty is as not set,
 * a wrong value is reported on standard error once and ignored).  Call it before other threads use this header.
 *
 * Coherent mode is for machines on which every device the program uses sees the CPU's caches: lists, batches, one-range
 * operations and lw_cache_wait()/lw_cache_order() then do nothing.  Persistence is not affected.
 *
 * -EINVAL: a word that is not understood; -EOPNOTSUPP: an instruction this machine lacks, or one that does not do
 * that operation.  Nothing is changed then.
 */
LW_API int lw_cache_configure(const char *choice);

#ifdef __cplusplus
}
#endif

#endif
