// SPDX-License-Identifier: GPL-2.0-only
/* Says whether this_cpu_add() on 8 and 16 bits leaves the bytes beside the variable alone; then refuses to stay loaded. */
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/preempt.h>

struct row {
	u8 byte;
	u8 beside_byte[3];
	u16 half;
	u16 beside_half;
};

static DEFINE_PER_CPU(struct row, rows) __aligned(8);

static int __init look(void)
{
	struct row *row;
	bool right, kept;

	preempt_disable();
	row = this_cpu_ptr(&rows);
	memset(row, 0, sizeof(*row));
	/* Twice the largest value: a carry out of the variable. */
	this_cpu_add(rows.byte, 0xff);
	this_cpu_add(rows.byte, 0xff);
	this_cpu_add(rows.half, 0xffff);
	this_cpu_add(rows.half, 0xffff);
	right = row->byte == 0xfe && row->half == 0xfffe;
	kept = !row->beside_byte[0] && !row->beside_byte[1] && !row->beside_byte[2] &&
	       !row->beside_half;
	preempt_enable();
	pr_info("percpu_width: values %s, neighbours %s\n", right ? "right" : "wrong",
		kept ? "kept" : "changed");
	return -EAGAIN;
}
module_init(look);

MODULE_DESCRIPTION("Width of this_cpu_add()");
MODULE_LICENSE("GPL");
