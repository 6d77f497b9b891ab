/* SPDX-License-Identifier: MIT */
/* The log itself: layout, recovery, append. Every store to the file and every load from it goes through put() and get(). */
#define _GNU_SOURCE /* MAP_SYNC */
#include "log.h"

#include <linewright/cache.h>
#ifdef LW_CACHE_MODEL /* crash_test: the memory is modelled */
#include <cache_model/cache_model.h>
#else
#define lw_model_store(to, from, n) memcpy(to, from, n)
#define lw_model_load(from, to, n) memcpy(to, from, n)
#endif

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_MAGIC UINT64_C(0x31676f6c74637765)

enum { SLOT_BYTES = 2048, ALIGNMENT = 16, GROUP = 64 };

/* Two of these, written in turn: one is whole whatever happens to the other. */
struct slot {
    uint64_t magic;
    uint64_t epoch;
    uint64_t bytes;
    uint64_t check;
};

struct header {
    uint32_t length;
    uint32_t check;
    uint64_t sequence;
    uint64_t epoch;
    uint64_t unused;
};

/* Copies that the modelled cache sees when built for it; plain ones otherwise. */
static void put(const struct record_log *log, size_t position, const void *from, size_t n)
{
    lw_model_store(log->memory + position, from, n);
}

static void get(const struct record_log *log, size_t position, void *to, size_t n)
{
    lw_model_load(log->memory + position, to, n);
}

/* CRC-32C (Castagnoli polynomial, reflected), a byte at a time. */
static uint32_t crc32c(uint32_t crc, const void *data, size_t n)
{
    static uint32_t table[256];
    const unsigned char *at = data;

    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t value = i;

            for (int bit = 0; bit < 8; bit++)
                value = value >> 1 ^ (value & 1 ? UINT32_C(0x82f63b78) : 0);
            table[i] = value;
        }
    crc = ~crc;
    while (n--)
        crc = crc >> 8 ^ table[(crc ^ *at++) & 0xff];
    return ~crc;
}

static uint32_t check_of_header(const struct header *header)
{
    struct header copy = *header;

    copy.check = 0;
    return crc32c(0, &copy, sizeof(copy));
}

static uint64_t check_of_slot(const struct slot *slot)
{
    return crc32c(0, slot, offsetof(struct slot, check)) + UINT64_C(1); /* never 0: a slot of zeros is not valid */
}

