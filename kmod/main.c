// SPDX-License-Identifier: GPL-2.0-only
/*
 * linewright.ko: runs windows of cells of Linewright's plans inside the kernel.
 *
 * /sys/kernel/debug/linewright/cell    a request is one write, and reads of the same open file, from its start, give the answer, or
 *                                      the reason why it was refused. Its first line says what is wanted, key=value lines follow:
 *                                        prepare ID    the cell's memory is taken; ID is a number below LWK_MAX_CELLS
 *                                        window ID     one window of it; the write returns when it has run
 *                                        forget ID     the memory is given back, as all is when the file is closed
 * /sys/kernel/debug/linewright/forms   what can be run: one line a form, and one of the machine
 *
 * One window runs at a time. An open file keeps the module from being unloaded. A signal that kills the writer, and limit_ms, end
 * the window within some milliseconds, or behind its present operation. Interrupts and preemption are off for single operations only, where
 * a form's name says so.
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

/* An open file: its answer, and the cells that it has prepared. */
struct session {
	struct lwk_text text;
	struct lwk_run *cells[LWK_MAX_CELLS];
};

static struct dentry *folder;
/* Held while a window runs: two at once would disturb each other. */
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

static int open_session(struct inode *inode, struct file *file)
{
	struct session *session;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	session = kvzalloc(sizeof(*session), GFP_KERNEL);
	if (!session)
		return -ENOMEM;
	session->text.room = LONGEST_ANSWER;
	session->text.at = vzalloc(session->text.room);
	if (!session->text.at) {
		kvfree(session);
		return -ENOMEM;
	}
	file->private_data = session;
	return 0;
}

static int close_session(struct inode *inode, struct file *file)
{
	struct session *session = file->private_data;
	unsigned int id;

	for (id = 0; id < LWK_MAX_CELLS; id++)
		lwk_forget(session->cells[id]);
	vfree(session->text.at);
	kvfree(session);
	return 0;
}

static ssize_t read_text(struct file *file, char __user *to, size_t bytes, loff_t *at)
{
	struct session *session = file->private_data;

	return simple_read_from_buffer(to, bytes, at, session->text.at, session->text.used);
}

static int prepare(struct session *session, unsigned int id, char *request)
{
	struct lwk_text *text = &session->text;
	struct lwk_cell *cell = kvzalloc(sizeof(*cell), GFP_KERNEL);
	int error;

	if (!cell)
		return -ENOMEM;
	lwk_forget(session->cells[id]);
	session->cells[id] = NULL;
	error = lwk_parse_cell(cell, request, text);
	if (!error) {
		session->cells[id] = lwk_prepare(cell, text);
		error = session->cells[id] ? 0 : -EINVAL;
	}
	kvfree(cell);
	return error;
}

static int run_window(struct session *session, unsigned int id, char *request)
{
	struct lwk_text *text = &session->text;
	struct lwk_run *run = session->cells[id];
	int error;

	if (!run) {
		lwk_say(text, "error cell %u is not prepared\n", id);
		return -EINVAL;
	}
	error = lwk_parse_window(run, request, text);
	if (error)
		return error;
	error = lwk_window(run, text);
	if (error)
		lwk_say(text, "error the window could not be run: %d\n", error);
	return error ?: (text->full ? -EOVERFLOW : 0);
}

/* Does what the first line says; the answer is in the session's text whatever happens. */
static int do_request(struct session *session, char *request)
{
	char *first = strsep(&request, "\n");
	unsigned int id;
	char verb[8];

	if (sscanf(first, "%7s %u", verb, &id) == 2 && id < LWK_MAX_CELLS) {
		if (!strcmp(verb, "prepare"))
			return prepare(session, id, request);
		if (!strcmp(verb, "window"))
			return run_window(session, id, request);
		if (!strcmp(verb, "forget")) {
			lwk_forget(session->cells[id]);
			session->cells[id] = NULL;
			return 0;
		}
	}
	lwk_say(&session->text,
		"error %.40s: allowed: prepare, window or forget, and a number below %u\n", first,
		LWK_MAX_CELLS);
	return -EINVAL;
}

static ssize_t write_cell(struct file *file, const char __user *from, size_t bytes, loff_t *at)
{
	struct session *session = file->private_data;
	char *request;
	int error;

	if (bytes > LONGEST_REQUEST)
		return -E2BIG;
	request = memdup_user_nul(from, bytes);
	if (IS_ERR(request))
		return PTR_ERR(request);
	error = mutex_lock_killable(&running);
	if (!error) {
		session->text.used = 0;
		session->text.full = false;
		error = do_request(session, request);
		mutex_unlock(&running);
	}
	kfree(request);
	return error ?: bytes;
}

static const struct file_operations cell_file = {
	.owner = THIS_MODULE,
	.open = open_session,
	.release = close_session,
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
	struct session *session;
	int error = open_session(inode, file);

	if (error)
		return error;
	session = file->private_data;
	mutex_lock(&running);
	lwk_say(&session->text,
		"machine interface=%d version=%s release=%s arch=%s cpus=%*pbl line_bytes=%d page_bytes=%lu dma=%s clock_ns=%llu counters=%d counts=",
		LWK_INTERFACE, LWK_VERSION, utsname()->release, utsname()->machine,
		cpumask_pr_args(cpu_online_mask), cache_line_size(), PAGE_SIZE, lwk_dma_kind(),
		clock_ns(), lwk_counters_on());
	lwk_list_counters(&session->text, false);
	lwk_say(&session->text, " lacks=");
	lwk_list_counters(&session->text, true);
	lwk_say_control(&session->text);
	lwk_say(&session->text, "\n");
	mutex_unlock(&running);
	lwk_list_forms(&session->text);
	return 0;
}

static const struct file_operations forms_file = {
	.owner = THIS_MODULE,
	.open = open_forms,
	.release = close_session,
	.read = read_text,
	.llseek = default_llseek,
};

static int __init linewright_init(void)
{
	int error = lwk_run_init();

	if (error)
		return error;
	error = lwk_lookups_init();
	if (error)
		goto without_lookups;
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
without_lookups:
	lwk_run_exit();
	return error;
}

static void __exit linewright_exit(void)
{
	debugfs_remove(folder);
	lwk_dma_exit();
	lwk_lookups_exit();
	lwk_run_exit();
}

module_init(linewright_init);
module_exit(linewright_exit);
MODULE_DESCRIPTION(
	"Linewright: what atomic, per-CPU, reader and cache operations cost inside this kernel");
MODULE_AUTHOR("The Linewright authors");
MODULE_LICENSE("GPL");
MODULE_VERSION(LWK_VERSION);
