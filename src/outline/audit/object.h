/* SPDX-License-Identifier: MIT */
/* One loaded object's text and data as they lie in memory, checked before anything is read or written. */
#ifndef LINEWRIGHT_AUDIT_OBJECT_H
#define LINEWRIGHT_AUDIT_OBJECT_H

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "self.h"

struct lw_range {
    uint64_t from, to;
};

enum { LW_OBJECT_RANGES = 16 };

struct lw_object {
    uint64_t base; /* what is added to the file's virtual addresses */
    size_t texts, datas;
    struct lw_range text[LW_OBJECT_RANGES]; /* readable and executable now, and said to be so by the file */
    struct lw_range data[LW_OBJECT_RANGES]; /* said to be writable by the file */
    struct lw_range relocated; /* of that, what becomes read-only once it is relocated; empty: from == to */
};

/*
 * Finds the object of a dynamic linker's entry. Returns NULL, or why it cannot be: a text for people. The vDSO gives an
 * object without text.
 *
 * Its headers are read from where the dynamic linker says that it begins, through the process's memory file, which takes
 * the same for each object. An object that begins elsewhere (its first segment has an address of its own) is looked up in
 * the list of mappings, which grows with every object.
 */
const char *lw_object_find(const struct link_map *map, const struct lw_start *start, struct lw_object *object);

/* Whether the object can write this byte for as long as it lives. */
int lw_object_can_write(const struct lw_object *object, uint64_t address);

int lw_ranges_hold(const struct lw_range *ranges, size_t count, uint64_t address, uint64_t size);

/* The first dynamic entry with `tag`, or NULL. */
ElfW(Dyn) * lw_dynamic(const struct link_map *map, ElfW(Sxword) tag);

#endif
