/* SPDX-License-Identifier: MIT */
/* The cache library inside a shared object, as a plugin would carry it. */
#include <linewright/cache.h>

__attribute__((visibility("default"))) int plugin_clean(const void *p, size_t n);

int plugin_clean(const void *p, size_t n) {
    struct iovec list = {(void *)(uintptr_t)p, n};

    return lw_sync_for_device(&list, 1, LW_DMA_TO_DEVICE);
}
