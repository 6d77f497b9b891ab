// SPDX-License-Identifier: MIT
// A plugin for qemu-user: every access of every thread, as masks of bytes by line and instruction.
//
// Options: to=FILE (each process writes FILE.PID at its end). Only lines that two threads touched, or that lie in
// shared mappings, are written: others cannot be shared. Guest addresses are the host's (guest base 0), as qemu-user has it
// for 64-bit programs.
#include "find/code.hpp"
#include "find/lines.hpp"
#include "find/plugin/qemu.hpp"
#include "find/processes.hpp"
#include "find/thread_blocks.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/futex.h>
#include <map>
#include <memory>
#include <mutex>
#include <sched.h>
#include <string>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace {

using namespace lw::find;

constexpr std::uint64_t line_bytes = 64;
constexpr std::uint64_t window_accesses = 1 << 20; // of all threads together
// Accesses in a thread's turn: a five hundredth of all that it made so far, so that short programs have many turns, and within
// these, so that long ones are not held up. A thread that waits for another's turn goes on after its patience, which is as
// long as a busy machine may leave a thread without a CPU, and gets shorter each time that nothing happens.
constexpr std::uint64_t shortest_turn = 1 << 6, longest_turn = 1 << 14, turns_of_own = 1 << 9;
constexpr long longest_patience_ns = 200'000'000, shortest_patience_ns = 1'000'000;
constexpr int most_tries = 200;

struct Instruction {
    std::uint64_t address;
    bool atomic;
};

struct Key {
    std::uint64_t line, ip, caller;
    bool operator==(const Key &) const = default;
};
struct Hash {
    std::size_t operator()(const Key &key) const {
        return (key.line * 0x9E3779B97F4A7C15ull ^ key.ip * 0xC2B2AE3D27D4EB4Full ^ key.caller) >> 7;
    }
};

struct Counts {
    std::uint64_t reads = 0, writes = 0, atomics = 0, bytes = 0, mask = 0, written = 0, first = ~0ull, last = 0,
                  takeovers = 0;

    void add(const Counts &other) {
        reads += other.reads;
        writes += other.writes;
        atomics += other.atomics;
        bytes += other.bytes;
        mask |= other.mask;
        written |= other.written;
        takeovers += other.takeovers;
        first = std::min(first, other.first);
        last = std::max(last, other.last);
    }
};

// One thread's own counts: a small direct-mapped cache before a map, touched by that thread alone until the program ends.
struct Thread {
    std::uint64_t tid = static_cast<std::uint64_t>(syscall(SYS_gettid));
    std::uint64_t last_call = 0; // x86: 0 once a function has returned since, since whose call leads here is not known then
    std::uint64_t made = 0, turn = 0, left = 1; // accesses: in turns before, in this one, and left of it
    long patience_ns = longest_patience_ns;
    std::uint32_t said = 0, heard = 0; // `events` of its own, and of others when its turn was over last
    std::uint32_t before_call = 0; // and of others when its last system call began
    bool shares_memory = false; // what it starts does
    bool runs = false; // guest code: not in a system call that may last
    std::uint64_t list = 0; // of robust mutexes: leads to the thread's storage
    std::string name; // of one that has ended
    ThreadStorage storage;
    struct Entry {
        Key key{~0ull, 0, 0};
        Counts counts;
    };
    std::array<Entry, 4096> recent;
    std::unordered_map<Key, Counts, Hash> all;

    Counts &at(const Key &key) {
        Entry &entry = recent[Hash{}(key) % recent.size()];
        if (!(entry.key == key)) {
            if (entry.counts.mask)
                all[entry.key].add(entry.counts);
            entry = {key, {}};
        }
        return entry.counts;
    }
    void settle() {
        for (Entry &entry : recent)
            if (entry.counts.mask)
                all[entry.key].add(entry.counts), entry = {};
    }
};

std::mutex lock; // for the two below; never taken in a memory access after a thread's first
std::vector<std::unique_ptr<Thread>> threads;
std::unordered_map<std::uint64_t, std::unique_ptr<Instruction>> instructions;
std::atomic<std::uint64_t> accesses;
thread_local Thread *self;
std::string target, file;

Thread &this_thread() {
    if (!self) {
        std::lock_guard hold(lock);
        self = threads.emplace_back(std::make_unique<Thread>()).get();
    }
    return *self;
}

