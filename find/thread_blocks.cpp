// SPDX-License-Identifier: MIT
// Memory is read with process_vm_readv; what is found is believed only where several words agree.
#include "find/thread_blocks.hpp"

#include "find/processes.hpp"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <link.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace lw::find {

namespace {

// Offsets in a block of x86-64: of a second copy of its address (glibc; musl has none), and of the thread's number.
struct Layout {
    std::size_t self, tid;
};
constexpr Layout layouts[] = {{0x10, 0x2d0}, {0, 0x30}}; // glibc's struct pthread since 2.4, musl's since 1.1.20
constexpr std::size_t block_bytes = 0x300;                // as far as a layout reaches
constexpr std::size_t chunk = 1 << 16, most_above_stack = 16 << 20, small_mapping = 1 << 20;

// glibc, all architectures: the thread's number stands 16 bytes before the head of its list of robust mutexes. On x86-64 the
// thread pointer is the structure's beginning, on arm64 its end, which moves with every version of glibc.
constexpr std::uint64_t tid_before_list = 16, list_offset_x86_64 = 0x2e0;
constexpr std::uint64_t arm64_first = 0x400, arm64_last = 0x1000; // bytes from the list to the pointer: 1632 with glibc 2.36
constexpr std::uint64_t most_modules = 1024, most_alignment = 1 << 16;
constexpr std::size_t link_map_words = 192; // the module's number is word 144 (x86-64) or 148 (arm64) with glibc 2.36

std::size_t peek(pid_t pid, std::uint64_t address, void *to, std::size_t bytes) {
    iovec here{to, bytes}, there{pointer_to(address), bytes};
    ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);
    return got < 0 ? 0 : static_cast<std::size_t>(got);
}

template <class T> T peek(pid_t pid, std::uint64_t address) {
    T value{};
    if (peek(pid, address, &value, sizeof value) != sizeof value)
        value = {};
    return value;
}

bool is_user(std::uint64_t address) { return address >= 4096 && address >> 52 == 0; }
std::uint64_t word(pid_t pid, std::uint64_t address) { return peek<std::uint64_t>(pid, address); }

bool is_block(const std::uint8_t *at, std::uint64_t address, pid_t tid) {
    auto word = [&](std::size_t offset) {
        std::uint64_t value;
        std::memcpy(&value, at + offset, sizeof value);
        return value;
    };
    if (word(0) != address)
        return false;
    for (const Layout &layout : layouts)
        if (word(layout.self) == address && static_cast<std::uint32_t>(word(layout.tid)) == static_cast<std::uint32_t>(tid))
            return true;
    return false;
}

// The vector of a thread's blocks: glibc's has pairs of words and its length before it, musl's single words and its length
// at its beginning.
std::vector<std::uint64_t> blocks_at(pid_t pid, std::uint64_t pointer, Arch arch) {
    bool glibc = arch == Arch::arm64 || word(pid, pointer + layouts[0].self) == pointer;
    std::uint64_t vector = word(pid, pointer + (arch == Arch::arm64 ? 0 : 8)), step = glibc ? 2 : 1;
    std::uint64_t length = vector % 8 ? 0 : word(pid, glibc ? vector - 16 : vector);
    if (length == 0 || length > 1 << 16)
        return {};
    std::vector<std::uint64_t> entries(std::min(length, most_modules) * step), found;
    peek(pid, vector + 8 * step, entries.data(), entries.size() * 8);
    for (std::size_t i = 0; i < entries.size(); i += step)
        found.push_back(is_user(entries[i]) ? entries[i] : 0); // all ones: not made yet
    while (!found.empty() && found.back() == 0)
        found.pop_back();
    return found;
}

// arm64: behind the pointer stand two words, and then the program's own block.
std::uint64_t pointer_behind(pid_t pid, std::uint64_t list) {
    for (std::uint64_t at = list + arm64_first; at < list + arm64_last; at += 16) {
        std::uint64_t vector = word(pid, at);
        if (!is_user(vector) || vector % 8)
            continue;
        auto blocks = blocks_at(pid, at, Arch::arm64);
        if (!blocks.empty() && blocks[0] >= at + 16 && blocks[0] < at + 16 + most_alignment)
            return at;
    }
    return 0;
}

std::uint64_t pointer_by_list(pid_t pid, pid_t tid, std::uint64_t list, Arch arch) {
    if (!is_user(list) || peek<std::uint32_t>(pid, list - tid_before_list) != static_cast<std::uint32_t>(tid))
        return 0;
    if (arch == Arch::arm64)
        return pointer_behind(pid, list);
    std::array<std::uint8_t, block_bytes> bytes;
    std::uint64_t at = list - list_offset_x86_64;
    return peek(pid, at, bytes.data(), bytes.size()) == bytes.size() && is_block(bytes.data(), at, tid) ? at : 0;
}

// Looks through [begin, end) as far as it can be read.
std::uint64_t search(pid_t pid, pid_t tid, std::uint64_t begin, std::uint64_t end) {
    std::vector<std::uint8_t> bytes(chunk + block_bytes);
    for (begin &= ~std::uint64_t{15}; begin < end; begin += chunk) {
        iovec here{bytes.data(), bytes.size()}, there{pointer_to(begin), bytes.size()};
        ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);
        for (std::size_t at = 0; got > 0 && at < chunk && at + block_bytes <= static_cast<std::size_t>(got); at += 16)
            if (is_block(bytes.data() + at, begin + at, tid))
                return begin + at;
        if (got != static_cast<ssize_t>(bytes.size())) // the mapping ends here
            return 0;
    }
    return 0;
}

} // namespace

