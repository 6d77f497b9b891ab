/* SPDX-License-Identifier: MIT */
/* The choice of instructions: made once, described, and changed on request. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* secure_getenv */
#endif
#include "internal.h"
#include "../common/items.h"

#include <stdio.h>
#include <stdlib.h>

uint32_t lw_cache_chosen;

static const char *insn_name(enum lw_cache_insn insn)
{
    switch (insn) {
#define CASE(id, name, form) \
    case LW_INSN_##id:       \
        return name;
        LW_CACHE_INSNS(CASE)
#undef CASE
    default:
        return "none";
    }
}

static enum lw_cache_insn insn_by_name(struct piece name)
{
    for (int i = LW_INSN_NONE + 1; i < LW_INSN_COUNT; i++)
        if (piece_is(name, insn_name((enum lw_cache_insn)i)))
            return (enum lw_cache_insn)i;
    return LW_INSN_NONE;
}

/* Bits of the instructions that do what the field is for. */
static uint32_t fitting(unsigned int field)
{
    return field == LW_WORD_CLEAN        ? LW_CACHE_CLEANERS
           : field == LW_WORD_INVALIDATE ? LW_CACHE_INVALIDATORS
                                         : LW_CACHE_PERSISTERS;
}

static int choose(uint32_t *word, unsigned int field, struct piece name)
{
    enum lw_cache_insn insn = insn_by_name(name);

    if (!insn)
        return -EINVAL;
    if (!(*word >> LW_WORD_HAVE & fitting(field) & LW_BIT(insn)))
        return -EOPNOTSUPP;
    *word = (*word & ~(UINT32_C(7) << field)) | (uint32_t)insn << field;
    return 0;
}

/* One item of the list. `base` is the detected choice. */
static int apply(uint32_t *word, uint32_t base, struct piece item)
{
    static const struct {
        const char *name;
        unsigned int field;
    } settings[] = {{"clean", LW_WORD_CLEAN}, {"invalidate", LW_WORD_INVALIDATE}, {"persist", LW_WORD_PERSIST}};
    struct piece name, value;

    if (piece_is(item, "default")) {
        *word = base;
        return 0;
    }
    if (piece_is(item, "coherent")) {
        *word |= LW_BIT(LW_WORD_COHERENT);
        return 0;
    }
    if (piece_is(item, "noncoherent")) {
        *word &= ~LW_BIT(LW_WORD_COHERENT);
        return 0;
    }
    if (piece_split(item, &name, &value))
        for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
            if (piece_is(name, settings[i].name))
                return choose(word, settings[i].field, value);
    return -EINVAL;
}

static int apply_all(uint32_t *word, uint32_t base, const char *choice)
{
    int error = 0;

    for (const char *at = choice; at && !error;) {
        struct piece item = item_at(at);

        error = apply(word, base, item);
        at = item_after(item);
    }
    return error;
}

/* One line, whatever is in it: the text comes from the environment and goes to a terminal. */
static void say_ignored(const char *asked, const char *why)
{
    char shown[81];

    fprintf(stderr,
            "linewright: LINEWRIGHT_CACHE=%s ignored: %s; allowed is a comma list of default, coherent, noncoherent, "
            "clean=INSN, invalidate=INSN, persist=INSN\n",
            lw_printable_text(shown, sizeof(shown), asked), why);
}

/*
 * Threads that come here at once each find the same answer, and the first to publish it wins; so this needs no
 * lock and may run in a signal handler.  Only a wrong LINEWRIGHT_CACHE prints, which a handler should not: the
 * constructor below has been here before unless the handler ran before main().
 */
uint32_t lw_cache_choose_first(void)
{
    uint32_t base = lw_cache_detect(), word = base, none = 0;
    const char *asked = secure_getenv("LINEWRIGHT_CACHE");
    int error = asked && *asked ? apply_all(&word, base, asked) : 0;

    if (error)
        word = base;
    if (!__atomic_compare_exchange_n(&lw_cache_chosen, &none, word, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return none;
    if (error)
        say_ignored(asked,
                    error == -EINVAL ? "a word is not understood" : "an instruction is missing here or does not do that");
    return word;
}

/* Before main(), or in dlopen(): usually there is one thread, and no sandbox forbids the trial's child yet. */
static void __attribute__((constructor)) choose_at_start(void)
{
    lw_cache_word();
}

int lw_cache_configure(const char *choice)
{
    uint32_t base = lw_cache_detect(), word = lw_cache_word();
    int error = choice ? apply_all(&word, base, choice) : -EINVAL;

    if (!error)
        __atomic_store_n(&lw_cache_chosen, word, __ATOMIC_RELAXED); /* pairs with the load in lw_cache_word() */
    return error;
}

size_t lw_cache_line_size(void)
{
    return lw_word_line(lw_cache_word());
}

size_t lw_cache_granule(void)
{
    return (size_t)1 << (lw_cache_word() >> LW_WORD_GRANULE & 15);
}

void lw_cache_describe(struct lw_cache_description *description)
{
    uint32_t word = lw_cache_word();

    *description = (struct lw_cache_description){
        .line_bytes = lw_cache_line_size(),
        .granule_bytes = lw_cache_granule(),
        .clean = insn_name(lw_word_insn(word, LW_WORD_CLEAN)),
        .invalidate = insn_name(lw_word_insn(word, LW_WORD_INVALIDATE)),
        .persist = insn_name(lw_word_insn(word, LW_WORD_PERSIST)),
        .persist_deep = insn_name(lw_word_insn(word, LW_WORD_DEEP)),
        .wait_stores = LW_CACHE_WAIT_STORES,
        .wait_all = LW_CACHE_WAIT_ALL,
        .coherent = (word & LW_BIT(LW_WORD_COHERENT)) != 0,
        .trapped = (word & LW_BIT(LW_WORD_TRAPPED)) != 0,
    };
}
