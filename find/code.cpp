// SPDX-License-Identifier: MIT
// Pages of code are read with process_vm_readv: the program is not stopped for it.
#include "find/code.hpp"

#include "find/processes.hpp"

#include <array>
#include <string_view>
#include <sys/uio.h>

namespace lw::find {

namespace {

constexpr std::uint64_t page_bytes = 4096; // of what is written, whatever the kernel's own pages are
constexpr std::uint64_t again_ns = 20'000'000; // a page that samples fall into is looked at again after this time
constexpr int pid_shift = 40;              // user addresses have at most 52 bits, pages of them 40

std::uint64_t key(std::uint32_t pid, std::uint64_t address) {
    return static_cast<std::uint64_t>(pid) << pid_shift | address / page_bytes;
}

} // namespace

void Code::want(std::uint32_t pid, std::uint64_t ip, std::uint64_t now_ns) {
    page(pid, ip & ~(page_bytes - 1), now_ns);
    if ((ip & (page_bytes - 1)) < 256 && ip >= page_bytes) // the instructions before it lie there
        page(pid, (ip & ~(page_bytes - 1)) - page_bytes, now_ns);
}

void Code::page(std::uint32_t pid, std::uint64_t address, std::uint64_t now_ns) {
    auto [known, first] = pages_.try_emplace(key(pid, address));
    if (!first && now_ns < known->second.again_ns)
        return;
    known->second.again_ns = now_ns + again_ns;
    std::array<std::uint8_t, page_bytes> bytes;
    iovec here{bytes.data(), bytes.size()}, there{pointer_to(address), bytes.size()};
    if (process_vm_readv(static_cast<pid_t>(pid), &here, 1, &there, 1, 0) != static_cast<ssize_t>(bytes.size()))
        return;
    std::size_t hash = std::hash<std::string_view>{}({reinterpret_cast<const char *>(bytes.data()), bytes.size()});
    if (!first && hash == known->second.hash)
        return;
    known->second.hash = hash;
    Line(out_, "code").number("pid", pid).number("address", address).hex("bytes", bytes);
}

void Code::forget(std::uint32_t pid) {
    std::erase_if(pages_, [&](const auto &known) { return known.first >> pid_shift == pid; });
}

} // namespace lw::find
