// SPDX-License-Identifier: MIT
// The sampler's output is JSON whatever is in it, and records of the kernel are read within their bounds.
#include "find/lines.hpp"
#include "find/perf.hpp"
#include "find/processes.hpp"
#include "find/session.hpp"
#include "find/thread_blocks.hpp"
#include "find/watch.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace lw::find;

// What `write` puts on its output.
template <class Write> std::string written(Write write) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    {
        Output output(ends[1]);
        write(output);
    }
    close(ends[1]);
    std::string all;
    char bytes[4096];
    for (ssize_t got; (got = read(ends[0], bytes, sizeof bytes)) > 0;)
        all.append(bytes, static_cast<std::size_t>(got));
    close(ends[0]);
    return all;
}

TEST(Lines, EveryKindOfField) {
    std::uint64_t numbers[] = {0, ~0ull};
    std::string words[] = {"a", "b c"};
    std::uint8_t bytes[] = {0x00, 0xf0, 0x0f};
    std::string line = written([&](Output &output) {
        Line(output, "t")
            .number("n", ~0ull)
            .flag("f", true)
            .text("s", "x")
            .list("l", numbers)
            .texts("w", words)
            .hex("h", bytes);
    });
    EXPECT_EQ(line, "{\"type\":\"t\",\"n\":18446744073709551615,\"f\":true,\"s\":\"x\",\"l\":[0,18446744073709551615],"
                    "\"w\":[\"a\",\"b c\"],\"h\":\"00f00f\"}\n");
}

TEST(Lines, TextOfAnyBytesIsValidJson) {
    auto text = [](std::string_view value) { return written([&](Output &output) { Line(output, "t").text("s", value); }); };
    EXPECT_EQ(text("a\"b\\c\n"), "{\"type\":\"t\",\"s\":\"a\\\"b\\\\c\\u000a\"}\n");
    EXPECT_EQ(text("\xC3\xA9"), "{\"type\":\"t\",\"s\":\"\xC3\xA9\"}\n");
    // Not UTF-8: a lone byte, an overlong form, a surrogate, a character cut off.
    EXPECT_EQ(text("\xFF"), "{\"type\":\"t\",\"s\":\"\xEF\xBF\xBD\"}\n");
    EXPECT_EQ(text("\xC0\xAF"), "{\"type\":\"t\",\"s\":\"\xEF\xBF\xBD\xEF\xBF\xBD\"}\n");
    EXPECT_EQ(text("\xED\xA0\x80").find('\xED'), std::string::npos);
    EXPECT_EQ(text("x\xC3").find('\xC3'), std::string::npos);
}

TEST(Lines, AReaderThatLeftEndsTheOutputOnly) {
    signal(SIGPIPE, SIG_IGN);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    close(ends[0]);
    Output output(ends[1]);
    Line(output, "t").number("n", 1);
    output.flush();
    EXPECT_TRUE(output.broken());
    close(ends[1]);
}

// A sample record as the kernel lays it out for our sample type.
std::vector<std::uint8_t> record(std::uint64_t frames, std::uint64_t abi, std::uint64_t stack) {
    std::vector<std::uint64_t> words = {0x1000, 7ull << 32 | 5, 99, 1, frames};
    for (std::uint64_t i = 0; i < frames; i++)
        words.push_back(i == 0 ? static_cast<std::uint64_t>(-512) : 0x2000 + i); // the marker of user space first
    words.push_back(abi);
    if (abi)
        for (int i = 0; i < __builtin_popcountll(register_mask); i++)
            words.push_back(static_cast<std::uint64_t>(i));
    words.push_back(stack);
    for (std::uint64_t i = 0; i < stack / 8; i++)
        words.push_back(0x3000 + i);
    if (stack)
        words.push_back(stack / 2); // the kernel copied half of it
    perf_event_header header{PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER,
                             static_cast<std::uint16_t>(sizeof(perf_event_header) + 8 * words.size())};
    std::vector<std::uint8_t> bytes(header.size);
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, words.data(), 8 * words.size());
    return bytes;
}

