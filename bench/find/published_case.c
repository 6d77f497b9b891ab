/* SPDX-License-Identifier: MIT */
/* A case that was published more than once, written anew from its descriptions: a lock and, on the same line, fields that
 * other threads only read (the kernel developers' example for perf c2c, also used by the Arm learning path on SPE;
 * VictoriaMetrics #8683 has hot variables beside counters in the same way).
 *
 * published_case READS: one thread takes and gives the lock until the other has read its field so often. APART=1 in the
 * environment puts the fields on a line of their own, which is the published cure. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shared {
    _Atomic uint64_t lock;
    uint64_t guarded;
    uint64_t read_mostly[4]; /* on the lock's line */
    uint64_t more[10];
    uint64_t elsewhere[16]; /* 128 bytes behind it */
} __attribute__((aligned(256)));

struct shared shared_buffer; /* external: its name is in the symbol table */
static atomic_bool done;
static long reads;

static void *take_the_lock(void *unused) {
    (void)unused;
    while (!atomic_load_explicit(&done, memory_order_relaxed)) {
        while (atomic_exchange_explicit(&shared_buffer.lock, 1, memory_order_acquire))
            ;
        shared_buffer.guarded++;
        atomic_store_explicit(&shared_buffer.lock, 0, memory_order_release);
    }
    return NULL;
}

static void *read_the_field(void *field) {
    volatile uint64_t *from = field;
    uint64_t sum = 0;
    for (long i = 0; i < reads; i++)
        sum += *from;
    atomic_store(&done, 1);
    return (void *)(uintptr_t)(sum & 1);
}

int main(int argc, char **argv) {
    if (argc != 2 || (reads = atol(argv[1])) < 1)
        return fprintf(stderr, "published_case READS\n"), 2;
    const char *apart = getenv("APART");
    void *field = apart && !strcmp(apart, "1") ? shared_buffer.elsewhere : shared_buffer.read_mostly;
    pthread_t locker, reader;
    if (pthread_create(&locker, NULL, take_the_lock, NULL) || pthread_create(&reader, NULL, read_the_field, field))
        return 3;
    pthread_join(reader, NULL);
    pthread_join(locker, NULL);
    return 0;
}