// Threads take turns, so that what they share changes hands however the host schedules them, on one CPU or beside other
// programs: a thread whose turn is over waits until another's is, or one has entered a system call. Two that run at once
// never wait. The counts order nothing: they only say that something has happened.
std::atomic<std::uint32_t> events, running, waiting;
std::atomic<pid_t> counted_in; // the process whose threads those are: a forked one has one thread

// Events that others have said.
std::uint32_t of_others(const Thread &thread) { return events.load(std::memory_order_relaxed) - thread.said; }

void say_event(Thread &thread) {
    thread.said++;
    events.fetch_add(1, std::memory_order_seq_cst); // pairs with the load of `events` in await_event()
    if (waiting.load(std::memory_order_seq_cst)) // pairs with the addition to `waiting` in await_event()
        syscall(SYS_futex, &events, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

// Until something has happened since, if at least so many threads run, or for so long; whether it has.
bool await_event(std::uint32_t seen, std::uint32_t beside, long most_ns) {
    timespec most{0, most_ns};
    waiting.fetch_add(1, std::memory_order_seq_cst); // pairs with the load of `waiting` in say_event()
    if (events.load(std::memory_order_seq_cst) == seen && running.load(std::memory_order_relaxed) >= beside)
        syscall(SYS_futex, &events, FUTEX_WAIT_PRIVATE, seen, &most, nullptr, 0);
    waiting.fetch_sub(1, std::memory_order_relaxed);
    return events.load(std::memory_order_relaxed) != seen;
}

// Until others have said more than so much.
void await_other(Thread &thread, std::uint32_t heard_of, std::uint32_t beside) {
    bool heard = await_event(heard_of + thread.said, beside, thread.patience_ns);
    thread.patience_ns = heard ? longest_patience_ns : std::max(thread.patience_ns / 2, shortest_patience_ns);
}

// Whether one of the threads that are in a system call wants a CPU: it is about to wait there, or waits no more.
bool any_awake(const Thread &but) {
    std::lock_guard hold(lock);
    return std::ranges::any_of(threads, [&](auto &thread) {
        char path[64], state[64] = {};
        std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", static_cast<int>(thread->tid));
        int fd = thread.get() == &but ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return false;
        bool read_any = read(fd, state, sizeof state - 1) > 0;
        close(fd);
        const char *name_ends = read_any ? std::strrchr(state, ')') : nullptr;
        return name_ends && name_ends[1] && name_ends[2] == 'R';
    });
}

// A thread that runs alone since something has happened lets such a one come as far as that.
void await_awake(Thread &thread, std::uint32_t seen) {
    for (int tries = 0; tries < most_tries && any_awake(thread) && !await_event(seen, 0, shortest_patience_ns); tries++) {
    }
}

void leave(Thread &thread) {
    if (!thread.runs)
        return;
    thread.runs = false;
    accesses.fetch_add(thread.turn - thread.left, std::memory_order_relaxed);
    thread.turn = thread.left;
    thread.left = 1; // an access finds out that it is back, if the end of the call did not
    running.fetch_sub(1, std::memory_order_relaxed);
    say_event(thread);
}

void enter(Thread &thread) {
    if (thread.runs)
        return;
    thread.runs = true;
    thread.left = thread.turn = std::max(thread.turn, shortest_turn);
    running.fetch_add(1, std::memory_order_relaxed);
    say_event(thread);
}

void end_turn(Thread &thread) {
    if (!thread.runs)
        return enter(thread);
    if (pid_t me = getpid(); counted_in.exchange(me, std::memory_order_relaxed) != me)
        running.store(1, std::memory_order_relaxed), waiting.store(0, std::memory_order_relaxed);
    accesses.fetch_add(thread.turn, std::memory_order_relaxed);
    thread.made += thread.turn;
    thread.left = thread.turn = std::clamp(thread.made / turns_of_own, shortest_turn, longest_turn);
    say_event(thread);
    if (of_others(thread) == thread.heard)
        await_other(thread, thread.heard, 2);
    std::uint32_t heard = of_others(thread);
    if (heard != thread.heard && running.load(std::memory_order_relaxed) == 1)
        await_awake(thread, heard + thread.said);
    thread.heard = heard;
}

std::uint64_t window(Thread &thread) {
    if (--thread.left == 0)
        end_turn(thread);
    return accesses.load(std::memory_order_relaxed) / window_accesses;
}

// Who wrote a line last: the line in the upper 40 bits, the writer's thread below, 0 once another thread has read it. Two
// lines that fall on one entry forget each other, which makes counts too small, never too large. Unordered on purpose: an
// order of the accesses that plain loads and stores do not have must not be forced on the program.
std::array<std::atomic<std::uint64_t>, 1 << 20> last_writer;

// Whether this access takes the line over from another thread.
bool takes_over(std::uint64_t line, std::uint64_t tid, bool store) {
    std::atomic<std::uint64_t> &entry = last_writer[(line * 0x9E3779B97F4A7C15ull) >> 44];
    std::uint64_t tag = line << 24, mine = tag | (tid & 0xFFFFFF), seen = entry.load(std::memory_order_relaxed);
    bool known = seen >> 24 == tag >> 24, others = known && seen != mine && (store || seen != tag);
    if (store ? seen != mine : others)
        entry.store(store ? mine : tag, std::memory_order_relaxed);
    return others;
}

// Part of an access that lies on one line.
void touch(Thread &thread, const Instruction &by, std::uint64_t address, std::uint64_t size, bool store, std::uint64_t now) {
    Counts &counts = thread.at({address / line_bytes, by.address, by.atomic ? thread.last_call : 0});
    std::uint64_t mask = (size >= 64 ? ~0ull : (1ull << size) - 1) << address % line_bytes;
    counts.bytes += size;
    counts.mask |= mask;
    counts.first = std::min(counts.first, now);
    counts.last = std::max(counts.last, now);
    counts.takeovers += takes_over(address / line_bytes, thread.tid, store);
    if (!store) {
        counts.reads++;
        return;
    }
    counts.writes++;
    counts.atomics += by.atomic;
    counts.written |= mask;
}

void on_access(unsigned, qemu_plugin_meminfo_t info, std::uint64_t address, void *given) {
    Thread &thread = this_thread();
    auto &by = *static_cast<Instruction *>(given);
    std::uint64_t size = 1ull << qemu_plugin_mem_size_shift(info), now = window(thread);
    bool store = qemu_plugin_mem_is_store(info);
    std::uint64_t here = std::min(size, line_bytes - address % line_bytes);
    touch(thread, by, address, here, store, now);
    if (here < size)
        touch(thread, by, address + here, size - here, store, now);
}

bool is_arm64() { return target == "aarch64"; }

bool is_futex(std::int64_t number) { return number == (is_arm64() ? 98 : 202); }

// Whether a thread may wait in a system call. It does not where it wakes another, nor in those that it starts others with.
bool lasts(std::int64_t number, std::uint64_t futex) {
    constexpr int waits[] = {FUTEX_WAIT, FUTEX_WAIT_BITSET, FUTEX_LOCK_PI, FUTEX_WAIT_REQUEUE_PI};
    constexpr std::int64_t x86_64[] = {9, 10, 11, 12, 14, 28, 56, 273, 334, 435}; // mmap, mprotect, munmap, brk,
    constexpr std::int64_t arm64[] = {222, 226, 215, 214, 135, 233, 220, 99, 293, 435}; // rt_sigprocmask, madvise, clone,
    if (is_futex(number))
        return std::ranges::find(waits, static_cast<int>(futex) & FUTEX_CMD_MASK) != std::end(waits);
    return is_arm64() ? std::ranges::find(arm64, number) == std::end(arm64) // set_robust_list, rseq, clone3
                      : std::ranges::find(x86_64, number) == std::end(x86_64);
}

// A thread's blocks are looked at with each of its system calls, of which there is always one at its end: behind that they
// are gone.
void on_system_call(qemu_plugin_id_t, unsigned, std::int64_t number, std::uint64_t first, std::uint64_t second,
                    std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t) {
    constexpr std::int64_t set_robust_list_x86_64 = 273, set_robust_list_arm64 = 99, exit_x86_64 = 60, exit_arm64 = 93;
    Thread &thread = this_thread();
    if (number == (is_arm64() ? set_robust_list_arm64 : set_robust_list_x86_64))
        thread.list = first;
    if (number == (is_arm64() ? exit_arm64 : exit_x86_64))
        thread.name = name_of(static_cast<pid_t>(thread.tid));
    thread.shares_memory = first & CLONE_VM; // of clone, the only one that is asked
    thread.before_call = of_others(thread);
    if (lasts(number, second))
        leave(thread);
    if (thread.list)
        look_at_thread(getpid(), static_cast<pid_t>(thread.tid), thread.list, is_arm64() ? Arch::arm64 : Arch::x86_64,
                       thread.storage);
}

// A thread that has woken or started another lets it begin: on a busy machine it could be done before that has a CPU. On one
// CPU the other may have begun within the call, and waits for this one already.
void on_system_call_end(qemu_plugin_id_t, unsigned, std::int64_t number, std::int64_t answer) {
    constexpr std::int64_t clone_x86_64 = 56, clone_arm64 = 220;
    Thread &thread = this_thread();
    bool starts = number == (is_arm64() ? clone_arm64 : clone_x86_64) && thread.shares_memory;
    enter(thread);
    if (answer > 0 && (is_futex(number) || starts))
        await_other(thread, thread.before_call, 0);
}

Instruction no_call{0, false};

void on_call(unsigned, void *given) { this_thread().last_call = static_cast<Instruction *>(given)->address; }

// x86: a lock prefix, or xchg with memory. Prefixes stand before the opcode in any order.
bool x86_atomic(const std::uint8_t *code, std::size_t size) {
    bool locked = false;
    std::size_t at = 0;
    for (; at < size; at++) {
        std::uint8_t byte = code[at];
        bool prefix = byte == 0xF0 || byte == 0x66 || byte == 0xF2 || byte == 0xF3 || byte == 0x64 || byte == 0x65 ||
                      byte == 0x2E || byte == 0x3E || (byte & 0xF0) == 0x40;
        if (!prefix)
            break;
        locked |= byte == 0xF0;
    }
    return locked ||
           (at < size && (code[at] == 0x86 || code[at] == 0x87)); // one that has no memory operand accesses nothing
}

bool x86_call(const std::uint8_t *code, std::size_t size) {
    std::size_t at = size && (code[0] & 0xF0) == 0x40 ? 1 : 0;
    return size > at + 1 && (code[at] == 0xE8 || (code[at] == 0xFF && (code[at + 1] >> 3 & 7) == 2));
}

bool x86_return(const std::uint8_t *code, std::size_t size) {
    std::size_t at = size > 1 && (code[0] == 0xF3 || code[0] == 0xF2) ? 1 : 0; // padding for branch prediction; bnd
    return size > at && (code[at] == 0xC3 || code[at] == 0xC2);
}

// arm64: operations of LSE, and loads and stores exclusive; the encodings as linewright/elf/arm64.py has them.
bool arm64_atomic(std::uint32_t word) {
    bool lse = (word & 0x3F200C00) == 0x38200000 && ((word & 0x8000) == 0 || (word & 0xF000) == 0x8000);
    bool cas = (word & 0x3FA07C00) == 0x08A07C00 || (word & 0xBFA07C00) == 0x08207C00;
    bool exclusive = (word & 0x3FA00000) == 0x08000000 || (word & 0xBFA00000) == 0x88200000;
    return lse || cas || exclusive;
}

bool arm64_call(std::uint32_t word) { return (word & 0xFC000000) == 0x94000000 || (word & 0xFFFFFC1F) == 0xD63F0000; }

void on_translation(qemu_plugin_id_t, qemu_plugin_tb *block) {
    std::lock_guard hold(lock);
    for (std::size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++) {
        qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
        std::uint64_t address = qemu_plugin_insn_vaddr(instruction);
        auto *code = static_cast<const std::uint8_t *>(qemu_plugin_insn_data(instruction));
        std::size_t size = qemu_plugin_insn_size(instruction);
        std::uint32_t word = 0;
        std::memcpy(&word, code, std::min<std::size_t>(size, 4));
        bool arm = is_arm64();
        auto &known = instructions[address];
        if (!known)
            known = std::make_unique<Instruction>();
        *known = {address, arm ? arm64_atomic(word) : x86_atomic(code, size)};
        qemu_plugin_register_vcpu_mem_cb(instruction, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, known.get());
        if (arm ? arm64_call(word) : x86_call(code, size))
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_call, QEMU_PLUGIN_CB_NO_REGS, known.get());
        else if (!arm && x86_return(code, size)) // arm64's helpers are jumped to, too: the last call is in who does
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_call, QEMU_PLUGIN_CB_NO_REGS, &no_call);
    }
}