TEST(Perf, ASampleIsReadWhole) {
    auto bytes = record(3, PERF_SAMPLE_REGS_ABI_64, stack_bytes);
    Sample sample;
    ASSERT_TRUE(parse(*reinterpret_cast<perf_event_header *>(bytes.data()), sample));
    EXPECT_EQ(sample.ip, 0x1000u);
    EXPECT_EQ(sample.pid, 5u);
    EXPECT_EQ(sample.tid, 7u);
    EXPECT_EQ(sample.bits, 64u);
    EXPECT_EQ(sample.chain, (std::vector<std::uint64_t>{0x2001, 0x2002}));
    EXPECT_EQ(sample.registers.size(), static_cast<std::size_t>(__builtin_popcountll(register_mask)));
    EXPECT_EQ(sample.top.size(), stack_bytes / 16);
}

TEST(Perf, AKernelThreadHasNoRegisters) {
    auto bytes = record(0, PERF_SAMPLE_REGS_ABI_NONE, 0);
    Sample sample;
    ASSERT_TRUE(parse(*reinterpret_cast<perf_event_header *>(bytes.data()), sample));
    EXPECT_EQ(sample.bits, 0u);
    EXPECT_TRUE(sample.registers.empty() && sample.top.empty());
}

TEST(Perf, ARecordCutShortAnywhereIsRefused) {
    auto bytes = record(3, PERF_SAMPLE_REGS_ABI_64, stack_bytes);
    auto *header = reinterpret_cast<perf_event_header *>(bytes.data());
    for (std::size_t size = sizeof *header; size < bytes.size(); size += 8) {
        header->size = static_cast<std::uint16_t>(size);
        Sample sample;
        EXPECT_FALSE(parse(*header, sample)) << size;
    }
}

