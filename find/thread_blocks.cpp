// A block is recognised by three words that only a thread's own block has together; memory is read with process_vm_readv.
#include "find/thread_blocks.hpp"

#include "find/processes.hpp"

#include <cstring>
#include <sys/uio.h>
#include <vector>

namespace lw::find {

namespace {

// Offsets in the block: of a second copy of its address (glibc; musl has none), and of the thread's number.
struct Layout {
    std::size_t self, tid;
};
constexpr Layout layouts[] = {{0x10, 0x2d0}, {0, 0x30}}; // glibc's struct pthread since 2.4, musl's since 1.1.20
constexpr std::size_t block_bytes = 0x300;                // as far as a layout reaches
constexpr std::size_t chunk = 1 << 16, most_above_stack = 16 << 20, small_mapping = 1 << 20;

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

// Looks through [begin, end) as far as it can be read.
std::uint64_t search(pid_t pid, pid_t tid, std::uint64_t begin, std::uint64_t end) {
    std::vector<std::uint8_t> bytes(chunk + block_bytes);
    for (begin &= ~std::uint64_t{15}; begin < end; begin += chunk) {
        iovec here{bytes.data(), bytes.size()}, there{reinterpret_cast<void *>(begin), bytes.size()};
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

std::uint64_t find_thread_block(pid_t pid, pid_t tid, std::uint64_t stack_pointer) {
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

void ThreadBlocks::want([[maybe_unused]] std::uint32_t pid, [[maybe_unused]] std::uint32_t tid,
                        [[maybe_unused]] std::uint64_t stack_pointer) {
#if defined(__x86_64__)
    if (!done_.insert(std::uint64_t{pid} << 32 | tid).second)
        return;
    if (std::uint64_t found = find_thread_block(static_cast<pid_t>(pid), static_cast<pid_t>(tid), stack_pointer))
        Line(out_, "thread").number("pid", pid).number("tid", tid).number("pointer", found);
#endif
}

void ThreadBlocks::forget(std::uint32_t pid) {
    std::erase_if(done_, [&](std::uint64_t known) { return known >> 32 == pid; });
}

} // namespace lw::find