// Lines that two threads touched, and those of shared mappings: there the other thread may be another process's.
std::unordered_set<std::uint64_t> shared_lines() {
    std::vector<Mapping> open;
    for (Mapping &mapping : mappings_of(getpid()))
        if (mapping.shared && mapping.writable)
            open.push_back(std::move(mapping));
    auto in_open = [&](std::uint64_t address) {
        return std::ranges::any_of(open, [&](const Mapping &m) { return m.start <= address && address < m.end; });
    };
    std::unordered_map<std::uint64_t, const Thread *> first;
    std::unordered_set<std::uint64_t> found;
    for (auto &thread : threads)
        for (auto &[key, counts] : thread->all)
            if (auto [known, added] = first.try_emplace(key.line, thread.get());
                (!added && known->second != thread.get()) || in_open(key.line * line_bytes))
                found.insert(key.line);
    return found;
}

std::string guest_program() {
    char *named = const_cast<char *>(qemu_plugin_path_to_binary()), *whole = named ? realpath(named, nullptr) : nullptr;
    std::string found = whole ? whole : "";
    std::free(named);
    std::free(whole);
    return found;
}

// arm64: how often each call led to an atomic instruction, whatever line that went to. Most of them stand in outline
// helpers.
void write_atomics(Output &output, std::uint32_t me) {
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> found;
    for (auto &thread : threads)
        for (auto &[key, counts] : thread->all)
            if (key.caller)
                found[{key.ip, key.caller}] += std::max(counts.reads, counts.writes);
    for (auto &[place, count] : found)
        Line(output, "atomic")
            .number("pid", me)
            .number("ip", place.first)
            .number("caller", place.second)
            .number("count", count);
}

