// SPDX-License-Identifier: MIT
// The cache library on this machine's own instructions: results, edges, choice, and a trial that does not disturb the
// program.
#include <linewright/cache.h>

extern "C" {
#include "cache/internal.h"
#include "common/trial.h"
}

#include <gtest/gtest.h>

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

lw_cache_description describe() {
    lw_cache_description d;

    lw_cache_describe(&d);
    return d;
}

bool has_maintenance() { return describe().clean != std::string("none"); }

#define NEEDS_MAINTENANCE()                                          \
    do {                                                             \
        if (!has_maintenance())                                      \
            GTEST_SKIP() << "no cache-maintenance instruction here"; \
    } while (false)

// Pages between two that may not be touched: an instruction one line too far faults (emulators may not tell).
struct Fenced {
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_t bytes;
    char *all;
    explicit Fenced(size_t pages) : bytes(pages * page) {
        all =
            static_cast<char *>(mmap(nullptr, bytes + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        mprotect(all, page, PROT_NONE);
        mprotect(all + page + bytes, page, PROT_NONE);
        std::memset(begin(), 0x5a, bytes);
    }
    Fenced(const Fenced &) = delete;
    Fenced &operator=(const Fenced &) = delete;
    ~Fenced() { munmap(all, bytes + 2 * page); }
    char *begin() const { return all + page; }
    char *end() const { return begin() + bytes; }
    char *forbidden() const { return end() + 8; }
};

TEST(Cache, geometry_is_the_hardwares) {
    const auto d = describe();

    EXPECT_EQ(d.line_bytes, lw_cache_line_size());
    EXPECT_EQ(d.granule_bytes, lw_cache_granule());
    EXPECT_GE(d.granule_bytes, d.line_bytes);
    EXPECT_EQ(d.line_bytes & (d.line_bytes - 1), 0u);
    EXPECT_EQ(d.granule_bytes & (d.granule_bytes - 1), 0u);
#if defined(__x86_64__) || defined(__i386__)
    const long reported = sysconf(_SC_LEVEL1_DCACHE_LINESIZE); // the libc's own reading of CPUID
    if (reported > 0) {
        EXPECT_EQ(d.line_bytes, static_cast<size_t>(reported));
    }
#elif defined(__aarch64__)
    EXPECT_EQ(d.line_bytes, size_t{4} << (lw_mrs_ctr_el0() >> 16 & 15));
    EXPECT_GE(d.line_bytes, 16u);
#endif
}

TEST(Cache, every_call_succeeds_and_changes_no_byte) {
    NEEDS_MAINTENANCE();
    Fenced memory(4);
    std::mt19937_64 random(1);
    const int persists = describe().persist != std::string("none") ? 0 : -EOPNOTSUPP;
    const int deep = describe().persist_deep != std::string("none") ? 0 : -EOPNOTSUPP;

    for (int round = 0; round < 300; round++) {
        std::vector<iovec> list;
        for (char *at = memory.begin() + random() % 300; at < memory.end();) {
            const size_t n = std::min<size_t>(random() % 700, static_cast<size_t>(memory.end() - at));
            list.push_back({at, n});
            std::memset(at, round, n);
            at += n + random() % 300;
        }
        std::vector<char> before(memory.begin(), memory.end());
        const auto count = list.size();
        for (auto direction : {LW_DMA_BIDIRECTIONAL, LW_DMA_TO_DEVICE, LW_DMA_FROM_DEVICE}) {
            ASSERT_EQ(lw_sync_for_device(list.data(), count, direction), 0);
            ASSERT_EQ(lw_sync_for_cpu(list.data(), count, direction), 0);
        }
        for (auto op : {LW_CACHE_CLEAN, LW_CACHE_INVALIDATE, LW_CACHE_CLEAN_INVALIDATE})
            ASSERT_EQ(lw_cache_list(list.data(), count, op), 0);
        ASSERT_EQ(lw_cache_list(list.data(), count, LW_CACHE_PERSIST), persists);
        ASSERT_EQ(lw_cache_list(list.data(), count, LW_CACHE_PERSIST_DEEP), deep);
        lw_cache_batch batch;
        ASSERT_EQ(lw_cache_batch_for_cpu(&batch, LW_DMA_FROM_DEVICE), 0);
        for (const auto &piece : list) {
            ASSERT_EQ(lw_cache_batch_add(&batch, piece.iov_base, piece.iov_len), 0);
            ASSERT_EQ(lw_cache_clean_nowait(piece.iov_base, piece.iov_len), 0);
            ASSERT_EQ(lw_cache_invalidate_nowait(piece.iov_base, piece.iov_len), 0);
            ASSERT_EQ(lw_cache_clean_invalidate_nowait(piece.iov_base, piece.iov_len), 0);
            ASSERT_EQ(lw_cache_persist_nowait(piece.iov_base, piece.iov_len), persists);
            ASSERT_EQ(lw_cache_clean(piece.iov_base, piece.iov_len), 0);
            ASSERT_EQ(lw_cache_invalidate(piece.iov_base, piece.iov_len), 0);
            ASSERT_EQ(lw_cache_clean_invalidate(piece.iov_base, piece.iov_len), 0);
            ASSERT_EQ(lw_cache_persist(piece.iov_base, piece.iov_len), persists);
            ASSERT_EQ(lw_cache_persist_deep(piece.iov_base, piece.iov_len), deep);
        }
        ASSERT_EQ(lw_cache_batch_flush(&batch), 0);
        lw_cache_order();
        lw_cache_wait();
        lw_cache_persist_wait();
        ASSERT_EQ(std::memcmp(before.data(), memory.begin(), before.size()), 0);
    }
}

TEST(Cache, stays_inside_the_lines_of_the_range) {
    NEEDS_MAINTENANCE();
    Fenced memory(1);

    for (size_t n = 1; n <= 200; n++) {
        ASSERT_EQ(lw_cache_clean(memory.end() - n, n), 0);
        ASSERT_EQ(lw_cache_invalidate(memory.begin(), n), 0);
        const iovec list[] = {{memory.begin(), n}, {memory.end() - n, n}};
        ASSERT_EQ(lw_sync_for_device(list, 2, LW_DMA_TO_DEVICE), 0);
        ASSERT_EQ(lw_sync_for_cpu(list, 2, LW_DMA_FROM_DEVICE), 0);
    }
}

TEST(Cache, refusals_and_empty_requests_touch_nothing) {
    NEEDS_MAINTENANCE();
    Fenced memory(1);
    char *no = memory.forbidden(); // any instruction here would end the program
    const iovec empty[] = {{nullptr, 0}, {no, 0}};
    const iovec bad[] = {{memory.begin(), 8}, {no, SIZE_MAX}, {no, 8}};
    const iovec wrapping[] = {{no, 0}, {reinterpret_cast<void *>(UINTPTR_MAX), 2}, {no, 8}};

    EXPECT_EQ(lw_sync_for_device(empty, 2, LW_DMA_TO_DEVICE), 0);
    EXPECT_EQ(lw_sync_for_cpu(empty, 2, LW_DMA_FROM_DEVICE), 0);
    EXPECT_EQ(lw_sync_for_cpu(bad + 2, 1, LW_DMA_TO_DEVICE), 0) << "to-device: nothing to take back";
    EXPECT_EQ(lw_sync_for_device(nullptr, 0, LW_DMA_TO_DEVICE), 0);
    EXPECT_EQ(lw_cache_clean(no, 0), 0);
    EXPECT_EQ(lw_cache_clean(nullptr, 0), 0);
    EXPECT_EQ(lw_sync_for_device(bad, 3, LW_DMA_TO_DEVICE), -EINVAL);
    EXPECT_EQ(lw_sync_for_cpu(wrapping, 3, LW_DMA_FROM_DEVICE), -EINVAL);
    EXPECT_EQ(lw_cache_list(wrapping, 3, LW_CACHE_PERSIST), -EINVAL);
}

#if !defined(__aarch64__) // emulators let DC pass where nothing is mapped
TEST(Cache, the_fence_around_the_test_memory_works) {
    NEEDS_MAINTENANCE();
    Fenced memory(1);

    EXPECT_DEATH(lw_cache_clean(memory.forbidden(), 1), "");
}
#endif

TEST(Cache, configuration_takes_what_the_machine_has_and_refuses_the_rest) {
    const auto found = describe();

    EXPECT_EQ(lw_cache_configure("coherent"), 0);
    EXPECT_TRUE(describe().coherent);
    EXPECT_EQ(lw_cache_configure("noncoherent"), 0);
    EXPECT_FALSE(describe().coherent);
    for (const char *wrong :
         {"", "coherent,", "clean", "clean=", "clean=nothing", "persist=wbinvd", "Coherent", "coherent ", ","})
        EXPECT_EQ(lw_cache_configure(wrong), -EINVAL) << wrong;
    EXPECT_EQ(lw_cache_configure(nullptr), -EINVAL);
    EXPECT_EQ(lw_cache_configure("coherent,nonsense"), -EINVAL);
    EXPECT_FALSE(describe().coherent) << "a refused list changes nothing";
#if defined(__x86_64__) || defined(__i386__)
    if (has_maintenance()) {
        Fenced memory(1);
        EXPECT_EQ(lw_cache_configure("invalidate=clwb"), -EOPNOTSUPP) << "it may keep the line";
        EXPECT_EQ(lw_cache_configure("clean=clflush,invalidate=clflush,persist=clflush"), 0);
        EXPECT_STREQ(describe().clean, "clflush");
        EXPECT_STREQ(describe().invalidate, "clflush");
        EXPECT_STREQ(describe().persist, "clflush");
        EXPECT_EQ(lw_cache_clean(memory.begin(), memory.bytes), 0);
        EXPECT_EQ(lw_cache_clean_nowait(memory.begin(), 1), 0);
        EXPECT_EQ(lw_cache_persist(memory.begin(), memory.bytes), 0);
    }
#elif defined(__aarch64__)
    EXPECT_EQ(lw_cache_configure("clean=dc_civac"), 0);
    EXPECT_EQ(lw_cache_configure("invalidate=dc_cvac"), -EOPNOTSUPP) << "it keeps the line";
    EXPECT_EQ(lw_cache_configure("persist=dc_cvac"), -EOPNOTSUPP) << "not to the point of persistence";
#endif
    EXPECT_EQ(lw_cache_configure("default"), 0);
    EXPECT_STREQ(describe().clean, found.clean);
    EXPECT_STREQ(describe().persist, found.persist);
}

TEST(Cache, best_instruction_is_taken_and_a_refused_one_is_not) {
    const auto d = describe();
    const std::string clean = d.clean, persist = d.persist, deep = d.persist_deep;

#if defined(__x86_64__) || defined(__i386__)
    EXPECT_EQ(persist, clean);
    EXPECT_EQ(deep, "none");
    EXPECT_FALSE(d.trapped);
    EXPECT_STREQ(d.wait_stores, "sfence");
    EXPECT_STREQ(d.wait_all, "mfence");
#elif defined(__aarch64__)
    EXPECT_EQ(clean, "dc_cvac");
    EXPECT_STREQ(d.invalidate, "dc_civac");
    EXPECT_TRUE(persist == "dc_cvap" || persist == "none");
    EXPECT_TRUE(deep == "none" || persist == "dc_cvap");
    EXPECT_STREQ(d.wait_all, "dsb sy");
    EXPECT_STREQ(d.wait_stores, "dsb sy");
#endif
}

TEST(Cache, environment_is_read_and_a_wrong_one_reported_once) {
    const auto run = [](const char *value) {
        int out[2];
        EXPECT_EQ(pipe(out), 0);
        const pid_t child = fork();
        if (!child) {
            dup2(out[1], 2);
            setenv("LINEWRIGHT_CACHE", value, 1);
            execl("/proc/self/exe", "cache_test", "--gtest_filter=Cache_child.*", static_cast<char *>(nullptr));
            _exit(9);
        }
        close(out[1]);
        std::string text;
        char buffer[512];
        for (ssize_t n; (n = read(out[0], buffer, sizeof(buffer))) > 0;)
            text.append(buffer, static_cast<size_t>(n));
        close(out[0]);
        int status = 0;
        waitpid(child, &status, 0);
        return text + (WIFEXITED(status) ? "exit " + std::to_string(WEXITSTATUS(status)) : "killed");
    };
#if defined(__aarch64__)
    GTEST_SKIP() << "under emulation a program cannot start itself again";
#endif
    EXPECT_EQ(run("coherent"), "exit 0");
    EXPECT_EQ(run(""), "exit 1") << "nothing is said of an empty value, and nothing done: the child expects coherent mode";
    const auto wrong = run("coherent,rubbish");
    EXPECT_NE(wrong.find("LINEWRIGHT_CACHE=coherent,rubbish ignored"), std::string::npos) << wrong;
    EXPECT_EQ(wrong.find("ignored"), wrong.rfind("ignored"));
    const auto hostile = run(("coherent,\n\033[2J" + std::string(5000, 'x')).c_str());
    EXPECT_NE(hostile.find("LINEWRIGHT_CACHE=coherent,??[2Jxxx"), std::string::npos) << hostile;
    EXPECT_EQ(hostile.find('\033'), std::string::npos);
    EXPECT_EQ(hostile.find(std::string(81, 'x')), std::string::npos);
    EXPECT_NE(wrong.find("exit 1"), std::string::npos) << "the child expects coherent mode, which was ignored";
}

TEST(Cache_child, is_coherent) {
    if (!std::getenv("LINEWRIGHT_CACHE"))
        GTEST_SKIP() << "runs in a child of another test";
    EXPECT_TRUE(describe().coherent);
}

#if defined(__x86_64__) || defined(__i386__)
void undefined_instruction(void *) { __asm__ volatile("ud2"); }
#elif defined(__aarch64__)
void undefined_instruction(void *) { __asm__ volatile("udf #0"); }
#else
void undefined_instruction(void *) { raise(SIGILL); }
#endif

void fine(void *) {}

std::atomic<int> program_saw_illegal, program_saw_child;

void on_illegal(int) { program_saw_illegal++; }

void on_child(int) { program_saw_child++; }

TEST(Cache_trial, tells_and_leaves_the_program_alone) {
    struct sigaction mine = {}, child = {}, now = {};
    sigset_t before, after;

    mine.sa_handler = on_illegal;
    child.sa_handler = on_child;
    ASSERT_EQ(sigaction(SIGILL, &mine, nullptr), 0);
    ASSERT_EQ(sigaction(SIGCHLD, &child, nullptr), 0);
    for (const bool blocked : {false, true}) {
        sigset_t illegal_only;
        sigemptyset(&illegal_only);
        sigaddset(&illegal_only, SIGILL);
        sigprocmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &illegal_only, nullptr);
        sigprocmask(SIG_SETMASK, nullptr, &before);
        errno = 77;
        EXPECT_TRUE(lw__trial(fine, nullptr));
        EXPECT_FALSE(lw__trial(undefined_instruction, nullptr));
        EXPECT_EQ(errno, 77);
        sigprocmask(SIG_SETMASK, nullptr, &after);
        for (int signal = 1; signal < 32; signal++)
            EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    ASSERT_EQ(sigaction(SIGILL, nullptr, &now), 0);
    EXPECT_EQ(now.sa_handler, on_illegal);
    EXPECT_EQ(program_saw_illegal, 0);
#if !defined(__aarch64__) // the emulator insists on SIGCHLD
    EXPECT_EQ(program_saw_child, 0);
#endif
    int status;
    EXPECT_EQ(waitpid(-1, &status, WNOHANG), -1) << "no child is left, nor seen";
    signal(SIGILL, SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
}

TEST(Cache_trial, many_threads_at_once) {
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};

    for (int i = 0; i < 6; i++)
        threads.emplace_back([&, i] {
            for (int round = 0; round < 30; round++) {
                wrong += lw__trial(i % 2 ? fine : undefined_instruction, nullptr) != (i % 2 != 0);
                wrong += lw_cache_detect() != lw_cache_detect();
            }
        });
    for (auto &thread : threads)
        thread.join();
    EXPECT_EQ(wrong, 0);
}

} // namespace
