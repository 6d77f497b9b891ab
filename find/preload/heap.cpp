// A preloaded malloc that hands every call on, notes who allocated what, and pads the blocks of named call sites.
//
// LINEWRIGHT_FIND_HEAP names the table's file; LINEWRIGHT_FIND_PAD holds MODULE+0xBEGIN-0xEND, several separated by commas:
// blocks whose allocating call returns into one of these ranges of a module's own addresses begin on a line of their own.
// LINEWRIGHT_FIND_PAD_TO=016 finds the same blocks and leaves them as malloc places them: the baseline of a trial runs the
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

constexpr std::size_t own_line = 128;   // bytes: a pair of lines where a CPU fetches pairs
constexpr std::size_t as_malloc = 16;   // alignment that malloc gives by itself
std::size_t pad_to = own_line;          // as_malloc in the baseline of a trial
constexpr unsigned most_ranges = 32;

struct Range {
    std::uintptr_t begin, end;
};
Range padded[most_ranges];
unsigned ranges;
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

bool to_pad(void *caller) {
    auto address = reinterpret_cast<std::uintptr_t>(caller);
    for (unsigned i = 0; i < ranges; i++)
        if (address > padded[i].begin && address <= padded[i].end)
            return true;
    return false;
}

void *allocate(std::size_t size, std::size_t alignment, void *caller) {
    if (!found_next())
        return from_arena(size);
    if (ranges && to_pad(caller) && size <= SIZE_MAX - own_line) {
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

struct Wanted {
    const char *module;
    std::size_t length;
    std::uintptr_t begin, end;
};

// Adds a range of one loaded module, if it is the one that is wanted.
int add_range(dl_phdr_info *info, std::size_t, void *given) {
    auto *wanted = static_cast<Wanted *>(given);
    char self[PATH_MAX];
    const char *name = info->dlpi_name;
    if (!*name) {
        ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
        self[length < 0 ? 0 : length] = '\0';
        name = self;
    }
    const char *base = std::strrchr(name, '/');
    base = base ? base + 1 : name;
    if (std::strlen(base) == wanted->length && std::memcmp(base, wanted->module, wanted->length) == 0 &&
        ranges < most_ranges)
        padded[ranges++] = {info->dlpi_addr + wanted->begin, info->dlpi_addr + wanted->end};
    return 0;
}

// MODULE+0xBEGIN-0xEND,… A module's name may hold + and -; the last ones count.
void read_ranges(const char *text) {
    while (*text) {
        std::size_t length = std::strcspn(text, ",");
        char item[PATH_MAX];
        if (length < sizeof item) {
            std::memcpy(item, text, length);
            item[length] = '\0';
            char *dash = std::strrchr(item, '-'),
                 *plus = dash ? static_cast<char *>(memrchr(item, '+', dash - item)) : nullptr;
            if (plus) {
                Wanted wanted{item, static_cast<std::size_t>(plus - item), std::strtoul(plus + 1, nullptr, 16),
                              std::strtoul(dash + 1, nullptr, 16)};
                dl_iterate_phdr(add_range, &wanted);
            }
        }
        text += length + (text[length] == ',');
    }
}

void in_child() { process = static_cast<std::uint64_t>(getpid()); }

[[gnu::constructor]] void begin() {
    found_next();
    process = static_cast<std::uint64_t>(getpid());
    pthread_atfork(nullptr, nullptr, in_child);
    if (const char *to = std::getenv("LINEWRIGHT_FIND_PAD_TO"); to && std::strtoul(to, nullptr, 10) == as_malloc)
        pad_to = as_malloc;
    if (const char *pad = std::getenv("LINEWRIGHT_FIND_PAD"))
        read_ranges(pad);
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
    if (ranges && to_pad(caller)) {
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
LW_NEW(_Znwm, "_Znwm")
LW_NEW(_Znam, "_Znam")
