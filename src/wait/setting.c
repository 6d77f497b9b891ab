/* SPDX-License-Identifier: MIT */
/* The grammar of LINEWRIGHT_WAIT, the choice that it makes, and what lw_wait_describe() says of it. */
#define _GNU_SOURCE /* secure_getenv */
#include "hints.h"

#include "../common/environment.h"
#include "../common/items.h"

#define LW__SLICE_WITHOUT_AREAS
#include <linewright/slice.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

uint32_t lw_wait_word;
struct lw__wait_choice lw__wait_choice = {.park_ns = LW__PARK_NS};

/* Where the choice came from, for lw_wait_describe(). */
static const char *origin = "LINEWRIGHT_WAIT has not been read yet";
static char setting[80] = "auto";
static const char *extensions; /* what lw_slice_available() said; NULL: not asked for */

static const char *const backoff_names[] = {"default", "none", "linear", "exponential"};

#define PARK_AT_MOST 1000000000u

uint32_t lw_wait_tick_ns(void)
{
    struct timespec t;
    if (clock_getres(CLOCK_MONOTONIC_COARSE, &t) || t.tv_sec || t.tv_nsec < 1000000)
        return 1000000; /* an emulator's answer; no kernel has more than 1000 ticks a second */
    return (uint32_t)t.tv_nsec;
}

/* ---- the grammar ---- */

struct reading {
    unsigned hint;
    uint32_t times;
    struct lw__wait_choice choice;
    bool has_times, has_backoff, has_cap, has_park, has_slice;
};

/* A number of 1 to 10 digits; false for anything else and above `most`. */
static bool number_of(struct piece p, uint32_t most, uint32_t *value)
{
    uint64_t sum = 0;
    if (p.length == 0 || p.length > 10)
        return false;
    for (size_t i = 0; i < p.length; i++) {
        if (p.start[i] < '0' || p.start[i] > '9')
            return false;
        sum = sum * 10 + (uint64_t)(p.start[i] - '0');
    }
    *value = (uint32_t)sum;
    return sum <= most;
}

static const char *take_backoff(struct piece value, struct reading *r)
{
    for (uint32_t kind = LW_BACKOFF_NONE; kind <= LW_BACKOFF_EXPONENTIAL; kind++)
        if (piece_is(value, backoff_names[kind])) {
            r->choice.backoff = kind;
            return NULL;
        }
    return "is no kind of back-off";
}

static const char *again(bool *before)
{
    bool had = *before;
    *before = true;
    return had ? "stands there twice" : NULL;
}

static const char *take_assignment(struct piece name, struct piece value, struct reading *r)
{
    const char *wrong;
    if (piece_is(name, "backoff")) {
        wrong = again(&r->has_backoff);
        return wrong ? wrong : take_backoff(value, r);
    }
    if (piece_is(name, "cap")) {
        wrong = again(&r->has_cap);
        if (!wrong && (!number_of(value, lw_wait_tick_ns(), &r->choice.cap_ns) || r->choice.cap_ns == 0))
            wrong = "is not a number of ns from 1 to a tick of the scheduler";
        return wrong;
    }
    if (piece_is(name, "park")) {
        wrong = again(&r->has_park);
        if (!wrong && !number_of(value, PARK_AT_MOST, &r->choice.park_ns))
            wrong = "is not a number of ns from 0 to a second";
        return wrong;
    }
    return "is unknown";
}

static const char *take_hint(struct piece item, struct reading *r)
{
    const char *star = memchr(item.start, '*', item.length);
    if (piece_is(item, "slice")) {
        r->choice.slices = 1;
        return again(&r->has_slice);
    }
    struct piece name = {item.start, star ? (size_t)(star - item.start) : item.length};
    if (r->hint != LW__HINT_AUTO)
        return "is a second hint";
    if (piece_is(item, "auto"))
        return "stands alone";
    r->hint = lw__hint_named(name.start, name.length);
    if (r->hint == LW__HINT_AUTO)
        return "is no hint of this architecture";
    if (!star)
        return NULL;
    if (lw__hint_watches(r->hint))
        return "watches a word, and is not repeated";
    struct piece times = {star + 1, item.length - name.length - 1};
    if (!number_of(times, LW__WAIT_TIMES, &r->times) || r->times == 0)
        return "is not repeated 1 to 1000 times";
    return NULL;
}

static const char *take_item(struct piece item, struct reading *r)
{
    struct piece name, value;
    if (item.length == 0)
        return "is an empty item";
    return piece_split(item, &name, &value) ? take_assignment(name, value, r) : take_hint(item, r);
}

/* " pause, tpause", of those that this CPU has, or of all. */
static size_t list_hints(char *text, size_t size, bool all)
{
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = LW__HINT_AUTO + 1; i < LW__HINTS; i++)
        if ((all || lw__hint_runs(i)) && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", lw__hint_name(i));
    return used;
}

