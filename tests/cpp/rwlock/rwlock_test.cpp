// SPDX-License-Identifier: MIT
// The readers-writer lock: exclusion, bias, waiting, recursion, hand-over, threads that end, fork, a sandbox, and the C++ class.
#include <linewright/rwlock.h>

#include "../../../src/rwlock/state.h"

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <mutex>
#include <pthread.h>
#include <shared_mutex>
#include <string>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;

static_assert(sizeof(lw_rwlock) <= 32);
constexpr int plain_reads =
    65 * 64; // a thread looks after 64 reads, and a lock may turn biased at its 65th look at the latest

// What a test does often with new threads it does `many` times as often where each of them is not emulated, too.
#ifdef LW_USER_EMULATION
constexpr int many = 1;
#else
constexpr int many = 10;
#endif

bool marked(const lw_rwlock &l) { return lw__rw_self->mark[lw__rw_position(&l)] == &l; }
bool has_marks() { return lw__rw_self->used != 0; }

// Reads so often, or until readers mark.
bool read_often(lw_rwlock &l, int times) {
    for (int i = 0; i < times && l.biased != LW__RW_BIASED; i++)
        if (lw_rwlock_read_lock(&l) || lw_rwlock_read_unlock(&l))
            return false;
    return l.biased == LW__RW_BIASED;
}

// Reads until readers mark, which may be put off by what ended other biases; false where membarrier is missing.
bool make_biased(lw_rwlock &l) {
    const long known = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    while (!read_often(l, plain_reads) && known > 0 && (known & MEMBARRIER_CMD_PRIVATE_EXPEDITED))
        ;
    return l.biased == LW__RW_BIASED;
}

#define BIASED(l) ASSERT_TRUE(make_biased(l)) << "no lock turns biased: is membarrier missing?"

