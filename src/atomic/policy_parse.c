/* SPDX-License-Identifier: MIT */
/* The grammar of LINEWRIGHT_ATOMICS: a pure function, used by the library and by the outline helpers alike. */
#include <linewright/policy.h>

#include "../common/items.h"

static const char *const class_names[LW_POLICY_CLASSES] = {"void", "fetch", "xchg", "cas"};
static const char *const form_names[] = {NULL, "store", "load", "llsc"};

#define ALLOWED                                                        \
    "allowed: default, or a comma list of store|load|llsc, prefetch, " \
    "void=store|load|llsc|prefetch, fetch|xchg|cas=load|llsc|prefetch"

static int form_of(struct piece p)
{
    for (int f = LW_POLICY_STORE; f <= LW_POLICY_LLSC; f++)
        if (piece_is(p, form_names[f]))
            return f;
    return LW_POLICY_DEFAULT;
}

static int class_of(struct piece p)
{
    for (int c = 0; c < LW_POLICY_CLASSES; c++)
        if (piece_is(p, class_names[c]))
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

    if (piece_is(value, "prefetch")) {
        *prefetch = 1;
        return NULL;
    }
    if (f == LW_POLICY_DEFAULT)
        return piece_is(value, "default") ? "stands alone" : "is unknown";
    if (f == LW_POLICY_STORE && !has_store)
        return "is impossible: operations that return a value have no store form";
    if (*form != LW_POLICY_DEFAULT && *form != f)
        return "contradicts an earlier form";
    *form = (uint8_t)f;
    return NULL;
}

static const char *take_item(struct piece item, struct reading *r)
{
    struct piece name, value;
    int c;

    if (item.length == 0)
        return "is an empty item";
    if (!piece_split(item, &name, &value))
        return take(item, &r->form, &r->prefetch, 1);
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
    for (const char *at = text; at; at = item_after(item_at(at))) {
        const char *wrong = take_item(item_at(at), &r);

        if (wrong)
            return refuse_piece(error, size, item_at(at), wrong, ALLOWED);
    }
    for (int c = 0; c < LW_POLICY_CLASSES; c++) {
        uint8_t refined = r.refined.form[c];

        out->form[c] = refined != LW_POLICY_DEFAULT ? refined : general_form(&r, c);
        out->prefetch[c] = r.prefetch | r.refined.prefetch[c];
    }
    return 0;
}
