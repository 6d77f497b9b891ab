/* From the policy's text to the form byte of each outlined operation. */
#include <string.h>

#include "outline.h"

int lw_outline_choose(const char *text, int have_lse, uint8_t forms[LW_OUTLINE_OPS])
{
    uint8_t form = have_lse ? LW_OUTLINE_LSE : 0;

    if (text && strstr(text, "llsc"))
        form = 0;
    if (text && strstr(text, "prefetch"))
        form |= LW_OUTLINE_PREFETCH;
    memset(forms, form, LW_OUTLINE_OPS);
    return 0;
}
