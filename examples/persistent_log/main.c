/* SPDX-License-Identifier: MIT */
/* persistent_log: append lines from standard input to a log, or print it. */
#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_BYTES = 1 << 20 };

static int fail(const char *path, int error)
{
    fprintf(stderr, "persistent_log: %s: %s\n", path,
            error == -EBADMSG       ? "not a log, or damaged, or its file was cut or extended"
            : error == -EWOULDBLOCK ? "another process has it open"
                                    : strerror(-error));
    return 3;
}

static int append(struct record_log *log, const char *path)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    int error = 0;

    while (!error && (length = getline(&line, &room, stdin)) >= 0) {
        struct iovec record = {line, (size_t)length - (length && line[length - 1] == '\n')};

        error = log_append(log, &record, 1);
    }
    free(line);
    return error ? fail(path, error) : 0;
}

static int print(const struct record_log *log)
{
    for (struct log_record record = {0}; log_next(log, &record);) {
        char *bytes = malloc(record.length + 1);

        if (!bytes)
            return 3;
        log_read(log, &record, bytes);
        printf("%llu\t", (unsigned long long)record.sequence);
        fwrite(bytes, 1, record.length, stdout);
        putchar('\n');
        free(bytes);
    }
    return fflush(stdout) || ferror(stdout) ? 3 : 0;
}

int main(int argc, char **argv)
{
    struct record_log log;
    int error, appending;

    if (argc != 3 || (strcmp(argv[1], "append") && strcmp(argv[1], "print"))) {
        fprintf(stderr, "persistent_log: expected: persistent_log append|print FILE\n");
        return 2;
    }
    appending = !strcmp(argv[1], "append");
    error = appending ? log_open(&log, argv[2], DEFAULT_BYTES) : log_open_to_read(&log, argv[2]);
    if (error)
        return fail(argv[2], error);
    if (appending)
        fprintf(stderr, "%s: %llu records, made durable by %s\n", argv[2], (unsigned long long)log.sequence,
                log.direct ? "cache maintenance" : "msync");
    error = appending ? append(&log, argv[2]) : print(&log);
    log_close(&log);
    return error;
}
