/* SPDX-License-Identifier: MIT */
/* A program that reads sixteen bytes: by the way that every CPU has, or, with READ_PLAIN, by the one that some lack. */
#include <linewright/wide.h>

int main(void) {
    static lw_u128 value;

#ifdef READ_PLAIN
    return (int)lw_read_u128(&value);
#else
    return (int)(lw_read_u128_any(&value) + lw_read_u128_any_relaxed(&value) + lw_read_u128_any_acquire(&value));
#endif
}
