/* The library that kind `dlopen` of find_planted loads: its counter is shared by all threads that call it. */
unsigned long plugin_counter[32] __attribute__((aligned(256)));

void plugin_add(unsigned long times) {
    while (times--)
        __atomic_fetch_add(plugin_counter, 1, __ATOMIC_SEQ_CST);
}
