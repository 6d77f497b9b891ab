/* SPDX-License-Identifier: MIT */
/* Clears the bytes that make an object's helpers use LSE, after the object's own constructor has set them. */
#ifndef LINEWRIGHT_AUDIT_LLSC_H
#define LINEWRIGHT_AUDIT_LLSC_H

#include "object.h"

enum { LW_LLSC_BYTES = 4 };

/* The have-LSE bytes of one object: one, unless several partial links each brought a libgcc along. */
struct lw_bytes {
    size_t count;
    uint8_t *byte[LW_LLSC_BYTES];
};

/* Adds a byte if it is not known yet. Returns 0 when there is no room. */
int lw_bytes_add(struct lw_bytes *bytes, uint64_t address);

/*
 * Has `bytes` cleared after the constructors of their object have run: for an object loaded at start, at
 * lw_llsc_start_is_over(); for a later one, by a constructor put behind its own. Returns NULL, or why it cannot be.
 */
const char *lw_llsc_later(const struct link_map *map, const struct lw_object *object, const struct lw_bytes *bytes);

/* All constructors of what was loaded at start have run. */
void lw_llsc_start_is_over(void);

/* The object goes away. */
void lw_llsc_forget(const struct link_map *map);

#endif
