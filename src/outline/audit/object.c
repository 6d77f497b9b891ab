/* SPDX-License-Identifier: MIT */
/* Finds an object's segments: its program headers say what is text and what is data. */
#include "object.h"

#include <fcntl.h>

/* One line of the mappings file. */
struct mapping {
    struct lw_range range;
    int readable, executable;
    uint64_t offset, major, minor, inode;
};

static int parse_mapping(const char *line, struct mapping *m)
{
    m->range.from = lw_parse(&line, 16);
    if (*line++ != '-')
        return 0;
    m->range.to = lw_parse(&line, 16);
    if (*line++ != ' ')
        return 0;
    m->readable = line[0] == 'r';
    for (int i = 0; i < 2; i++)
        if (line[i] == '\0')
            return 0;
    m->executable = line[2] == 'x';
    while (*line && *line != ' ')
        line++;
    if (*line++ != ' ')
        return 0;
    m->offset = lw_parse(&line, 16);
    if (*line++ != ' ')
        return 0;
    m->major = lw_parse(&line, 16);
    if (*line++ != ':')
        return 0;
    m->minor = lw_parse(&line, 16);
    if (*line++ != ' ')
        return 0;
    m->inode = lw_parse(&line, 10);
    return m->range.from < m->range.to;
}

/* The neighbouring mappings of one file; only memory without a file lies between them. */
struct group {
    size_t count;
    struct mapping mapping[LW_OBJECT_RANGES * 2];
};

static int same_file(const struct mapping *a, const struct mapping *b)
{
    return a->inode == b->inode && a->major == b->major && a->minor == b->minor;
}

static int inside(const struct mapping *m, uint64_t address)
{
    return address >= m->range.from && address < m->range.to;
}

/* Reads on to the group that `address` is in. Returns NULL, or why not; no group for an address in no file. */
static const char *find_group(struct lw_lines *lines, uint64_t address, struct group *group)
{
    struct mapping m;
    int found = 0;

    group->count = 0;
    while (lw_lines_next(lines)) {
        if (!parse_mapping(lines->line, &m))
            return "the list of mappings is not understood";
        if (m.inode == 0) {
            if (inside(&m, address)) {
                group->count = 0;
                return NULL;
            }
            continue;
        }
        if (group->count && !same_file(&group->mapping[0], &m)) {
            if (found)
                return NULL;
            group->count = 0;
        }
        if (group->count == sizeof(group->mapping) / sizeof(group->mapping[0])) {
            if (found)
                return "it has too many mappings";
            group->count = 0;
        }
        group->mapping[group->count++] = m;
        found |= inside(&m, address);
    }
    if (!found)
        group->count = 0;
    return NULL;
}

/* The file's first page in memory, the last one before `address`: a file may be mapped twice in a row. */
static const struct mapping *header_of(const struct group *group, uint64_t address)
{
    const struct mapping *header = NULL;

    for (size_t i = 0; i < group->count; i++)
        if (group->mapping[i].offset == 0 && group->mapping[i].readable && group->mapping[i].range.from <= address)
            header = &group->mapping[i];
    return header;
}

static int is_arm64(const Elf64_Ehdr *elf)
{
    return elf->e_ident[EI_MAG0] == ELFMAG0 && elf->e_ident[EI_MAG1] == 'E' && elf->e_ident[EI_MAG2] == 'L' &&
           elf->e_ident[EI_MAG3] == 'F' && elf->e_ident[EI_CLASS] == ELFCLASS64 && elf->e_ident[EI_DATA] == ELFDATA2LSB &&
           elf->e_machine == EM_AARCH64 && elf->e_phentsize == sizeof(Elf64_Phdr) && elf->e_phoff % 8 == 0;
}

/* The file header at the start of a mapping, if it and the program headers lie within. */
static const Elf64_Ehdr *elf_at(const struct mapping *m)
{
    const Elf64_Ehdr *elf = (const void *)m->range.from;
    uint64_t size = m->range.to - m->range.from;

    if (size < sizeof(*elf) || !is_arm64(elf) || elf->e_phoff > size ||
        elf->e_phnum > (size - elf->e_phoff) / sizeof(Elf64_Phdr))
        return NULL;
    return elf;
}

static const char *add_part(struct lw_object *object, struct lw_range part)
{
    if (object->texts == LW_OBJECT_RANGES)
        return "it has too many text segments";
    object->text[object->texts++] = part;
    return NULL;
}

/* A text segment as it was mapped just now; with a `group` of mappings, those parts that are read and executed from it. */
static const char *add_text(struct lw_object *object, const struct group *group, struct lw_range segment)
{
    const char *wrong = group ? NULL : add_part(object, segment);

    for (size_t i = 0; group && !wrong && i < group->count; i++) {
        const struct mapping *m = &group->mapping[i];
        struct lw_range part = {m->range.from > segment.from ? m->range.from : segment.from,
                                m->range.to < segment.to ? m->range.to : segment.to};

        if (m->readable && m->executable && part.from < part.to)
            wrong = add_part(object, part);
    }
    return wrong;
}

