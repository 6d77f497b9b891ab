/* SPDX-License-Identifier: MIT */
/*
 * A software model of a cache without coherency, behind the API of cache.h, for testing the code that uses it.
 *
 * Link `linewright_cache_model` in place of `linewright`; it defines LW_CACHE_MODEL for what is built with it.  Maintenance
 * then acts on modelled memory, which exists twice: as the devices see it, and as the CPU's cache holds it.  The code
 * under test reads and writes it with lw_model_load() and lw_model_store() where LW_CACHE_MODEL is defined, with memcpy()
 * elsewhere.  Addresses are names: they may be real or invented.
 *
 * The model may do all that hardware may, and its schedule says how eagerly: lines are fetched without being asked
 * for and written back at any time; an issued instruction takes effect at any time before the wait for it, and even
 * before older loads unless lw_cache_order() stands between; after a wait that orders only stores, a load may still return
 * what was cached before.  A test runs its scenario under LW_MODEL_LAZY, LW_MODEL_EAGER and many seeds of
 * LW_MODEL_RANDOM, and compares what each side reads with what it ought to.
 *
 * One CPU, one thread.
 */
#ifndef LINEWRIGHT_CACHE_MODEL_H
#define LINEWRIGHT_CACHE_MODEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum lw_model_schedule {
    LW_MODEL_LAZY,  /* nothing happens before it must */
    LW_MODEL_EAGER, /* everything happens at once; dropped lines are fetched again, stores are written back */
    LW_MODEL_RANDOM /* anything, by the seed */
};

struct lw_model_config {
    size_t line_bytes; /* a power of two, 8 … 2048 */
    enum lw_model_schedule schedule;
    uint64_t seed;
};

struct lw_model_counts {
    uint64_t insns;        /* maintenance instructions issued */
    uint64_t waits;        /* barriers that complete them */
    uint64_t orders;       /* lw_cache_order() and the like */
    uint64_t outside;      /* instructions on lines that belong to no region */
    uint64_t pending;      /* issued, not yet in effect */
    uint64_t overwritten;  /* bytes of a device destroyed by writing a dirty line back */
    uint64_t discarded;    /* bytes of the CPU destroyed by dropping a dirty line without writing it back */
};

/* Start afresh: no regions, nothing cached, counts at 0, lw_cache_configure("default"). 0, -EINVAL. */
int lw_model_begin(const struct lw_model_config *config);
/* Free everything. */
void lw_model_end(void);
/* Make the lines of [base, base + n) memory, zero-filled, in no cache. 0, -EINVAL, -ENOMEM. */
int lw_model_region(const void *base, size_t n);

/* The CPU's accesses. Outside every region: abort(), as an unmapped address would fault. */
void lw_model_store(void *to, const void *from, size_t n);
void lw_model_load(const void *from, void *to, size_t n);

/* A device's accesses: to memory, past the cache. */
void lw_model_device_write(void *to, const void *from, size_t n);
void lw_model_device_read(const void *from, void *to, size_t n);

/*
 * The CPU waits for a device: `device` does its work, and the call returns as the load that sees it finished.  Unless
 * something orders maintenance after that load, the model may let maintenance take effect before the work is done.
 */
void lw_model_await(void (*device)(void *), void *arg);

/*
 * Call `hook` before the access or instruction that is `steps` away (accesses count once per 8 bytes); once. 0: never.
 * It may leave by longjmp(): that is how a test ends a program anywhere.
 */
void lw_model_at_step(uint64_t steps, void (*hook)(void *), void *arg);

/* Power fails: of what is dirty or pending any part reaches memory, line by line; the cache is gone. */
void lw_model_crash(void);

void lw_model_count(struct lw_model_counts *counts);
/* Maintenance instructions that were issued on the line of this address. */
unsigned int lw_model_touched(const void *line);
size_t lw_model_line_size(void);

#ifdef __cplusplus
}
#endif

#endif
