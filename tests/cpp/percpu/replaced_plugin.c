/* SPDX-License-Identifier: MIT */
/* A library for replaced.c that includes the header: version 3 counts, the others use nothing with a sequence. */
#include <linewright/percpu.h>

int plugin_version(void);

__attribute__((visibility("default"))) int plugin_version(void) {
#if VERSION == 3
    static struct lw_counter counter;
    if (lw_counter_init(&counter) == 0)
        lw_counter_inc(&counter);
#endif
    return VERSION;
}
