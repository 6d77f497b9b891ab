/* SPDX-License-Identifier: MIT */
/* A static program for a real kernel: advertised instructions are the ones that run, and every call succeeds. */
#include <linewright/cache.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

enum { BYTES = 100000 };

static int failures;

static void check(int ok, const char *what) {
    printf("%s %s\n", ok ? "ok  " : "FAIL", what);
    failures += !ok;
}

/* Usage: cache_system_test [emulated]: with it, an advertised instruction may have been refused. */
int main(int argc, char **argv) {
    static unsigned char memory[BYTES];
    struct lw_cache_description d;
    struct iovec list[100];
    int emulated = argc > 1 && !strcmp(argv[1], "emulated"), persists, sum = 0;

    lw_cache_describe(&d);
    printf("line %zu granule %zu clean %s invalidate %s persist %s persist_deep %s wait %s/%s trapped %d\n", d.line_bytes,
           d.granule_bytes, d.clean, d.invalidate, d.persist, d.persist_deep, d.wait_stores, d.wait_all, d.trapped);
    check(d.line_bytes >= 16 && d.granule_bytes >= d.line_bytes, "a line size");
    check(strcmp(d.clean, "none") != 0, "an instruction that cleans");
    check(emulated || !d.trapped, "no advertised instruction was refused");
#if defined(__aarch64__)
    check(emulated || !!(getauxval(AT_HWCAP) & 1 << 16) == !strcmp(d.persist, "dc_cvap"), "DC CVAP as advertised");
    check(emulated || !!(getauxval(AT_HWCAP2) & 1) == !strcmp(d.persist_deep, "dc_cvadp"), "DC CVADP as advertised");
#endif
    persists = strcmp(d.persist, "none") ? 0 : -EOPNOTSUPP;
    for (int i = 0; i < 100; i++)
        list[i] = (struct iovec){memory + i * 1000, (size_t)(i * 10)};
    memset(memory, 7, BYTES);
    check(!lw_sync_for_device(list, 100, LW_DMA_BIDIRECTIONAL), "for device");
    check(!lw_sync_for_cpu(list, 100, LW_DMA_BIDIRECTIONAL), "for CPU");
    check(lw_cache_list(list, 100, LW_CACHE_PERSIST) == persists, "persist");
    check(lw_cache_persist_deep(memory, BYTES) == (strcmp(d.persist_deep, "none") ? 0 : -EOPNOTSUPP), "persist deep");
    for (int i = 0; i < BYTES; i++)
        sum += memory[i];
    check(sum == 7 * BYTES, "no byte changed");
    printf("cache_system_test: %s\n", failures ? "FAILED" : "passed");
    return failures != 0;
}
