// SPDX-License-Identifier: MIT
// Reads the rings of the preloaded library; mappings come from /proc, since no kernel record tells of them here.
#include "find/signals.hpp"

#include "find/processes.hpp"
#include "find/session.hpp"

#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <span>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lw::find {

namespace {

constexpr std::uint64_t describe_every_ns = 200'000'000;

SharedRing *map_ring(const std::string &path) {
    Handle file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    struct stat about;
    if (!file || fstat(file.get(), &about) != 0 || static_cast<std::size_t>(about.st_size) < sizeof(SharedRing))
        return nullptr;
    void *base = mmap(nullptr, sizeof(SharedRing), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (base == MAP_FAILED)
        return nullptr;
    auto *ring = static_cast<SharedRing *>(base);
    // Acquire: pairs with the release store that ends the library's initialisation (preload/timer.cpp).
    if (ring->magic.load(std::memory_order_acquire) == ring_magic)
        return ring;
    munmap(base, sizeof(SharedRing));
    return nullptr;
}

} // namespace

Signals::~Signals() {
    for (auto &[pid, process] : processes_)
        munmap(process.ring, sizeof(SharedRing));
    // The command removes the folder, unless it was killed.
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    std::filesystem::remove(std::filesystem::path(folder_).parent_path(), ignored); // where it is empty
}

void Signals::look_for_rings() {
    DIR *open = opendir(folder_.c_str());
    if (!open)
        return;
    while (dirent *entry = readdir(open)) {
        auto pid = static_cast<std::uint32_t>(std::strtoul(entry->d_name, nullptr, 10));
        if (!pid || processes_.contains(pid))
            continue;
        if (SharedRing *ring = map_ring(folder_ + "/" + entry->d_name))
            describe(pid, processes_.emplace(pid, Process{ring, 0, 0}).first->second);
    }
    closedir(open);
}

void Signals::describe(std::uint32_t pid, Process &process) {
    std::uint64_t now = monotonic_ns();
    if (process.described_ns && now - process.described_ns < describe_every_ns)
        return;
    if (!process.described_ns)
        describe_tasks(out_, static_cast<pid_t>(pid), {static_cast<pid_t>(pid)}, now);
    process.described_ns = now;
    describe_mappings(out_, static_cast<pid_t>(pid), now);
}

void Signals::drain() {
    look_for_rings();
    for (auto &[pid, process] : processes_) {
        SharedRing &ring = *process.ring;
        std::uint64_t tail = ring.tail.load(std::memory_order_relaxed);
        std::uint64_t before = tail;
        for (; tail - before < ring_slots; tail++) {
            Slot &slot = ring.slots[tail % ring_slots];
            // Acquire: pairs with the handler's release store, so that the whole sample is seen (preload/timer.cpp).
            if (!slot.full.load(std::memory_order_acquire))
                break;
            take(pid, slot);
            // Release: the slot is free only after it was read; pairs with the acquire load before a handler's reuse.
            slot.full.store(0, std::memory_order_release);
            ring.tail.store(tail + 1, std::memory_order_release);
        }
        totals_.lost += ring.lost.exchange(0, std::memory_order_relaxed);
        if (tail != before)
            describe(pid, process);
    }
}

std::uint64_t Signals::handler_ns() const {
    std::uint64_t sum = 0;
    for (auto &[pid, process] : processes_)
        sum += process.ring->handler_ns.load(std::memory_order_relaxed);
    return sum;
}

void Signals::take(std::uint32_t pid, const Slot &slot) {
    auto count = static_cast<std::size_t>(__builtin_popcountll(register_mask));
    std::uint64_t ip = slot.registers[instruction_pointer];
    totals_.samples++;
    code_.want(pid, ip, slot.time_ns);
    if (own_bits == 64)
        blocks_.want(pid, slot.tid, slot.registers[stack_pointer]);
    Line(out_, "sample")
        .number("time_ns", slot.time_ns)
        .number("pid", pid)
        .number("tid", slot.tid)
        .number("cpu", slot.cpu)
        .number("ip", ip)
        .number("bits", own_bits)
        .list("registers", std::span(slot.registers, count))
        .list("chain", std::span(slot.chain, slot.frames < most_frames ? slot.frames : most_frames))
        .list("top", std::span(slot.top, slot.words < top_words ? slot.words : top_words));
}

} // namespace lw::find
