/* SPDX-License-Identifier: MIT */
/* The process seen from inside without a libc: an auditing library that needs none costs the program no second one. */
#ifndef LINEWRIGHT_AUDIT_SELF_H
#define LINEWRIGHT_AUDIT_SELF_H

#include <stddef.h>
#include <stdint.h>

/* What the kernel handed over at exec. */
struct lw_start {
    char *const *environment;
    uint64_t hwcap;
    uint64_t vdso;               /* where the kernel's own object begins; 0: there is none */
    const void *program_headers; /* of the program itself */
    uint64_t program_header_count;
    const char *program; /* its file name, without folders */
    int secure; /* set-user-id and the like: the environment is not to be trusted */
};

/* `environment` as a constructor gets it: the auxiliary vector follows its NULL. */
void lw_start_read(char *const *environment, struct lw_start *start);

/* The value of `name`, or NULL. */
const char *lw_start_get(const struct lw_start *start, const char *name);

/* System calls; each returns what the kernel returns, -errno for an error. */
long lw_open(const char *path, int flags);
long lw_read(long fd, void *to, size_t size);
long lw_pread(long fd, void *to, size_t size, uint64_t at);
long lw_pwrite(long fd, const void *from, size_t size, uint64_t at);
void lw_close(long fd);
long lw_membarrier(int command);
uint64_t lw_now_ns(void); /* monotonic */

/* Memory of this process through its memory file `fd`: an address that is not mapped is an error and no fault. 1: all of
 * it was read. */
int lw_read_memory(long fd, uint64_t from, void *to, size_t size);

/* A file read by lines, through a buffer of its own; lines longer than `line` are cut. */
struct lw_lines {
    long fd;
    size_t have, at;
    char buffer[4096];
    char line[512];
};
int lw_lines_open(struct lw_lines *lines, const char *path); /* 0 or -errno */
int lw_lines_next(struct lw_lines *lines);                   /* 1 while there is a line, NUL-terminated in `line` */
void lw_lines_close(struct lw_lines *lines);

/* One line to standard error in one write, from pieces: a text ends at NULL. */
struct lw_say {
    size_t used;
    char line[640];
};
/* Begins a line that names this process and `program`. */
void lw_say_begin(struct lw_say *say, const char *program);
void lw_say_text(struct lw_say *say, const char *text);
void lw_say_number(struct lw_say *say, uint64_t number);
void lw_say_hex(struct lw_say *say, uint64_t number);
void lw_say_end(struct lw_say *say);

/* lw_say_text() of each argument and the end of the line. */
void lw_say_line(const char *first, ...) __attribute__((sentinel));

/* strtoul() for the kernel's own files: no sign, no space, no prefix. */
uint64_t lw_parse(const char **at, unsigned base);

#endif
