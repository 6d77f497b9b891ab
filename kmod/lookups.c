// SPDX-License-Identifier: GPL-2.0-only
/* Lookups of objects whose memory may become another object at any moment, but nothing else: SLAB_TYPESAFE_BY_RCU. */
#include <linux/atomic.h>
#include <linux/overflow.h>
#include <linux/rcupdate.h>
#include <linux/seqlock.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "loop.h"

/* The slot of an object that is in none. */
#define NOWHERE ULONG_MAX

/* An object on a pair of lines of its own. Its lock and its sequence are made once, when its memory becomes objects. */
struct object {
	atomic_t refs; /* its slot's and its holders'; 0: free */
	spinlock_t lock;
	seqlock_t sequence;
	unsigned long slot; /* which object it is */
	unsigned long value;
	unsigned long check; /* always ~value */
} __aligned(128);

/* One line of a cell: the slots that lookups of that line draw from. */
struct world {
	unsigned long last; /* slots - 1 */
	struct object __rcu *slots[];
};

static struct kmem_cache *cache;

static void construct(void *memory)
{
	struct object *object = memory;

	atomic_set(&object->refs, 0);
	spin_lock_init(&object->lock);
	seqlock_init(&object->sequence);
	object->slot = NOWHERE;
}

int lwk_lookups_init(void)
{
	cache = kmem_cache_create("linewright-object", sizeof(struct object),
		__alignof__(struct object), SLAB_TYPESAFE_BY_RCU, construct);
	return cache ? 0 : -ENOMEM;
}

/* The kernel waits there for the slabs that readers may still look at. */
void lwk_lookups_exit(void)
{
	kmem_cache_destroy(cache);
}

/* ---- the three ways to hold an object; their updaters change objects that readers may be looking at ---- */

static void describe(struct object *object, unsigned long slot, unsigned long value)
{
	WRITE_ONCE(object->slot, slot);
	WRITE_ONCE(object->value, value);
	WRITE_ONCE(object->check, ~value);
}

static void drop(struct object *object)
{
	if (atomic_dec_and_test(&object->refs))
		kmem_cache_free(cache, object);
}

static __always_inline bool hold_ref(struct object *object, unsigned int *token)
{
	return atomic_inc_not_zero(&object->refs);
}

static __always_inline bool release_ref(struct object *object, unsigned int token)
{
	drop(object);
	return true;
}

static void become_ref(struct object *object, unsigned long slot, unsigned long value)
{
	describe(object, slot, value);
	/* Release: a holder sees which object it is now. Pairs with atomic_inc_not_zero() in hold_ref(), which is fully ordered. */
	atomic_set_release(&object->refs, 1);
}

static __always_inline bool hold_lock(struct object *object, unsigned int *token)
	__acquires(&object->lock)
{
	spin_lock(&object->lock);
	return true;
}

static __always_inline bool release_lock(struct object *object, unsigned int token)
	__releases(&object->lock)
{
	spin_unlock(&object->lock);
	return true;
}

/* A reader that came for what the memory was before may hold the lock. */
static void become_lock(struct object *object, unsigned long slot, unsigned long value)
{
	spin_lock(&object->lock);
	describe(object, slot, value);
	atomic_set(&object->refs, 1);
	spin_unlock(&object->lock);
}

static void retire_lock(struct object *object)
{
	spin_lock(&object->lock);
	WRITE_ONCE(object->slot, NOWHERE);
	atomic_set(&object->refs, 0);
	spin_unlock(&object->lock);
	kmem_cache_free(cache, object);
}

static __always_inline bool hold_seqlock(struct object *object, unsigned int *token)
{
	*token = read_seqbegin(&object->sequence);
	return true;
}

static __always_inline bool release_seqlock(struct object *object, unsigned int token)
{
	return !read_seqretry(&object->sequence, token);
}

static void become_seqlock(struct object *object, unsigned long slot, unsigned long value)
{
	write_seqlock(&object->sequence);
	describe(object, slot, value);
	atomic_set(&object->refs, 1);
	write_sequnlock(&object->sequence);
}

