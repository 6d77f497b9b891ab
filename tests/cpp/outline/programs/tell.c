/* SPDX-License-Identifier: MIT */
/* Says in what state the object that this file is linked into is: words of text changed since the file, and its byte. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern bool __aarch64_have_lse_atomics __attribute__((weak, visibility("hidden")));

/* Text words in memory that differ from the file at `path`, or -1. */
static long changed_words(const char *path) {
    const ElfW(Ehdr) *elf = (const void *)__ehdr_start;
    const ElfW(Phdr) *ph = (const void *)(__ehdr_start + elf->e_phoff);
    FILE *file = fopen(path, "rb");
    ElfW(Addr) lowest = UINT64_MAX;
    long changed = 0;

    if (!file)
        return -1;
    for (int i = 0; i < elf->e_phnum; i++)
        if (ph[i].p_type == PT_LOAD && ph[i].p_vaddr < lowest)
            lowest = ph[i].p_vaddr; /* where the file header is */
    for (int i = 0; i < elf->e_phnum; i++) {
        const uint32_t *here = (const void *)(__ehdr_start + ph[i].p_vaddr - lowest);
        uint32_t word;

        if (ph[i].p_type != PT_LOAD || !(ph[i].p_flags & PF_X) || fseek(file, (long)ph[i].p_offset, SEEK_SET) != 0)
            continue;
        for (size_t w = 0; w < ph[i].p_filesz / 4; w++)
            changed += fread(&word, sizeof(word), 1, file) != 1 || memcmp(&word, &here[w], sizeof(word)) != 0;
    }
    fclose(file);
    return changed;
}

void tell(const char *path);
void tell(const char *path) {
    printf("words changed %ld, lse byte %d\n", changed_words(path),
           &__aarch64_have_lse_atomics ? (int)__aarch64_have_lse_atomics : -1);
}