template <class F> int exit_code_of_child(F f) {
    const pid_t child = fork();
    if (child == 0)
        _exit(f());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

// Ends the program with a line where every other thread sleeps and none has run while it looked often: a wake-up is lost, and they would sleep for
// ever. It sees nothing where the kernel does not say what threads do.
class Watchdog {
public:
    Watchdog() : test_(testing::UnitTest::GetInstance()->current_test_info()->name()), thread_([this] { watch(); }) {}
    ~Watchdog() {
        {
            const std::scoped_lock held(mutex_);
            over_ = true;
        }
        ends_.notify_all();
        thread_.join();
    }

private:
    // What the kernel says of the other threads: their states, and how often each has run. Empty: one of them does not sleep.
    static std::string others() {
        std::string all;
        std::error_code error;
        for (const auto &task : std::filesystem::directory_iterator("/proc/self/task", error)) {
            std::ifstream status(task.path() / "status");
            for (std::string line; task.path().filename() != std::to_string(gettid()) && std::getline(status, line);) {
                if (line.starts_with("State:") && line.find('S', 6) == std::string::npos)
                    return {};
                if (line.find("ctxt_switches:") != std::string::npos)
                    all += line + '\n';
            }
        }
        return all;
    }
    void watch() {
        std::unique_lock held(mutex_);
        std::string before;
        for (int same = 0; same < 100; before = others()) {
            if (ends_.wait_for(held, 100ms, [this] { return over_; }))
                return;
            const std::string now = others();
            same = !now.empty() && now == before ? same + 1 : 0;
        }
        std::fprintf(stderr, "%s: every thread sleeps, and none has run while it was looked at 100 times\n", test_);
        std::_Exit(1);
    }
    std::mutex mutex_;
    std::condition_variable ends_;
    bool over_ = false;
    const char *test_;
    std::thread thread_;
};

class HandedOver : public testing::Test {
    Watchdog watchdog_;
};

class Rwlock : public testing::TestWithParam<bool> {
    Watchdog watchdog_;

protected:
    lw_rwlock l = LW_RWLOCK_INIT;
    void SetUp() override {
        if (GetParam()) {
            BIASED(l);
        }
    }
    void TearDown() override { EXPECT_EQ(lw_rwlock_destroy(&l), 0); }
};
INSTANTIATE_TEST_SUITE_P(, Rwlock, testing::Bool(), [](const auto &p) { return p.param ? "biased" : "plain"; });

TEST_P(Rwlock, ReadersShareAndWritersExclude) {
    ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
    EXPECT_EQ(marked(l), GetParam());
    std::thread([&] {
        EXPECT_EQ(lw_rwlock_try_read(&l), 0);
        EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
        EXPECT_EQ(lw_rwlock_try_write(&l), -EBUSY);
        EXPECT_EQ(lw_rwlock_write_lock_timeout(&l, 2'000'000), -ETIMEDOUT);
        EXPECT_EQ(lw__rw_destroy_checked(&l), -EBUSY);
    }).join();
    EXPECT_EQ(lw_rwlock_destroy(&l), -EBUSY);
    EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    ASSERT_EQ(lw_rwlock_try_write(&l), 0);
    std::thread([&] {
        EXPECT_EQ(lw_rwlock_try_read(&l), -EBUSY);
        EXPECT_EQ(lw_rwlock_try_write(&l), -EBUSY);
        EXPECT_EQ(lw_rwlock_read_lock_timeout(&l, 2'000'000), -ETIMEDOUT);
        EXPECT_EQ(lw_rwlock_read_lock_timeout(&l, 0), -ETIMEDOUT);
        EXPECT_EQ(lw_rwlock_write_lock_timeout(&l, 0), -ETIMEDOUT);
        EXPECT_EQ(lw_rwlock_write_unlock(&l), -EPERM);
    }).join();
    EXPECT_EQ(lw_rwlock_write_lock(&l), -EDEADLK);
    EXPECT_EQ(lw_rwlock_read_lock(&l), -EDEADLK);
    EXPECT_EQ(lw_rwlock_write_lock_timeout(&l, 0), -EDEADLK);
    EXPECT_EQ(lw_rwlock_read_lock_timeout(&l, 0), -EDEADLK);
    EXPECT_EQ(lw_rwlock_destroy(&l), -EBUSY);
    EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
    EXPECT_EQ(lw_rwlock_write_unlock(&l), -EPERM);
    EXPECT_EQ(lw_rwlock_read_unlock(&l), -EPERM);
}

TEST_P(Rwlock, AReaderDoesNotBecomeAWriter) {
    ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
    EXPECT_EQ(lw_rwlock_try_write(&l), -EBUSY);
    EXPECT_EQ(lw_rwlock_write_lock_timeout(&l, 1'000'000), -ETIMEDOUT);
    EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
}

// A thread with a cancellation that waits for it sleeps for the lock in each way, and goes on.
TEST_P(Rwlock, NoFunctionIsACancellationPoint) {
    struct Waits {
        lw_rwlock *lock;
        int refused;
    } waits{&l, 0};
    ASSERT_EQ(lw_rwlock_write_lock(&l), 0);
    pthread_t thread;
    void *result = nullptr;
    const auto body = [](void *given) -> void * {
        auto *w = static_cast<Waits *>(given);
        pthread_cancel(pthread_self());
        w->refused += lw_rwlock_read_lock_timeout(w->lock, 2'000'000) == -ETIMEDOUT;
        w->refused += lw_rwlock_write_lock_timeout(w->lock, 2'000'000) == -ETIMEDOUT;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
        return given;
    };
    ASSERT_EQ(pthread_create(&thread, nullptr, body, &waits), 0);
    ASSERT_EQ(pthread_join(thread, &result), 0);
    EXPECT_EQ(result, &waits) << "the thread was cancelled";
    EXPECT_EQ(waits.refused, 2);
    EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
}

TEST_P(Rwlock, ATimeoutLeavesTheLockAsItWas) {
    const bool biased = l.biased == LW__RW_BIASED;
    ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
    std::thread([&] { EXPECT_EQ(lw_rwlock_write_lock_timeout(&l, 1'000'000), -ETIMEDOUT); }).join();
    EXPECT_EQ(l.biased == LW__RW_BIASED, biased);
    ASSERT_EQ(lw_rwlock_try_read(&l), 0) << "the writer that gave up keeps readers out";
    EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    std::thread([&] { // holds no read lock, so a writer that waits would go before it
        const bool entered = lw_rwlock_try_read(&l) == 0;
        EXPECT_TRUE(entered) << "the writer that gave up keeps readers out";
        EXPECT_TRUE(!entered || lw_rwlock_read_unlock(&l) == 0);
    })
        .join();
    EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
}

// A writer that waits keeps new readers out, but not the reader that it waits for.
TEST_P(Rwlock, AReaderThatIsInsideReadsAgainPastAWaitingWriter) {
    ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
    std::atomic<bool> inside{false};
    std::thread writer([&] {
        EXPECT_EQ(lw_rwlock_write_lock(&l), 0);
        inside = true;
        EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
    });
    int refused = 0;
    std::thread([&] { // once the writer waits, a thread that holds nothing is refused
        while (lw_rwlock_try_read(&l) == 0)
            EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
        refused = 1;
    })
        .join();
    EXPECT_EQ(refused, 1);
    for (int i = 0; i < 5; i++)
        ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
    EXPECT_FALSE(inside);
    for (int i = 0; i < 6; i++)
        ASSERT_EQ(lw_rwlock_read_unlock(&l), 0);
    writer.join();
    EXPECT_TRUE(inside);
}

// Whether a writer waits for readers: those that the state counts, or those whose marks it looks for. Between holding the plain lock
// and the end of the bias it does not wait yet, and readers still mark.
bool a_writer_waits(const lw_rwlock &l) {
    return __atomic_load_n(&l.state, __ATOMIC_RELAXED) & WRITERS_WAIT ||
           __atomic_load_n(&l.biased, __ATOMIC_RELAXED) == LW__RW_ENDING;
}

// Has a writer wait for the lock's readers, until f() lets it in.
template <class F> void while_a_writer_waits(lw_rwlock &l, F f) {
    std::thread writer([&] {
        EXPECT_EQ(lw_rwlock_write_lock(&l), 0);
        EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
    });
    while (!a_writer_waits(l))
        std::this_thread::yield();
    f();
    writer.join();
}

// Two threads, each with a read lock that the other wants, too, and a writer that waits for each of the two locks. Where the readers counted
// themselves both go on once they have waited for their turn. Where they marked the locks the writers hold the plain locks already, and nothing
// but a limit ends it; it leaves nothing behind.
TEST_P(Rwlock, ReadersInOppositeOrderBesideWritersThatWait) {
    lw_rwlock other = LW_RWLOCK_INIT;
    if (GetParam()) {
        BIASED(other);
    }
    lw_rwlock *const both[] = {&l, &other};
    std::atomic<int> inside{0}, writers_wait{0}, asked{0}, written{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++) {
        threads.emplace_back([&, i] {
            EXPECT_EQ(lw_rwlock_read_lock(both[i]), 0);
            EXPECT_EQ(marked(*both[i]), GetParam());
            inside++;
            while (writers_wait < 2)
                std::this_thread::yield();
            const int error =
                GetParam() ? lw_rwlock_read_lock_timeout(both[1 - i], 2'000'000) : lw_rwlock_read_lock(both[1 - i]);
            EXPECT_EQ(error, GetParam() ? -ETIMEDOUT : 0);
            asked++;
            while (asked < 2)
                std::this_thread::yield();
            EXPECT_EQ(written, 0);
            EXPECT_TRUE(error || lw_rwlock_read_unlock(both[1 - i]) == 0);
            asked++;
            while (asked < 4) // so that none of the two is written before both have looked
                std::this_thread::yield();
            EXPECT_EQ(lw_rwlock_read_unlock(both[i]), 0);
        });
        threads.emplace_back([&, i] {
            while (inside < 2)
                std::this_thread::yield();
            EXPECT_EQ(lw_rwlock_write_lock(both[i]), 0);
            written++;
            EXPECT_EQ(lw_rwlock_write_unlock(both[i]), 0);
        });
    }
    for (lw_rwlock *lock : both) {
        while (!a_writer_waits(*lock))
            std::this_thread::yield();
        writers_wait++;
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(written, 2);
    EXPECT_EQ(lw_rwlock_destroy(&other), 0);
}

// A thread knows which locks it holds, whatever it releases for others, and in whatever order it leaves them; with more than it can tell apart, too.
TEST(RwlockRecursion, AThreadPassesTheWritersOfItsOwnLocksAlone) {
    for (const size_t many : {1u, 2u, 8u, 9u, 20u}) {
        std::vector<lw_rwlock> own(many, lw_rwlock LW_RWLOCK_INIT_PLAIN);
        for (lw_rwlock &l : own)
            ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
        if (many <= 8) {
            lw_rwlock others = LW_RWLOCK_INIT_PLAIN;
            std::thread([&] { EXPECT_EQ(lw_rwlock_read_lock(&others), 0); }).join();
            while_a_writer_waits(others, [&] {
                EXPECT_EQ(lw_rwlock_try_read(&others), -EBUSY)
                    << "the writer is passed by who holds " << many << " other locks";
                EXPECT_EQ(lw_rwlock_read_unlock(&others), 0); // the other thread's
            });
        }
        for (lw_rwlock &l : own)
            while_a_writer_waits(l, [&] {
                const bool again = lw_rwlock_try_read(&l) == 0;
                EXPECT_TRUE(again) << "of " << many << " locks one is forgotten";
                EXPECT_TRUE(!again || lw_rwlock_read_unlock(&l) == 0);
                EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
            });
        std::thread([&] { EXPECT_EQ(lw_rwlock_read_lock(&own[0]), 0); }).join();
        while_a_writer_waits(own[0], [&] { // nothing is left of those
            EXPECT_EQ(lw_rwlock_try_read(&own[0]), -EBUSY);
            EXPECT_EQ(lw_rwlock_read_unlock(&own[0]), 0);
        });
    }
}

// The lock turned biased while a reader was inside that had counted itself in the plain lock: a writer waits for that reader, and those
// that mark must not pass it for as long as it stays.
TEST_P(Rwlock, AWriterThatWaitsForAPlainReaderKeepsMarksOut) {
    if (GetParam())
        return; // the reader is to count itself
    ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
    std::atomic<bool> inside{false}, is_biased{false};
    std::thread([&] { is_biased = make_biased(l); }).join();
    ASSERT_TRUE(is_biased);
    std::thread writer([&] {
        EXPECT_EQ(lw_rwlock_write_lock(&l), 0);
        inside = true;
        EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
    });
    bool refused = false;
    std::thread([&] {
        for (int i = 0; i < 60'000 && !refused; i++) {
            refused = lw_rwlock_try_read(&l) == -EBUSY;
            if (!refused) {
                EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
                std::this_thread::sleep_for(1ms); // the writer comes to sleep
            }
        }
    }).join();
    EXPECT_TRUE(refused);
    EXPECT_FALSE(inside);
    ASSERT_EQ(lw_rwlock_read_unlock(&l), 0);
    writer.join();
    EXPECT_TRUE(make_biased(l)) << "the bias comes back";
}

TEST_P(Rwlock, SleepersAreWoken) {
    for (int round = 0; round < 20 * many; round++) {
        ASSERT_EQ(lw_rwlock_write_lock(&l), 0);
        std::vector<std::thread> threads;
        for (int i = 0; i < 3; i++)
            threads.emplace_back([&, i] {
                if (i == 0) {
                    EXPECT_EQ(lw_rwlock_write_lock(&l), 0);
                    EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
                } else {
                    EXPECT_EQ(lw_rwlock_read_lock(&l), 0);
                    EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
                }
            });
        if (round % 2)
            std::this_thread::sleep_for(200us);
        ASSERT_EQ(lw_rwlock_write_unlock(&l), 0);
        for (std::thread &t : threads)
            t.join(); // hangs where a wake-up is lost
    }
}

TEST_P(Rwlock, AReadLockMayBeReleasedByAnotherThread) {
    for (int i = 0; i < 100 * many; i++) {
        ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
        std::thread([&] { EXPECT_EQ(lw_rwlock_read_unlock(&l), 0); }).join();
        if (i % (10 * many) == 0) {
            ASSERT_EQ(lw_rwlock_try_write(&l), 0) << i;
            EXPECT_TRUE(!GetParam() || l.biased == LW__RW_STAYS_PLAIN) << "no writer meets what is left of those marks";
            ASSERT_EQ(lw_rwlock_write_unlock(&l), 0);
            ASSERT_EQ(lw_rwlock_destroy(&l), 0);
            if (GetParam()) {
                BIASED(l);
            }
        }
    }
}

// The count of the plain lock is below 0 then, and the mark is left.
TEST_P(Rwlock, ALockMayBeDestroyedAfterItsReadLocksWereHandedOver) {
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
        std::thread([&] { EXPECT_EQ(lw_rwlock_read_unlock(&l), 0); }).join();
        ASSERT_EQ(lw_rwlock_destroy(&l), 0);
        EXPECT_EQ(l.state, 0u);
        EXPECT_FALSE(marked(l));
        if (GetParam()) {
            BIASED(l); // this thread clears what was left in its place
        }
    }
}

// Of many threads' marks destroy looks at its caller's and at some others, so its time does not grow with their number. A lock whose reader it did not see
// stays as it is, held.
TEST_F(HandedOver, ALockIsDestroyedWithoutALookAtEveryThread) {
    constexpr int readers = 32;
    lw_rwlock l = LW_RWLOCK_INIT;
    BIASED(l);
    std::atomic<int> inside{0};
    std::atomic<std::uintptr_t> may_leave{0}; // those whose marks lie before this address
    std::atomic<std::uintptr_t> last{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < readers; i++)
        threads.emplace_back([&] {
            EXPECT_EQ(lw_rwlock_read_lock(&l), 0);
            EXPECT_TRUE(marked(l));
            const auto own = reinterpret_cast<std::uintptr_t>(lw__rw_self);
            for (std::uintptr_t seen = last; seen < own && !last.compare_exchange_weak(seen, own);)
                ;
            inside++;
            while (may_leave <= own)
                std::this_thread::yield();
            EXPECT_EQ(lw_rwlock_destroy(&l), -EBUSY) << "the caller's own mark";
            EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
            inside--;
        });
    while (inside < readers)
        std::this_thread::yield();
    EXPECT_EQ(lw_rwlock_destroy(&l), -EBUSY);
    may_leave = last.load();
    while (inside > 1)
        std::this_thread::yield();
    EXPECT_EQ(lw__rw_destroy_checked(&l), -EBUSY);
    EXPECT_EQ(lw_rwlock_destroy(&l), 0) << "every thread's marks were looked at";
    EXPECT_EQ(lw_rwlock_try_write(&l), -EBUSY);
    may_leave = UINTPTR_MAX;
    for (std::thread &t : threads)
        t.join();
    EXPECT_EQ(lw_rwlock_try_write(&l), 0);
    EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
    EXPECT_EQ(lw_rwlock_destroy(&l), 0);
}

// Marks that are left when memory is used again without lw_rwlock_destroy() are no read locks of the lock that is made there, also of one of two locks
// that the library notes at one place.
TEST_F(HandedOver, ALockThatIsMadeAgainHasNoMarks) {
    std::vector<lw_rwlock> locks(257, lw_rwlock LW_RWLOCK_INIT);
    for (lw_rwlock &l : locks) {
        BIASED(l);
        ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
        ASSERT_TRUE(marked(l));
        std::thread([&] { EXPECT_EQ(lw_rwlock_read_unlock(&l), 0); }).join();
        lw_rwlock_init(&l);
        EXPECT_FALSE(marked(l));
        EXPECT_EQ(lw_rwlock_read_lock(&l), 0);
        EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    }
}

// Whose mark a release took is not known: a later read lock of the thread without a mark, or its release with a mark, is counted beside it.
TEST_P(Rwlock, AMarkThatIsLeftServesForAnotherReadLock) {
    ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
    std::thread([&] {
        EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
        EXPECT_EQ(lw_rwlock_read_lock(&l), 0); // in the plain lock
        EXPECT_EQ(lw_rwlock_try_write(&l), -EBUSY);
    }).join();
    EXPECT_EQ(lw_rwlock_read_unlock(&l), 0); // with the mark, where there is one
    EXPECT_EQ(lw_rwlock_try_write(&l), 0);
    EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
}

// The reader for whom the writer waits leaves by its own mark, while the writer looks at another one, which is left for ever.
TEST_P(Rwlock, AWriterThatWaitsForAMarkThatIsLeftNoticesAnothersRelease) {
    if (!GetParam())
        return;
    ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
    ASSERT_TRUE(marked(l));
    std::atomic<int> stage{0};
    const uint32_t *waited = nullptr;
    std::thread other([&] {
        EXPECT_EQ(lw_rwlock_read_lock(&l), 0);
        EXPECT_TRUE(marked(l));
        waited = &lw__rw_self->waited;
        stage = 1;
        stage.notify_all();
        stage.wait(1);
        EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    });
    stage.wait(0);
    std::thread writer([&] {
        EXPECT_EQ(lw_rwlock_write_lock(&l), 0);
        EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
    });
    const auto sleeps = [](const uint32_t *word) { return (__atomic_load_n(word, __ATOMIC_RELAXED) & 1) != 0; };
    while (!sleeps(&lw__rw_self->waited) && !sleeps(waited))
        std::this_thread::yield(); // the writer looks at one of the two marks
    std::thread([&] { EXPECT_EQ(lw_rwlock_read_unlock(&l), 0); }).join();
    stage = 2;
    stage.notify_all();
    other.join();
    writer.join(); // hangs where it is not noticed
}

TEST_P(Rwlock, AWriterThatSleepsNoticesAHandedOverRelease) {
    ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
    std::atomic<bool> begun{false};
    std::thread writer([&] {
        begun = true;
        EXPECT_EQ(lw_rwlock_write_lock(&l), 0);
        EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
    });
    while (!begun)
        std::this_thread::yield();
    std::this_thread::sleep_for(5ms);
    std::thread([&] { EXPECT_EQ(lw_rwlock_read_unlock(&l), 0); }).join();
    writer.join();
}

// Threads that act in turns and tell each other of it by relaxed accesses, which order nothing: ThreadSanitizer reports what the lock does not order.
class Turns {
    std::atomic<int> now_{0};

public:
    void await(int turn) const {
        while (now_.load(std::memory_order_relaxed) < turn)
            std::this_thread::yield();
    }
    void end() { now_.fetch_add(1, std::memory_order_relaxed); }
};

// Who releases another thread's read lock comes after that thread's critical section.
class Handed {
    std::atomic<bool> there_{false};

public:
    void give() { there_.store(true, std::memory_order_release); }
    void release(lw_rwlock &l) const {
        while (!there_.load(std::memory_order_acquire))
            std::this_thread::yield();
        EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    }
};

// Read locks have no names: the release of a marked one takes a thread out that counted itself, so that the mark stands for that thread. A critical
// section that the marked thread has meanwhile is counted beside the mark, and a writer comes after it.
TEST_F(HandedOver, AWriterComesAfterAReaderWhoseMarkStandsForAnother) {
    lw_rwlock l = LW_RWLOCK_INIT;
    Turns turn;
    Handed handed;
    long data = 0, seen = 0;
    std::thread counted([&] {
        EXPECT_EQ(lw_rwlock_read_lock(&l), 0);
        turn.end();
        turn.await(3);
        EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
        turn.end();
    });
    std::thread marks([&] {
        turn.await(1);
        EXPECT_TRUE(make_biased(l));
        EXPECT_EQ(lw_rwlock_read_lock(&l), 0);
        EXPECT_TRUE(marked(l));
        handed.give();
        turn.await(2);
        EXPECT_EQ(lw_rwlock_read_lock(&l), 0);
        seen = data;
        EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
        turn.end();
        turn.await(4);
    });
    handed.release(l);
    turn.end();
    turn.await(4);
    EXPECT_EQ(lw_rwlock_try_write(&l), 0);
    data = 1;
    EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
    counted.join();
    marks.join();
    EXPECT_EQ(seen, 0);
    EXPECT_EQ(lw_rwlock_destroy(&l), 0);
}

// The same where the mark is older than a writer: the marked thread's next critical section comes after that writer, which has taken the mark
// from it, and other locks are marked in its place.
TEST_F(HandedOver, AReaderWhoseMarkIsLeftComesAfterTheWriter) {
    std::vector<lw_rwlock> locks(1 + LW__RW_MARKS, lw_rwlock LW_RWLOCK_INIT); // two of them have one place
    lw_rwlock &l = locks[0];
    ASSERT_TRUE(make_biased(l));
    Turns turn;
    Handed handed;
    long data = 0, seen = 0;
    std::thread reads([&] {
        EXPECT_EQ(lw_rwlock_read_lock(&l), 0);
        EXPECT_EQ(lw_rwlock_read_lock(&l), 0); // a second one, by the same mark
        EXPECT_TRUE(marked(l));
        handed.give();
        turn.await(1);
        EXPECT_EQ(lw_rwlock_read_lock(&l), 0);
        EXPECT_EQ(__atomic_load_n(&l.state, __ATOMIC_RELAXED), 1u) << "it has not counted itself";
        seen = data;
        EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
        for (lw_rwlock &other : locks)
            if (&other != &l && lw__rw_position(&other) == lw__rw_position(&l)) {
                EXPECT_TRUE(make_biased(other));
                EXPECT_EQ(lw_rwlock_read_lock(&other), 0);
                EXPECT_TRUE(marked(other));
                EXPECT_EQ(lw_rwlock_read_unlock(&other), 0);
                EXPECT_EQ(lw_rwlock_try_write(&other), 0) << "what was left counts for another lock";
                EXPECT_EQ(lw_rwlock_write_unlock(&other), 0);
            }
        turn.end();
    });
    handed.release(l); // counted: this thread has no mark
    EXPECT_EQ(lw_rwlock_try_write(&l), -EBUSY);
    handed.release(l);
    EXPECT_EQ(lw_rwlock_try_write(&l), 0);
    data = 1;
    EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
    turn.end();
    reads.join();
    EXPECT_EQ(seen, 1);
    EXPECT_EQ(lw_rwlock_destroy(&l), 0);
}

// A thread that has given its marks back reads in a destructor of its data, which counts in the plain lock.
TEST_P(Rwlock, AThreadReadsWhileItEnds) {
    pthread_key_t key;
    static int read; // by the destructor
    read = 0;
    const auto reads = [](void *given) {
        auto *lock = static_cast<lw_rwlock *>(given);
        const bool counted = lw_rwlock_read_lock(lock) == 0 && !has_marks() && lock->state == 1;
        read += counted && lw_rwlock_read_unlock(lock) == 0;
    };
    ASSERT_EQ(pthread_key_create(&key, reads), 0); // after the library's own, whose destructor runs first
    std::thread([&] {
        EXPECT_FALSE(lw_rwlock_read_lock(&l) || lw_rwlock_read_unlock(&l));
        pthread_setspecific(key, &l);
    }).join();
    EXPECT_EQ(read, 1);
    pthread_key_delete(key);
}

TEST_P(Rwlock, AThreadThatEndsInsideLeavesTheLockHeld) {
    std::thread([&] { EXPECT_EQ(lw_rwlock_read_lock(&l), 0); }).join();
    EXPECT_EQ(lw_rwlock_try_write(&l), -EBUSY);
    EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    EXPECT_EQ(lw_rwlock_try_write(&l), 0);
    EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
}

#ifndef LW_USER_EMULATION
TEST_P(Rwlock, AChildHasTheLocksAsTheyWere) {
    std::atomic<int> stage{0};
    std::thread other([&] {
        EXPECT_EQ(lw_rwlock_read_lock(&l), 0);
        stage = 1;
        while (stage != 2)
            std::this_thread::sleep_for(1ms);
        EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    });
    while (stage != 1)
        std::this_thread::yield();
    EXPECT_EQ(exit_code_of_child(
                  [&] { return lw_rwlock_try_write(&l) != -EBUSY || lw_rwlock_try_read(&l) || lw_rwlock_read_unlock(&l); }),
              0);
    stage = 2;
    other.join();
    ASSERT_EQ(lw_rwlock_write_lock(&l), 0);
    EXPECT_EQ(exit_code_of_child([&] { return lw_rwlock_try_read(&l) != -EBUSY || lw_rwlock_write_unlock(&l); }), 0);
    EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
}

// The lock of a thread that is not in the child is made again there, as a handler of pthread_atfork() does.
TEST_P(Rwlock, AChildMakesALockAgainThatAnotherThreadReads) {
    std::atomic<int> stage{0};
    std::thread other([&] {
        EXPECT_EQ(lw_rwlock_read_lock(&l), 0);
        stage = 1;
        stage.notify_all();
        stage.wait(1);
        EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    });
    stage.wait(0);
    for (const bool by_call : {true, false})
        EXPECT_EQ(exit_code_of_child([&] {
                      if (by_call)
                          lw_rwlock_init(&l);
                      else
                          l = LW_RWLOCK_INIT;
                      return !make_biased(l) || lw_rwlock_try_write(&l) || lw_rwlock_write_unlock(&l);
                  }),
                  0)
            << by_call;
    stage = 2;
    stage.notify_all();
    other.join();
}

// The child has no thread that waits: neither a writer, for whom readers would wait, nor a reader that has asked for its turn.
TEST_P(Rwlock, AChildHasNoneThatWait) {
    ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
    std::thread writer([&] {
        EXPECT_EQ(lw_rwlock_write_lock(&l), 0);
        EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
    });
    while (!a_writer_waits(l))
        std::this_thread::yield();
    EXPECT_EQ(exit_code_of_child([&] {
                  if (lw_rwlock_read_unlock(&l))
                      return 1;
                  for (int i = 0; i < 2; i++)
                      if (lw_rwlock_try_read(&l) || lw_rwlock_read_unlock(&l) || lw_rwlock_try_write(&l) ||
                          lw_rwlock_write_unlock(&l))
                          return 2 + i;
                  return 0;
              }),
              0);
    EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    writer.join();
    ASSERT_EQ(lw_rwlock_write_lock(&l), 0);
    std::thread reader([&] {
        EXPECT_EQ(lw_rwlock_read_lock(&l), 0);
        EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    });
    while (!(__atomic_load_n(&l.state, __ATOMIC_RELAXED) & READERS_TURN))
        std::this_thread::yield();
    EXPECT_EQ(exit_code_of_child([&] {
                  return lw_rwlock_write_unlock(&l) || lw_rwlock_write_lock_timeout(&l, 1) || lw_rwlock_write_unlock(&l);
              }),
              0);
    EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
    reader.join();
}

int deny_membarrier() {
    sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program = {4, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

TEST_P(Rwlock, WithoutMembarrierLocksStayPlainAndNoWriterEntersABiasedOne) {
    const bool biased = l.biased == LW__RW_BIASED;
    lw_rwlock other = LW_RWLOCK_INIT;
    BIASED(other);
    EXPECT_EQ(exit_code_of_child([&] { return !make_biased(l); }), 0) << "nothing but a missing membarrier keeps it plain";
    EXPECT_EQ(exit_code_of_child([&] {
                  if (deny_membarrier())
                      return 77;
                  if (biased)
                      return lw_rwlock_write_lock(&l) != -EPERM || l.biased != LW__RW_BIASED || lw_rwlock_try_read(&l) ||
                                     lw_rwlock_read_unlock(&l)
                                 ? 1
                                 : 0;
                  return read_often(l, 10 * plain_reads) || lw_rwlock_write_lock(&l) || lw_rwlock_write_unlock(&l) ? 1 : 0;
              }),
              0);
}
#endif

// What ending the biases of other locks cost puts off every lock's, by many times that cost, and not for ever.
TEST(RwlockBound, ALockStaysPlainAfterOtherLocksBiasesEndedAndTurnsBiasedLater) {
    lw_rwlock l = LW_RWLOCK_INIT;
    int stayed = 0;
    for (int i = 0; i < 20; i++) { // a thread that is stopped in between may find the time over
        std::vector<lw_rwlock> others(100, lw_rwlock LW_RWLOCK_INIT);
        for (lw_rwlock &other : others)
            BIASED(other);
        for (lw_rwlock &other : others)
            ASSERT_FALSE(lw_rwlock_write_lock(&other) || lw_rwlock_write_unlock(&other));
        l = LW_RWLOCK_INIT;
        stayed += !read_often(l, 128); // two looks, after which only what was put off keeps it plain where ends cost little
    }
    EXPECT_GE(stayed, 10);
    EXPECT_TRUE(make_biased(l)) << "put off for ever";
}

// Of many locks that a thread writes often, one that it has not written between two looks is there by chance.
TEST(RwlockBound, AThreadThatWritesOtherLocksWantsMoreLooks) {
    lw_rwlock l = LW_RWLOCK_INIT, other = LW_RWLOCK_INIT;
    for (int look = 0; look < 8; look++) {
        for (int i = 0; i < 32; i++)
            ASSERT_FALSE(lw_rwlock_write_lock(&other) || lw_rwlock_write_unlock(&other));
        EXPECT_FALSE(read_often(l, 64)) << look;
    }
    EXPECT_TRUE(make_biased(l)) << "kept plain for ever";
}

// The time since the bias before ended is worked off already: a lock that is written seldom is plain for a moment only.
TEST(RwlockBound, ALockThatIsWrittenSeldomTurnsBiasedAtOnce) {
    lw_rwlock l = LW_RWLOCK_INIT;
    int at_once = 0;
    for (int i = 0; i < 11; i++) { // a thread that is stopped while it ends the bias pays for that
        BIASED(l);
        std::this_thread::sleep_for(20ms);
        ASSERT_FALSE(lw_rwlock_write_lock(&l) || lw_rwlock_write_unlock(&l));
        at_once += read_often(l, plain_reads);
    }
    EXPECT_GE(at_once, 6);
}

// Two words that writers keep equal, and a count of writes: wrong as soon as any two meet.
TEST(RwlockStress, ReadersNeverSeeHalfAWrite) {
    lw_rwlock l = LW_RWLOCK_INIT;
    volatile long first = 0, second = 0;
    std::atomic<long> written{0};
    std::atomic<bool> wrong{false};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; t++)
        threads.emplace_back([&, t] {
            unsigned random = t + 1;
            for (int i = 0; i < 40'000; i++) {
                random = random * 1664525 + 1013904223;
                if (random >> 8 & (i & 4096 ? 3u : 1023u)) { // now many writes, now few
                    wrong = wrong || lw_rwlock_read_lock(&l) || first != second || lw_rwlock_read_unlock(&l);
                } else {
                    wrong = wrong || lw_rwlock_write_lock(&l);
                    first = first + 1;
                    second = second + 1;
                    written++;
                    wrong = wrong || lw_rwlock_write_unlock(&l);
                }
                if (i % 8192 == 0) // threads come and go: their marks are taken over
                    std::thread([&] { wrong = wrong || lw_rwlock_read_lock(&l) || lw_rwlock_read_unlock(&l); }).join();
            }
        });
    for (std::thread &t : threads)
        t.join();
    EXPECT_FALSE(wrong);
    EXPECT_EQ(first, written);
    EXPECT_EQ(lw_rwlock_destroy(&l), 0);
}

// Marks are addresses, which no function follows: neither a scan for another lock nor the thread that marked finds the lock that was there.
TEST(RwlockMemory, ALockMayBeUnmappedWhileItIsBiased) {
    lw_rwlock other = LW_RWLOCK_INIT;
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    for (int i = 0; i < 5; i++) {
        auto &l = *static_cast<lw_rwlock *>(page);
        BIASED(l);
        BIASED(other);
        ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
        ASSERT_EQ(lw_rwlock_read_unlock(&l), 0);
        ASSERT_EQ(mmap(page, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), page);
        EXPECT_EQ(lw_rwlock_write_lock(&other), 0);
        EXPECT_EQ(lw_rwlock_write_unlock(&other), 0);
        ASSERT_EQ(mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), page);
        EXPECT_EQ(lw_rwlock_read_lock(&l), 0);
        EXPECT_FALSE(marked(l)) << "zeroed memory is a plain lock";
        std::thread([&] { EXPECT_EQ(lw_rwlock_try_write(&l), -EBUSY); }).join();
        EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
        EXPECT_EQ(lw_rwlock_try_write(&l), 0);
        EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
    }
    munmap(page, 4096);
}

// More threads than one block of memory has marks for: a writer looks at those of each.
TEST(RwlockMarks, AWriterSeesEachOfManyThreads) {
    constexpr int many = 130;
    lw_rwlock l = LW_RWLOCK_INIT;
    BIASED(l);
    std::atomic<int> inside{0}, leaves{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < many; i++)
        threads.emplace_back([&, i] {
            EXPECT_EQ(lw_rwlock_read_lock(&l), 0);
            EXPECT_TRUE(marked(l));
            inside++;
            for (int turn; (turn = leaves) <= i;)
                leaves.wait(turn);
            EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
        });
    while (inside != many)
        std::this_thread::yield();
    for (std::thread &t : threads) { // as many as are left
        EXPECT_EQ(lw_rwlock_try_write(&l), -EBUSY) << leaves.load();
        leaves++;
        leaves.notify_all();
        t.join();
    }
    EXPECT_EQ(lw_rwlock_try_write(&l), 0);
    EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
}

#if !defined(LW_USER_EMULATION) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
int reads_without_memory() {
    lw_rwlock l = LW_RWLOCK_INIT;
    const rlimit none = {0, 0};
    if (setrlimit(RLIMIT_AS, &none) || !make_biased(l) || lw_rwlock_read_lock(&l))
        return 1;
    const bool counted = !has_marks() && l.state == 1 && lw_rwlock_try_write(&l) == -EBUSY;
    return !counted || lw_rwlock_read_unlock(&l) || lw_rwlock_write_lock(&l) || lw_rwlock_write_unlock(&l);
}
const int without_memory = exit_code_of_child(reads_without_memory); // before main(): this process has no marks yet

TEST(RwlockMemory, WithoutMemoryForMarksReadersCountInThePlainLock) { EXPECT_EQ(without_memory, 0); }
#endif

#if !defined(LW_USER_EMULATION) && !defined(__SANITIZE_THREAD__)
// Releases a lock instruction by instruction; its memory is gone from the moment on in which it is free, as when another thread takes, destroys
// and unmaps it. `waits`: what else its state says. The exit status of the child that releases: 0.
int status_of_release(bool write, uint32_t waits) {
    const int file = memfd_create("lock", 0);
    void *page = ftruncate(file, 4096) ? MAP_FAILED : mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED)
        return -1;
    auto *l = static_cast<lw_rwlock *>(page);
    const pid_t child = fork();
    if (child == 0) {
        if ((write ? lw_rwlock_write_lock(l) : lw_rwlock_read_lock(l)) || ptrace(PTRACE_TRACEME, 0, nullptr, nullptr))
            _exit(2);
        l->state = l->state | waits;
        raise(SIGSTOP);
        _exit(write ? lw_rwlock_write_unlock(l) : lw_rwlock_read_unlock(l));
    }
    int status = 0;
    const auto is_held = [&] { return (__atomic_load_n(&l->state, __ATOMIC_RELAXED) & 0x100fffff) != 0; };
    for (waitpid(child, &status, 0); WIFSTOPPED(status) && is_held(); waitpid(child, &status, 0))
        ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
    if (WIFSTOPPED(status) && !ftruncate(file, 0)) { // an access from here on is a SIGBUS
        ptrace(PTRACE_CONT, child, nullptr, nullptr);
        waitpid(child, &status, 0);
        if (WIFSTOPPED(status))
            kill(child, SIGKILL);
    }
    munmap(page, 4096);
    close(file);
    return status;
}

