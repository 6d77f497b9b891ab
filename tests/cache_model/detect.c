/* SPDX-License-Identifier: MIT */
/* What the library finds when it asks the modelled machine for its instructions and its line size. */
#include "internal.h"

#include "cache_model.h"

uint32_t lw_cache_detect(void) {
    uint32_t line = (uint32_t)lw_model_line_size();

    return lw_word_of(LW_INSN_CLEAN, LW_INSN_CLEAN_INVALIDATE, LW_INSN_PERSIST, LW_INSN_NONE) |
           lw_word_geometry(line, line) |
           (LW_BIT(LW_INSN_CLEAN) | LW_BIT(LW_INSN_CLEAN_INVALIDATE) | LW_BIT(LW_INSN_PERSIST) | LW_BIT(LW_INSN_FLUSH))
               << LW_WORD_HAVE;
}
