/* SPDX-License-Identifier: MIT */
/* A foreign program: includes every public header from wherever it was installed, and uses operations and policy. */
#include <stdio.h>
#include <string.h>

#include <linewright/atomic.h>
#ifndef LW_NO_POLICY
#include <linewright/policy.h>
#include <linewright/slice.h>
#include <linewright/srcu.h>
#include <linewright/wait.h>
#endif

#ifdef __cplusplus
static unsigned by_reference(uint32_t &word) {
    lw::atomic_ref<uint32_t> ref(word);
    ref.add(1);
    return ref.fetch_sub(1);
}
#else
static unsigned by_reference(uint32_t *word) {
    lw_add_u32(word, 1);
    return lw_fetch_sub_u32(word, 1);
}
#define by_reference(word) by_reference(&(word))
#endif

int main(void) {
    uint32_t word = 1;
    char line[300] = "";

    lw_add_u32(&word, 2);
    if (lw_fetch_add_u32(&word, 3) != 3 || lw_read_u32(&word) != 6 || by_reference(word) != 7)
        return 1;
#ifndef LW_NO_POLICY
    struct lw_srcu_normal domain;
    if (lw_srcu_init(&domain) != 0)
        return 3;
    lw_srcu_index section = lw_srcu_read_lock(&domain);
    lw_srcu_read_unlock(&domain, section);
    if (lw_srcu_synchronize(&domain) != 0 || lw_srcu_cleanup(&domain) != 0)
        return 4;
    lw_slice_begin();
    lw_slice_end();
    struct lw_backoff backoff = LW_BACKOFF_INIT;
    lw_backoff_wait(&backoff);
    lw_wait_until_u32(&word, 6);
    if (lw_wait_set("none", line, sizeof(line)) != 0 || !lw_wait_has("none"))
        return 5;
    if (lw_policy_set("prefetch") != 0 || lw_policy_describe(line, sizeof(line)) == 0 || !strstr(line, "prefetch"))
        return 2;
#endif
    puts(line);
    return 0;
}