std::uint64_t search_thread_block(pid_t pid, pid_t tid, std::uint64_t stack_pointer) {
    // A thread that was made by the C library has its block above its stack, in the same mapping.
    if (std::uint64_t found = search(pid, tid, stack_pointer, stack_pointer + most_above_stack))
        return found;
    if (pid != tid)
        return 0;
    // That of the first thread lies in a small mapping of the dynamic linker's, or where a static program's heap begins.
    for (const Mapping &mapping : mappings_of(pid)) {
        bool heap = mapping.path == "[heap]";
        if (!mapping.writable || mapping.shared || !(heap || mapping.path.empty()))
            continue;
        if (!heap && mapping.end - mapping.start > small_mapping)
            continue;
        if (std::uint64_t found = search(pid, tid, mapping.start, heap ? mapping.start + chunk : mapping.end))
            return found;
    }
    return 0;
}

void look_at_thread(pid_t pid, pid_t tid, std::uint64_t list, Arch arch, ThreadStorage &known) {
    if (!known.pointer)
        known.pointer = pointer_by_list(pid, tid, list, arch);
    if (!known.pointer)
        return;
    auto now = blocks_at(pid, known.pointer, arch);
    known.blocks.resize(std::max(known.blocks.size(), now.size()));
    for (std::size_t i = 0; i < now.size(); i++) // one that is given back was there
        known.blocks[i] = now[i] ? now[i] : known.blocks[i];
}

namespace {

// The address of the dynamic linker's list, as it writes it into the program's dynamic section for debuggers.
std::uint64_t debug_entry(pid_t pid, std::uint64_t start) {
    auto header = peek<Elf64_Ehdr>(pid, start);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phnum > 64)
        return 0;
    std::vector<Elf64_Phdr> segments(header.e_phnum);
    peek(pid, start + header.e_phoff, segments.data(), segments.size() * sizeof(Elf64_Phdr));
    std::uint64_t lowest = ~0ull, dynamic = 0;
    for (const Elf64_Phdr &segment : segments) {
        if (segment.p_type == PT_LOAD)
            lowest = std::min<std::uint64_t>(lowest, segment.p_vaddr & ~4095ull);
        if (segment.p_type == PT_DYNAMIC)
            dynamic = segment.p_vaddr;
    }
    for (std::uint64_t i = 0; dynamic && i < 256; i++) {
        auto entry = peek<Elf64_Dyn>(pid, start - lowest + dynamic + i * sizeof(Elf64_Dyn));
        if (entry.d_tag == DT_NULL)
            break;
        if (entry.d_tag == DT_DEBUG)
            return entry.d_un.d_ptr;
    }
    return 0;
}

} // namespace

std::vector<LinkMap> loaded_modules(pid_t pid, const std::string &program) {
    auto maps = mappings_of(pid);
    auto first = std::ranges::find_if(maps, [&](const Mapping &m) { return m.path == program && m.offset == 0; });
    std::uint64_t debug = first == maps.end() ? 0 : debug_entry(pid, first->start);
    std::uint64_t at = debug ? word(pid, debug + offsetof(r_debug, r_map)) : 0;
    std::vector<LinkMap> found;
    while (at && found.size() < most_modules) {
        LinkMap words(link_map_words);
        words.resize(peek(pid, at, words.data(), words.size() * 8) / 8);
        if (words.size() < sizeof(link_map) / 8)
            break;
        at = words[offsetof(link_map, l_next) / 8];
        found.push_back(std::move(words));
    }
    return found;
}

void describe_thread(Output &output, std::uint32_t pid, std::uint32_t tid, const ThreadStorage &storage) {
    Line(output, "thread")
        .number("pid", pid)
        .number("tid", tid)
        .number("pointer", storage.pointer)
        .list("blocks", storage.blocks);
}

void describe_modules(Output &output, std::uint32_t pid, const std::string &program) {
    auto modules = loaded_modules(static_cast<pid_t>(pid), program);
    if (modules.empty())
        modules.emplace_back();
    for (const LinkMap &words : modules)
        Line(output, "module").number("pid", pid).text("path", &words == &modules[0] ? program : "").list("words", words);
}

void ThreadBlocks::want(std::uint32_t pid, std::uint32_t tid, std::uint64_t stack_pointer) {
    Known &known = threads_[std::uint64_t{pid} << 32 | tid];
    auto process = static_cast<pid_t>(pid), thread = static_cast<pid_t>(tid);
    known.samples++;
    if (known.samples & (known.samples - 1)) // no power of two
        return;
    ThreadStorage before = known.storage;
    std::uint64_t list = 0, length = 0;
    syscall(SYS_get_robust_list, thread, &list, &length);
    if (known.samples == 1 && own_arch == Arch::x86_64 && !pointer_by_list(process, thread, list, own_arch))
        known.storage.pointer = search_thread_block(process, thread, stack_pointer);
    look_at_thread(process, thread, list, own_arch, known.storage);
    if (known.storage == before)
        return;
    describe_thread(out_, pid, tid, known.storage);
    if (std::size_t &most = modules_[pid]; known.storage.blocks.size() > most) {
        most = known.storage.blocks.size();
        describe_modules(out_, pid, program_of(process));
    }
}

void ThreadBlocks::forget(std::uint32_t pid) {
    std::erase_if(threads_, [&](const auto &known) { return known.first >> 32 == pid; });
    modules_.erase(pid);
}

} // namespace lw::find
