/* SPDX-License-Identifier: MIT */
/* The grammar that settings share, a comma list of items, and the line that refuses one. Memory and string functions alone are called. */
#ifndef LW_ITEMS_H
#define LW_ITEMS_H

#include "printable.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* A piece of the text being parsed. */
struct piece {
    const char *start;
    size_t length;
};

static inline bool piece_is(struct piece p, const char *name)
{
    return strlen(name) == p.length && memcmp(p.start, name, p.length) == 0;
}

/* The item that begins at `at`. */
static inline struct piece item_at(const char *at)
{
    return (struct piece){at, strcspn(at, ",")};
}

/* The beginning of the next item; NULL behind the last. */
static inline const char *item_after(struct piece item)
{
    return item.start[item.length] ? item.start + item.length + 1 : NULL;
}

/* Splits NAME=VALUE; false where there is no `=`. */
static inline bool piece_split(struct piece item, struct piece *name, struct piece *value)
{
    const char *equals = memchr(item.start, '=', item.length);

    if (!equals)
        return false;
    *name = (struct piece){item.start, (size_t)(equals - item.start)};
    *value = (struct piece){equals + 1, item.length - name->length - 1};
    return true;
}

/* Of a long piece this much is repeated in an error, so that what is allowed still fits behind it. */
#define PIECE_SHOWN 40

/* Writes the line of an error, 'piece' reason; allowed, and returns -EINVAL. Never more than size - 1 bytes. */
static inline int refuse_piece(char *error, size_t size, struct piece p, const char *reason, const char *allowed)
{
    const struct piece shown = {p.start, p.length < PIECE_SHOWN ? p.length : PIECE_SHOWN};
    const struct piece parts[] = {
        {"'", 1}, shown, {"' ", 2}, {reason, strlen(reason)}, {"; ", 2}, {allowed, strlen(allowed)}};
    size_t used = 0;

    if (size == 0)
        return -EINVAL;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t n = parts[i].length;

        if (n > size - 1 - used)
            n = size - 1 - used;
        for (size_t k = 0; k < n; k++)
            error[used++] = lw_printable(parts[i].start[k]);
    }
    error[used] = '\0';
    return -EINVAL;
}

#endif
