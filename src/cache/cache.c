/* SPDX-License-Identifier: MIT */
/* Cache maintenance over ranges, lists and batches: issue every line once, wait once. */
#include "internal.h"

#include <errno.h>

/* The lines of a range: [first, last], both line addresses, so that the top of the address space needs no care. */
struct lines {
    uintptr_t first, last;
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* n > 0. */
ALWAYS_INLINE struct lines lines_of(uintptr_t p, size_t n, uintptr_t line)
{
    return (struct lines){p & ~(line - 1), (p + (n - 1)) & ~(line - 1)};
}

/* Longer than half the address space (a negative length), or past its end. */
ALWAYS_INLINE bool impossible(uintptr_t p, size_t n)
{
    return (n > SIZE_MAX / 2) | (p + n - (n != 0) < p);
}

/*
 * Extend `a` by `b` if `b` begins inside `a` or on the line after it: the union is then exactly their lines.
 * Line 0 does not adjoin the last line.  One branch for all of it: pieces in no order would make a branch on which of two
 * is lower a matter of luck, which pieces of one or two lines would pay for.
 */
ALWAYS_INLINE bool merge(struct lines *a, struct lines b, uintptr_t line)
{
    uintptr_t distance = b.first - a->first, span = a->last - a->first;

    if (!((distance <= span) | ((distance == span + line) & (b.first != 0))))
        return false;
    if (b.last > a->last)
        a->last = b.last;
    return true;
}

ALWAYS_INLINE void issue_one(enum lw_cache_insn insn, const void *line)
{
    switch (insn) {
#define CASE(id, name, form) \
    case LW_INSN_##id:       \
        form(line);          \
        break;
        LW_CACHE_INSNS(CASE)
#undef CASE
    default:
        (void)line;
        break;
    }
}

/* Ends by equality with the last line, not by passing it: there may be nothing after it. */
ALWAYS_INLINE void issue(enum lw_cache_insn insn, struct lines r, uintptr_t line)
{
    for (uintptr_t at = r.first;; at += line) {
        issue_one(insn, (const void *)at);
        if (at == r.last)
            break;
    }
}

/* Completes what this thread issued.  The other side is the device or the memory, so no line here pairs with it. */
ALWAYS_INLINE void wait_for(bool loads_too)
{
    if (loads_too)
        lw_cache_arch_wait_all();
    else
        lw_cache_arch_wait_stores();
}

ALWAYS_INLINE bool is_impossible(const struct iovec *entry)
{
    return impossible((uintptr_t)entry->iov_base, entry->iov_len);
}

/*
 * The number of entries before the first impossible one, all of them maintained and waited for.
 *
 * One pass: a list of thousands outgrows the first-level cache, and reading it twice cost up to a tenth.  With `insn` a
 * constant this is one tight loop per instruction, chosen outside both loops.  The wait stands right behind the last
 * instruction, on the only path out of here that has issued anything.
 */
ALWAYS_INLINE size_t walk_and_wait(enum lw_cache_insn insn, const struct iovec *list, size_t n, uintptr_t line,
                                   bool loads_too)
{
    const struct iovec *at = list, *end = n ? list + n : list; /* an empty list may be NULL */
    struct lines held, next;

    while (at < end && !at->iov_len)
        at++;
    if (at == end || is_impossible(at))
        return (size_t)(at - list);
    held = lines_of((uintptr_t)at->iov_base, at->iov_len, line);
    while (++at < end && !is_impossible(at)) {
        if (!at->iov_len)
            continue;
        next = lines_of((uintptr_t)at->iov_base, at->iov_len, line);
        if (merge(&held, next, line))
            continue;
        issue(insn, held, line);
        held = next;
    }
    issue(insn, held, line);
    wait_for(loads_too);
    return (size_t)(at - list);
}

/* 0, or -EINVAL where the list has an impossible entry: it ended there. */
static int maintain_list(enum lw_cache_insn insn, const struct iovec *list, size_t n, uintptr_t line, bool loads_too)
{
    size_t done = n;

    switch (insn) {
#define CASE(id, name, form)                                          \
    case LW_INSN_##id:                                                \
        done = walk_and_wait(LW_INSN_##id, list, n, line, loads_too); \
        break;
        LW_CACHE_INSNS(CASE)
#undef CASE
    default:
        (void)list, (void)line, (void)loads_too;
        break;
    }
    return done == n ? 0 : -EINVAL;
}

static void issue_lines(enum lw_cache_insn insn, struct lines r, uintptr_t line)
{
    switch (insn) {
#define CASE(id, name, form)          \
    case LW_INSN_##id:                \
        issue(LW_INSN_##id, r, line); \
        break;
        LW_CACHE_INSNS(CASE)
#undef CASE
    default:
        (void)r, (void)line;
        break;
    }
}

/* For pieces that come one by one, each perhaps stored to just before. */
static void issue_ordered(enum lw_cache_insn insn, struct lines r, uintptr_t line)
{
    if (lw_cache_insn_is_strict(insn))
        lw_cache_arch_order(); /* old AMD: without it CLFLUSH may overtake this thread's own stores */
    issue_lines(insn, r, line);
}

/* For a list with nothing to be done. */
static int check_list(const struct iovec *list, size_t n)
{
    if (n && !list)
        return -EINVAL;
    for (size_t i = 0; i < n; i++)
        if (is_impossible(&list[i]))
            return -EINVAL;
    return 0;
}

/* What one operation means on this machine. */
struct action {
    enum lw_cache_insn insn;
    int result;   /* of a call that succeeds: the honest answer when a weaker instruction stands in */
    bool order;   /* a full fence comes first */
    bool full;    /* the wait also orders later loads */
};

static bool is_op(unsigned int op)
{
    return op >= LW_CACHE_CLEAN && op <= LW_CACHE_PERSIST_DEEP;
}

/* Devices are coherent, and this is not about persistence. */
ALWAYS_INLINE bool is_free(uint32_t word, enum lw_cache_op op)
{
    return word & LW_BIT(LW_WORD_COHERENT) && op < LW_CACHE_PERSIST;
}

static struct action persist_action(uint32_t word, bool deep)
{
    enum lw_cache_insn best = lw_word_insn(word, LW_WORD_PERSIST);
    struct action a = {.insn = best};

    if (deep && lw_word_insn(word, LW_WORD_DEEP))
        a.insn = lw_word_insn(word, LW_WORD_DEEP);
    else if (deep || !best)
        a.result = -EOPNOTSUPP;
    if (!a.insn)
        a.insn = lw_word_insn(word, LW_WORD_CLEAN);
    return a;
}

static struct action action_of(uint32_t word, enum lw_cache_op op)
{
    struct action a = {.insn = LW_INSN_NONE};

    switch (op) {
    case LW_CACHE_CLEAN:
        a.insn = lw_word_insn(word, LW_WORD_CLEAN);
        break;
    case LW_CACHE_INVALIDATE:
    case LW_CACHE_CLEAN_INVALIDATE:
        a.insn = lw_word_insn(word, LW_WORD_INVALIDATE);
        a.order = a.full = true;
        break;
    case LW_CACHE_PERSIST:
    case LW_CACHE_PERSIST_DEEP:
        a = persist_action(word, op == LW_CACHE_PERSIST_DEEP);
        break;
    }
    if (!a.insn)
        a.result = -EOPNOTSUPP;
    if (lw_cache_insn_is_strict(a.insn))
        a.order = a.full = true;
    return a;
}

/* One range; `wait`, a constant: it is in effect when this returns. */
ALWAYS_INLINE int maintain_range(const void *p, size_t n, enum lw_cache_op op, bool wait)
{
    uint32_t word = lw_cache_word();
    struct action a;

    if (is_free(word, op))
        return 0;
    a = action_of(word, op);
    if (impossible((uintptr_t)p, n))
        return -EINVAL;
    if (!n || !a.insn)
        return a.result;
    if (wait ? a.order : lw_cache_insn_is_strict(a.insn))
        lw_cache_arch_order(); /* pairs with the load by which the caller learnt that the device had finished */
    issue_lines(a.insn, lines_of((uintptr_t)p, n, lw_word_line(word)), lw_word_line(word));
    if (wait)
        wait_for(a.full);
    return a.result;
}

static int range(const void *p, size_t n, enum lw_cache_op op)
{
    return maintain_range(p, n, op, true);
}

static int range_nowait(const void *p, size_t n, enum lw_cache_op op)
{
    return maintain_range(p, n, op, false);
}

int lw_cache_clean(const void *p, size_t n)
{
    return range(p, n, LW_CACHE_CLEAN);
}

int lw_cache_invalidate(const void *p, size_t n)
{
    return range(p, n, LW_CACHE_INVALIDATE);
}

int lw_cache_clean_invalidate(const void *p, size_t n)
{
    return range(p, n, LW_CACHE_CLEAN_INVALIDATE);
}

int lw_cache_persist(const void *p, size_t n)
{
    return range(p, n, LW_CACHE_PERSIST);
}

int lw_cache_persist_deep(const void *p, size_t n)
{
    return range(p, n, LW_CACHE_PERSIST_DEEP);
}

int lw_cache_clean_nowait(const void *p, size_t n)
{
    return range_nowait(p, n, LW_CACHE_CLEAN);
}

int lw_cache_invalidate_nowait(const void *p, size_t n)
{
    return range_nowait(p, n, LW_CACHE_INVALIDATE);
}

int lw_cache_clean_invalidate_nowait(const void *p, size_t n)
{
    return range_nowait(p, n, LW_CACHE_CLEAN_INVALIDATE);
}

int lw_cache_persist_nowait(const void *p, size_t n)
{
    return range_nowait(p, n, LW_CACHE_PERSIST);
}

void lw_cache_wait(void)
{
    if (!(lw_cache_word() & LW_BIT(LW_WORD_COHERENT)))
        lw_cache_arch_wait_all();
}

void lw_cache_order(void)
{
    if (!(lw_cache_word() & LW_BIT(LW_WORD_COHERENT)))
        lw_cache_arch_order();
}

void lw_cache_persist_wait(void)
{
    wait_for(action_of(lw_cache_word(), LW_CACHE_PERSIST).full);
}

int lw_cache_list(const struct iovec *list, size_t n, enum lw_cache_op op)
{
    uint32_t word = lw_cache_word();
    struct action a;

    if (!is_op(op))
        return -EINVAL;
    if (is_free(word, op))
        return 0;
    a = action_of(word, op);
    if (n && !list)
        return -EINVAL;
    if (!a.insn)
        return check_list(list, n) ? -EINVAL : a.result;
    if (a.order)
        lw_cache_arch_order(); /* pairs with the load by which the caller learnt that the device had finished */
    return maintain_list(a.insn, list, n, lw_word_line(word), a.full) ? -EINVAL : a.result;
}

static bool is_direction(unsigned int direction)
{
    return direction <= LW_DMA_FROM_DEVICE;
}

int lw_sync_for_device(const struct iovec *list, size_t n, enum lw_dma_direction direction)
{
    if (!is_direction(direction))
        return -EINVAL;
    return lw_cache_list(list, n, LW_CACHE_CLEAN);
}

int lw_sync_for_cpu(const struct iovec *list, size_t n, enum lw_dma_direction direction)
{
    if (!is_direction(direction))
        return -EINVAL;
    if (direction == LW_DMA_TO_DEVICE)
        return lw_cache_word() & LW_BIT(LW_WORD_COHERENT) ? 0 : check_list(list, n);
    return lw_cache_list(list, n, LW_CACHE_INVALIDATE);
}

enum { BATCH_OPEN = 0x5a }; /* unlikely in a structure that no lw_cache_batch_begin() has seen */

int lw_cache_batch_begin(struct lw_cache_batch *batch, enum lw_cache_op op)
{
    if (!is_op(op))
        return -EINVAL;
    *batch = (struct lw_cache_batch){.word = lw_cache_word(), .op = (uint8_t)op, .state = BATCH_OPEN};
    if (is_free(batch->word, op))
        batch->op = 0;
    else if (action_of(batch->word, op).order)
        lw_cache_arch_order(); /* pairs with the load by which the caller learnt that the device had finished */
    return 0;
}

int lw_cache_batch_for_device(struct lw_cache_batch *batch, enum lw_dma_direction direction)
{
    if (!is_direction(direction))
        return -EINVAL;
    return lw_cache_batch_begin(batch, LW_CACHE_CLEAN);
}

int lw_cache_batch_for_cpu(struct lw_cache_batch *batch, enum lw_dma_direction direction)
{
    if (!is_direction(direction))
        return -EINVAL;
    if (direction != LW_DMA_TO_DEVICE)
        return lw_cache_batch_begin(batch, LW_CACHE_INVALIDATE);
    *batch = (struct lw_cache_batch){.word = lw_cache_word(), .state = BATCH_OPEN};
    return 0;
}

int lw_cache_batch_add(struct lw_cache_batch *batch, const void *p, size_t n)
{
    uintptr_t line = lw_word_line(batch->word);
    struct lines held = {batch->first, batch->last}, next;

    if (batch->state != BATCH_OPEN)
        return -EINVAL;
    if (impossible((uintptr_t)p, n)) {
        batch->error = -EINVAL;
        return -EINVAL;
    }
    if (!n || !batch->op)
        return 0;
    next = lines_of((uintptr_t)p, n, line);
    if (!batch->held) {
        batch->held = 1;
        held = next;
    } else if (!merge(&held, next, line)) {
        issue_ordered(action_of(batch->word, batch->op).insn, held, line);
        held = next;
    }
    batch->first = held.first;
    batch->last = held.last;
    return 0;
}

int lw_cache_batch_flush(struct lw_cache_batch *batch)
{
    struct action a = {.insn = LW_INSN_NONE};

    if (batch->state != BATCH_OPEN)
        return -EINVAL;
    batch->state = 0;
    if (batch->op)
        a = action_of(batch->word, batch->op);
    if (a.insn && batch->held) {
        issue_ordered(a.insn, (struct lines){batch->first, batch->last}, lw_word_line(batch->word));
        wait_for(a.full);
    }
    return batch->error ? batch->error : a.result;
}
