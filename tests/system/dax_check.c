/* SPDX-License-Identifier: MIT */
/* On a DAX file system a log is made durable by cache maintenance, and what MAP_SYNC promises is granted. */
#define _GNU_SOURCE
#include "log.h"

#include <linewright/cache.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int wrong(const char *what) {
    printf("dax_check: %s\n", what);
    return 1;
}

/* usage: dax_check DIRECTORY */
int main(int argc, char **argv) {
    struct lw_cache_description description;
    struct iovec record = {(void *)(uintptr_t)"durable", 7};
    struct record_log log;
    char path[4096], found[7];

    if (argc != 2)
        return 2;
    lw_cache_describe(&description);
    snprintf(path, sizeof(path), "%s/log", argv[1]);
    for (unsigned round = 1; round <= 3; round++) {
        struct log_record at = {0};

        if (log_open(&log, path, 1 << 20))
            return wrong("the log cannot be opened");
        if (!log.direct)
            return wrong("MAP_SYNC was refused: this is no DAX file system");
        if (log_append(&log, &record, 1) || log.sequence != round)
            return wrong("an append failed, or a record is missing");
        while (log_next(&log, &at)) {
            log_read(&log, &at, found);
            if (at.length != 7 || memcmp(found, "durable", 7))
                return wrong("a record is not what was appended");
        }
        log_close(&log);
    }
    printf("3 records made durable by %s, in a file mapped with MAP_SYNC\n", description.persist);
    return 0;
}
