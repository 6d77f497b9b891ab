// SPDX-License-Identifier: GPL-2.0-only
/*
 * linewright.ko: runs cells of Linewright's plans inside the kernel.
 *
 * /sys/kernel/debug/linewright/cell    write one cell, key=value a line; the write returns when the cell has run, and a read of
 *                                      the same open file gives its windows, or the reason why it was refused
 * /sys/kernel/debug/linewright/forms   what can be run: one line a form, and one of the machine
 *
 * One cell runs at a time. An open file keeps the module from being unloaded. A signal that kills the writer ends the cell
 * behind its present batch; limit_ms ends every cell. Interrupts and preemption are off for single operations only, where a
 * form's name says so.
 */
#include <linux/capability.h>
#include <linux/cache.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/utsname.h>
#include <linux/vmalloc.h>

#include "linewright.h"

#define LONGEST_REQUEST 16384
#define LONGEST_ANSWER (1u << 20)

static struct dentry *folder;
/* Held while a cell runs: two at once would disturb each other. */
static DEFINE_MUTEX(running);

/* Appends to a text; what does not fit marks it full. */
void lwk_say(struct lwk_text *text, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text->at + text->used, text->room - text->used, format, arguments);
	va_end(arguments);
	if (length < text->room - text->used)
		text->used += length;
	else
		text->full = true;
}

static int open_text(struct inode *inode, struct file *file)
{
	struct lwk_text *text;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	text = kzalloc(sizeof(*text), GFP_KERNEL);
	if (!text)
		return -ENOMEM;
	text->room = LONGEST_ANSWER;
	text->at = vzalloc(text->room);
	if (!text->at) {
		kfree(text);
		return -ENOMEM;
	}
	file->private_data = text;
	return 0;
}

static int close_text(struct inode *inode, struct file *file)
{
	struct lwk_text *text = file->private_data;

	vfree(text->at);
	kfree(text);
	return 0;
}

static ssize_t read_text(struct file *file, char __user *to, size_t bytes, loff_t *at)
{
	struct lwk_text *text = file->private_data;

	return simple_read_from_buffer(to, bytes, at, text->at, text->used);
}

/* Parses and runs; the answer is in `text` whatever happens. */
static int run_request(char *request, struct lwk_text *text)
{
	struct lwk_cell *cell = kvzalloc(sizeof(*cell), GFP_KERNEL);
	int error;

	if (!cell)
		return -ENOMEM;
	error = lwk_parse_cell(cell, request, text);
	if (!error) {
		error = lwk_run_cell(cell, text);
		if (error)
			lwk_say(text, "error the cell could not be run: %d\n", error);
	}
	if (!error && text->full)
		error = -EOVERFLOW;
	kvfree(cell);
	return error;
}

static ssize_t write_cell(struct file *file, const char __user *from, size_t bytes, loff_t *at)
{
	struct lwk_text *text = file->private_data;
	char *request;
	int error;

	if (bytes > LONGEST_REQUEST)
		return -E2BIG;
	request = memdup_user_nul(from, bytes);
	if (IS_ERR(request))
		return PTR_ERR(request);
	error = mutex_lock_killable(&running);
	if (!error) {
		text->used = 0;
		text->full = false;
		error = run_request(request, text);
		mutex_unlock(&running);
		*at = 0;
	}
	kfree(request);
	return error ?: bytes;
}

static const struct file_operations cell_file = {
	.owner = THIS_MODULE,
	.open = open_text,
	.release = close_text,
	.read = read_text,
	.write = write_cell,
	.llseek = default_llseek,
};

/* What reading the clock costs: the mean of many reads. */
static u64 clock_ns(void)
{
	u64 start = lwk_now_ns(), now = start;
	int i;

	for (i = 0; i < 1000; i++)
		now = lwk_now_ns();
	return div_u64(now - start, 1000);
}

static int open_forms(struct inode *inode, struct file *file)
{
	int error = open_text(inode, file);
	struct lwk_text *text = file->private_data;

	if (error)
		return error;
	lwk_say(text,
		"machine interface=%d version=%s release=%s arch=%s cpus=%*pbl line_bytes=%d page_bytes=%lu dma=%s clock_ns=%llu\n",
		LWK_INTERFACE, LWK_VERSION, utsname()->release, utsname()->machine,
		cpumask_pr_args(cpu_online_mask), cache_line_size(), PAGE_SIZE, lwk_dma_kind(),
		clock_ns());
	lwk_list_forms(text);
	return 0;
}

static const struct file_operations forms_file = {
	.owner = THIS_MODULE,
	.open = open_forms,
	.release = close_text,
	.read = read_text,
	.llseek = default_llseek,
};

static int __init linewright_init(void)
{
	int error = lwk_lookups_init();

	if (error)
		return error;
	error = lwk_dma_init();
	if (error)
		goto without_dma;
	folder = debugfs_create_dir("linewright", NULL);
	error = PTR_ERR_OR_ZERO(folder);
	if (error)
		goto without_folder;
	debugfs_create_file("cell", 0600, folder, NULL, &cell_file);
	debugfs_create_file("forms", 0400, folder, NULL, &forms_file);
	return 0;

without_folder:
	lwk_dma_exit();
without_dma:
	lwk_lookups_exit();
	return error;
}

static void __exit linewright_exit(void)
{
	debugfs_remove(folder);
	lwk_dma_exit();
	lwk_lookups_exit();
}

module_init(linewright_init);
module_exit(linewright_exit);
MODULE_DESCRIPTION(
	"Linewright: what atomic, per-CPU, reader and cache operations cost inside this kernel");
MODULE_AUTHOR("The Linewright authors");
MODULE_LICENSE("GPL");
MODULE_VERSION(LWK_VERSION);