static const char *add_segment(struct lw_object *object, const struct group *group, const Elf64_Phdr *ph)
{
    uint64_t from = object->base + ph->p_vaddr;

    if (ph->p_filesz > ph->p_memsz || from + ph->p_memsz < from)
        return "its program headers contradict themselves";
    if (ph->p_flags & PF_W) {
        if (object->datas == LW_OBJECT_RANGES)
            return "it has too many data segments";
        object->data[object->datas++] = (struct lw_range){from, from + ph->p_memsz};
    }
    if ((ph->p_flags & PF_X) && !(ph->p_flags & PF_R))
        return "its text is execute-only, so it cannot be searched";
    if (ph->p_flags & PF_X)
        return add_text(object, group, (struct lw_range){from, from + ph->p_filesz});
    return NULL;
}

static const char *const elsewhere = "its headers and the dynamic linker disagree on where it is";

/* `group`: its mappings, or NULL for an object that the dynamic linker has mapped just now, as its headers say. */
static const char *read_headers(const struct link_map *map, const Elf64_Phdr *ph, size_t count, const struct group *group,
                                struct lw_object *object)
{
    int dynamic_agrees = 0;

    object->base = map->l_addr;
    object->texts = object->datas = 0;
    object->relocated = (struct lw_range){0, 0};
    for (size_t i = 0; i < count; i++)
        dynamic_agrees |= ph[i].p_type == PT_DYNAMIC && object->base + ph[i].p_vaddr == (uint64_t)map->l_ld;
    if (!dynamic_agrees)
        return elsewhere;
    for (size_t i = 0; i < count; i++) {
        const char *wrong = ph[i].p_type == PT_LOAD ? add_segment(object, group, &ph[i]) : NULL;
        uint64_t from = object->base + ph[i].p_vaddr;

        if (ph[i].p_type == PT_GNU_RELRO)
            object->relocated = (struct lw_range){from, from + ph[i].p_memsz};
        if (wrong)
            return wrong;
    }
    return NULL;
}

/* By the mappings. */
static const char *find_mapped(const struct link_map *map, struct lw_object *object)
{
    const struct mapping *header;
    const Elf64_Ehdr *elf;
    struct lw_lines lines;
    struct group group;
    const char *wrong;

    object->texts = object->datas = 0;
    object->relocated = (struct lw_range){0, 0};
    if (lw_lines_open(&lines, "/proc/self/maps") != 0)
        return "/proc/self/maps cannot be read";
    wrong = find_group(&lines, (uint64_t)map->l_ld, &group);
    lw_lines_close(&lines);
    if (wrong || group.count == 0)
        return wrong;
    header = header_of(&group, (uint64_t)map->l_ld);
    elf = header ? elf_at(header) : NULL;
    if (!elf)
        return "its file header is not in memory";
    return read_headers(map, (const void *)((const char *)elf + elf->e_phoff), elf->e_phnum, &group, object);
}

enum { MOST_HEADERS = 64 };

/* The program headers of an object whose file header lies at its base; 0 of them: it does not. */
static size_t headers_at_base(uint64_t base, Elf64_Phdr headers[MOST_HEADERS])
{
    Elf64_Ehdr elf;
    long memory = lw_open("/proc/self/mem", O_RDONLY);
    size_t count = 0;

    if (memory < 0)
        return 0;
    if (lw_read_memory(memory, base, &elf, sizeof(elf)) && is_arm64(&elf) && elf.e_phnum <= MOST_HEADERS &&
        lw_read_memory(memory, base + elf.e_phoff, headers, elf.e_phnum * sizeof(headers[0])))
        count = elf.e_phnum;
    lw_close(memory);
    return count;
}

const char *lw_object_find(const struct link_map *map, const struct lw_start *start, struct lw_object *object)
{
    Elf64_Phdr headers[MOST_HEADERS];
    const char *wrong = elsewhere;

    object->texts = object->datas = 0;
    if (start->vdso && map->l_addr == start->vdso)
        return NULL;
    if (start->program_headers && !map->l_prev)
        wrong = read_headers(map, start->program_headers, start->program_header_count, NULL, object);
    if (wrong == elsewhere && map->l_addr)
        wrong = read_headers(map, headers, headers_at_base(map->l_addr, headers), NULL, object);
    return wrong == elsewhere ? find_mapped(map, object) : wrong;
}

int lw_ranges_hold(const struct lw_range *ranges, size_t count, uint64_t address, uint64_t size)
{
    for (size_t i = 0; i < count; i++)
        if (address >= ranges[i].from && address < ranges[i].to && size <= ranges[i].to - address)
            return 1;
    return 0;
}

int lw_object_can_write(const struct lw_object *object, uint64_t address)
{
    return lw_ranges_hold(object->data, object->datas, address, 1) && !lw_ranges_hold(&object->relocated, 1, address, 1);
}

ElfW(Dyn) * lw_dynamic(const struct link_map *map, ElfW(Sxword) tag)
{
    for (ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == tag)
            return entry;
    return NULL;
}