TEST(RwlockMemory, TheReleaseIsTheLastAccess) {
    for (const bool write : {false, true})
        for (const uint32_t waits :
             {0u, 0x00100000u, 0x40000000u, 0x40100000u, 0x20100000u}) // writers, readers, both, one on its way
            EXPECT_EQ(status_of_release(write, waits), 0) << write << std::hex << " " << waits;
}

// More writers than the state counts.
TEST(RwlockStress, ThreeHundredWritersWait) {
    lw_rwlock l = LW_RWLOCK_INIT;
    int writes = 0; // plain: the lock guards it
    ASSERT_EQ(lw_rwlock_write_lock(&l), 0);
    std::atomic<int> begun{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 300; i++)
        threads.emplace_back([&] {
            begun++;
            EXPECT_EQ(lw_rwlock_write_lock(&l), 0);
            writes++;
            EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
        });
    while (begun != 300 || (l.state >> 20 & 0x7f) != 0x7f)
        std::this_thread::sleep_for(1ms);
    EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
    for (std::thread &t : threads)
        t.join();
    EXPECT_EQ(writes, 300);
    EXPECT_EQ(l.state, 0u);
}
#endif

// A writer that waits for too long says so in the state, and writers that come later keep out.
TEST(RwlockStarving, AWriterIsNotPassedForEver) {
    constexpr uint32_t one_waits = 0x00100000, starves = 0x80000000;
    lw_rwlock l = LW_RWLOCK_INIT;
    std::chrono::steady_clock::time_point begin;
    int error;
    do { // again where the thread was stopped until its limit had passed, and so has not slept
        l.state = one_waits | starves; // it is on its way; the next one sleeps before it has the same right
        begin = std::chrono::steady_clock::now();
        error = lw_rwlock_write_lock_timeout(&l, 1'000'000);
    } while (error == -ETIMEDOUT);
    EXPECT_EQ(error, 0);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 1ms);
    l = LW_RWLOCK_INIT;
    ASSERT_EQ(lw_rwlock_write_lock(&l), 0);
    std::thread writer([&] {
        EXPECT_EQ(lw_rwlock_write_lock(&l), 0);
        EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
    });
    while (!(__atomic_load_n(&l.state, __ATOMIC_RELAXED) & starves)) { // woken, and the lock is held again
        std::this_thread::sleep_for(2ms);
        __atomic_fetch_add(&l.queue, 1, __ATOMIC_RELEASE);
        syscall(SYS_futex, &l.queue, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
    EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
    writer.join();
    EXPECT_EQ(l.state, 0u);
}

// Two writers are always behind the one inside, which comes again at once; a reader sleeps. It sleeps as long as
// writers wait, if it may not ask for its turn.
TEST(RwlockStarving, AReaderIsNotPassedForEver) {
    constexpr uint32_t woken = 0x20000000, readers_sleep = 0x40000000;
    lw_rwlock l = LW_RWLOCK_INIT;
    std::atomic<bool> stop{false}, has_read{false};
    const auto state = [&] { return __atomic_load_n(&l.state, __ATOMIC_RELAXED); };
    ASSERT_EQ(lw_rwlock_write_lock(&l), 0);
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++)
        threads.emplace_back([&] {
            while (!stop)
                EXPECT_FALSE(lw_rwlock_write_lock(&l) || lw_rwlock_write_unlock(&l));
        });
    threads.emplace_back([&] {
        EXPECT_EQ(lw_rwlock_read_lock(&l), 0);
        has_read = true;
        EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    });
    while (!(state() & readers_sleep))
        std::this_thread::yield();
    const auto woken_so_far = [&] { return __atomic_load_n(&l.queue, __ATOMIC_RELAXED); };
    const uint32_t first = woken_so_far();
    while (woken_so_far() - first < 1'000'000 && !has_read) {
        ASSERT_FALSE(lw_rwlock_write_unlock(&l) || lw_rwlock_write_lock(&l));
        while (state() & woken && !has_read)
            std::this_thread::yield(); // the writer that was woken finds the lock taken, and sleeps again
    }
    EXPECT_TRUE(has_read) << "passed by writers that were woken " << woken_so_far() - first << " times";
    stop = true;
    EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
    for (std::thread &t : threads)
        t.join();
}

