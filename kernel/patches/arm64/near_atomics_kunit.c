// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test of arm64.near_atomics_optimization: atomic operations keep their results and their
 * neighbours, and what stands in front of their LSE instructions is what the option asks for.
 */
#include <kunit/test.h>

#include <linux/atomic.h>
#include <linux/module.h>

#include <asm/cpufeature.h>

#define CANARY 0xc0ffee00c0ffee00ull
#define LONGEST 96 /* instructions of one of the functions below */

struct guarded {
	u64 before;
	union {
		atomic_t narrow;
		atomic64_t wide;
		u8 bytes[8];
		u16 halves[4];
	};
	u64 after;
};

struct operation {
	const char *name;
	void (*perform)(struct guarded *at);
	u64 from;
	u64 to;
};

static noinline void add_32(struct guarded *at)
{
	atomic_add(7, &at->narrow);
}

static noinline void add_64(struct guarded *at)
{
	atomic64_add(7, &at->wide);
}

static noinline void andnot_64(struct guarded *at)
{
	atomic64_andnot(0xf0, &at->wide);
}

static noinline void or_64(struct guarded *at)
{
	atomic64_or(0xf0, &at->wide);
}

static noinline void xor_32(struct guarded *at)
{
	atomic_xor(0xff, &at->narrow);
}

/* Its result is doubled in, so that the operation has to return the right value. */
static noinline void fetch_add_64(struct guarded *at)
{
	u64 old = atomic64_fetch_add(1, &at->wide);

	at->wide.counter += old;
}

static noinline void add_return_32(struct guarded *at)
{
	u32 new = atomic_add_return(1, &at->narrow);

	at->narrow.counter += new;
}

static noinline void exchange_8(struct guarded *at)
{
	at->bytes[3] = xchg(&at->bytes[2], 0x55);
}

static noinline void exchange_16(struct guarded *at)
{
	at->halves[3] = xchg(&at->halves[1], 0x5566);
}

static noinline void exchange_64(struct guarded *at)
{
	at->wide.counter += atomic64_xchg(&at->wide, 5);
}

static noinline void compare_exchange_64(struct guarded *at)
{
	at->wide.counter += atomic64_cmpxchg(&at->wide, 5, 100);
}

static noinline void compare_exchange_8(struct guarded *at)
{
	at->bytes[3] = cmpxchg(&at->bytes[2], 0x22, 0x77);
}

static noinline void decrement_if_positive(struct guarded *at)
{
	atomic64_dec_if_positive(&at->wide);
}

static const struct operation operations[] = {
	{ "add, 32 bits", add_32, 0x1ffffffff, 0x100000006 },
	{ "add, 64 bits", add_64, 0xffffffff, 0x100000006 },
	{ "andnot, 64 bits", andnot_64, 0xff, 0x0f },
	{ "or, 64 bits", or_64, 0x0f, 0xff },
	{ "xor, 32 bits", xor_32, 0x1000000f0, 0x10000000f },
	{ "fetch_add, 64 bits", fetch_add_64, 10, 21 },
	{ "add_return, 32 bits", add_return_32, 10, 22 },
	{ "xchg, 8 bits", exchange_8, 0x332211, 0x33552211 },
	{ "xchg, 16 bits", exchange_16, 0x33221100, 0x3322000055661100 },
	{ "xchg, 64 bits", exchange_64, 30, 35 },
	{ "cmpxchg, 64 bits", compare_exchange_64, 5, 105 },
	{ "cmpxchg, 8 bits", compare_exchange_8, 0x221100, 0x22771100 },
	{ "dec_if_positive", decrement_if_positive, 1, 0 },
};

static void results_and_neighbours(struct kunit *test)
{
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
		const struct operation *op = &operations[i];
		struct guarded at = { .before = CANARY, .after = CANARY };

		atomic64_set(&at.wide, op->from);
		op->perform(&at);
		KUNIT_EXPECT_EQ_MSG(test, (u64)atomic64_read(&at.wide), op->to, "%s", op->name);
		KUNIT_EXPECT_EQ_MSG(test, at.before, CANARY, "%s", op->name);
		KUNIT_EXPECT_EQ_MSG(test, at.after, CANARY, "%s", op->name);
	}
}

/* LDADD and its kind with SWP, CAS of one word, CASP. */
static bool is_lse(u32 insn)
{
	u32 what = (insn >> 12) & 15;

	if ((insn & 0x3f200c00) == 0x38200000)
		return what <= 3 || what == 8;
	return (insn & 0x3fa07c00) == 0x08a07c00 || (insn & 0xbfa07c00) == 0x08207c00;
}

static bool is_prefetch(u32 insn, u32 base)
{
	return insn == (0xf9800011 | base << 5);
}

static bool is_nop(u32 insn, u32 base)
{
	return insn == 0xd503201f;
}

/* One LSE instruction is enough; an order may add a move and a load before it. */
static bool stands_before(const __le32 *code, int at, bool (*wanted)(u32 insn, u32 base))
{
	u32 base = (le32_to_cpu(code[at]) >> 5) & 31;

	for (int i = at - 1; i >= 0 && i >= at - 5; i--)
		if (wanted(le32_to_cpu(code[i]), base))
			return true;
	return false;
}

static void code_in_memory(struct kunit *test)
{
	bool on = cpus_have_final_cap(ARM64_LSE_PREFETCH);

	if (!cpus_have_final_cap(ARM64_HAS_LSE_ATOMICS))
		kunit_skip(test, "no LSE atomics here");
	kunit_info(test, "prefetches are %s", on ? "on" : "off");
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
		const __le32 *code = (const __le32 *)operations[i].perform;
		int found = 0;

		for (int at = 0; at < LONGEST && le32_to_cpu(code[at]) != 0xd65f03c0; at++) {
			if (!is_lse(le32_to_cpu(code[at])))
				continue;
			found++;
			KUNIT_EXPECT_EQ_MSG(test, stands_before(code, at, is_prefetch), on, "%s",
				operations[i].name);
			if (!on)
				KUNIT_EXPECT_TRUE_MSG(test, stands_before(code, at, is_nop), "%s",
					operations[i].name);
		}
		KUNIT_EXPECT_GT_MSG(test, found, 0, "%s", operations[i].name);
	}
}

static struct kunit_case near_atomics_cases[] = { KUNIT_CASE(results_and_neighbours),
	KUNIT_CASE(code_in_memory), {} };

static struct kunit_suite near_atomics_suite = {
	.name = "arm64_near_atomics",
	.test_cases = near_atomics_cases,
};
kunit_test_suite(near_atomics_suite);

MODULE_DESCRIPTION("Test of prefetches before LSE atomics");
MODULE_LICENSE("GPL");
