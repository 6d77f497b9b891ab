/* SPDX-License-Identifier: MIT */
/* Brings one helper of its own, which must win over the archive's without a clash. */
#include <stdatomic.h>
#include <stdio.h>

static int calls;

int __aarch64_ldadd4_relax(int value, int *p);
int __aarch64_ldadd4_relax(int value, int *p) {
    int old = *p;

    calls++;
    *p = old + value;
    return old;
}

int main(void) {
    static atomic_int mine, theirs;

    for (int i = 0; i < 10; i++) {
        atomic_fetch_add_explicit(&mine, 1, memory_order_relaxed);
        atomic_fetch_add(&theirs, 1);
    }
    puts(calls == 10 && mine == 10 && theirs == 10 ? "sums exact" : "sums wrong");
    return !(calls == 10 && mine == 10 && theirs == 10);
}