// What bounds a reader's wait: of any number of writers that come and go none is inside between the reader's request and its entry, but for the one
// that was.
TEST(RwlockStarving, NoWriterPassesAReaderThatHasAskedForItsTurn) {
    constexpr uint32_t readers_turn = 0x08000000;
    lw_rwlock l = LW_RWLOCK_INIT_PLAIN;
    int entered = 0; // guarded by the lock
    std::atomic<bool> stop{false};
    std::vector<std::thread> writers;
    for (int i = 0; i < 4; i++)
        writers.emplace_back([&] {
            while (!stop) {
                EXPECT_EQ(lw_rwlock_write_lock(&l), 0);
                entered++;
                EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
            }
        });
    for (int round = 0; round < 8; round++) {
        ASSERT_EQ(lw_rwlock_write_lock(&l), 0);
        int seen = -1;
        std::thread reader([&] {
            EXPECT_EQ(lw_rwlock_read_lock(&l), 0);
            seen = entered;
            EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
        });
        while (!(__atomic_load_n(&l.state, __ATOMIC_RELAXED) & readers_turn))
            std::this_thread::yield();
        const int before = entered;
        EXPECT_FALSE(lw_rwlock_write_unlock(&l) || lw_rwlock_write_lock(&l)); // at once, while the reader is being woken
        entered++;
        EXPECT_EQ(seen, before);
        EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
        reader.join();
    }
    stop = true;
    for (std::thread &t : writers)
        t.join();
}

