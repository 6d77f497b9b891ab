/* SPDX-License-Identifier: MIT */
/*
 * Kills a process that appends, thousands of times, and looks for every record whose append had returned.
 *
 * SIGKILL ends the process between any two instructions, so it tears records.  It does not lose what is in the page
 * cache or the CPU's caches; crash_test.cpp does that, over the modelled cache.
 */
#include "log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOG_BYTES = 128 * 1024, MOST_BYTES = 4096, MOST_AT_ONCE = 4 };

/* What the child tells the parent in memory that outlives it. */
struct progress {
    volatile uint64_t begun;        /* highest sequence number whose append has begun */
    volatile uint64_t acknowledged; /* highest whose append has returned 0 */
    volatile int failed;
};

static uint64_t state;

static uint64_t draw(void)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* A record's bytes follow from its number and length alone. */
static void fill(unsigned char *bytes, size_t n, uint64_t sequence)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(sequence * 131 + i * 7 + (i >> 8));
}

static void append_until_killed(const char *path, struct progress *progress)
{
    static unsigned char bytes[MOST_AT_ONCE][MOST_BYTES];
    struct record_log log = {0};
    int error = log_open(&log, path, LOG_BYTES);

    while (!error) {
        struct iovec records[MOST_AT_ONCE];
        size_t n = 1 + draw() % MOST_AT_ONCE;

        for (size_t i = 0; i < n; i++) {
            records[i] = (struct iovec){bytes[i], draw() % MOST_BYTES};
            fill(bytes[i], records[i].iov_len, log.sequence + i + 1);
        }
        progress->begun = log.sequence + n;
        error = log_append(&log, records, n);
        if (!error)
            progress->acknowledged = log.sequence;
    }
    if (error != -ENOSPC)
        progress->failed = error;
    for (;;)
        pause();
}

static void sleep_us(long us)
{
    struct timespec time = {0, us * 1000};

    while (nanosleep(&time, &time) && errno == EINTR)
        ;
}

/* Whole, in order, all that was acknowledged and nothing that was not begun. */
static int inspect(const char *path, const struct progress *progress, struct record_log *log)
{
    static unsigned char found[MOST_BYTES], expected[MOST_BYTES];
    uint64_t sequence = 0;
    int error = log_open(log, path, LOG_BYTES);

    if (error) {
        fprintf(stderr, "kill_test: cannot open after a kill: %s\n", strerror(-error));
        return 1;
    }
    for (struct log_record record = {0}; log_next(log, &record);) {
        if (record.sequence != ++sequence || record.length > MOST_BYTES) {
            fprintf(stderr, "kill_test: record %llu out of place\n", (unsigned long long)record.sequence);
            return 1;
        }
        log_read(log, &record, found);
        fill(expected, record.length, sequence);
        if (memcmp(found, expected, record.length)) {
            fprintf(stderr, "kill_test: record %llu is torn\n", (unsigned long long)sequence);
            return 1;
        }
    }
    if (sequence < progress->acknowledged || sequence > progress->begun) {
        fprintf(stderr, "kill_test: %llu records, acknowledged %llu, begun %llu\n", (unsigned long long)sequence,
                (unsigned long long)progress->acknowledged, (unsigned long long)progress->begun);
        return 1;
    }
    return 0;
}

/* Bytes behind the tail that are not zero: records that a kill left half written and that are not overwritten yet. */
static size_t leftover(const struct record_log *log)
{
    size_t n = 0;

    for (size_t at = log->tail; at < log->bytes; at++)
        n += log->memory[at] != 0;
    return n;
}

/* usage: kill_test DIRECTORY KILLS LONGEST_US [SEED]: each kill comes after at most LONGEST_US microseconds */
int main(int argc, char **argv)
{
    long kills = argc > 2 ? strtol(argv[2], NULL, 10) : 0, longest = argc > 3 ? strtol(argv[3], NULL, 10) : 0;
    long inside = 0, torn = 0, logs = 1, records = 0;
    size_t before_kill = 0;
    char path[4096];
    struct progress *progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (argc < 4 || argc > 5 || kills < 1 || longest < 1 || longest > 900000 || progress == MAP_FAILED) {
        fprintf(stderr, "kill_test: expected: kill_test DIRECTORY KILLS LONGEST_US [SEED], LONGEST_US up to 900000\n");
        return 2;
    }
    snprintf(path, sizeof(path), "%s/persistent_log.%ld", argv[1], (long)getpid());
    state = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
    unlink(path);
    for (long kill_number = 0; kill_number < kills; kill_number++) {
        struct record_log log = {0};
        uint64_t before = progress->begun;
        pid_t child;
        int status;

        draw();
        child = fork();
        if (child == 0)
            append_until_killed(path, progress);
        if (child < 0) {
            perror("kill_test: fork");
            return 3;
        }
        sleep_us((long)(draw() % (uint64_t)longest));
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        if (progress->failed) {
            fprintf(stderr, "kill_test: append: %s\n", strerror(-progress->failed));
            return 1;
        }
        if (inspect(path, progress, &log))
            return 1;
        inside += progress->begun > log.sequence;
        torn += progress->begun > log.sequence && leftover(&log) != before_kill;
        before_kill = leftover(&log);
        records += progress->begun > before ? (long)(progress->begun - before) : 0;
        progress->begun = progress->acknowledged = log.sequence; /* they exist from now on */
        if (log.bytes - log.tail < MOST_AT_ONCE * (MOST_BYTES + 64)) {
            unlink(path);
            logs++;
            before_kill = 0;
            progress->begun = progress->acknowledged = 0;
        }
        log_close(&log);
    }
    unlink(path);
    printf(
        "%ld kills, about %ld records in %ld logs; %ld kills fell into an append, at least %ld of them left part of a record\n",
        kills, records, logs, inside, torn);
    return 0;
}
