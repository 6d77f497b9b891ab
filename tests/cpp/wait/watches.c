/* SPDX-License-Identifier: MIT */
/* The loops of wait.h by each hint that watches, as programs have them that chose it, written here where a program loads it: the text that events.py executes. */
#include <linewright/wait.h>

#include "src/wait/hints.c"

#define lw_relax_on_u32(word, seen) lw__relax_chosen_on_u32(word, seen, lw__wait_word_of(HINT, 1))
#define lw_relax_on_u64(word, seen) lw__relax_chosen_on_u64(word, seen, lw__wait_word_of(HINT, 1))
#define LOOPS(hint, bits)                                                                                                 \
    LW__WAIT_LOOPS(bits, _##hint, __ATOMIC_ACQUIRE) /* pairs with the store of events.py */                               \
    __attribute__((flatten)) void until_##hint##_u##bits(const uint##bits##_t *word, uint##bits##_t expected) {           \
        lw_wait_until_u##bits##_##hint(word, expected);                                                                   \
    }                                                                                                                     \
    __attribute__((flatten)) uint##bits##_t while_##hint##_u##bits(const uint##bits##_t *word, uint##bits##_t unwanted) { \
        return lw_wait_while_u##bits##_##hint(word, unwanted);                                                            \
    }

#ifdef __aarch64__
#define HINT LW__HINT_wfe
LOOPS(wfe, 32)
LOOPS(wfe, 64)
#undef HINT
#define HINT LW__HINT_wfet
LOOPS(wfet, 32)
LOOPS(wfet, 64)
#else
#define HINT LW__HINT_umwait
LOOPS(umwait, 32)
LOOPS(umwait, 64)
#undef HINT
#define HINT LW__HINT_mwaitx
LOOPS(mwaitx, 32)
LOOPS(mwaitx, 64)
#endif
