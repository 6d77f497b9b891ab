// SPDX-License-Identifier: GPL-2.0-only
/*
 * linewright-kernel: the one part of `measure --on kernel` that runs as root. It loads the module, hands requests to it, passes its
 * answers on, and unloads what it loaded: at the end of its input, which also comes when the probe is gone, and on a signal.
 *
 *     linewright-kernel [--module FILE|NAME]        NAME: an installed one, by modprobe
 *
 * A request on standard input is the word `forms`, or lines as main.c of the module describes them; an empty line ends it. The
 * answer on standard output ends with a line `done`. What cannot be done is one line `error …`. Exit code 3: the module is not there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define DEBUGFS "/sys/kernel/debug"
#define FOLDER DEBUGFS "/linewright"
#define LONGEST_REQUEST 16384

static bool loaded;	 /* by this program, which so has to unload it */
static int session = -1; /* the open file that holds the prepared cells */

/* What the kernel means when it refuses a module; the list is that of finit_module(2). */
static const char *refusal(int error)
{
	switch (error) {
	case EKEYREJECTED:
	case ENOKEY:
		return "the kernel takes signed modules only: sign it with a key that is enrolled (mokutil --import), "
		       "or switch Secure Boot off";
	case EPERM:
		return "root may not load modules here: the kernel is locked down (see /sys/kernel/security/lockdown; "
		       "sign the module, or switch Secure Boot off), modules are disabled, or this is a container";
	case ENOEXEC:
		return "the module was built for another kernel: build it again (make -C kmod)";
	default:
		return strerror(error);
	}
}

static int fail(const char *what, const char *why)
{
	printf("error %s: %s\ndone\n", what, why);
	fflush(stdout);
	return 3;
}

/* Gives every prepared cell back and unloads what this program loaded. Only calls that a signal handler may make. */
static void clean_up(void)
{
	if (session >= 0)
		close(session);
	if (loaded)
		syscall(SYS_delete_module, "linewright", O_NONBLOCK);
}

/* A write to the module returns before its signal is handled, so nothing of it is running. */
static void on_signal(int number)
{
	clean_up();
	_exit(128 + number);
}

/* Loads an installed module, which may be compressed, unless it is there: by the program that the kernel itself would start. */
static int load_by_name(const char *name)
{
	char *const command[] = { "modprobe", (char *)name, NULL };
	bool there = access("/sys/module/linewright", F_OK) == 0;
	char program[256] = "";
	FILE *chosen = fopen("/proc/sys/kernel/modprobe", "r");
	int error, status = 0;
	pid_t child;

	if (chosen && fgets(program, sizeof(program), chosen))
		program[strcspn(program, "\n")] = 0;
	if (chosen)
		fclose(chosen);
	error = posix_spawn(&child, program, NULL, NULL, command, environ);
	if (error)
		return fail(*program ? program : "/proc/sys/kernel/modprobe", strerror(error));
	if (waitpid(child, &status, 0) != child || status)
		return fail(name, "modprobe could not load it; dmesg says why");
	loaded = !there;
	return 0;
}

/* Loads the module unless it is there. */
static int load(const char *path)
{
	int fd = strchr(path, '/') ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	int error;

	if (!strchr(path, '/'))
		return load_by_name(path);
	if (fd < 0)
		return fail(path, strerror(errno));
	error = syscall(SYS_finit_module, fd, "", 0) ? errno : 0;
	close(fd);
	loaded = !error;
	return error && error != EEXIST ? fail(path, refusal(error)) : 0;
}

static int mount_debugfs(void)
{
	if (access(FOLDER "/cell", F_OK) == 0)
		return 0;
	if (mount("debugfs", DEBUGFS, "debugfs", 0, NULL) && errno != EBUSY)
		return fail(DEBUGFS, strerror(errno));
	if (access(FOLDER "/cell", R_OK | W_OK) == 0)
		return 0;
	return fail(FOLDER "/cell", errno == ENOENT
					    ? "the module is not loaded"
					    : "debugfs may not be used: the kernel is locked down, "
					      "or this is not root");
}

