// SPDX-License-Identifier: GPL-2.0-only
/*
 * linewright-kernel: the one part of `measure --on kernel` that runs as root. It loads the module, hands cells to it and passes
 * its answers on, and unloads what it loaded.
 *
 *     linewright-kernel [--module FILE]
 *
 * A request on standard input is the word `forms`, or the key=value lines of a cell; an empty line ends it. The answer on
 * standard output ends with a line `done`. What cannot be done is one line `error …`. Exit code 3: the module is not there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#define DEBUGFS "/sys/kernel/debug"
#define FOLDER DEBUGFS "/linewright"
#define LONGEST_REQUEST 16384

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

/* Loads the module. `loaded` says whether this program did, so has to unload it. */
static int load(const char *path, bool *loaded)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int error;

	if (fd < 0)
		return fail(path, strerror(errno));
	error = syscall(SYS_finit_module, fd, "", 0) ? errno : 0;
	close(fd);
	*loaded = !error;
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

static void answer(const char *request, size_t bytes)
{
	bool forms = strcmp(request, "forms\n") == 0;
	int fd = open(
		forms ? FOLDER "/forms" : FOLDER "/cell", (forms ? O_RDONLY : O_RDWR) | O_CLOEXEC);

	if (fd < 0) {
		printf("error %s\n", strerror(errno));
	} else {
		ssize_t written = forms ? 0 : write(fd, request, bytes);

		/* A cell that is refused says why in what is read. */
		if (written < 0 && errno != EINVAL)
			printf("error %s\n", strerror(errno));
		pass_on(fd);
		close(fd);
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
	bool loaded = false;
	ssize_t bytes;
	int code;

	if (argc != 1 && !module) {
		fprintf(stderr, "usage: linewright-kernel [--module FILE]\n");
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	quiet_terminal();
	code = module ? load(module, &loaded) : 0;
	if (!code)
		code = mount_debugfs();
	if (!code) {
		printf("ready\n");
		fflush(stdout);
		while ((bytes = next_request(request)))
			if (bytes > 0)
				answer(request, (size_t)bytes);
			else
				fail("request", "too long");
	}
	if (loaded)
		syscall(SYS_delete_module, "linewright", O_NONBLOCK);
	return code;
}
