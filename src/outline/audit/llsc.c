/* SPDX-License-Identifier: MIT */
/* Where in an object's life its have-LSE byte can be cleared for good: right behind its constructors.
 *
 * For what is loaded at start, the program included, that is la_preinit: the C library calls it behind the last
 * constructor and before main. A library opened later gets no hook behind its constructors, and its constructor array is
 * not relocated yet when la_objopen sees it: its dynamic section is made to name an array of ours with one constructor,
 * which runs all of its own. Text is never written. Until the byte is cleared helpers use LSE, which is correct too.
 */
#include "llsc.h"

typedef void (*constructor)(int, char **, char **);

struct entry {
    const struct link_map *map; /* NULL: free */
    struct lw_bytes bytes;
    constructor *own; /* the object's array */
    size_t own_count;
};

enum { AT_START = 1024, LATER = 256 };

static struct entry at_start[AT_START];
static size_t at_start_count;
static int started;

int lw_bytes_add(struct lw_bytes *bytes, uint64_t address)
{
    uint8_t *byte = (uint8_t *)address;

    for (size_t i = 0; i < bytes->count; i++)
        if (bytes->byte[i] == byte)
            return 1;
    if (bytes->count == LW_LLSC_BYTES)
        return 0;
    bytes->byte[bytes->count++] = byte;
    return 1;
}

/* Relaxed: a helper on another thread that reads the byte before or after takes a correct form either way. */
static void clear(const struct lw_bytes *bytes)
{
    for (size_t i = 0; i < bytes->count; i++)
        __atomic_store_n(bytes->byte[i], 0, __ATOMIC_RELAXED);
}

/* Finds the object's own constructor array; 0 when it has none. Its address is in the file, not yet relocated. */
static int find_own(struct entry *e, const struct lw_object *o)
{
    const ElfW(Dyn) *array = lw_dynamic(e->map, DT_INIT_ARRAY), *size = lw_dynamic(e->map, DT_INIT_ARRAYSZ);
    uint64_t at;

    if (!array || !size || size->d_un.d_val < sizeof(constructor))
        return 0;
    at = o->base + array->d_un.d_ptr;
    if (at % sizeof(constructor) || !lw_ranges_hold(o->data, o->datas, at, size->d_un.d_val))
        return 0;
    e->own = (constructor *)at;
    e->own_count = size->d_un.d_val / sizeof(constructor);
    return 1;
}

/* Objects opened later: each has a constructor of its own number, which is how it knows whose it is. */
static struct entry later[LATER];

static void run_later(unsigned number, int argc, char **argv, char **environment)
{
    struct entry *e = &later[number];

    for (size_t i = 0; i < e->own_count; i++)
        e->own[i](argc, argv, environment);
    clear(&e->bytes);
    e->map = NULL; /* the array is read once in an object's life: the number is free again */
}

#define RUN(n)                                     \
    static void run_##n(int c, char **v, char **e) \
    {                                              \
        run_later(n, c, v, e);                     \
    }
#define EIGHT(X, t) X(t##0) X(t##1) X(t##2) X(t##3) X(t##4) X(t##5) X(t##6) X(t##7)
#define EIGHTS(X, t) \
    EIGHT(X, t##0) EIGHT(X, t##1) EIGHT(X, t##2) EIGHT(X, t##3) EIGHT(X, t##4) EIGHT(X, t##5) EIGHT(X, t##6) EIGHT(X, t##7)
#define ALL(X) EIGHTS(X, 00) EIGHTS(X, 01) EIGHTS(X, 02) EIGHTS(X, 03) /* octal, which sorts out the numbers */
#define NAME(n) run_##n,
ALL(RUN)
static const constructor run[LATER] = {ALL(NAME)};

static const char *put_behind(const struct entry *e, const struct lw_object *o, unsigned number)
{
    ElfW(Dyn) *array = lw_dynamic(e->map, DT_INIT_ARRAY), *size = lw_dynamic(e->map, DT_INIT_ARRAYSZ);

    if (!lw_ranges_hold(o->data, o->datas, (uint64_t)array, sizeof(*array)) ||
        !lw_ranges_hold(o->data, o->datas, (uint64_t)size, sizeof(*size)))
        return "its dynamic section is read-only";
    array->d_un.d_ptr = (uint64_t)&run[number] - o->base;
    size->d_un.d_val = sizeof(run[number]);
    return NULL;
}

static const char *add_later(const struct entry *new, const struct lw_object *object)
{
    for (unsigned number = 0; number < LATER; number++) {
        const char *wrong;

        if (later[number].map)
            continue;
        later[number] = *new;
        if (!find_own(&later[number], object)) { /* nothing would set the byte */
            clear(&new->bytes);
            later[number].map = NULL;
            return NULL;
        }
        wrong = put_behind(&later[number], object, number);
        if (wrong)
            later[number].map = NULL;
        return wrong;
    }
    return "too many objects are being opened at once";
}

const char *lw_llsc_later(const struct link_map *map, const struct lw_object *object, const struct lw_bytes *bytes)
{
    const struct entry new = {.map = map, .bytes = *bytes};

    if (started)
        return add_later(&new, object);
    if (at_start_count == AT_START)
        return "too many objects are loaded at start";
    at_start[at_start_count++] = new;
    return NULL;
}

void lw_llsc_start_is_over(void)
{
    started = 1;
    for (size_t i = 0; i < at_start_count; i++)
        clear(&at_start[i].bytes);
    at_start_count = 0;
}

void lw_llsc_forget(const struct link_map *map)
{
    for (size_t i = 0; i < at_start_count; i++)
        if (at_start[i].map == map)
            at_start[i].bytes.count = 0;
    for (size_t i = 0; i < LATER; i++)
        if (later[i].map == map)
            later[i].map = NULL;
}
