/* SPDX-License-Identifier: MIT */
/* System calls, lines in and lines out, and the few memory functions that the compiler and the policy parser call. */
#include "self.h"

#include "../../common/printable.h"

#include <elf.h>
#include <linux/fcntl.h>
#include <linux/time.h>
#include <stdarg.h>
#include <sys/syscall.h>

static long call(long number, long a, long b, long c, long d)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;

    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory", "cc");
    return x0;
}

long lw_open(const char *path, int flags)
{
    return call(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0);
}

long lw_read(long fd, void *to, size_t size)
{
    return call(SYS_read, fd, (long)to, (long)size, 0);
}

long lw_pread(long fd, void *to, size_t size, uint64_t at)
{
    return call(SYS_pread64, fd, (long)to, (long)size, (long)at);
}

long lw_pwrite(long fd, const void *from, size_t size, uint64_t at)
{
    return call(SYS_pwrite64, fd, (long)from, (long)size, (long)at);
}

void lw_close(long fd)
{
    call(SYS_close, fd, 0, 0, 0);
}

long lw_membarrier(int command)
{
    return call(SYS_membarrier, command, 0, 0, 0);
}

int lw_read_memory(long fd, uint64_t from, void *to, size_t size)
{
    return lw_pread(fd, to, size, from) == (long)size;
}

uint64_t lw_now_ns(void)
{
    struct __kernel_timespec now = {0, 0};

    call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Volatile: else the compiler would see memcpy and memset in these loops and have them call themselves. */
void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
    volatile char *t = to;
    const char *f = from;

    while (size--)
        *t++ = *f++;
    return to;
}

void *memset(void *to, int value, size_t size);
void *memset(void *to, int value, size_t size)
{
    volatile char *t = to;

    while (size--)
        *t++ = (char)value;
    return to;
}

int memcmp(const void *a, const void *b, size_t size);
int memcmp(const void *a, const void *b, size_t size)
{
    const unsigned char *x = a, *y = b;

    for (; size; size--, x++, y++)
        if (*x != *y)
            return *x < *y ? -1 : 1;
    return 0;
}

void *memchr(const void *where, int what, size_t size);
void *memchr(const void *where, int what, size_t size)
{
    for (const char *at = where; size; size--, at++)
        if (*at == (char)what)
            return (void *)(uintptr_t)at;
    return NULL;
}

size_t strlen(const char *text);
size_t strlen(const char *text)
{
    const volatile char *end = text;

    while (*end)
        end++;
    return (size_t)(end - text);
}

int strcmp(const char *a, const char *b);
int strcmp(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return (unsigned char)*a - (unsigned char)*b;
}

static int any_of(char c, const char *set)
{
    while (*set)
        if (c == *set++)
            return 1;
    return 0;
}

size_t strcspn(const char *text, const char *stop);
size_t strcspn(const char *text, const char *stop)
{
    size_t length = 0;

    while (text[length] && !any_of(text[length], stop))
        length++;
    return length;
}

static const char *without_folders(const char *path)
{
    const char *name = path;

    for (; *path; path++)
        if (*path == '/')
            name = path + 1;
    return name;
}

void lw_start_read(char *const *environment, struct lw_start *start)
{
    const Elf64_auxv_t *entry;

    start->environment = environment;
    start->hwcap = start->vdso = start->program_header_count = 0;
    start->program_headers = NULL;
    start->program = "?";
    start->secure = 0;
    while (*environment)
        environment++;
    for (entry = (const void *)(environment + 1); entry->a_type != AT_NULL; entry++) {
        if (entry->a_type == AT_HWCAP)
            start->hwcap = entry->a_un.a_val;
        if (entry->a_type == AT_SECURE)
            start->secure = entry->a_un.a_val != 0;
        if (entry->a_type == AT_SYSINFO_EHDR)
            start->vdso = entry->a_un.a_val;
        if (entry->a_type == AT_PHDR)
            start->program_headers = (const void *)entry->a_un.a_val;
        if (entry->a_type == AT_PHNUM)
            start->program_header_count = entry->a_un.a_val;
        if (entry->a_type == AT_EXECFN)
            start->program = without_folders((const char *)entry->a_un.a_val);
    }
}

const char *lw_start_get(const struct lw_start *start, const char *name)
{
    for (char *const *at = start->environment; *at; at++) {
        size_t length = strlen(name);

        if (strcspn(*at, "=") == length && (*at)[length] == '=' && memcmp(*at, name, length) == 0)
            return *at + length + 1;
    }
    return NULL;
}

int lw_lines_open(struct lw_lines *lines, const char *path)
{
    lines->fd = lw_open(path, O_RDONLY);
    lines->have = lines->at = 0;
    return lines->fd < 0 ? (int)lines->fd : 0;
}

int lw_lines_next(struct lw_lines *lines)
{
    size_t length = 0;

    for (;;) {
        if (lines->at == lines->have) {
            long got = lw_read(lines->fd, lines->buffer, sizeof(lines->buffer));

            if (got <= 0)
                return 0;
            lines->have = (size_t)got;
            lines->at = 0;
        }
        if (lines->buffer[lines->at] == '\n')
            break;
        if (length < sizeof(lines->line) - 1)
            lines->line[length++] = lines->buffer[lines->at];
        lines->at++;
    }
    lines->at++;
    lines->line[length] = '\0';
    return 1;
}

void lw_lines_close(struct lw_lines *lines)
{
    lw_close(lines->fd);
}

void lw_say_text(struct lw_say *say, const char *text)
{
    for (; *text && say->used < sizeof(say->line) - 1; text++)
        say->line[say->used++] = lw_printable(*text);
}

static void say_in_base(struct lw_say *say, uint64_t number, unsigned base)
{
    char digits[24];
    char *at = digits + sizeof(digits);

    *--at = '\0';
    do {
        *--at = "0123456789abcdef"[number % base];
        number /= base;
    } while (number);
    lw_say_text(say, at);
}

void lw_say_begin(struct lw_say *say, const char *program)
{
    say->used = 0;
    lw_say_text(say, "linewright: audit[");
    say_in_base(say, (uint64_t)call(SYS_getpid, 0, 0, 0, 0), 10);
    lw_say_text(say, " ");
    lw_say_text(say, program);
    lw_say_text(say, "]: ");
}

void lw_say_number(struct lw_say *say, uint64_t number)
{
    say_in_base(say, number, 10);
}

void lw_say_hex(struct lw_say *say, uint64_t number)
{
    lw_say_text(say, "0x");
    say_in_base(say, number, 16);
}

void lw_say_end(struct lw_say *say)
{
    say->line[say->used++] = '\n';
    call(SYS_write, 2, (long)say->line, (long)say->used, 0);
}

void lw_say_line(const char *first, ...)
{
    struct lw_say say = {.used = 0};
    va_list rest;

    va_start(rest, first);
    for (const char *text = first; text; text = va_arg(rest, const char *))
        lw_say_text(&say, text);
    va_end(rest);
    lw_say_end(&say);
}

uint64_t lw_parse(const char **at, unsigned base)
{
    uint64_t value = 0;

    for (;; ++*at) {
        unsigned char c = (unsigned char)**at;
        unsigned digit = c >= '0' && c <= '9' ? c - 0u - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10u : 99;

        if (digit >= base)
            return value;
        value = value * base + digit;
    }
}
