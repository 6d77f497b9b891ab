/* SPDX-License-Identifier: MIT */
/*
 * Runs in a small kernel of ours: looks at the code that really stands in memory, and loads modules.
 *
 *   small_guest text FILE     compares the running kernel's code with lines "ADDRESS BYTES" (hexadecimal); says how many agree
 *   small_guest show FILE     prints the code at the addresses of such lines, in the same form
 *   small_guest module FILE [PARAMETERS]   loads a module; one that says EAGAIN at the end of its tests has run
 *   small_guest unload NAME   unloads a module; a test that runs until then says how it ended
 *   small_guest write FILE TEXT   writes to a file of /proc or /sys
 *   small_guest read FILE         prints the first line of such a file
 *   small_guest sleep SECONDS
 *   small_guest map PAGES DIRECTION   runs the kernel's map_benchmark for a second: 1 to the device, 2 from it
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __SIZEOF_POINTER__ == 8
typedef Elf64_Ehdr file_header;
typedef Elf64_Phdr segment;
#else
typedef Elf32_Ehdr file_header;
typedef Elf32_Phdr segment;
#endif

#define LONGEST 64
#define SHOWN 5

static int wrong(const char *what) {
    printf("small_guest: %s: %s\n", what, strerror(errno));
    return 1;
}

/* Bytes of the kernel's memory, through the segments of its core file. */
static int read_kernel(int core, unsigned long address, unsigned char *bytes, size_t count) {
    file_header head;
    segment part;

    if (pread(core, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
        return -1;
    for (int i = 0; i < head.e_phnum; i++) {
        off_t at = (off_t)(head.e_phoff + (unsigned)i * sizeof(part));

        if (pread(core, &part, sizeof(part), at) != (ssize_t)sizeof(part))
            return -1;
        if (part.p_type == PT_LOAD && address >= part.p_vaddr && address - part.p_vaddr + count <= part.p_memsz)
            return pread(core, bytes, count, (off_t)(part.p_offset + (address - part.p_vaddr))) == (ssize_t)count ? 0 : -1;
    }
    errno = ENXIO;
    return -1;
}

static size_t from_hexadecimal(const char *text, unsigned char *bytes) {
    size_t count = 0;

    for (unsigned byte; count < LONGEST && sscanf(text + 2 * count, "%2x", &byte) == 1; count++)
        bytes[count] = (unsigned char)byte;
    return count;
}

static void print_line(const char *head, unsigned long address, const unsigned char *bytes, size_t count) {
    printf("%s%lx ", head, address);
    for (size_t i = 0; i < count; i++)
        printf("%02x", bytes[i]);
    printf("\n");
}

/* Every line of the list: printed, or compared. */
static int over_code(const char *path, int compare) {
    char hexadecimal[2 * LONGEST + 1];
    unsigned char expected[LONGEST], found[LONGEST];
    unsigned long address;
    unsigned same = 0, different = 0;
    int core = open("/proc/kcore", O_RDONLY | O_CLOEXEC);
    FILE *list = fopen(path, "re");

    if (core < 0 || !list)
        return wrong(core < 0 ? "/proc/kcore" : path);
    while (fscanf(list, "%lx %128s", &address, hexadecimal) == 2) {
        size_t count = from_hexadecimal(hexadecimal, expected);

        if (read_kernel(core, address, found, count))
            return wrong("reading the kernel's code");
        if (!compare) {
            print_line("", address, found, count);
        } else if (memcmp(expected, found, count) == 0) {
            same++;
        } else if (different++ < SHOWN) {
            print_line("expected ", address, expected, count);
            print_line("found    ", address, found, count);
        }
    }
    fclose(list);
    close(core);
    if (compare)
        printf("text same=%u different=%u\n", same, different);
    return compare && (different || !same);
}

static int load(const char *path, const char *parameters) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return wrong(path);
    if (syscall(SYS_finit_module, fd, parameters, 0) && errno != EAGAIN)
        return wrong("loading the module");
    printf("module loaded or run\n");
    return 0;
}

static int write_to(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    return fd < 0 || write(fd, text, strlen(text)) < 0 ? wrong(path) : 0;
}

static int read_from(const char *path) {
    char line[256];
    FILE *file = fopen(path, "re");

    if (!file || !fgets(line, sizeof(line), file))
        return wrong(path);
    fclose(file);
    printf("%s", line);
    return 0;
}

/* What map_benchmark is asked and answers, by its ioctl (the kernel exports no header of it). */
struct map_benchmark {
    unsigned long long map_100ns, map_deviation, unmap_100ns, unmap_deviation;
    unsigned threads, seconds;
    int node;
    unsigned dma_bits, direction, device_ns, pages;
    unsigned char later[76];
};

static int map(int pages, int direction) {
    struct map_benchmark asked = {
        .threads = 1, .seconds = 1, .node = -1, .dma_bits = 64, .direction = (unsigned)direction, .pages = (unsigned)pages};
    int fd;

    if (mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL) && errno != EBUSY)
        return wrong("debugfs");
    fd = open("/sys/kernel/debug/dma_map_benchmark", O_RDWR | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, _IOWR('d', 1, struct map_benchmark), &asked))
        return wrong("map_benchmark");
    printf("map %llu, unmap %llu hundreds\n", asked.map_100ns, asked.unmap_100ns);
    return 0;
}

int main(int argc, char **argv) {
    if ((argc == 3 || argc == 4) && strcmp(argv[1], "module") == 0)
        return load(argv[2], argc == 4 ? argv[3] : "");
    if (argc == 3 && strcmp(argv[1], "unload") == 0)
        return syscall(SYS_delete_module, argv[2], 0) ? wrong(argv[2]) : 0;
    if (argc == 4 && strcmp(argv[1], "write") == 0)
        return write_to(argv[2], argv[3]);
    if (argc == 3 && strcmp(argv[1], "read") == 0)
        return read_from(argv[2]);
    if (argc == 4 && strcmp(argv[1], "map") == 0)
        return map(atoi(argv[2]), atoi(argv[3]));
    if (argc == 3 && strcmp(argv[1], "sleep") == 0)
        return (int)sleep((unsigned)atoi(argv[2]));
    if (argc == 3 && (strcmp(argv[1], "text") == 0 || strcmp(argv[1], "show") == 0))
        return over_code(argv[2], argv[1][0] == 't');
    fprintf(stderr, "small_guest text|show|module|unload|write|read|map|sleep …\n");
    return 2;
}
