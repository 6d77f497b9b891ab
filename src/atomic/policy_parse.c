/* SPDX-License-Identifier: MIT */
/* The grammar of LINEWRIGHT_ATOMICS: a pure function, used by the library and by the outline helpers alike. */
#include <errno.h>
#include <string.h>

#include <linewright/policy.h>

#include "../common/printable.h"

static const char *const class_names[LW_POLICY_CLASSES] = {"void", "fetch", "xchg", "cas"};
static const char *const form_names[] = {NULL, "store", "load", "llsc"};

#define ALLOWED                                                        \
    "allowed: default, or a comma list of store|load|llsc, prefetch, " \
    "void=store|load|llsc|prefetch, fetch|xchg|cas=load|llsc|prefetch"

/* A piece of the text being parsed. */
struct piece {
    const char *start;
    size_t length;
};

static int is(struct piece p, const char *name)
{
    return strlen(name) == p.length && memcmp(p.start, name, p.length) == 0;
}

/* Of a long piece this much is repeated in an error, so that what is allowed still fits behind it. */
#define SHOWN 40

/* The line of an error: 'piece' reason; allowed … . Never more than size - 1 bytes. */
static int fail(char *error, size_t size, struct piece p, const char *reason)
{
    const struct piece shown = {p.start, p.length < SHOWN ? p.length : SHOWN};
    const struct piece parts[] = {
        {"'", 1}, shown, {"' ", 2}, {reason, strlen(reason)}, {"; ", 2}, {ALLOWED, strlen(ALLOWED)}};
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

static int form_of(struct piece p)
{
    for (int f = LW_POLICY_STORE; f <= LW_POLICY_LLSC; f++)
        if (is(p, form_names[f]))
            return f;
    return LW_POLICY_DEFAULT;
}

static int class_of(struct piece p)
{
    for (int c = 0; c < LW_POLICY_CLASSES; c++)
        if (is(p, class_names[c]))
            return c;
    return -1;
}

/* What has been read so far: the general items apart from those of a class, which are stronger. */
struct reading {
    uint8_t form;
    uint8_t prefetch;
    struct lw_policy refined;
};

/* One `form` or `prefetch`, for all (form and prefetch point into struct reading) or for a class. */
static const char *take(struct piece value, uint8_t *form, uint8_t *prefetch, int has_store)
{
    int f = form_of(value);

    if (is(value, "prefetch")) {
        *prefetch = 1;
        return NULL;
    }
    if (f == LW_POLICY_DEFAULT)
        return is(value, "default") ? "stands alone" : "is unknown";
    if (f == LW_POLICY_STORE && !has_store)
        return "is impossible: operations that return a value have no store form";
    if (*form != LW_POLICY_DEFAULT && *form != f)
        return "contradicts an earlier form";
    *form = (uint8_t)f;
    return NULL;
}

static const char *take_item(struct piece item, struct reading *r)
{
    const char *equals = memchr(item.start, '=', item.length);
    struct piece name, value;
    int c;

    if (item.length == 0)
        return "is an empty item";
    if (!equals)
        return take(item, &r->form, &r->prefetch, 1);
    name.start = item.start;
    name.length = (size_t)(equals - item.start);
    value.start = equals + 1;
    value.length = item.length - name.length - 1;
    c = class_of(name);
    if (c < 0)
        return "names no class of operations";
    return take(value, &r->refined.form[c], &r->refined.prefetch[c], c == LW_POLICY_VOID);
}

/* Only void operations have a store form, and for them `load` is a choice; the others' load form is `load`. */
static uint8_t general_form(const struct reading *r, int c)
{
    if (r->form == LW_POLICY_STORE && c != LW_POLICY_VOID)
        return LW_POLICY_LOAD;
    return r->form;
}

int lw_policy_parse(const char *text, struct lw_policy *out, char *error, size_t size)
{
    struct reading r;

    memset(out, 0, sizeof(*out));
    memset(&r, 0, sizeof(r));
    if (!text || text[0] == '\0' || strcmp(text, "default") == 0)
        return 0;
    for (const char *at = text;;) {
        struct piece item = {at, strcspn(at, ",")};
        const char *wrong = take_item(item, &r);

        if (wrong)
            return fail(error, size, item, wrong);
        if (at[item.length] == '\0')
            break;
        at += item.length + 1;
    }
    for (int c = 0; c < LW_POLICY_CLASSES; c++) {
        uint8_t refined = r.refined.form[c];

        out->form[c] = refined != LW_POLICY_DEFAULT ? refined : general_form(&r, c);
        out->prefetch[c] = r.prefetch | r.refined.prefetch[c];
    }
    return 0;
}
