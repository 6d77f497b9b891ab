// Pages of code are read with process_vm_readv: the program is not stopped for it.
#include "find/code.hpp"

#include "find/processes.hpp"

#include <array>
#include <sys/uio.h>

namespace lw::find {

namespace {

constexpr std::uint64_t page_bytes = 4096; // of what is written, whatever the kernel's own pages are
constexpr int pid_shift = 40;              // user addresses have at most 52 bits, pages of them 40

std::uint64_t key(std::uint32_t pid, std::uint64_t address) {
    return static_cast<std::uint64_t>(pid) << pid_shift | address / page_bytes;
}

} // namespace

void Code::want(std::uint32_t pid, std::uint64_t ip) {
    page(pid, ip & ~(page_bytes - 1));
    if ((ip & (page_bytes - 1)) < 256 && ip >= page_bytes) // the instructions before it lie there
        page(pid, (ip & ~(page_bytes - 1)) - page_bytes);
}

void Code::page(std::uint32_t pid, std::uint64_t address) {
    if (!done_.insert(key(pid, address)).second)
        return;
    std::array<std::uint8_t, page_bytes> bytes;
    iovec here{bytes.data(), bytes.size()}, there{pointer_to(address), bytes.size()};
    if (process_vm_readv(static_cast<pid_t>(pid), &here, 1, &there, 1, 0) != static_cast<ssize_t>(bytes.size()))
        return;
    Line(out_, "code").number("pid", pid).number("address", address).hex("bytes", bytes);
}

void Code::forget(std::uint32_t pid) {
    std::erase_if(done_, [&](std::uint64_t known) { return known >> pid_shift == pid; });
}

} // namespace lw::find