TEST(RwlockPositions, LocksOfOnePositionCountInThePlainLock) {
    std::vector<lw_rwlock> many(4 * LW__RW_MARKS, lw_rwlock LW_RWLOCK_INIT);
    for (lw_rwlock &l : many)
        BIASED(l);
    for (lw_rwlock &l : many)
        ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
    for (lw_rwlock &l : many)
        std::thread([&] { EXPECT_EQ(lw_rwlock_try_write(&l), -EBUSY); }).join();
    for (lw_rwlock &l : many)
        ASSERT_EQ(lw_rwlock_read_unlock(&l), 0);
    for (lw_rwlock &l : many) {
        EXPECT_EQ(lw_rwlock_try_write(&l), 0);
        EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
    }
}

uint64_t monotonic_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

TEST_P(Rwlock, ATimeOfTheMonotonicClockIsALimit) {
    EXPECT_EQ(lw_rwlock_read_lock_until(&l, 0), 0) << "a free lock is taken after its time, too";
    std::thread([&] {
        EXPECT_EQ(lw_rwlock_write_lock_until(&l, 0), -ETIMEDOUT);
        const uint64_t end = monotonic_ns() + 2'000'000;
        EXPECT_EQ(lw_rwlock_write_lock_until(&l, end), -ETIMEDOUT);
        EXPECT_GE(monotonic_ns(), end);
        EXPECT_EQ(lw_rwlock_read_lock_until(&l, end), 0);
        EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    }).join();
    EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    ASSERT_EQ(lw_rwlock_write_lock_until(&l, LW_RWLOCK_FOREVER), 0);
    EXPECT_EQ(lw_rwlock_write_lock_until(&l, 0), -EDEADLK);
    EXPECT_EQ(lw_rwlock_read_lock_until(&l, 0), -EDEADLK);
    std::thread([&] {
        const uint64_t end = monotonic_ns() + 2'000'000;
        EXPECT_EQ(lw_rwlock_read_lock_until(&l, end), -ETIMEDOUT);
        EXPECT_GE(monotonic_ns(), end);
    }).join();
    EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
}