/* Copies what a file holds to standard output. */
static void pass_on(int fd)
{
	char buffer[65536];
	ssize_t n;

	while ((n = read(fd, buffer, sizeof(buffer))) > 0)
		fwrite(buffer, 1, (size_t)n, stdout);
	if (n < 0)
		printf("error %s\n", strerror(errno));
}

/* The file's text behind its name, for what the module cannot see: which machine this is, and the options of its kernel. */
static void say_file(const char *word, const char *path)
{
	char text[8192];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return;
	text[n] = 0;
	text[strcspn(text, "\n")] = 0;
	printf("%s %s\n", word, text);
}

static void answer_forms(void)
{
	int fd = open(FOLDER "/forms", O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		printf("error %s\n", strerror(errno));
		return;
	}
	pass_on(fd);
	close(fd);
	say_file("boot_id", "/proc/sys/kernel/random/boot_id");
	say_file("command_line", "/proc/cmdline");
	say_file("dma_one_wait", "/sys/module/kernel/parameters/dma_one_wait");
}

static void answer(const char *request, size_t bytes)
{
	if (strcmp(request, "forms\n") == 0) {
		answer_forms();
	} else {
		ssize_t written = write(session, request, bytes);

		/* A request that is refused says why in what is read. */
		if (written < 0 && errno != EINVAL)
			printf("error %s\n", strerror(errno));
		else if (lseek(session, 0, SEEK_SET) == 0)
			pass_on(session);
	}
	printf("done\n");
	fflush(stdout);
}

/* One request, up to an empty line. Its bytes, 0 at the end of the input, -1 when it is too long. */
static ssize_t next_request(char *request)
{
	bool too_long = false;
	size_t used = 0;
	char line[512];

	while (fgets(line, sizeof(line), stdin)) {
		size_t length = strlen(line);

		if (line[0] == '\n')
			return too_long ? -1 : (ssize_t)used;
		/* What follows up to the empty line belongs to it: one request has one answer. */
		too_long |= used + length >= LONGEST_REQUEST;
		if (too_long)
			continue;
		memcpy(request + used, line, length + 1);
		used += length;
	}
	return 0;
}

/* A terminal as standard input, which tests of the module have: no echo, lines as they are. */
static void quiet_terminal(void)
{
	struct termios terminal;

	if (tcgetattr(0, &terminal))
		return;
	terminal.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
	terminal.c_oflag &= ~(tcflag_t)OPOST;
	tcsetattr(0, TCSANOW, &terminal);
}

int main(int argc, char **argv)
{
	static char request[LONGEST_REQUEST];
	const char *module = argc == 3 && !strcmp(argv[1], "--module") ? argv[2] : NULL;
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction end = { .sa_handler = on_signal };
	sigset_t ending;
	ssize_t bytes;
	int code, i;

	if (argc != 1 && !module) {
		fprintf(stderr, "usage: linewright-kernel [--module FILE|NAME]\n");
		return 2;
	}
	sigemptyset(&ending);
	/* A terminal signals all of its group: the probe, too, which ends our input when it has what it wants to keep. */
	for (i = 0; i < 3; i++) {
		sigaddset(&ending, signals[i]);
		if (signals[i] == SIGTERM || isatty(0))
			sigaction(signals[i], &end, NULL);
		else
			signal(signals[i], SIG_IGN);
	}
	signal(SIGPIPE, SIG_IGN);
	quiet_terminal();
	/* A signal that comes while the module is loaded is handled once it is known that it was. */
	sigprocmask(SIG_BLOCK, &ending, NULL);
	code = module ? load(module) : 0;
	sigprocmask(SIG_UNBLOCK, &ending, NULL);
	if (!code)
		code = mount_debugfs();
	if (!code) {
		session = open(FOLDER "/cell", O_RDWR | O_CLOEXEC);
		if (session < 0)
			code = fail(FOLDER "/cell", strerror(errno));
	}
	if (!code) {
		printf("ready\n");
		fflush(stdout);
		while ((bytes = next_request(request)))
			if (bytes > 0)
				answer(request, (size_t)bytes);
			else
				fail("request", "too long");
	}
	clean_up();
	return code;
}
