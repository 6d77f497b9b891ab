// A preloaded malloc that hands every call on, notes who allocated what, and pads the blocks of named call sites.
//
// LINEWRIGHT_FIND_HEAP names the table's file; LINEWRIGHT_FIND_PAD holds MODULE+0xBEGIN-0xEND, several separated by commas:
// blocks whose allocating call returns into one of these ranges of a module's own addresses begin on a line of their own.
// Modules that are loaded later are known by the first caller in them. LINEWRIGHT_FIND_PAD_TO=016 finds the same blocks and leaves them as malloc places them: the baseline of a trial runs the
// same code with an environment of the same length, so that it differs from the padded setting in the padding alone.
#include "find/preload/blocks.hpp"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <new>
#include <sys/mman.h>
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
std::atomic<std::uint64_t> serial;
std::uint64_t process;

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

void note(void *block, std::size_t size, void *caller) {
    Blocks *to = table.load(std::memory_order_acquire);
    if (!to || !block)
        return;
    std::uint64_t key = key_of(process, reinterpret_cast<std::uintptr_t>(block)), first = group_of(key);
    for (std::uint64_t at = first; at < first + group; at++) {
        std::uint64_t free = 0;
        if (!to->keys[at].compare_exchange_strong(free, 1, std::memory_order_acquire))
            continue;
        to->blocks[at] = {size, reinterpret_cast<std::uintptr_t>(caller), serial.fetch_add(1, std::memory_order_relaxed)};
        // Release: a reader that sees the key sees the block; pairs with reading the file after the program's end.
        to->keys[at].store(key, std::memory_order_release);
        return;
    }
    to->dropped.fetch_add(1, std::memory_order_relaxed);
}

void forget(void *block) {
    Blocks *to = table.load(std::memory_order_acquire);
    if (!to || !block)
        return;
    std::uint64_t key = key_of(process, reinterpret_cast<std::uintptr_t>(block)), first = group_of(key);
    for (std::uint64_t at = first; at < first + group; at++)
        if (to->keys[at].load(std::memory_order_relaxed) == key)
            // Release: the thread that takes the slot next (acquire in note) writes its block after ours was given up.
            return to->keys[at].store(0, std::memory_order_release);
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
    int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
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

// LINEWRIGHT_FIND_PAD_SEEN/LINEWRIGHT_FIND_PAD_AS is made when the first block is found: a setting that finds none shows nothing.
void prepare_mark() {
    const char *folder = std::getenv("LINEWRIGHT_FIND_PAD_SEEN"), *name = std::getenv("LINEWRIGHT_FIND_PAD_AS");
    if (folder && name && std::snprintf(mark, sizeof mark, "%s/%s", folder, name) >= static_cast<int>(sizeof mark))
        mark[0] = '\0';
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