void write_all(Output &output) {
    auto me = static_cast<std::uint32_t>(getpid());
    std::uint64_t total = 0;
    Line(output, "start")
        .number("linewright_find", 1)
        .text("source", "exact")
        .text("arch", is_arm64() ? "arm64" : "x86_64")
        .text("scope", "program")
        .number("pid", me)
        .number("period_ns", 0)
        .flag("kernel", false)
        .number("cpus", static_cast<std::uint64_t>(sysconf(_SC_NPROCESSORS_ONLN)))
        .number("left_out", 0)
        .texts("command", {})
        .number("time_ns", 0);
    describe_mappings(output, getpid(), 0);
    describe_modules(output, me, guest_program());
    auto wanted = shared_lines();
    Code code(output);
    for (auto &thread : threads) {
        Line(output, "task")
            .number("time_ns", 0)
            .text("event", "found")
            .number("pid", me)
            .number("tid", thread->tid)
            .text("name", thread->name.empty() ? name_of(static_cast<pid_t>(thread->tid)) : thread->name);
        if (thread->storage.pointer)
            describe_thread(output, me, static_cast<std::uint32_t>(thread->tid), thread->storage);
        for (auto &[key, counts] : thread->all) {
            total += counts.reads + counts.writes;
            if (!wanted.contains(key.line))
                continue;
            code.want(me, key.ip, 0);
            Line(output, "access")
                .number("pid", me)
                .number("tid", thread->tid)
                .number("line", key.line)
                .number("ip", key.ip)
                .number("caller", key.caller)
                .number("reads", counts.reads)
                .number("writes", counts.writes)
                .number("atomics", counts.atomics)
                .number("bytes", counts.bytes)
                .number("mask", counts.mask)
                .number("written", counts.written)
                .number("first", counts.first)
                .number("last", counts.last)
                .number("takeovers", counts.takeovers);
        }
    }
    if (is_arm64())
        write_atomics(output, me);
    Line(output, "end").number("samples", total);
}

void on_exit(qemu_plugin_id_t, void *) {
    std::lock_guard hold(lock);
    for (auto &thread : threads)
        thread->settle();
    std::string path = file + "." + std::to_string(getpid());
    int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    {
        Output output(fd);
        write_all(output);
    }
    close(fd);
}

} // namespace

extern "C" {
[[gnu::visibility("default")]] int qemu_plugin_version = 1;
}

extern "C" [[gnu::visibility("default")]] int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                                                  char **argv) {
    target = info->target_name;
    for (int i = 0; i < argc; i++)
        if (std::strncmp(argv[i], "to=", 3) == 0)
            file = argv[i] + 3;
    if (file.empty() || (target != "x86_64" && target != "aarch64"))
        return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_vcpu_syscall_cb(id, on_system_call);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, on_system_call_end);
    qemu_plugin_register_atexit_cb(id, on_exit, nullptr);
    return 0;
}
