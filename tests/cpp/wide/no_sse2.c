/* SPDX-License-Identifier: MIT */
/* A 32-bit program on a CPU without SSE2 (emulated Pentium III): every operation that would use it must not. */
#include <stdio.h>

#include <linewright/atomic.h>

static int wrong;

static void expect(int held, const char *what) {
    if (!held)
        printf("wrong: %s\n", what);
    wrong |= !held;
}

int main(void) {
    static lw_u64 word;
    uint64_t seen = 5;

    expect(!(lw_wide_caps & LW_WIDE_VECTOR), "the emulated CPU has SSE2: this test shows nothing");
    lw_write_u64(&word, 0x0102030405060708);
    expect(lw_read_u64(&word) == 0x0102030405060708, "write, read");
    lw_write_u64_seq_cst(&word, 0xffffffffffffffff);
    expect(lw_read_u64_relaxed(&word) == 0xffffffffffffffff, "write seq_cst, read relaxed");
    lw_write_u64_release(&word, 0xffffffff);
    lw_inc_u64(&word);
    expect(lw_read_u64_acquire(&word) == 0x100000000, "write release, inc, read acquire");
    expect(lw_fetch_add_u64(&word, 1) == 0x100000000 && lw_xchg_u64(&word, 6) == 0x100000001, "fetch_add, xchg");
    expect(!lw_try_cmpxchg_u64(&word, &seen, 9) && seen == 6 && lw_try_cmpxchg_u64(&word, &seen, 9), "try_cmpxchg");
    expect(lw_add_unless_u64(&word, 1, 8) && !lw_add_unless_u64(&word, 1, 10), "add_unless");
    expect(lw_sub_and_test_u64(&word, 10) && !lw_inc_not_zero_u64(&word), "sub_and_test, inc_not_zero");
    puts(wrong ? "failed" : "without SSE2: all right");
    return wrong;
}
