// SPDX-License-Identifier: MIT
// A preloaded malloc that hands every call on, notes who allocated what, and pads the blocks of named call sites.
//
// LINEWRIGHT_FIND_HEAP names the table's file; LINEWRIGHT_FIND_PAD holds MODULE+0xBEGIN-0xEND, several separated by commas:
// blocks whose allocating call returns into one of these ranges of a module's own addresses begin on a line of their own.
// Modules that are loaded later are known by the first caller in them. LINEWRIGHT_FIND_PAD_TO=016 finds the same blocks and
// leaves them as malloc places them: the baseline of a trial runs the same code with an environment of the same length, so
// that it differs from the padded setting in the padding alone.
#include "find/preload/blocks.hpp"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <new>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define LW_PUBLIC extern "C" [[gnu::visibility("default")]]

namespace {

using namespace lw::find;

constexpr std::size_t own_line = 128; // bytes: a pair of lines where a CPU fetches pairs
constexpr std::size_t as_malloc = 16; // alignment that malloc gives by itself
std::size_t pad_to = own_line; // as_malloc in the baseline of a trial
constexpr unsigned most_ranges = 32;

struct Range {
    std::uintptr_t begin, end;
};
Range padded[most_ranges];
std::atomic<unsigned> ranges;
std::atomic<unsigned> missing; // of those asked for, whose module has not been seen
std::atomic<bool> padding; // some were asked for
char mark[PATH_MAX];
std::atomic<bool> marked;
void look_again(void *caller);
std::atomic<Blocks *> table;
std::uint64_t process;
std::uintptr_t code_begin, code_end; // of the program's own code

// The allocator behind us. dlsym may allocate itself: until it has answered, memory comes from a small arena.
struct Next {
    void *(*malloc)(std::size_t);
    void *(*calloc)(std::size_t, std::size_t);
    void *(*realloc)(void *, std::size_t);
    void *(*memalign)(std::size_t, std::size_t);
    void (*free)(void *);
} next;
alignas(16) char arena[16384];
std::atomic<std::size_t> arena_used;

bool in_arena(const void *block) { return block >= arena && block < arena + sizeof arena; }

void *from_arena(std::size_t size) {
    std::size_t at = arena_used.fetch_add((size + 31) & ~std::size_t{15}, std::memory_order_relaxed);
    return at + size + 16 <= sizeof arena ? arena + at : nullptr;
}

template <class Function> void look_up(Function &to, const char *name) {
    to = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool found_next() {
    static thread_local bool looking;
    if (next.free)
        return true;
    if (looking)
        return false;
    looking = true;
    look_up(next.malloc, "malloc");
    look_up(next.calloc, "calloc");
    look_up(next.realloc, "realloc");
    look_up(next.memalign, "memalign");
    look_up(next.free, "free");
    looking = false;
    return next.free;
}

std::uint64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now); // a read of memory; 1 to 10 ms fine, as samples are
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// Words above our frame that point into the program's code. A stack may end with its page: the kernel copies what lies
// behind.
[[gnu::noinline]] void find_callers(Block &block, void *caller) {
    constexpr std::uintptr_t page = 4096, most_bytes = 64 * sizeof(void *);
    std::uintptr_t words[most_bytes / sizeof(void *)];
    void *at = __builtin_frame_address(0);
    std::uintptr_t left = page - (reinterpret_cast<std::uintptr_t>(at) & (page - 1));
    std::size_t bytes = left < most_bytes ? left : most_bytes;
    iovec here{words, most_bytes}, there{at, most_bytes};
    int before = errno;
    if (left < most_bytes && process_vm_readv(static_cast<pid_t>(process), &here, 1, &there, 1, 0) == most_bytes)
        bytes = most_bytes;
    else
        std::memcpy(words, at, bytes);
    errno = before;
    block.callers[0] = reinterpret_cast<std::uintptr_t>(caller);
    unsigned found = 1;
    for (std::size_t i = 0; i < bytes / sizeof(void *) && found < most_callers; i++)
        if (words[i] > code_begin && words[i] < code_end && words[i] != block.callers[0])
            block.callers[found++] = words[i];
    for (; found < most_callers; found++)
        block.callers[found] = 0;
}

// Of a group without a free place, that of the block that was freed first; `group` where all are alive.
unsigned oldest(Blocks &from, std::uint64_t first) {
    unsigned found = group;
    std::uint64_t least = ~std::uint64_t{0};
    for (unsigned i = 0; i < group; i++)
        if (std::uint64_t died = from.died_ns[first + i].load(std::memory_order_relaxed); died && died < least)
            found = i, least = died;
    return found;
}

// Takes a place that is free or a freed block's; false where another thread took it meanwhile.
bool take_place(Blocks &from, std::uint64_t at) {
    std::uint64_t seen = from.keys[at].load(std::memory_order_relaxed);
    bool living = seen && !from.died_ns[at].load(std::memory_order_acquire);
    return seen != 1 && !living && from.keys[at].compare_exchange_strong(seen, 1, std::memory_order_acquire);
}

void note(void *block, std::size_t size, void *caller) {
    Blocks *to = table.load(std::memory_order_acquire);
    if (!to || !block)
        return;
    std::uint64_t key = key_of(process, reinterpret_cast<std::uintptr_t>(block)), first = group_of(key);
    std::uint64_t at = first;
    while (at < first + group && (to->keys[at].load(std::memory_order_relaxed) || !take_place(*to, at)))
        at++;
    for (bool taken = at < first + group; !taken; taken = take_place(*to, at)) {
        unsigned freed = oldest(*to, first);
        if (freed == group) {
            to->dropped.fetch_add(1, std::memory_order_relaxed);
            return;
        }
        at = first + freed;
    }
    find_callers(to->blocks[at], caller);
    to->blocks[at].process = process;
    to->blocks[at].start = reinterpret_cast<std::uintptr_t>(block);
    to->blocks[at].size = size;
    to->blocks[at].born_ns = now_ns();
    // Release: `forget` in another thread, which reads a 0 here, sees that the key is no longer the freed block's.
    to->died_ns[at].store(0, std::memory_order_release);
    // Release: a reader that sees the key sees the block; pairs with reading the file after the program's end.
    to->keys[at].store(key, std::memory_order_release);
}

void forget(void *block) {
    Blocks *to = table.load(std::memory_order_acquire);
    if (!to || !block)
        return;
    std::uint64_t key = key_of(process, reinterpret_cast<std::uintptr_t>(block)), first = group_of(key);
    for (std::uint64_t at = first; at < first + group; at++)
        // Acquire: pairs with the release store in note. An older block of this address has died, or its place is being
        // taken.
        if (to->keys[at].load(std::memory_order_relaxed) == key && !to->died_ns[at].load(std::memory_order_acquire) &&
            to->keys[at].load(std::memory_order_relaxed) == key)
            return to->died_ns[at].store(now_ns(), std::memory_order_relaxed);
}

bool in_ranges(std::uintptr_t address) {
    // Acquire: pairs with the release store of add_ranges.
    for (unsigned i = 0, known = ranges.load(std::memory_order_acquire); i < known; i++)
        if (address > padded[i].begin && address <= padded[i].end)
            return true;
    return false;
}

bool to_pad(void *caller) {
    auto address = reinterpret_cast<std::uintptr_t>(caller);
    bool found = in_ranges(address);
    if (!found && missing.load(std::memory_order_relaxed)) {
        look_again(caller);
        found = in_ranges(address);
    }
    if (found && mark[0] && !marked.load(std::memory_order_relaxed) && !marked.exchange(true, std::memory_order_relaxed)) {
        int before = errno, file = open(mark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file >= 0)
            close(file);
        errno = before;
    }
    return found;
}

void *allocate(std::size_t size, std::size_t alignment, void *caller) {
    if (!found_next())
        return from_arena(size);
    if (padding.load(std::memory_order_relaxed) && to_pad(caller) && size <= SIZE_MAX - own_line) {
        alignment = alignment > pad_to ? alignment : pad_to;
        size = pad_to == own_line ? (size + own_line - 1) & ~(own_line - 1) : size;
    }
    void *block = alignment ? next.memalign(alignment, size) : next.malloc(size);
    note(block, size, caller);
    return block;
}

void open_table(const char *path) {
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return;
    off_t size = lseek(file, 0, SEEK_END);
    void *base = size >= static_cast<off_t>(sizeof(Blocks))
                     ? mmap(nullptr, sizeof(Blocks), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                     : MAP_FAILED;
    close(file);
    if (base == MAP_FAILED)
        return;
    auto *made = static_cast<Blocks *>(base);
    made->slots = block_slots;
    made->magic.store(blocks_magic, std::memory_order_release);
    table.store(made, std::memory_order_release); // pairs with the acquire loads of note and forget
}

// A range as it was asked for; its module may be loaded later, by dlopen.
struct Wanted {
    const char *module;
    std::size_t length;
    std::uintptr_t begin, end;
    bool found;
};
Wanted wanted[most_ranges];
unsigned asked; // of them
std::atomic<bool> resolving;
char text[8192]; // the request: programs overwrite their environment

bool is_module(const char *path, const Wanted &range) {
    char self[PATH_MAX];
    if (!*path) {
        ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
        self[length < 0 ? 0 : length] = '\0';
        path = self;
    }
    const char *base = std::strrchr(path, '/');
    base = base ? base + 1 : path;
    return std::strlen(base) == range.length && std::memcmp(base, range.module, range.length) == 0;
}

// Adds the ranges of one loaded module, if some are wanted of it.
void add_ranges(const char *path, std::uintptr_t base) {
    for (unsigned i = 0; i < asked; i++) {
        if (wanted[i].found || !is_module(path, wanted[i]))
            continue;
        wanted[i].found = true;
        unsigned at = ranges.load(std::memory_order_relaxed);
        padded[at] = {base + wanted[i].begin, base + wanted[i].end};
        // Release: a thread that sees the number sees the range; pairs with the acquire load of to_pad.
        ranges.store(at + 1, std::memory_order_release);
        missing.fetch_sub(1, std::memory_order_relaxed);
    }
}

int add_module(dl_phdr_info *info, std::size_t, void *) {
    add_ranges(info->dlpi_name, info->dlpi_addr);
    return 0;
}

// A caller in a module that was loaded since: are its ranges wanted? Takes no lock of the dynamic linker's.
void look_again([[maybe_unused]] void *caller) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
    dl_find_object object;
    if (resolving.exchange(true, std::memory_order_acquire))
        return; // another thread is at it: this block stays where malloc places it
    if (_dl_find_object(caller, &object) == 0 && object.dlfo_link_map)
        add_ranges(object.dlfo_link_map->l_name, object.dlfo_link_map->l_addr);
    resolving.store(false, std::memory_order_release);
#endif
}

// MODULE+0xBEGIN-0xEND,… A module's name may hold + and -; the last ones count.
void read_ranges(const char *given) {
    std::size_t length = std::strlen(given);
    if (length >= sizeof text)
        return;
    std::memcpy(text, given, length + 1);
    for (char *item = std::strtok(text, ","); item && asked < most_ranges; item = std::strtok(nullptr, ",")) {
        char *dash = std::strrchr(item, '-'), *plus = dash ? static_cast<char *>(memrchr(item, '+', dash - item)) : nullptr;
        if (plus)
            wanted[asked++] = {item, static_cast<std::size_t>(plus - item), std::strtoul(plus + 1, nullptr, 16),
                               std::strtoul(dash + 1, nullptr, 16), false};
    }
    missing.store(asked, std::memory_order_relaxed);
    dl_iterate_phdr(add_module, nullptr);
}

// LINEWRIGHT_FIND_PAD_SEEN/LINEWRIGHT_FIND_PAD_AS is made when the first block is found: a setting that finds none shows
// nothing.
void prepare_mark() {
    const char *folder = std::getenv("LINEWRIGHT_FIND_PAD_SEEN"), *name = std::getenv("LINEWRIGHT_FIND_PAD_AS");
    if (folder && name && std::snprintf(mark, sizeof mark, "%s/%s", folder, name) >= static_cast<int>(sizeof mark))
        mark[0] = '\0';
}

// The program's own code, which comes first.
int note_code(dl_phdr_info *info, std::size_t, void *) {
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            code_begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            code_end = code_begin + info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

void in_child() { process = static_cast<std::uint64_t>(getpid()); }

[[gnu::constructor]] void begin() {
    found_next();
    process = static_cast<std::uint64_t>(getpid());
    pthread_atfork(nullptr, nullptr, in_child);
    if (const char *to = std::getenv("LINEWRIGHT_FIND_PAD_TO"); to && std::strtoul(to, nullptr, 10) == as_malloc)
        pad_to = as_malloc;
    if (const char *pad = std::getenv("LINEWRIGHT_FIND_PAD")) {
        prepare_mark();
        read_ranges(pad);
        padding.store(asked > 0, std::memory_order_relaxed);
    }
    dl_iterate_phdr(note_code, nullptr);
    if (const char *path = std::getenv("LINEWRIGHT_FIND_HEAP"))
        open_table(path);
}

bool is_power_of_two(std::size_t value) { return value && !(value & (value - 1)); }

} // namespace

LW_PUBLIC void *malloc(std::size_t size) { return allocate(size, 0, __builtin_return_address(0)); }

LW_PUBLIC void free(void *block) {
    if (in_arena(block))
        return;
    forget(block);
    if (found_next())
        next.free(block);
}

LW_PUBLIC void *calloc(std::size_t count, std::size_t size) {
    std::size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return nullptr;
    }
    void *caller = __builtin_return_address(0);
    if (!found_next())
        return from_arena(bytes); // the arena is zero
    if (padding.load(std::memory_order_relaxed) && to_pad(caller)) {
        void *block = allocate(bytes, 0, caller);
        return block ? std::memset(block, 0, bytes) : nullptr;
    }
    void *block = next.calloc(count, size);
    note(block, bytes, caller);
    return block;
}

