/* SPDX-License-Identifier: MIT */
/* The auditing library: for every object the dynamic linker loads, finds outlined helpers and gives them the asked form.
 *
 * The hooks run inside the dynamic linker, which holds its lock: one at a time. An object is seen by la_objopen after it
 * has been mapped and before it is relocated or any of its code runs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <linux/membarrier.h>

#include <linewright/arch/cpu.h>
#include <linewright/policy.h>

#include "edit.h"
#include "llsc.h"
#include "object.h"
#include "self.h"

#define EXPORT __attribute__((visibility("default")))

static struct lw_start start;
static uint8_t wanted[LW_OUTLINE_OPS];
static int some_llsc; /* the byte is cleared, so helpers that shall keep LSE must not ask it */
static int verbose;
static int running; /* main has begun or will soon: there may be filters that la_version did not see */

/* What the start cost, for people. */
static uint64_t objects_seen, helpers_found, bytes_searched, started_ns;

/* The system calls a program allows itself: a filter of its own may end the process for one that it did not foresee. */
struct filters {
    uint64_t mode, count;
};
static struct filters filters_at_start;

static struct filters read_filters(void)
{
    struct filters f = {0, 0};
    struct lw_lines lines;
    static const char mode[] = "Seccomp:\t", count[] = "Seccomp_filters:\t";

    /* Of this thread, which may have a filter that the first thread lacks; Linux before 3.17 reports the first only. */
    if (lw_lines_open(&lines, "/proc/thread-self/status") != 0 && lw_lines_open(&lines, "/proc/self/status") != 0)
        return f;
    while (lw_lines_next(&lines)) {
        const char *value;

        if (__builtin_memcmp(lines.line, mode, sizeof(mode) - 1) == 0) {
            value = lines.line + sizeof(mode) - 1;
            f.mode = lw_parse(&value, 10);
        } else if (__builtin_memcmp(lines.line, count, sizeof(count) - 1) == 0) {
            value = lines.line + sizeof(count) - 1;
            f.count = lw_parse(&value, 10);
        }
    }
    lw_lines_close(&lines);
    return f;
}

__attribute__((constructor)) static void remember_start(int argc, char **argv, char **environment)
{
    (void)argc;
    (void)argv;
    lw_start_read(environment, &start);
}

/* A line of three pieces, for people. */
static void say_line(const char *first, const char *second, const char *third)
{
    struct lw_say say;

    lw_say_begin(&say, start.program);
    lw_say_text(&say, first);
    lw_say_text(&say, second);
    lw_say_text(&say, third);
    lw_say_end(&say);
}

static int has_body_edit(enum lw_outline_op op)
{
    return (wanted[op] & LW_OUTLINE_PREFETCH) || (some_llsc && (wanted[op] & LW_OUTLINE_LSE));
}

/* Fills `wanted`. Returns 0 when there is nothing to do in this process. */
static int choose(const char *text)
{
    char error[320];
    int work = 0;

    if (lw_outline_choose(text, 1, wanted, error, sizeof(error)) != 0) {
        lw_say_line("linewright: LINEWRIGHT_ATOMICS: ", error, "; the program runs unchanged", NULL);
        return 0;
    }
    for (int op = 0; op < LW_OUTLINE_OPS; op++)
        some_llsc |= !(wanted[op] & LW_OUTLINE_LSE);
    for (int op = 0; op < LW_OUTLINE_OPS; op++)
        work |= some_llsc || has_body_edit((enum lw_outline_op)op);
    if (!work && verbose)
        say_line("'", text && *text ? text : "default",
                 "' leaves outlined helpers as they are"
                 " (they return the old value, so they are load forms whatever is said of store and load)");
    return work;
}

/* 0 makes the dynamic linker unload this library and go on as if it had not been there. */
EXPORT unsigned la_version(unsigned version)
{
    const char *text;

    if (!start.environment || start.secure)
        return 0;
    started_ns = lw_now_ns();
    text = lw_start_get(&start, "LINEWRIGHT_VERBOSE");
    verbose = text && text[0] == '1' && text[1] == '\0';
    if (!choose(lw_start_get(&start, "LINEWRIGHT_ATOMICS")))
        return 0;
    if (!(start.hwcap & LW_HWCAP_LSE)) {
        if (verbose)
            say_line("this CPU has no LSE atomics, so helpers are LL/SC already; the program runs unchanged", "", "");
        return 0;
    }
    filters_at_start = read_filters();
    return version;
}

static const char *name_of(const struct link_map *map)
{
    return map->l_name && map->l_name[0] ? map->l_name : map->l_prev ? "(no name)" : "the program";
}

static const char *form_name(unsigned form)
{
    static const char *const names[] = {"LL/SC", "LSE", "prefetch and LL/SC", "prefetch and LSE"};

    return names[form & 3];
}

/* One object's helpers as they are found. */
struct search {
    const struct link_map *map;
    struct lw_object object;
    struct lw_bytes bytes;
    uint64_t found, edited, left, by_byte;
    long memory;          /* the memory file, once it is needed; < 0: the error that opening it gave */
    int memory_asked;
    const char *refusal;  /* why edits are refused, for people */
};

