/* SPDX-License-Identifier: MIT */
/* How many threads' records a sum over the threads visits. */
#include "../../../src/srcu/records.h"

unsigned visited_records(void);
unsigned visited_records(void) {
    unsigned count = 0;
#if LW_HAVE_THREAD_WORDS
    for (struct lw__srcu_cursor at = {0}; lw__srcu_next_record(&at);)
        count++;
#endif
    return count;
}
