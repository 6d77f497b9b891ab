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
#include <stdlib.h>
#include <string.h>
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

/* Is there a record at `position` that may follow the one before it? */
static bool valid(const struct record_log *log, size_t position, uint64_t sequence, uint64_t least_epoch,
                  struct header *header)
{
    unsigned char buffer[256];
    size_t left, at = position + sizeof(*header);
    uint32_t check;

    if (position + sizeof(*header) > log->bytes)
        return false;
    get(log, position, header, sizeof(*header));
    if (header->sequence != sequence || header->epoch < least_epoch || header->epoch > log->epoch)
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

/*
 * The newer whole slot, or epoch 0 if this memory has never been a log.  The first slot ever written is the second one, so
 * before any is whole only that one may be torn.  A log whose file has been cut or extended is refused: with its slots
 * not believed it would seem empty, and be overwritten.
 */
static int read_slots(struct record_log *log)
{
    bool empty = true;

    log->epoch = 0;
    for (int i = 0; i < 2; i++) {
        struct slot slot;

        get(log, (size_t)i * SLOT_BYTES, &slot, sizeof(slot));
        empty &= slot.magic == 0 || (slot.magic == LOG_MAGIC && i == 1);
        if (slot.magic != LOG_MAGIC || slot.check != check_of_slot(&slot))
            continue;
        if (slot.bytes != log->bytes)
            return -EBADMSG;
        if (slot.epoch > log->epoch)
            log->epoch = slot.epoch;
    }
    return log->epoch || empty ? 0 : -EBADMSG;
}

static void find_tail(struct record_log *log)
{
    struct header header;
    uint64_t epoch = 0;

    log->tail = LOG_FIRST;
    log->sequence = 0;
    while (log->tail < log->bytes && valid(log, log->tail, log->sequence + 1, epoch, &header)) {
        log->tail += footprint(header.length);
        log->sequence++;
        epoch = header.epoch;
    }
}

int log_attach(struct record_log *log, void *memory, size_t bytes, bool direct)
{
    struct slot slot = {.magic = LOG_MAGIC, .bytes = bytes};
    int error;

    log->memory = memory;
    log->bytes = bytes;
    log->direct = direct;
    log->error = 0;
    if (bytes < LOG_MINIMUM || bytes % ALIGNMENT)
        return -EINVAL;
    error = read_slots(log);
    if (error)
        return error;
    find_tail(log);
    /* A record may be whole here and yet not durable: no append has returned for it, but the records behind it depend on it. */
    error = make_range_durable(log, 0, log->tail);
    if (error)
        return error;
    slot.epoch = ++log->epoch;
    slot.check = check_of_slot(&slot);
    put(log, slot.epoch % 2 * SLOT_BYTES, &slot, sizeof(slot));
    return make_range_durable(log, slot.epoch % 2 * SLOT_BYTES, sizeof(slot));
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
        if (records[i].iov_len > UINT32_MAX)
            return -EINVAL;
        if (footprint(records[i].iov_len) > room)
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

static int size_file(int fd, const char *path, size_t *bytes)
{
    struct stat status;
    int error;

    if (fstat(fd, &status))
        return -errno;
    if (status.st_size) {
        *bytes = (size_t)status.st_size;
        return *bytes < LOG_MINIMUM || *bytes % ALIGNMENT ? -EBADMSG : 0;
    }
    error = posix_fallocate(fd, 0, (off_t)*bytes); /* now, not as SIGBUS later */
    if (error)
        return -error;
    return fsync(fd) ? -errno : sync_directory(path);
}

static bool persists(void)
{
    struct lw_cache_description description;

    lw_cache_describe(&description);
    return strcmp(description.persist, "none") != 0;
}

int log_open(struct record_log *log, const char *path, size_t bytes)
{
    int fd, error;
    bool direct = false;
    void *memory = MAP_FAILED;

    if (bytes < LOG_MINIMUM || bytes % ALIGNMENT)
        return -EINVAL;
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    error = size_file(fd, path, &bytes);
    if (error) {
        close(fd);
        return error;
    }
#if defined(MAP_SYNC) && defined(MAP_SHARED_VALIDATE)
    /* Granted only where stores reach the medium without the kernel's help. */
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);
    direct = memory != MAP_FAILED && persists();
#endif
    if (memory == MAP_FAILED)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    error = memory == MAP_FAILED ? -errno : 0;
    close(fd);
    if (error)
        return error;
    log->mapped = true;
    error = log_attach(log, memory, bytes, direct);
    if (error)
        log_close(log);
    return error;
}

void log_close(struct record_log *log)
{
    if (log->mapped)
        munmap(log->memory, log->bytes);
    log->mapped = false;
    log->memory = NULL;
}