static int may_edit(struct search *s)
{
    if (!s->memory_asked) {
        s->memory_asked = 1;
        if (running) {
            struct filters now = read_filters();

            if (now.mode != filters_at_start.mode || now.count != filters_at_start.count) {
                s->refusal = "the program has restricted its system calls";
                s->memory = -1;
                return 0;
            }
        }
        s->memory = lw_open("/proc/self/mem", O_RDWR);
        if (s->memory < 0)
            s->refusal = "/proc/self/mem cannot be opened for writing";
    }
    return s->memory >= 0;
}

static const char *change(struct search *s, const struct lw_body *body)
{
    unsigned form = wanted[body->helper.op];

    if (!has_body_edit(body->helper.op)) {
        if (form & LW_OUTLINE_LSE) {
            s->left++;
            return "left as it is";
        }
        if (!lw_bytes_add(&s->bytes, body->have_lse)) {
            s->left++;
            return "left as it is: too many bytes to clear";
        }
        s->by_byte++;
        return "LL/SC, by its byte";
    }
    if (!may_edit(s)) {
        s->left++;
        return "left as it is";
    }
    switch (lw_edit(s->memory, body, form)) {
    case LW_EDIT_DONE:
        s->edited++;
        return form_name(form);
    case LW_EDIT_PART:
        s->refusal = "its memory file refused a write";
        s->left++;
        return form_name(form & LW_OUTLINE_LSE);
    default:
        s->refusal = "its memory file refused a write";
        s->left++;
        return "left as it is";
    }
}

static void say_helper(const struct search *s, const struct lw_body *body, const char *outcome)
{
    struct lw_say say;
    char name[LW_HELPER_NAME];

    lw_helper_name(&body->helper, name);
    lw_say_begin(&say, start.program);
    lw_say_text(&say, name_of(s->map));
    lw_say_text(&say, ": ");
    lw_say_text(&say, name);
    lw_say_text(&say, " at ");
    lw_say_hex(&say, body->address - s->object.base);
    lw_say_text(&say, ": ");
    lw_say_text(&say, outcome);
    lw_say_end(&say);
}

static void search_text(struct search *s, struct lw_range text)
{
    uint64_t from = (text.from + 3) & ~(uint64_t)3;
    const uint32_t *words = (const void *)from;
    size_t count = text.to > from ? (text.to - from) / sizeof(words[0]) : 0;

    bytes_searched += text.to - text.from;
    for (size_t i = lw_body_next(words, count, 0); i < count; i = lw_body_next(words, count, i + 1)) {
        struct lw_body body;
        const char *outcome;

        /* A helper tests a byte that its own object can write; code that tests another only resembles a helper. */
        if (!lw_body_match(words + i, count - i, (uint64_t)(words + i), &body) ||
            !lw_object_can_write(&s->object, body.have_lse))
            continue;
        s->found++;
        outcome = change(s, &body);
        if (verbose)
            say_helper(s, &body, outcome);
    }
}

static void say_object(const struct search *s, const char *wrong)
{
    struct lw_say say;

    lw_say_begin(&say, start.program);
    lw_say_text(&say, name_of(s->map));
    lw_say_text(&say, ": ");
    lw_say_number(&say, s->found);
    lw_say_text(&say, " helpers found, ");
    lw_say_number(&say, s->edited + s->by_byte);
    lw_say_text(&say, " changed");
    if (wrong) {
        lw_say_text(&say, "; ");
        lw_say_text(&say, wrong);
    }
    lw_say_end(&say);
}

EXPORT unsigned la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie)
{
    struct search s = {.map = map};
    const char *wrong = lw_object_find(map, &start, &s.object);

    (void)lmid;
    (void)cookie; /* holds `map` already */
    for (size_t i = 0; !wrong && i < s.object.texts; i++)
        search_text(&s, s.object.text[i]);
    if (s.memory_asked && s.memory >= 0)
        lw_close(s.memory);
    if (s.edited)
        lw_edits_done();
    if (!wrong)
        wrong = s.refusal;
    if (s.bytes.count) {
        const char *refused = lw_llsc_later(map, &s.object, &s.bytes);

        if (refused) {
            s.by_byte = 0;
            wrong = refused;
        }
    }
    objects_seen++;
    helpers_found += s.found;
    if (verbose)
        say_object(&s, wrong);
    return 0; /* no symbol of any object is to be audited: binding and calls stay as fast as they were */
}

EXPORT void la_preinit(uintptr_t *cookie)
{
    (void)cookie;
    lw_llsc_start_is_over();
    running = 1;
    if (verbose) {
        struct lw_say say;

        lw_say_begin(&say, start.program);
        lw_say_text(&say, "start: ");
        lw_say_number(&say, objects_seen);
        lw_say_text(&say, " objects, ");
        lw_say_number(&say, helpers_found);
        lw_say_text(&say, " helpers, ");
        lw_say_number(&say, bytes_searched);
        lw_say_text(&say, " bytes of text searched, ");
        lw_say_number(&say, (lw_now_ns() - started_ns) / 1000);
        lw_say_text(&say, " us since the audit began");
        lw_say_end(&say);
    }
}

EXPORT unsigned la_objclose(uintptr_t *cookie)
{
    lw_llsc_forget((const struct link_map *)*cookie);
    return 0;
}