static void retire_seqlock(struct object *object)
{
	write_seqlock(&object->sequence);
	WRITE_ONCE(object->slot, NOWHERE);
	atomic_set(&object->refs, 0);
	write_sequnlock(&object->sequence);
	kmem_cache_free(cache, object);
}

/* ---- loops ---- */

/* What a holder has read. */
struct seen {
	unsigned long slot;
	unsigned long value;
	unsigned long check;
};

typedef bool (*hold_function)(struct object *object, unsigned int *token);
typedef bool (*release_function)(struct object *object, unsigned int token);

#define WORLD                                    \
	struct world *const world = at->subject; \
	const unsigned long delay = at->delay

/* A slot drawn at random: xorshift32 (Marsaglia 2003). */
static __always_inline unsigned long draw(struct lwk_place *at, const struct world *world)
{
	u32 x = at->random;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	at->random = x;
	return x & world->last;
}

static __always_inline struct seen look(const struct object *object)
{
	return (struct seen){ READ_ONCE(object->slot), READ_ONCE(object->value),
		READ_ONCE(object->check) };
}

/* Whether the object that is held is still the one that was looked for. */
static __always_inline bool same(const struct object *object, unsigned long slot)
{
	return READ_ONCE(object->slot) == slot;
}

static __always_inline bool wrong(struct seen seen, unsigned long slot)
{
	return seen.slot != slot || seen.check != ~seen.value;
}

/*
 * One lookup: a slot's object held, compared with what was looked for, read, released, and looked up again where it has become
 * another one. A verifying lookup gives it time to do so before it is held, and reads it again before it is released.
 */
static __always_inline unsigned long look_up(struct lwk_place *at, const struct world *world,
	unsigned long x, unsigned long delay, hold_function hold, release_function release,
	const bool verify)
{
	const unsigned long slot = draw(at, world);
	struct seen first, last;
	unsigned int token = 0;
	bool found = false;

	rcu_read_lock();
	while (!found) {
		/* Pairs with rcu_assign_pointer() in replace(). */
		struct object *object = rcu_dereference(world->slots[slot]);

		if (verify)
			x = lwk_chain(x, delay);
		if (!hold(object, &token))
			continue;
		found = same(object, slot);
		if (found) {
			first = look(object);
			if (delay)
				x = lwk_chain(x, delay);
			last = verify ? look(object) : first;
		}
		found &= release(object, token);
	}
	rcu_read_unlock();
	if (verify)
		at->wrong += wrong(first, slot) + wrong(last, slot);
	return x;
}