static int parse(const char *text, struct reading *r, char *error, size_t size)
{
    char allowed[250], hints[80];
    *r = (struct reading){.times = 1, .choice = {.park_ns = LW__PARK_NS}};
    if (!text || text[0] == '\0' || strcmp(text, "auto") == 0)
        return 0;
    for (const char *at = text; at; at = item_after(item_at(at))) {
        const char *wrong = take_item(item_at(at), r);
        if (!wrong)
            continue;
        list_hints(hints, sizeof(hints), true);
        snprintf(allowed, sizeof(allowed),
                 "allowed: auto, or a comma list of a hint (%s) or HINT*1 to HINT*1000, backoff=none|linear|exponential, "
                 "cap=1 to cap=%u, park=0 to park=%u, slice",
                 hints, lw_wait_tick_ns(), PARK_AT_MOST);
        return refuse_piece(error, size, item_at(at), wrong, allowed);
    }
    return 0;
}

/* ---- the choice ---- */

/* Parses, asks the CPU, and only then switches. */
static int adopt(const char *text, const char *whence, char *error, size_t size)
{
    struct reading r;
    char hints[80];
    int err = parse(text, &r, error, size);
    if (err)
        return err;
    if (r.hint != LW__HINT_AUTO && !lw__hint_runs(r.hint)) {
        list_hints(hints, sizeof(hints), false);
        if (size)
            snprintf(error, size, "this CPU lacks '%s', or refused it when tried; it has %s", lw__hint_name(r.hint), hints);
        return -EOPNOTSUPP;
    }
    /* The usual hint once in a round is what loops execute without a choice, and what costs least there. */
    bool usual = r.times == 1 && !strcmp(lw__hint_name(r.hint), lw__hint_name(LW__HINT_AUTO));
    /* Relaxed, as are the reads: each field is right by itself. */
    __atomic_store_n(&lw_wait_word, usual ? 0 : lw__wait_word_of(r.hint, r.times), __ATOMIC_RELAXED);
    __atomic_store_n(&lw__wait_choice.backoff, r.choice.backoff, __ATOMIC_RELAXED);
    __atomic_store_n(&lw__wait_choice.cap_ns, r.choice.cap_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&lw__wait_choice.park_ns, r.choice.park_ns, __ATOMIC_RELAXED);
    extensions = NULL;
    __atomic_store_n(&lw__wait_choice.slices, r.choice.slices && lw_slice_available(&extensions), __ATOMIC_RELAXED);
    lw__forget_round();
    snprintf(setting, sizeof(setting), "%s", text && text[0] ? text : "auto");
    origin = whence;
    return 0;
}

int lw_wait_set(const char *text, char *error, size_t size)
{
    return adopt(text, "lw_wait_set()", error, size);
}

bool lw_wait_slices(void)
{
    return __atomic_load_n(&lw__wait_choice.slices, __ATOMIC_RELAXED);
}

size_t lw_wait_describe(char *buffer, size_t size)
{
    uint32_t word = __atomic_load_n(&lw_wait_word, __ATOMIC_RELAXED), times = lw__wait_times(word);
    uint32_t kind = lw__wait_choice.backoff, cap = lw__wait_choice.cap_ns;
    char hints[80], many[16] = "", longest[32] = "";
    if (times > 1)
        snprintf(many, sizeof(many), "*%u", times);
    if (cap)
        snprintf(longest, sizeof(longest), " up to %u ns", cap);
    list_hints(hints, sizeof(hints), false);
    return (size_t)snprintf(buffer, size,
                            "%s%s, back-off %s%s, asleep after %u ns%s%s, by setting '%s' (%s); this CPU has %s",
                            lw__hint_name(lw__wait_hint(word)), many, backoff_names[kind], longest, lw__wait_choice.park_ns,
                            !extensions        ? ""
                            : lw_wait_slices() ? ", "
                                               : ", no time slice extensions: ",
                            extensions ? extensions : "", setting, origin, hints);
}

/* As soon as src/atomic/policy.c reads its own. */
__attribute__((constructor(101))) static void read_environment(void)
{
    const char *text = secure_getenv("LINEWRIGHT_WAIT");
    char line[500];
    if (adopt(text, text ? "LINEWRIGHT_WAIT" : "LINEWRIGHT_WAIT is not set", line, sizeof(line)) != 0) {
        fprintf(stderr, "linewright: LINEWRIGHT_WAIT: %s; auto is used\n", line);
        adopt(NULL, "LINEWRIGHT_WAIT was refused", line, sizeof(line));
    }
    if (text && lw_verbose()) {
        lw_wait_describe(line, sizeof(line));
        fprintf(stderr, "linewright: waiting: %s\n", line);
    }
}
