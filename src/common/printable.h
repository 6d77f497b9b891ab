/* SPDX-License-Identifier: MIT */
/* Makes text of foreign origin, such as a path or a variable of the environment, safe to print on a terminal. */
#ifndef LW_PRINTABLE_H
#define LW_PRINTABLE_H

#include <stddef.h>

/* The character, or '?' for a control character, which could move the cursor or rewrite the line. */
static inline char lw_printable(char c)
{
    unsigned char u = (unsigned char)c;

    return u < 0x20 || u == 0x7f ? '?' : c;
}

/* As much of `text` as fits into `shown`, which it returns. */
static inline const char *lw_printable_text(char *shown, size_t size, const char *text)
{
    size_t n = 0;

    for (; text[n] && n < size - 1; n++)
        shown[n] = lw_printable(text[n]);
    shown[n] = '\0';
    return shown;
}

#endif