TEST_P(Rwlock, AWriterBecomesAReader) {
    EXPECT_EQ(lw_rwlock_downgrade(&l), -EPERM);
    ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
    EXPECT_EQ(lw_rwlock_downgrade(&l), -EPERM);
    EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    ASSERT_EQ(lw_rwlock_write_lock(&l), 0);
    std::thread([&] { EXPECT_EQ(lw_rwlock_downgrade(&l), -EPERM) << "another thread's"; }).join();
    EXPECT_EQ(lw_rwlock_downgrade(&l), 0);
    EXPECT_EQ(lw_rwlock_write_unlock(&l), -EPERM);
    std::thread([&] {
        EXPECT_EQ(lw_rwlock_try_write(&l), -EBUSY);
        EXPECT_EQ(lw_rwlock_try_read(&l), 0);
        EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    }).join();
    EXPECT_EQ(lw_rwlock_read_lock(&l), 0) << "as often as it likes";
    EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    EXPECT_EQ(lw_rwlock_read_unlock(&l), -EPERM);
    EXPECT_EQ(lw_rwlock_try_write(&l), 0);
    EXPECT_EQ(lw_rwlock_write_unlock(&l), 0);
}

// Many threads write their number and become readers: no other writer comes in between, and what was written is seen by readers that come then.
TEST(RwlockDowngrade, NoOtherWriterComesBetween) {
    lw_rwlock l = LW_RWLOCK_INIT;
    volatile long owner = 0, count = 0; // written under the lock
    std::atomic<long> wrong{0};
    std::vector<std::thread> threads;
    for (long t = 1; t <= 4; t++)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 20'000; i++) {
                wrong += lw_rwlock_write_lock(&l) != 0;
                owner = t;
                count = count + 1;
                const long counted = count;
                wrong += lw_rwlock_downgrade(&l) != 0;
                wrong += owner != t || count != counted;
                wrong += lw_rwlock_read_unlock(&l) != 0;
            }
        });
    for (std::thread &t : threads)
        t.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(count, 80'000);
}