static size_t footprint(size_t length)
{
    return (sizeof(struct header) + length + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

/* Returns when the pieces would survive a power failure: one wait for all of them. */
static int make_durable(const struct record_log *log, const struct iovec *pieces, size_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

    if (log->direct)
        return lw_cache_list(pieces, n, LW_CACHE_PERSIST);
    if (!log->mapped)
        return 0;
    for (size_t i = 0; i < n; i++) {
        uintptr_t begin = (uintptr_t)pieces[i].iov_base & ~(page - 1);

        if (msync((void *)begin, (uintptr_t)pieces[i].iov_base + pieces[i].iov_len - begin, MS_SYNC))
            return -errno;
    }
    return 0;
}

static int make_range_durable(const struct record_log *log, size_t position, size_t n)
{
    struct iovec piece = {log->memory + position, n};

    return make_durable(log, &piece, 1);
}

/* Is there a whole record of this number at `position`? */
static bool whole(const struct record_log *log, size_t position, uint64_t sequence, struct header *header)
{
    unsigned char buffer[256];
    size_t left, at = position + sizeof(*header);
    uint32_t check;

    if (position + sizeof(*header) > log->bytes)
        return false;
    get(log, position, header, sizeof(*header));
    if (header->sequence != sequence)
        return false;
    if (header->length > log->bytes - at)
        return false;
    check = check_of_header(header);
    for (left = header->length; left;) {
        size_t n = left < sizeof(buffer) ? left : sizeof(buffer);

        get(log, at, buffer, n);
        check = crc32c(check, buffer, n);
        at += n;
        left -= n;
    }
    return check == header->check;
}

bool log_next(const struct record_log *log, struct log_record *record)
{
    size_t position = record->position ? record->position - sizeof(struct header) + footprint(record->length) : LOG_FIRST;
    struct header header;

    if (position >= log->tail)
        return false;
    get(log, position, &header, sizeof(header));
    *record = (struct log_record){header.sequence, position + sizeof(header), header.length};
    return true;
}

void log_read(const struct record_log *log, const struct log_record *record, void *to)
{
    get(log, record->position, to, record->length);
}

static bool all_zero(const struct record_log *log, size_t position, size_t n)
{
    unsigned char buffer[64];

    for (size_t at = 0; at < n; at += sizeof(buffer)) {
        get(log, position + at, buffer, sizeof(buffer));
        for (size_t i = 0; i < sizeof(buffer); i++)
            if (buffer[i])
                return false;
    }
    return true;
}

/*
 * The newer slot's epoch, or 0 if this memory has never been a log.  A slot is written between two durable changes of its
 * magic number, to 0 and back (write_slot()), so one without it was being written when the power failed, and no record has
 * its epoch.  One that has it and does not check out is damaged, and so is a log without any slot: both are refused, because
 * an epoch that is forgotten would be taken again, and its dead records come back.
 */
static int read_slots(struct record_log *log)
{
    log->epoch = 0;
    for (int i = 0; i < 2; i++) {
        struct slot slot;

        get(log, (size_t)i * SLOT_BYTES, &slot, sizeof(slot));
        if (slot.magic == 0)
            continue;
        if (slot.magic != LOG_MAGIC || slot.check != check_of_slot(&slot) || slot.bytes != log->bytes)
            return -EBADMSG;
        if (slot.epoch > log->epoch)
            log->epoch = slot.epoch;
    }
    return log->epoch || all_zero(log, LOG_FIRST, GROUP) ? 0 : -EBADMSG;
}

static int write_slot(struct record_log *log, uint64_t epoch)
{
    struct slot slot = {.magic = LOG_MAGIC, .epoch = epoch, .bytes = log->bytes};
    size_t position = epoch % 2 * SLOT_BYTES;
    const uint64_t none = 0;
    int error;

    slot.check = check_of_slot(&slot);
    put(log, position, &none, sizeof(none));
    error = make_range_durable(log, position, sizeof(slot));
    if (error)
        return error;
    put(log, position + sizeof(slot.magic), &slot.epoch, sizeof(slot) - sizeof(slot.magic));
    error = make_range_durable(log, position, sizeof(slot));
    if (error)
        return error;
    put(log, position, &slot.magic, sizeof(slot.magic));
    return make_range_durable(log, position, sizeof(slot));
}

/* -EBADMSG: a record has an epoch that no slot knows, so a slot was lost whole. */
static int find_tail(struct record_log *log)
{
    struct header header;
    uint64_t epoch = 0;

    log->tail = LOG_FIRST;
    log->sequence = 0;
    while (log->tail < log->bytes && whole(log, log->tail, log->sequence + 1, &header) && header.epoch >= epoch) {
        if (header.epoch > log->epoch)
            return -EBADMSG;
        log->tail += footprint(header.length);
        log->sequence++;
        epoch = header.epoch;
    }
    return 0;
}

/* What is in the log; writes nothing. */
static int read_log(struct record_log *log, void *memory, size_t bytes, bool direct)
{
    int error;

    log->memory = memory;
    log->bytes = bytes;
    log->direct = direct;
    log->error = 0;
    if (bytes < LOG_MINIMUM || bytes % ALIGNMENT)
        return -EINVAL;
    error = read_slots(log);
    return error ? error : find_tail(log);
}

int log_attach(struct record_log *log, void *memory, size_t bytes, bool direct)
{
    int error = read_log(log, memory, bytes, direct);

    if (error)
        return error;
    /* A record may be whole here and yet not durable: no append has returned for it, but the records behind it depend on
     * it. */
    error = make_range_durable(log, 0, log->tail);
    return error ? error : write_slot(log, ++log->epoch);
}

static int append_group(struct record_log *log, const struct iovec *records, size_t n)
{
    struct iovec written[GROUP];
    size_t tail = log->tail;
    int error;

    for (size_t i = 0; i < n; i++) {
        struct header header = {(uint32_t)records[i].iov_len, 0, log->sequence + i + 1, log->epoch, 0};

        header.check = crc32c(check_of_header(&header), records[i].iov_base, records[i].iov_len);
        put(log, tail + sizeof(header), records[i].iov_base, records[i].iov_len);
        put(log, tail, &header, sizeof(header));
        written[i] = (struct iovec){log->memory + tail, sizeof(header) + records[i].iov_len};
        tail += footprint(records[i].iov_len);
    }
    error = make_durable(log, written, n);
    if (error) {
        /* These records may be whole or not; written over now, in the same epoch, the later ones could come back. */
        log->error = error;
        return error;
    }
    log->tail = tail;
    log->sequence += n;
    return 0;
}

int log_append(struct record_log *log, const struct iovec *records, size_t n)
{
    size_t room = log->bytes - log->tail;

    if (log->error)
        return log->error;
    for (size_t i = 0; i < n; i++) {
        /* The length alone first: with its header, rounded up, a large one would not fit a 32-bit size. */
        if (records[i].iov_len > room || footprint(records[i].iov_len) > room)
            return -ENOSPC;
        room -= footprint(records[i].iov_len);
    }
    for (size_t done = 0; done < n; done += GROUP) {
        int error = append_group(log, records + done, n - done < GROUP ? n - done : GROUP);

        if (error)
            return error;
    }
    return 0;
}

/* The name of a new file must survive too. */
static int sync_directory(const char *path)
{
    char *copy = strdup(path), *slash = copy ? strrchr(copy, '/') : NULL;
    int fd, error = 0;

    if (!copy)
        return -ENOMEM;
    if (slash)
        slash[slash == copy] = '\0';
    fd = open(slash ? copy : ".", O_RDONLY | O_DIRECTORY);
    if (fd < 0 || fsync(fd))
        error = -errno;
    if (fd >= 0)
        close(fd);
    free(copy);
    return error;
}

static bool persists(void)
{
    struct lw_cache_description description;

    lw_cache_describe(&description);
    return strcmp(description.persist, "none") != 0;
}

static int map_file(struct record_log *log, size_t bytes, int protection)
{
    void *memory = MAP_FAILED;

    log->direct = false;
#if defined(MAP_SYNC) && defined(MAP_SHARED_VALIDATE)
    /* Granted only where stores reach the medium without the kernel's help. */
    memory = mmap(NULL, bytes, protection, MAP_SHARED_VALIDATE | MAP_SYNC, log->fd, 0);
    log->direct = memory != MAP_FAILED && persists();
#endif
    if (memory == MAP_FAILED)
        memory = mmap(NULL, bytes, protection, MAP_SHARED, log->fd, 0);
    if (memory == MAP_FAILED)
        return -errno;
    log->memory = memory;
    log->bytes = bytes;
    log->mapped = true;
    return 0;
}

/* The lock belongs to the open file: it ends with log_close(), or with the process. */
static int open_locked(struct record_log *log, const char *path, int flags, int lock)
{
    log->fd = open(path, flags | O_CLOEXEC, 0644);
    if (log->fd < 0)
        return -errno;
    return flock(log->fd, lock | LOCK_NB) ? -errno : 0;
}

/* An existing log. */
static int open_existing(struct record_log *log, const char *path, bool to_append)
{
    struct stat status;
    int error = open_locked(log, path, to_append ? O_RDWR : O_RDONLY, to_append ? LOCK_EX : LOCK_SH);

    if (error)
        return error;
    if (fstat(log->fd, &status))
        return -errno;
    if (status.st_size < LOG_MINIMUM || status.st_size % ALIGNMENT || (uint64_t)status.st_size > SIZE_MAX / 2)
        return -EBADMSG;
    error = map_file(log, (size_t)status.st_size, to_append ? PROT_READ | PROT_WRITE : PROT_READ);
    if (error)
        return error;
    error = read_log(log, log->memory, log->bytes, log->direct);
    if (!error && !log->epoch) /* a file gets its name with its first epoch: this one has lost both slots */
        error = -EBADMSG;
    if (!error && to_append)
        error = log_attach(log, log->memory, log->bytes, log->direct);
    if (!error && !to_append)
        log->error = -EROFS;
    return error;
}

/* The lock is held, so a file that still has the name stays under it: an empty one, or what a creation left that did not
 * end. */
static void remove_if_named(int fd, const char *path)
{
    struct stat ours, named;

    if (!fstat(fd, &ours) && !stat(path, &named) && ours.st_ino == named.st_ino && ours.st_dev == named.st_dev)
        unlink(path);
}

/* A new log under another name, which it keeps until it is whole: a kill or a power failure leaves no part of a log. */
static int create(struct record_log *log, const char *path, size_t bytes)
{
    char new_path[PATH_MAX];
    int error;

    if (snprintf(new_path, sizeof(new_path), "%s.new", path) >= (int)sizeof(new_path))
        return -ENAMETOOLONG;
    error = open_locked(log, new_path, O_RDWR | O_CREAT, LOCK_EX);
    if (error)
        return error;
    if (!access(path, F_OK)) { /* another process was faster, and this may be its file, which has its final name now */
        remove_if_named(log->fd, new_path);
        return -EAGAIN;
    }
    if (ftruncate(log->fd, 0)) /* what a creation left that did not end */
        return -errno;
    error = posix_fallocate(log->fd, 0, (off_t)bytes); /* now, not as SIGBUS later */
    if (error)
        return -error;
    error = map_file(log, bytes, PROT_READ | PROT_WRITE);
    if (!error)
        error = log_attach(log, log->memory, bytes, log->direct);
    if (error)
        return error;
    if (fsync(log->fd) || rename(new_path, path))
        return -errno;
    return sync_directory(path);
}

int log_open(struct record_log *log, const char *path, size_t bytes)
{
    int error;

    if (bytes < LOG_MINIMUM || bytes % ALIGNMENT || bytes > SIZE_MAX / 2)
        return -EINVAL;
    *log = (struct record_log){.fd = -1};
    error = open_existing(log, path, true);
    if (error == -ENOENT) {
        error = create(log, path, bytes);
        if (error == -EAGAIN) {
            log_close(log);
            error = open_existing(log, path, true);
        }
    }
    if (error)
        log_close(log);
    return error;
}

int log_open_to_read(struct record_log *log, const char *path)
{
    int error;

    *log = (struct record_log){.fd = -1};
    error = open_existing(log, path, false);
    if (error)
        log_close(log);
    return error;
}

void log_close(struct record_log *log)
{
    if (log->mapped)
        munmap(log->memory, log->bytes);
    if (log->fd >= 0)
        close(log->fd);
    log->mapped = false;
    log->memory = NULL;
    log->fd = -1;
}
