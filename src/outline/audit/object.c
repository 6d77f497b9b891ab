/* Finds an object's segments: the mappings say what may be read, its program headers what is text and what is data. */
#include "object.h"

#include "self.h"

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

/* The neighbouring mappings of one file; nothing but memory without a file lies between them. */
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

/* The file header at the start of a mapping, if it and the program headers lie within. */
static const Elf64_Ehdr *elf_at(const struct mapping *m)
{
    const Elf64_Ehdr *elf = (const void *)m->range.from;
    uint64_t size = m->range.to - m->range.from;

    if (size < sizeof(*elf) || elf->e_ident[EI_MAG0] != ELFMAG0 || elf->e_ident[EI_MAG1] != 'E' ||
        elf->e_ident[EI_MAG2] != 'L' || elf->e_ident[EI_MAG3] != 'F' || elf->e_ident[EI_CLASS] != ELFCLASS64 ||
        elf->e_ident[EI_DATA] != ELFDATA2LSB || elf->e_machine != EM_AARCH64 || elf->e_phentsize != sizeof(Elf64_Phdr))
        return NULL;
    if (elf->e_phoff % 8 != 0 || elf->e_phoff > size || elf->e_phnum > (size - elf->e_phoff) / sizeof(Elf64_Phdr))
        return NULL;
    return elf;
}

/* The parts of a text segment that are mapped from this file, to be read and executed. */
static const char *add_text(struct lw_object *object, const struct group *group, struct lw_range segment)
{
    for (size_t i = 0; i < group->count; i++) {
        const struct mapping *m = &group->mapping[i];
        struct lw_range part = {m->range.from > segment.from ? m->range.from : segment.from,
                                m->range.to < segment.to ? m->range.to : segment.to};

        if (!m->readable || !m->executable || part.from >= part.to)
            continue;
        if (object->texts == LW_OBJECT_RANGES)
            return "it has too many text segments";
        object->text[object->texts++] = part;
    }
    return NULL;
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
    if (ph->p_flags & PF_X)
        return add_text(object, group, (struct lw_range){from, from + ph->p_filesz});
    return NULL;
}

static const char *read_headers(const struct link_map *map, const struct group *group, struct lw_object *object)
{
    const struct mapping *header = header_of(group, (uint64_t)map->l_ld);
    const Elf64_Ehdr *elf = header ? elf_at(header) : NULL;
    const Elf64_Phdr *ph;
    int dynamic_agrees = 0;

    if (!elf)
        return "its file header is not in memory";
    ph = (const void *)((const char *)elf + elf->e_phoff);
    object->base = map->l_addr;
    for (size_t i = 0; i < elf->e_phnum; i++) {
        const char *wrong = ph[i].p_type == PT_LOAD ? add_segment(object, group, &ph[i]) : NULL;
        uint64_t from = object->base + ph[i].p_vaddr;

        if (ph[i].p_type == PT_GNU_RELRO)
            object->relocated = (struct lw_range){from, from + ph[i].p_memsz};

        if (wrong)
            return wrong;
        dynamic_agrees |= ph[i].p_type == PT_DYNAMIC && from == (uint64_t)map->l_ld;
    }
    return dynamic_agrees ? NULL : "its headers and the dynamic linker disagree on where it is";
}

const char *lw_object_find(const struct link_map *map, struct lw_object *object)
{
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
    return read_headers(map, &group, object);
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