TEST(RwlockDowngrade, ReadersThatSleepComeIn) {
    lw_rwlock l = LW_RWLOCK_INIT;
    ASSERT_EQ(lw_rwlock_write_lock(&l), 0);
    std::thread reader([&] {
        EXPECT_EQ(lw_rwlock_read_lock(&l), 0);
        EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
    });
    while (!(__atomic_load_n(&l.state, __ATOMIC_RELAXED) & 0x40000000)) // it says that it sleeps
        std::this_thread::yield();
    EXPECT_EQ(lw_rwlock_downgrade(&l), 0);
    reader.join(); // while this thread is inside
    EXPECT_EQ(lw_rwlock_read_unlock(&l), 0);
}

TEST(RwlockStayPlain, ALockThatIsMadeSoNeverTurnsBiased) {
    lw_rwlock as_data = LW_RWLOCK_INIT_PLAIN, by_call;
    lw_rwlock_init_plain(&by_call);
    lw::shared_mutex in_cpp{lw::stay_plain_t()};
    lw::padded_shared_mutex padded{lw::stay_plain_t()};
    lw_rwlock other = LW_RWLOCK_INIT;
    BIASED(other);
    for (lw_rwlock *l : {&as_data, &by_call, in_cpp.native_handle(), padded.native_handle()}) {
        EXPECT_FALSE(read_often(*l, 4 * plain_reads));
        EXPECT_EQ(lw_rwlock_write_lock(l), 0);
        EXPECT_EQ(lw_rwlock_write_unlock(l), 0);
        EXPECT_FALSE(read_often(*l, 4 * plain_reads)) << "after a writer, too";
        EXPECT_EQ(lw_rwlock_destroy(l), 0);
    }
    EXPECT_TRUE(make_biased(as_data)) << "destroyed, it is a lock like any";
}