LW_PUBLIC void *realloc(void *block, std::size_t size) {
    void *caller = __builtin_return_address(0);
    if (!block)
        return allocate(size, 0, caller);
    if (in_arena(block)) {
        auto left = static_cast<std::size_t>(arena + sizeof arena - static_cast<char *>(block));
        void *moved = allocate(size, 0, caller);
        return moved ? std::memcpy(moved, block, size < left ? size : left) : nullptr;
    }
    forget(block); // before another thread can be given its address
    void *moved = next.realloc(block, size);
    note(moved, size, caller);
    return moved;
}

LW_PUBLIC void *reallocarray(void *block, std::size_t count, std::size_t size) {
    std::size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return nullptr;
    }
    return realloc(block, bytes);
}

LW_PUBLIC void *memalign(std::size_t alignment, std::size_t size) {
    return allocate(size, alignment, __builtin_return_address(0));
}

LW_PUBLIC void *aligned_alloc(std::size_t alignment, std::size_t size) {
    return allocate(size, alignment, __builtin_return_address(0));
}

LW_PUBLIC int posix_memalign(void **to, std::size_t alignment, std::size_t size) {
    if (!is_power_of_two(alignment) || alignment % sizeof(void *))
        return EINVAL;
    int before = errno;
    void *block = allocate(size, alignment, __builtin_return_address(0));
    errno = before;
    if (!block)
        return ENOMEM;
    *to = block;
    return 0;
}

// C++: who called `new` is the site, not the C++ library. One that fails goes on to the library's own, which throws.
#define LW_NEW(symbol, fallback)                                                                           \
    LW_PUBLIC void *symbol(std::size_t size) {                                                             \
        void *block = allocate(size ? size : 1, 0, __builtin_return_address(0));                           \
        return block ? block : reinterpret_cast<void *(*)(std::size_t)>(dlsym(RTLD_NEXT, fallback))(size); \
    }
#if defined(__i386__) // where std::size_t is unsigned int
LW_NEW(_Znwj, "_Znwj")
LW_NEW(_Znaj, "_Znaj")
#else
LW_NEW(_Znwm, "_Znwm")
LW_NEW(_Znam, "_Znam")
#endif
