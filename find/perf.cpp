// SPDX-License-Identifier: MIT
// Rings are read as the kernel's perf_event.h says: data_head with acquire, data_tail with release.
#include "find/perf.hpp"

#include <asm/perf_regs.h>
#include <atomic>
#include <cstring>
#include <ctime>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lw::find {

// DS to GS are not available for a 64-bit task: the kernel refuses a mask with them.
#if defined(__x86_64__)
const std::uint64_t register_mask =
    ((1ull << PERF_REG_X86_64_MAX) - 1) & ~(1ull << PERF_REG_X86_DS | 1ull << PERF_REG_X86_ES | 1ull << PERF_REG_X86_FS |
                                            1ull << PERF_REG_X86_GS | 1ull << PERF_REG_X86_CS | 1ull << PERF_REG_X86_SS);
#elif defined(__i386__)
const std::uint64_t register_mask = (1ull << PERF_REG_X86_CS) - 1; // a 64-bit kernel refuses segments to a 32-bit task too
#else
const std::uint64_t register_mask = (1ull << PERF_REG_ARM64_MAX) - 1;
#endif

Handle::~Handle() {
    if (fd_ >= 0)
        close(fd_);
}

std::optional<Ring> Ring::map(int fd, std::size_t pages) {
    auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void *base = mmap(nullptr, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return std::nullopt;
    return Ring(base, pages * page);
}

Ring::~Ring() {
    if (base_)
        munmap(base_, bytes_ + static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
}

void Ring::drain(const std::function<void(const perf_event_header &)> &take) {
    auto *control = static_cast<perf_event_mmap_page *>(base_);
    auto *data = static_cast<const std::uint8_t *>(base_) + sysconf(_SC_PAGESIZE);
    // Acquire: pairs with the kernel's barrier between writing records and moving data_head.
    std::uint64_t head = std::atomic_ref(control->data_head).load(std::memory_order_acquire);
    std::uint64_t tail = control->data_tail;
    while (tail < head) {
        std::size_t at = tail % bytes_;
        auto *record = reinterpret_cast<const perf_event_header *>(data + at);
        std::uint16_t size = record->size;
        if (size < sizeof *record)
            break;
        if (at + size > bytes_) { // it wraps around: put its two parts together
            copy_.resize(size);
            std::memcpy(copy_.data(), data + at, bytes_ - at);
            std::memcpy(copy_.data() + (bytes_ - at), data, size - (bytes_ - at));
            record = reinterpret_cast<const perf_event_header *>(copy_.data());
        }
        take(*record);
        tail += size;
    }
    // Release: the kernel overwrites records only after it has seen them consumed.
    std::atomic_ref(control->data_tail).store(head, std::memory_order_release);
}

perf_event_attr common_attributes() {
    perf_event_attr attributes{};
    attributes.size = sizeof attributes;
    attributes.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_CALLCHAIN |
                             PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    attributes.sample_regs_user = register_mask;
    attributes.sample_stack_user = stack_bytes;
    attributes.exclude_callchain_kernel = 1;
    attributes.sample_max_stack = 16;
    attributes.exclude_hv = 1;
    attributes.use_clockid = 1;
    attributes.clockid = CLOCK_MONOTONIC;
    attributes.sample_id_all = 1;
    return attributes;
}

perf_event_attr timer_attributes(std::uint64_t period_ns, bool kernel, bool on_exec) {
    perf_event_attr attributes = common_attributes();
    attributes.type = PERF_TYPE_SOFTWARE;
    attributes.config = PERF_COUNT_SW_CPU_CLOCK;
    attributes.sample_period = period_ns;
    attributes.disabled = 1;
    attributes.enable_on_exec = on_exec;
    attributes.inherit = 1;
    attributes.exclude_kernel = !kernel;
    attributes.mmap = 1;
    attributes.mmap_data = 1;
    attributes.mmap2 = 1;
    attributes.task = 1;
    attributes.comm = 1;
    attributes.comm_exec = 1;
    attributes.exclude_idle = 1;
    return attributes;
}

perf_event_attr switch_attributes() {
    perf_event_attr attributes = common_attributes();
    attributes.type = PERF_TYPE_SOFTWARE;
    attributes.config = PERF_COUNT_SW_DUMMY;
    attributes.disabled = 1;
    attributes.context_switch = 1;
    return attributes;
}

int perf_open(const perf_event_attr &attributes, pid_t tid, int cpu, int group) {
    perf_event_attr copy = attributes;
    return static_cast<int>(syscall(SYS_perf_event_open, &copy, tid, cpu, group, PERF_FLAG_FD_CLOEXEC));
}

namespace {

// Takes words off the front of a record's body; `ok` turns false where the record ends too early.
struct Reader {
    const std::uint8_t *at, *end;
    bool ok = true;

    std::uint64_t word() {
        std::uint64_t value = 0;
        if (end - at < 8)
            ok = false;
        else
            std::memcpy(&value, at, 8), at += 8;
        return value;
    }
    void words(std::vector<std::uint64_t> &to, std::uint64_t count) {
        to.clear();
        if (count > static_cast<std::uint64_t>(end - at) / 8)
            ok = false;
        for (std::uint64_t i = 0; ok && i < count; i++)
            to.push_back(word());
    }
};

void user_part(std::vector<std::uint64_t> &chain) {
    // Markers of the contexts (kernel, user …) are the last 4095 numbers.
    std::erase_if(chain, [](std::uint64_t address) { return address >= static_cast<std::uint64_t>(-4095); });
}

// The words of a 32-bit stack.
std::vector<std::uint64_t> halves(const std::vector<std::uint64_t> &words) {
    std::vector<std::uint64_t> found;
    for (std::uint64_t word : words) {
        found.push_back(static_cast<std::uint32_t>(word));
        found.push_back(word >> 32);
    }
    return found;
}

} // namespace

bool parse(const perf_event_header &record, Sample &sample) {
    auto *begin = reinterpret_cast<const std::uint8_t *>(&record);
    Reader from{begin + sizeof record, begin + record.size};
    sample.kernel = (record.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
    sample.ip = from.word();
    std::uint64_t ids = from.word();
    sample.pid = static_cast<std::uint32_t>(ids);
    sample.tid = static_cast<std::uint32_t>(ids >> 32);
    sample.time_ns = from.word();
    sample.cpu = static_cast<std::uint32_t>(from.word());
    from.words(sample.chain, from.word());
    user_part(sample.chain);
    std::uint64_t abi = from.word();
    sample.bits = abi == PERF_SAMPLE_REGS_ABI_64 ? 64 : abi == PERF_SAMPLE_REGS_ABI_32 ? 32 : 0;
    sample.registers.clear();
    if (sample.bits)
        from.words(sample.registers, static_cast<std::uint64_t>(__builtin_popcountll(register_mask)));
    sample.top.clear();
    if (std::uint64_t bytes = from.word(); from.ok && bytes) {
        std::vector<std::uint64_t> all;
        from.words(all, bytes / 8);
        std::uint64_t valid = from.word();
        all.resize(std::min<std::uint64_t>(valid / 8, all.size()));
        sample.top = sample.bits == 32 ? halves(all) : std::move(all);
    }
    return from.ok;
}

} // namespace lw::find
