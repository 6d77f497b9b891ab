/* SPDX-License-Identifier: MIT */
/* The library that kinds `dlopen` and `tls_library` of find_planted load: a counter that all threads share, and a
 * thread-local one. */
unsigned long plugin_counter[32] __attribute__((aligned(256)));

static __thread unsigned long plugin_unused[100], plugin_own; /* the second begins behind the first */

unsigned long *plugin_own_counter(void) {
    plugin_unused[0]++;
    return &plugin_own;
}

void plugin_add(unsigned long times) {
    while (times--)
        __atomic_fetch_add(plugin_counter, 1, __ATOMIC_SEQ_CST);
}
