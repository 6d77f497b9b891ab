/* SPDX-License-Identifier: MIT */
/*
 * Runs the object of a patched kernel's arch/x86/lib/atomic64_cx8_32.S in user space, with its alternatives applied or not,
 * on this CPU.
 *
 *   atomic64_user ENTRY_BYTES FEATURE…   applies the entries of these features; several threads then use every operation at once
 *
 * The functions have a calling convention of their own (asm/atomic64_32.h), which is repeated here.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 200000

extern const uint8_t __start_lw_altinstructions[], __stop_lw_altinstructions[];
static int64_t counter __attribute__((aligned(64)));
static int64_t torn __attribute__((aligned(64)));

static int64_t add_return(int64_t by, int64_t *p) {
    __asm__ __volatile__("call atomic64_add_return_cx8" : "+A"(by), "+c"(p) : : "memory", "cc");
    return by;
}

static int64_t sub_return(int64_t by, int64_t *p) {
    __asm__ __volatile__("call atomic64_sub_return_cx8" : "+A"(by), "+c"(p) : : "memory", "cc");
    return by;
}

static int64_t inc_return(int64_t *p) {
    int64_t now;

    __asm__ __volatile__("call atomic64_inc_return_cx8" : "=&A"(now) : "S"(p) : "memory", "ecx", "cc");
    return now;
}

static int64_t dec_return(int64_t *p) {
    int64_t now;

    __asm__ __volatile__("call atomic64_dec_return_cx8" : "=&A"(now) : "S"(p) : "memory", "ecx", "cc");
    return now;
}

/* ECX is an input that the kernel's callers rely on afterwards. */
static int64_t read_whole(int64_t *p, int *kept) {
    int64_t now;
    int64_t *after = p;

    __asm__ __volatile__("call atomic64_read_cx8" : "=&A"(now), "+c"(after) : : "memory", "cc");
    *kept &= after == p;
    return now;
}

/* Puts replacements over their sites: struct alt_instr of the kernel begins with two self-relative offsets; word 8 is the
 * feature. */
static int apply(size_t entry_bytes, int feature) {
    int count = 0;

    for (const uint8_t *at = __start_lw_altinstructions; at < __stop_lw_altinstructions; at += entry_bytes) {
        int32_t site, replacement;
        uint16_t number;
        uint8_t *code;
        uint8_t bytes = at[10], new_bytes = at[11];
        uintptr_t page;

        memcpy(&site, at, 4);
        memcpy(&replacement, at + 4, 4);
        memcpy(&number, at + 8, 2);
        if (entry_bytes == 14) /* 6.12: feature and flags in one word of four bytes */
            bytes = at[12], new_bytes = at[13];
        if (number != feature)
            continue;
        code = (uint8_t *)(uintptr_t)(at + site);
        page = (uintptr_t)code & ~4095ul;
        if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC))
            return -1;
        memset(code, 0x90, bytes);
        memcpy(code, at + 4 + replacement, new_bytes);
        if (new_bytes == 5 && code[0] == 0xe9) { /* a jump is relative to where it stands */
            int32_t distance;

            memcpy(&distance, code + 1, 4);
            distance += (int32_t)((at + 4 + replacement) - code);
            memcpy(code + 1, &distance, 4);
        }
        count++;
    }
    return count;
}

static void *work(void *data) {
    int kept = 1;

    for (int i = 0; i < ROUNDS; i++) {
        int64_t now;

        add_return(0x100000001ll, &counter);
        sub_return(3, &counter);
        inc_return(&counter);
        dec_return(&counter);
        /* Both halves change together, always by the same number. */
        add_return(0x100000001ll, &torn);
        now = read_whole(&torn, &kept);
        if ((uint32_t)now != (uint32_t)(now >> 32))
            *(int *)data += 1;
    }
    if (!kept)
        *(int *)data += 1;
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    int wrong[THREADS] = {0}, bad = 0, applied = 0;
    int64_t expected = THREADS * (int64_t)ROUNDS * (0x100000001ll - 3);

    for (int i = 2; i < argc; i++) {
        int count = apply((size_t)atoi(argv[1]), atoi(argv[i]));

        if (count <= 0)
            return fprintf(stderr, "no alternative of feature %s\n", argv[i]), 2;
        applied += count;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, &wrong[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        bad += wrong[i];
    }
    printf("applied=%d torn=%d expected=%lld found=%lld\n", applied, bad, (long long)expected, (long long)counter);
    return bad || counter != expected;
}
