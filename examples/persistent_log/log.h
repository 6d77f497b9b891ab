/* SPDX-License-Identifier: MIT */
/* A log in a memory-mapped file: an append that returned 0 survives kill and power failure, and no record is ever torn. */
#ifndef PERSISTENT_LOG_H
#define PERSISTENT_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * How it stays whole.  A record carries its length, its sequence number, its epoch and a checksum over all of these and
 * its bytes.  Reading ends at the first record that does not check out, so what was half written does not exist.  An
 * append returns only when its record is durable, and records become durable in order, so what was acknowledged exists.
 *
 * The epoch is why a later append cannot bring back a dead record.  Several records may be appended at once, with one
 * wait; after a failure the second may be whole while the first is torn.  Were the first then written anew, the second
 * would follow it again, though no process has appended it since.  So every opening takes a new, larger epoch, made
 * durable before the first append, and a record of a smaller epoch than its predecessor's ends the log too.
 *
 * An epoch must never be forgotten: taken again, it would bring back what this rule has buried.  It stands in two slots,
 * written in turn, and a log with a damaged slot, or with a record of an epoch that no slot knows, is refused.
 *
 * One process appends at a time: log_open() locks the file (flock), which the kernel undoes when the process ends.  Several
 * may read.  One thread at a time.  Numbers are in the machine's byte order: the file is not for exchange.
 */
struct record_log {
    unsigned char *memory;
    size_t bytes;     /* of the whole file */
    size_t tail;      /* where the next record goes */
    uint64_t sequence; /* of the last record; the first is 1 */
    uint64_t epoch;
    bool direct; /* persistent memory: cache maintenance makes it durable; otherwise msync() */
    bool mapped;
    int fd; /* holds the lock; of log_open() only */
    int error; /* of a write-back that failed: no more appends until the log is opened again */
};

struct log_record {
    uint64_t sequence;
    size_t position; /* of its bytes, from the beginning of the memory */
    size_t length;
};

enum { LOG_FIRST = 4096, LOG_MINIMUM = 8192 };

/*
 * Open to append, or create with `bytes` (at least LOG_MINIMUM; ignored if it exists); a new log is made under `path`.new
 * and renamed when it is whole.  0, or -errno: -EBADMSG: not a log, damaged, or of another size; -EWOULDBLOCK: another
 * process has it open.
 */
int log_open(struct record_log *log, const char *path, size_t bytes);
/* Open to read: nothing is written, log_append() answers -EROFS.  Same errors; -ENOENT: there is none. */
int log_open_to_read(struct record_log *log, const char *path);
/* As log_open() over memory that is already there, zeros for a new log; `direct` says how it is made durable. */
int log_attach(struct record_log *log, void *memory, size_t bytes, bool direct);
/*
 * Append each piece as one record, made durable with one wait for every 64. 0; -ENOSPC: nothing was appended. Another
 * -errno: the medium refused; the last of them may or may not be there, and every append is refused until the next opening.
 */
int log_append(struct record_log *log, const struct iovec *records, size_t n);
/* Step through: begin with a zeroed record; false at the end. */
bool log_next(const struct record_log *log, struct log_record *record);
/* Copy a record's bytes out. */
void log_read(const struct record_log *log, const struct log_record *record, void *to);
/* What log_open() or log_open_to_read() has opened. */
void log_close(struct record_log *log);

#ifdef __cplusplus
}
#endif

#endif
