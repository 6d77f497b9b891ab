/* SPDX-License-Identifier: MIT */
/* The modelled cache: memory twice over, maintenance that takes effect late, and an adversary that may do what hardware
 * may. */
#include <linewright/cache.h>

#include "cache_model.h"
#include "forms.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REGIONS = 16, MAX_PENDING = 4096, STORE_BYTES = 8 };

struct line {
    bool present, dirty;
    bool young; /* stored to, with no full fence since: LW_INSN_FLUSH may pass the store */
    bool stale; /* `old` may still answer a load that no barrier keeps after the invalidation */
    unsigned int touched;
    unsigned char *memory; /* what devices see */
    unsigned char *cached; /* what the CPU sees, if present */
    unsigned char *old;
    unsigned char *theirs; /* per byte: a device wrote it since the line was fetched or written back */
};

struct region {
    uintptr_t first; /* a line address */
    size_t count;
    struct line *lines;
    unsigned char *bytes;
};

static struct {
    size_t line_bytes;
    enum lw_model_schedule schedule;
    uint64_t random;
    struct region regions[MAX_REGIONS];
    size_t n_regions;
    struct {
        struct line *line;
        enum lw_cache_insn insn;
    } pending[MAX_PENDING];
    size_t n_pending;
    void (*device)(void *); /* has work to do that the CPU already believes done */
    void *device_arg;
    uint64_t steps_to_hook;
    void (*hook)(void *);
    void *hook_arg;
    struct lw_model_counts counts;
} model = {.line_bytes = 64};

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t draw(void) {
    uint64_t z = model.random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* True always when eager, never when lazy, once in n when random. */
static bool chance(unsigned int n) {
    return model.schedule == LW_MODEL_EAGER || (model.schedule == LW_MODEL_RANDOM && draw() % n == 0);
}

static struct line *find(uintptr_t at) {
    for (size_t i = 0; i < model.n_regions; i++) {
        size_t index = (at - model.regions[i].first) / model.line_bytes; /* wraps to a large number below first */

        if (index < model.regions[i].count)
            return &model.regions[i].lines[index];
    }
    return NULL;
}

static void fetch(struct line *line) {
    if (line->present)
        return;
    memcpy(line->cached, line->memory, model.line_bytes);
    memset(line->theirs, 0, model.line_bytes);
    line->present = true;
    line->dirty = false;
}

static void write_back(struct line *line) {
    if (!line->present || !line->dirty)
        return;
    for (size_t i = 0; i < model.line_bytes; i++)
        model.counts.overwritten += line->theirs[i] && line->memory[i] != line->cached[i];
    memcpy(line->memory, line->cached, model.line_bytes);
    memset(line->theirs, 0, model.line_bytes);
    line->dirty = false;
}

static void drop(struct line *line) {
    if (!line->present)
        return;
    memcpy(line->old, line->cached, model.line_bytes);
    line->stale = true;
    line->present = line->dirty = false;
}

static void perform(struct line *line, enum lw_cache_insn insn) {
    if (insn == LW_INSN_DISCARD) {
        for (size_t i = 0; line->present && line->dirty && i < model.line_bytes; i++)
            model.counts.discarded += line->cached[i] != line->memory[i];
        drop(line);
        return;
    }
    write_back(line);
    if (insn == LW_INSN_CLEAN_INVALIDATE || insn == LW_INSN_FLUSH)
        drop(line);
}

static void perform_pending(size_t i) {
    struct line *line = model.pending[i].line;
    enum lw_cache_insn insn = model.pending[i].insn;

    model.n_pending--;
    memmove(&model.pending[i], &model.pending[i + 1], (model.n_pending - i) * sizeof(model.pending[0]));
    perform(line, insn);
}

/* Maintenance and stores to one line keep their program order on every architecture. */
static void perform_pending_of(const struct line *line) {
    for (size_t i = 0; i < model.n_pending;)
        if (model.pending[i].line == line)
            perform_pending(i);
        else
            i++;
}

static struct line *any_line(void) {
    struct region *region;

    if (!model.n_regions)
        return NULL;
    region = &model.regions[draw() % model.n_regions];
    return &region->lines[draw() % region->count];
}

/* Between any two steps of the program: one pending instruction, one eviction, one fetch that no access asked for. */
static void adversary(void) {
    struct line *line;

    if (model.steps_to_hook && --model.steps_to_hook == 0)
        model.hook(model.hook_arg);
    if (model.schedule != LW_MODEL_RANDOM)
        return;
    if (model.n_pending && draw() % 8 == 0)
        perform_pending(draw() % model.n_pending);
    line = any_line();
    if (line && draw() % 8 == 0) {
        write_back(line);
        line->present = false;
    }
    line = any_line();
    if (line && draw() % 8 == 0)
        fetch(line);
}

static void finish_device(void) {
    void (*device)(void *) = model.device;

    model.device = NULL;
    if (device)
        device(model.device_arg);
}

/* Loads and stores before are done, and nothing after has begun. */
static void full_fence(void) {
    for (size_t i = 0; i < model.n_regions; i++)
        for (size_t j = 0; j < model.regions[i].count; j++)
            model.regions[i].lines[j].stale = model.regions[i].lines[j].young = false;
}

void lw_model_insn(enum lw_cache_insn insn, const void *at) {
    struct line *line = find((uintptr_t)at);

    adversary();
    model.counts.insns++;
    if (!line) {
        model.counts.outside++;
        return;
    }
    line->touched++;
    if (insn == LW_INSN_FLUSH && line->young && (model.schedule == LW_MODEL_LAZY || chance(2)))
        return; /* over before the store that it ought to have written back */
    if (model.device || chance(4)) { /* ahead of the older load that said the device is done */
        perform_pending_of(line);
        perform(line, insn);
        if (model.device || chance(2))
            fetch(line);
        return;
    }
    if (model.n_pending == MAX_PENDING)
        perform_pending(0);
    model.pending[model.n_pending].line = line;
    model.pending[model.n_pending++].insn = insn;
}

void lw_model_wait(int orders_loads) {
    model.counts.waits++;
    finish_device();
    for (size_t i = 0; i < model.n_pending;)
        if (orders_loads || model.pending[i].insn != LW_INSN_FLUSH)
            perform_pending(i);
        else
            i++;
    if (orders_loads)
        full_fence();
}

void lw_model_order(void) {
    model.counts.orders++;
    finish_device();
    full_fence();
}

void lw_model_await(void (*device)(void *), void *arg) {
    adversary();
    finish_device();
    model.device = device;
    model.device_arg = arg;
    if (!chance(2))
        finish_device();
}

/* The largest piece of [at, at + n) that one access covers: within an aligned word, hence within a line. */
static size_t piece(uintptr_t at, size_t n) {
    size_t room = STORE_BYTES - at % STORE_BYTES;

    return n < room ? n : room;
}

static struct line *find_or_abort(uintptr_t at) {
    struct line *line = find(at);

    if (!line)
        abort();
    return line;
}

void lw_model_store(void *to, const void *from, size_t n) {
    uintptr_t at = (uintptr_t)to;
    const unsigned char *source = from;

    finish_device();
    while (n) {
        struct line *line = find_or_abort(at);
        size_t size = piece(at, n);

        adversary();
        perform_pending_of(line);
        fetch(line);
        line->stale = false;
        memcpy(line->cached + at % model.line_bytes, source, size);
        line->dirty = line->young = true;
        if (chance(16))
            write_back(line);
        at += size;
        source += size;
        n -= size;
    }
}

void lw_model_load(const void *from, void *to, size_t n) {
    uintptr_t at = (uintptr_t)from;
    unsigned char *target = to;

    finish_device();
    while (n) {
        struct line *line = find_or_abort(at);
        size_t size = piece(at, n);
        bool early = line->stale && (model.schedule == LW_MODEL_LAZY || chance(2));

        adversary();
        if (!early)
            fetch(line);
        memcpy(target, (early ? line->old : line->cached) + at % model.line_bytes, size);
        at += size;
        target += size;
        n -= size;
    }
}

void lw_model_device_write(void *to, const void *from, size_t n) {
    uintptr_t at = (uintptr_t)to;
    const unsigned char *source = from;

    while (n) {
        struct line *line = find_or_abort(at);
        size_t size = piece(at, n), offset = at % model.line_bytes;

        adversary();
        memcpy(line->memory + offset, source, size);
        memset(line->theirs + offset, 1, size);
        at += size;
        source += size;
        n -= size;
    }
}

void lw_model_device_read(const void *from, void *to, size_t n) {
    uintptr_t at = (uintptr_t)from;
    unsigned char *target = to;

    while (n) {
        struct line *line = find_or_abort(at);
        size_t size = piece(at, n);

        adversary();
        memcpy(target, line->memory + at % model.line_bytes, size);
        at += size;
        target += size;
        n -= size;
    }
}

void lw_model_at_step(uint64_t steps, void (*hook)(void *), void *arg) {
    model.steps_to_hook = hook ? steps : 0;
    model.hook = hook;
    model.hook_arg = arg;
}

void lw_model_crash(void) {
    model.device = NULL;
    for (size_t i = 0; i < model.n_pending; i++)
        if (model.schedule != LW_MODEL_LAZY && draw() % 2)
            perform(model.pending[i].line, model.pending[i].insn);
    model.n_pending = 0;
    for (size_t i = 0; i < model.n_regions; i++)
        for (size_t j = 0; j < model.regions[i].count; j++) {
            struct line *line = &model.regions[i].lines[j];

            if (model.schedule == LW_MODEL_EAGER || (model.schedule == LW_MODEL_RANDOM && draw() % 2))
                write_back(line);
            line->present = line->dirty = line->stale = false;
        }
}

void lw_model_count(struct lw_model_counts *counts) {
    *counts = model.counts;
    counts->pending = model.n_pending;
}

unsigned int lw_model_touched(const void *at) {
    struct line *line = find((uintptr_t)at);

    return line ? line->touched : 0;
}

size_t lw_model_line_size(void) { return model.line_bytes; }

void lw_model_end(void) {
    for (size_t i = 0; i < model.n_regions; i++) {
        free(model.regions[i].lines);
        free(model.regions[i].bytes);
    }
    model.n_regions = model.n_pending = 0;
    model.device = NULL;
    model.steps_to_hook = 0;
}

int lw_model_begin(const struct lw_model_config *config) {
    size_t line = config->line_bytes;

    if (line < STORE_BYTES || line > 2048 || line & (line - 1))
        return -EINVAL;
    lw_model_end();
    memset(&model.counts, 0, sizeof(model.counts));
    model.line_bytes = line;
    model.schedule = config->schedule;
    model.random = config->seed;
    return lw_cache_configure("default,noncoherent");
}

int lw_model_region(const void *base, size_t n) {
    uintptr_t mask = model.line_bytes - 1, at = (uintptr_t)base;
    struct region *region = &model.regions[model.n_regions];

    if (!n || at + (n - 1) < at || model.n_regions == MAX_REGIONS)
        return -EINVAL;
    region->first = at & ~mask;
    region->count = (((at + (n - 1)) & ~mask) - region->first) / model.line_bytes + 1;
    region->lines = calloc(region->count, sizeof(struct line));
    region->bytes = calloc(region->count, 4 * model.line_bytes);
    if (!region->lines || !region->bytes) {
        free(region->lines);
        free(region->bytes);
        return -ENOMEM;
    }
    for (size_t i = 0; i < region->count; i++) {
        unsigned char *bytes = region->bytes + 4 * i * model.line_bytes;
        struct line *l = &region->lines[i];

        l->memory = bytes;
        l->cached = bytes + model.line_bytes;
        l->old = bytes + 2 * model.line_bytes;
        l->theirs = bytes + 3 * model.line_bytes;
    }
    model.n_regions++;
    return 0;
}