TEST(Watch, AThreadThatIsGoneIsSaidToBe) {
    std::string lines = written([](Output &output) {
        Watches watches(output, 0.01);
        watches.ask({.id = 3, .tid = 1 << 22, .address = 0x1000});
        watches.step(1'000'000'000, 0);
        EXPECT_TRUE(watches.idle());
    });
    EXPECT_NE(lines.find("\"id\":3"), std::string::npos);
    EXPECT_TRUE(lines.find("\"outcome\":\"gone\"") != std::string::npos ||
                lines.find("\"outcome\":\"refused\"") != std::string::npos);
}

// The budget: without time passing only the first allowance (5 ms of hits at 80 µs) is spent and the rest waits. Where
// there are no watchpoints (an emulator, a sandbox), each request is answered instead.
TEST(Watch, NoMoreAreArmedThanTheBudgetAllows) {
    constexpr std::uint64_t requests = 512;
    std::uint64_t words[requests] = {};
    bool all_answered = false;
    std::size_t armed = 0;
    std::string lines = written([&](Output &output) {
        Watches watches(output, 0.01);
        for (std::uint64_t i = 0; i < requests; i++)
            watches.ask({.id = i, .tid = gettid(), .address = reinterpret_cast<std::uint64_t>(&words[i]), .ms = 1});
        for (int step = 0; step < 1000; step++)
            watches.step(1'000'000'000 + static_cast<std::uint64_t>(step), 0); // the program uses no CPU time
        EXPECT_LE(watches.cost_ns(), 5'100'000u);
        all_answered = watches.idle();
        armed = watches.armed();
    });
    std::uint64_t answers = 0;
    for (auto at = lines.find("\"outcome\":"); at != std::string::npos; at = lines.find("\"outcome\":", at + 1))
        answers++;
    if (all_answered)
        EXPECT_EQ(answers, requests);
    else
        EXPECT_GT(armed, 0u);
}

std::uint64_t thread_pointer() { return reinterpret_cast<std::uint64_t>(__builtin_thread_pointer()); }

thread_local volatile int own = 1;

// Of the calling thread.
ThreadStorage storage_here() {
    std::uint64_t list = 0, length = 0;
    syscall(SYS_get_robust_list, 0, &list, &length);
    ThreadStorage found;
    look_at_thread(getpid(), gettid(), list, own_arch, found);
    return found;
}

// Whether a variable of the program's is where its module's block is.
bool holds_own(const ThreadStorage &storage) {
    auto at = reinterpret_cast<std::uint64_t>(&own), begin = storage.blocks.empty() ? 0 : storage.blocks[0];
    return begin && begin <= at && at < begin + 65536;
}

// qemu-user has no such list.
bool lists_are_known() {
    std::uint64_t list = 0, length = 0;
    return syscall(SYS_get_robust_list, 0, &list, &length) == 0 && list;
}

TEST(ThreadBlocks, PointersAndBlocksAreFoundByTheListOfRobustMutexes) {
    if (own_bits == 32)
        GTEST_SKIP() << "thread-local variables of i386 programs are not named";
    if (!lists_are_known())
        GTEST_SKIP() << "no list of robust mutexes here (an emulator)";
    ThreadStorage other;
    std::uint64_t other_pointer = 1;
    bool held = false;
    std::thread([&] { other = storage_here(), other_pointer = thread_pointer(), held = holds_own(other); }).join();
    EXPECT_EQ(other.pointer, other_pointer);
    EXPECT_TRUE(held);
    EXPECT_EQ(storage_here().pointer, thread_pointer());
    EXPECT_TRUE(holds_own(storage_here()));
}

TEST(ThreadBlocks, AListOfAnotherThreadIsNoMatch) {
    std::uint64_t list = 0, length = 0;
    syscall(SYS_get_robust_list, 0, &list, &length);
    ThreadStorage found;
    look_at_thread(getpid(), 1 << 22, list, own_arch, found);
    look_at_thread(getpid(), gettid(), 0, own_arch, found);
    look_at_thread(getpid(), gettid(), reinterpret_cast<std::uint64_t>(&found) & ~15ull, own_arch, found);
    EXPECT_EQ(found, ThreadStorage());
}

// What watchpoints on a thread's word answer, one behind the other, until one had its thread running: a thread that others keep from the CPUs is waited for
// no longer than 50 times the 4 ms that were asked for, and may be silent then. How long it ran is read behind the step that sets the watchpoint and before
// the one that takes it away: this thread, too, may be kept from the CPUs.
std::string until_answered(pid_t tid, const void *word) {
    for (;;) {
        const std::uint64_t began = monotonic_ns();
        std::uint64_t first = 0, last = 0;
        std::string lines = written([&](Output &output) {
            Watches watches(output, 1);
            watches.ask({.id = 1, .tid = tid, .address = reinterpret_cast<std::uint64_t>(word)});
            watches.step(monotonic_ns(), 1'000'000'000);
            for (first = last = ran_ns(tid); !watches.idle(); watches.step(monotonic_ns(), 1'000'000'000)) {
                std::this_thread::sleep_for(std::chrono::milliseconds(3));
                last = ran_ns(tid);
            }
        });
        const bool waited = monotonic_ns() - began >= 200'000'000;
        if (lines.find("\"silent\"") == std::string::npos || !waited || last >= first + 2'000'000)
            return lines;
    }
}

// Two real-time threads take turns of a tenth of a second on one CPU, whatever else runs; one of them stores all the time.
// It does so again and again, but seldom within the 4 ms that a watchpoint waits for a thread that runs.
TEST(Watch, AThreadThatWaitsForACpuIsWaitedFor) {
    constexpr int tries = 6;
    sched_param priority{.sched_priority = 1};
    std::atomic<bool> stop = false;
    std::atomic<pid_t> stores = 0;
    std::atomic<int> allowed = 0, ready = 0;
    static std::atomic<std::uint64_t> word;
    auto spin = [&](bool storing) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(0, &one);
        if (sched_setaffinity(0, sizeof one, &one) == 0 && sched_setscheduler(0, SCHED_RR, &priority) == 0)
            allowed++;
        if (storing)
            stores = gettid();
        ready++;
        while (!stop.load(std::memory_order_relaxed))
            if (storing)
                word.fetch_add(1, std::memory_order_relaxed);
    };
    std::thread one(spin, true), two(spin, false);
    while (ready < 2)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::string lines;
    for (int i = 0; i < tries && allowed == 2; i++)
        lines += until_answered(stores, &word);
    stop = true;
    one.join();
    two.join();
    if (allowed < 2 || lines.find("refused") != std::string::npos)
        GTEST_SKIP() << "no real-time threads, or no watchpoints";
    int hits = 0;
    for (auto at = lines.find("\"hit\""); at != std::string::npos; at = lines.find("\"hit\"", at + 1))
        hits++;
    EXPECT_EQ(hits, tries) << lines;
}

#if defined(__x86_64__)
// A thread whose watched word the kernel alone writes: uncounted, such accesses stop the thread until the time is over.
TEST(Watch, WhatTheKernelWritesForAThreadIsAHit) {
    std::atomic<bool> stop = false;
    std::atomic<pid_t> reader = 0;
    alignas(64) static std::uint64_t word;
    std::thread reads([&] {
        int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        while (!stop.load(std::memory_order_relaxed) && read(zero, &word, sizeof word) == sizeof word)
            reader = gettid(); // behind the first read: before it nothing writes the word
        close(zero);
    });
    while (!reader)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::string lines = until_answered(reader, &word);
    stop = true;
    reads.join();
    perf_event_attr with_kernel = watch_attributes({.address = reinterpret_cast<std::uint64_t>(&word)});
    with_kernel.exclude_kernel = 0;
    if (!Handle(perf_open(with_kernel, 0, -1)))
        GTEST_SKIP() << "no watchpoints, or none that see the kernel";
    EXPECT_NE(lines.find("\"outcome\":\"hit\""), std::string::npos) << lines;
    EXPECT_EQ(lines.find("\"ip\""), std::string::npos) << lines;
}

// Three threads of one CPU store to one word, and it is asked about two of them: one watchpoint of the CPU serves both, in
// any order of hits.
TEST(Watch, ACpuHasOneWatchpointForAllThreads) {
    constexpr int threads = 3;
    const int cpu = sched_getcpu(); // one that may be used
    alignas(64) static std::atomic<std::uint64_t> word;
    std::atomic<bool> stop = false;
    std::atomic<int> ready = 0;
    pid_t tids[threads] = {};
    std::vector<std::thread> all;
    for (pid_t &tid : tids)
        all.emplace_back([&] {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            tid = gettid();
            ready++;
            while (!stop.load(std::memory_order_relaxed)) {
                word.fetch_add(1, std::memory_order_relaxed);
                sched_yield();
            }
        });
    while (ready < threads)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::string lines;
    std::uint64_t armed_first = 0;
    for (int tries = 0; tries < 500; tries++) { // the third thread alone may be met until a watch has its last hit
        lines = written([&](Output &output) {
            Watches watches(output, 1);
            for (std::uint64_t i = 0; i < 2; i++)
                watches.ask({.id = i, .tid = tids[i], .address = reinterpret_cast<std::uint64_t>(&word)});
            watches.step(monotonic_ns(), 1'000'000'000, {cpu});
            armed_first = watches.armed();
            while (!watches.idle()) {
                std::this_thread::sleep_for(std::chrono::milliseconds(3));
                watches.step(monotonic_ns(), 1'000'000'000, {0});
            }
        });
        if (lines.find("\"silent\"") == std::string::npos)
            break;
    }
    stop = true;
    for (std::thread &thread : all)
        thread.join();
    if (!open_watch({.address = reinterpret_cast<std::uint64_t>(&word)}, 0))
        GTEST_SKIP() << "no watchpoints of whole CPUs here";
    EXPECT_EQ(armed_first, 1u);
    for (int i = 0; i < threads; i++) {
        auto at = lines.find("\"tid\":" + std::to_string(tids[i]) + ",");
        ASSERT_EQ(at != std::string::npos, i < 2) << lines;
        if (i < 2) {
            EXPECT_EQ(lines.find("\"hit\"", at), lines.find("\"outcome\":", at) + sizeof "\"outcome\":" - 1) << lines;
        }
    }
}

std::uint64_t found_from_here() {
    volatile char here = 0;
    return search_thread_block(getpid(), gettid(), reinterpret_cast<std::uint64_t>(&here));
}

TEST(ThreadBlocks, WithoutAListTheyAreSearchedFor) {
    std::uint64_t other_found = 0, other_pointer = 1;
    std::thread([&] { other_found = found_from_here(), other_pointer = thread_pointer(); }).join();
    EXPECT_EQ(other_found, other_pointer);
    // The runtimes of sanitizers were seen to hide the first thread's block: TSan's, which begins the program anew, and
    // ASan's in 4 of 150 runs.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    EXPECT_EQ(found_from_here(), thread_pointer());
#endif
}

TEST(ThreadBlocks, AnotherThreadsNumberIsNoMatch) {
    volatile char here = 0;
    EXPECT_EQ(search_thread_block(getpid(), 1 << 22, reinterpret_cast<std::uint64_t>(&here)), 0u);
}
#endif

TEST(Processes, CpuTimeIsTheThreadsOwn) {
    std::atomic<pid_t> busy = 0, idle = 0;
    std::atomic<bool> stop = false;
    std::thread works([&] {
        busy = gettid();
        while (!stop.load(std::memory_order_relaxed)) {
        }
    });
    std::thread sleeps([&] {
        idle = gettid();
        stop.wait(false);
    });
    while (!busy || !idle || cpu_time(busy) < 10)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_LT(cpu_time(idle), cpu_time(busy) / 2);
    stop = true;
    stop.notify_all();
    works.join();
    sleeps.join();
}

// A whole run of the sampler, in this process: what sanitizers see of it.
std::string session(const Options &options) {
    int file = memfd_create("lines", MFD_CLOEXEC);
    std::string refused;
    try {
        Output output(file);
        sample(output, options);
    } catch (const Refused &error) {
        refused = std::string("refused: ") + error.what();
    }
    std::string all(static_cast<std::size_t>(lseek(file, 0, SEEK_END)), '\0');
    EXPECT_EQ(pread(file, all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
    close(file);
    return refused.empty() ? all : refused;
}

bool sampled(const std::string &lines) { return lines.find("\"type\":\"sample\"") != std::string::npos; }

// The costlier a sample is here and now, the fewer there are: the program runs longer until there is one.
TEST(Session, AProgramFromItsStartToItsEnd) {
    std::string lines;
    for (long rounds = 300'000; !sampled(lines) && !lines.starts_with("refused") && rounds < 300'000'000; rounds *= 3)
        lines = session({.command = {"/bin/sh", "-c",
                                     "i=0; while [ $i -lt " + std::to_string(rounds) + " ]; do i=$((i+1)); done; exit 3"}});
    if (lines.starts_with("refused"))
        GTEST_SKIP() << lines;
    EXPECT_TRUE(lines.starts_with("{\"type\":\"start\",")) << lines.substr(0, 200);
    for (const char *wanted : {"\"type\":\"sample\"", "\"type\":\"map\"", "\"event\":\"exec\"", "\"exit_code\":3,"})
        EXPECT_NE(lines.find(wanted), std::string::npos) << wanted;
    if (own_bits == 64) { // a shell of 64 bits is out of reach for reads of a 32-bit process
        EXPECT_NE(lines.find("\"type\":\"code\""), std::string::npos);
    }
}

TEST(Session, AProcessThatIsJoinedAndLeft) {
    std::atomic<bool> stop = false;
    std::thread busy([&] {
        while (!stop.load(std::memory_order_relaxed)) {
        }
    });
    std::string lines;
    for (double seconds = 0.3; !sampled(lines) && !lines.starts_with("refused") && seconds < 100; seconds *= 3)
        lines = session({.pid = getpid(), .seconds = seconds});
    stop = true;
    busy.join();
    if (lines.starts_with("refused"))
        GTEST_SKIP() << lines;
    EXPECT_TRUE(sampled(lines));
    bool by_cpu = lines.find("\"scope\":\"machine\"") != std::string::npos; // where that is allowed
    EXPECT_TRUE(by_cpu || lines.find("\"scope\":\"tasks\"") != std::string::npos);
}

TEST(Session, AProgramThatIsNotThere) {
    try {
        std::string lines = session({.command = {"/no/such/program"}});
        if (lines.starts_with("refused")) // found out before the program is looked for
            GTEST_SKIP() << lines;
        ADD_FAILURE() << lines;
    } catch (const WrongRequest &error) {
        EXPECT_STREQ(error.what(), "cannot run /no/such/program: No such file or directory");
    }
}

} // namespace