/* A lookup as a timed loop, and as one that verifies. */
#define LOOKUP(name)                                                                  \
	LWK_LOOP(loop_##name, WORLD,                                                  \
		x = look_up(at, world, x, delay, hold_##name, release_##name, false)) \
	LWK_LOOP(verify_##name, WORLD,                                                \
		x = look_up(at, world, x, delay, hold_##name, release_##name, true))

LOOKUP(ref)
LOOKUP(lock)
LOOKUP(seqlock)

/* The draw and the load of the slot alone. */
static __always_inline unsigned long find(
	struct lwk_place *at, const struct world *world, unsigned long x, unsigned long delay)
{
	struct object __rcu *object = READ_ONCE(world->slots[draw(at, world)]);

	barrier_data(&object);
	return delay ? lwk_chain(x, delay) : x;
}

LWK_LOOP(loop_empty, WORLD, x = find(at, world, x, delay))

/* Puts another object into a slot drawn at random. The old one's memory is free for the next one at once, or behind its last holder. */
static __always_inline void replace(struct lwk_place *at,
	void (*become)(struct object *object, unsigned long slot, unsigned long value),
	void (*retire)(struct object *object))
{
	struct world *world = at->subject;
	const unsigned long slot = draw(at, world);
	struct object *old = rcu_dereference_protected(world->slots[slot], true);
	struct object *new = kmem_cache_alloc(cache, GFP_KERNEL);

	if (!new)
		return;
	become(new, slot, at->random);
	/* Before the old one is retired: who finds it gone finds the new one in its place. Pairs with rcu_dereference() in look_up(). */
	rcu_assign_pointer(world->slots[slot], new);
	retire(old);
}

#define REPLACE(name, retire)                                                          \
	static noinline void replace_##name(struct lwk_place *at, unsigned long iters) \
	{                                                                              \
		do {                                                                   \
			replace(at, become_##name, retire);                            \
		} while (--iters);                                                     \
	}

REPLACE(ref, drop)
REPLACE(lock, retire_lock)
REPLACE(seqlock, retire_seqlock)

/* ---- worlds: a cell's lines ---- */

/* How many of a world's slots do not hold the only reference to what belongs there: a reader has lost one then. */
static unsigned long wrong_slots(struct lwk_run *run, unsigned int line)
{
	struct world *world = ((struct world **)run->memory)[line];
	unsigned long slot, wrong = 0;

	for (slot = 0; slot <= world->last; slot++) {
		struct object *object = rcu_dereference_protected(world->slots[slot], true);

		wrong += object->slot != slot || atomic_read(&object->refs) != 1;
	}
	return wrong;
}

static void end_world(struct world *world)
{
	unsigned long slot;

	for (slot = 0; slot <= world->last; slot++) {
		struct object *object = rcu_dereference_protected(world->slots[slot], true);

		if (!object)
			continue;
		atomic_set(&object->refs, 0);
		kmem_cache_free(cache, object);
	}
	kfree(world);
}

static void finish(struct lwk_run *run)
{
	struct world **worlds = run->memory;
	unsigned int line;

	for (line = 0; worlds && line < run->cell.lines && worlds[line]; line++)
		end_world(worlds[line]);
	kvfree(worlds);
}

static u64 bytes(const struct lwk_cell *cell)
{
	return (u64)cell->lines * cell->instances * (sizeof(struct object) + sizeof(void *));
}

static int prepare(struct lwk_run *run)
{
	struct world **worlds = kvcalloc(run->cell.lines, sizeof(*worlds), GFP_KERNEL);
	unsigned long slot;
	unsigned int line;

	if (!worlds)
		return -ENOMEM;
	run->memory = worlds;
	for (line = 0; line < run->cell.lines; line++) {
		struct world *world =
			lwk_alloc_apart(struct_size(world, slots, run->cell.instances));

		if (!world)
			return -ENOMEM;
		worlds[line] = world;
		world->last = run->cell.instances - 1;
		for (slot = 0; slot <= world->last; slot++) {
			struct object *object = kmem_cache_alloc(cache, LWK_GFP);

			if (!object)
				return -ENOMEM;
			become_lock(object, slot, slot);
			rcu_assign_pointer(world->slots[slot], object);
		}
		if (lwk_killed())
			return -EINTR;
	}
	return 0;
}

static void *subject(struct lwk_run *run, unsigned int line, unsigned int thread)
{
	struct world **worlds = run->memory;

	return worlds[line];
}

static const struct lwk_family family = {
	.name = "lookups",
	.bytes = bytes,
	.prepare = prepare,
	.finish = finish,
	.subject = subject,
	.wrong = wrong_slots,
	.baseline = loop_empty,
};

#define ROW(form_name, ...) \
	{ .name = "typesafe_" #form_name, .operation = "readers_lookup", .order = "acq_rel", .width = 8, .family = &family, .loop = loop_##form_name, .verify = verify_##form_name, .grace = { [LWK_REPLACE] = replace_##form_name }, ##__VA_ARGS__ }

const struct lwk_form lwk_lookups_forms[] = {
	{ .name = "lookup_empty",
		.operation = "readers_none",
		.order = "relaxed",
		.width = 8,
		.family = &family,
		.loop = loop_empty },
	ROW(ref),
	/* On PREEMPT_RT the object's lock is a mutex. */
	ROW(lock, .keeps_off = "preemption", .sleeps = IS_ENABLED(CONFIG_PREEMPT_RT)),
	ROW(seqlock),
};

const unsigned int lwk_lookups_count = ARRAY_SIZE(lwk_lookups_forms);
