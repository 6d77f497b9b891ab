/* SPDX-License-Identifier: MIT */
/* The loops of wait.h that rest by WFE and WFET, as programs have them that chose the hint: the text that events.py executes. */
#include <linewright/arch/arm64/wait.h>

#define LOOPS(hint, bits)                                                                                            \
    void until_##hint##_u##bits(const uint##bits##_t *word, uint##bits##_t expected) {                               \
        uint##bits##_t seen;                                                                                         \
        while ((seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != expected) /* pairs with the store of events.py */ \
            lw_watch_##hint##_u##bits(word, seen);                                                                   \
    }                                                                                                                \
    uint##bits##_t while_##hint##_u##bits(const uint##bits##_t *word, uint##bits##_t unwanted) {                     \
        uint##bits##_t seen;                                                                                         \
        while ((seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) == unwanted) /* as above */                          \
            lw_watch_##hint##_u##bits(word, unwanted);                                                               \
        return seen;                                                                                                 \
    }
LOOPS(wfe, 32)
LOOPS(wfe, 64)
LOOPS(wfet, 32)
LOOPS(wfet, 64)
