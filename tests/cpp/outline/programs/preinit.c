/* SPDX-License-Identifier: MIT */
/* Uses atomics before any constructor has run, the one that chooses the forms included; then tells both times' forms. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

extern uint8_t lw_outline_forms[] __attribute__((visibility("hidden")));

static atomic_int sum;
static unsigned before = 99;

static void early(void) {
    for (int i = 0; i < 1000; i++)
        atomic_fetch_add(&sum, 1);
    before = lw_outline_forms[2]; /* of ldadd */
}

__attribute__((section(".preinit_array"), used)) static void (*const run_early)(void) = early;

int main(void) {
    for (int i = 0; i < 1000; i++)
        atomic_fetch_add(&sum, 1);
    printf("sum %d, forms %u then %u\n", sum, before, (unsigned)lw_outline_forms[2]);
    return 0;
}