TEST(RwlockPadded, LocksShareNoLine) {
    static_assert(sizeof(lw_rwlock_padded) == LW_RWLOCK_APART && alignof(lw_rwlock_padded) == LW_RWLOCK_APART);
    static_assert(sizeof(lw::padded_shared_mutex) == LW_RWLOCK_APART && alignof(lw::padded_shared_mutex) == LW_RWLOCK_APART);
    struct {
        char before;
        lw_rwlock_padded lock;
        char behind;
    } data = {1, LW_RWLOCK_PADDED_INIT, 2};
    EXPECT_EQ(reinterpret_cast<uintptr_t>(&data.lock) % LW_RWLOCK_APART, 0u);
    EXPECT_GE(&data.behind - reinterpret_cast<char *>(&data.lock), LW_RWLOCK_APART);
    ASSERT_EQ(lw_rwlock_write_lock(&data.lock.lock), 0);
    EXPECT_EQ(lw_rwlock_write_unlock(&data.lock.lock), 0);
}

TEST(RwlockCpp, AWriterBecomesAReader) {
    lw::shared_mutex m;
    EXPECT_THROW(m.downgrade(), std::system_error);
    m.lock();
    m.downgrade();
    std::shared_lock read(m, std::adopt_lock);
    EXPECT_FALSE(m.try_lock());
    EXPECT_TRUE(m.try_lock_shared());
    m.unlock_shared();
}

TEST(RwlockCpp, TheClassMeetsSharedTimedMutex) {
    lw::shared_mutex m;
    {
        std::shared_lock a(m), b(m);
        std::unique_lock w(m, std::try_to_lock);
        EXPECT_FALSE(w);
        EXPECT_FALSE(m.try_lock_for(1ms));
    }
    {
        std::scoped_lock w(m);
        EXPECT_THROW(m.lock(), std::system_error);
        std::thread([&] {
            EXPECT_FALSE(m.try_lock_shared());
            EXPECT_FALSE(m.try_lock_shared_until(std::chrono::system_clock::now() + 1ms));
            EXPECT_FALSE(m.try_lock_until(std::chrono::steady_clock::now() - 1h));
            EXPECT_FALSE(m.try_lock_until(std::chrono::steady_clock::time_point::min()));
            EXPECT_FALSE(m.try_lock_shared_until(std::chrono::system_clock::time_point::min()));
        }).join();
    }
    EXPECT_TRUE(m.try_lock_for(std::chrono::hours::max()));
    m.unlock();
    EXPECT_TRUE(m.try_lock_until(std::chrono::time_point<std::chrono::system_clock, std::chrono::hours>::max()));
    m.unlock();
}

} // namespace
