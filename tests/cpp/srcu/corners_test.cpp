// SPDX-License-Identifier: MIT
// SRCU where things go wrong around it: callbacks that never stop, sandboxed threads, other copies of the library, threads
// that have ended, forks and waits in signal handlers.
#include "support.hpp"

#include <filesystem>
#include <sched.h>
#include <sys/resource.h>

namespace {

#ifndef LW_SANITIZED
bool emulated() { return std::getenv("LW_USER_EMULATION") != nullptr; } // qemu-user ends when a child of threads starts one
#endif

// Waits for a condition; minutes, which only a condition that never comes takes.
[[maybe_unused]] bool comes_true(const std::function<bool()> &condition) {
    for (int i = 0; i < 300'000; i++) {
        if (condition())
            return true;
        std::this_thread::sleep_for(1ms);
    }
    return false;
}

// ---- the worker's turns ----

std::atomic<bool> rearm;
std::atomic<long> rearmed;
lw_srcu *rearming_domain;
void rearming(lw_srcu_head *head) {
    rearmed++;
    if (rearm && lw_srcu_call(rearming_domain, head, rearming))
        ADD_FAILURE() << "lw_srcu_call";
}

TEST(SrcuWorker, ACallbackThatQueuesItselfAgainLeavesOtherDomainsTheirTurn) {
    Domain older(LW__SRCU_NORMAL), newer(LW__SRCU_NORMAL);
    static std::atomic<int> ran;
    lw_srcu_head again, head;
    ran = 0;
    rearmed = 0;
    rearm = true;
    rearming_domain = &newer;
    ASSERT_EQ(lw_srcu_call(&newer, &again, rearming), 0);
    ASSERT_TRUE(comes_true([] { return rearmed > 10; }));
    ASSERT_EQ(lw_srcu_call(&older, &head, [](lw_srcu_head *) { ran++; }), 0);
    EXPECT_TRUE(comes_true([] { return ran == 1; })) << "after " << rearmed << " callbacks of the newer domain";
    const auto cookie = lw_srcu_start_poll(&older);
    EXPECT_TRUE(comes_true([&] { return lw_srcu_poll(&older, cookie); }));
    rearm = false;
    EXPECT_EQ(lw_srcu_barrier(&older), 0);
    EXPECT_EQ(lw_srcu_barrier(&newer), 0); // waits for a callback that had seen `rearm`, not for the one that it queued
    EXPECT_EQ(lw_srcu_barrier(&newer), 0);
}

TEST(SrcuWorker, ALongQueueLeavesOtherDomainsTheirTurn) {
    constexpr int count = 20000;
    Domain older(LW__SRCU_NORMAL), newer(LW__SRCU_NORMAL);
    static std::atomic<int> ran, ran_when_it_came;
    static std::atomic<bool> asked;
    ran = ran_when_it_came = 0;
    asked = false;
    std::vector<lw_srcu_head> heads(count);
    const auto index = enter(&newer);
    for (auto &head : heads)
        ASSERT_EQ(lw_srcu_call(&newer, &head,
                               [](lw_srcu_head *) {
                                   std::this_thread::sleep_for(5us);
                                   ran++;
                                   asked.wait(false); // the first one: the queue is still long when the other comes
                               }),
                  0);
    leave(&newer, index);
    ASSERT_TRUE(comes_true([] { return ran > 0; }));
    lw_srcu_head head;
    ASSERT_EQ(lw_srcu_call(&older, &head, [](lw_srcu_head *) { ran_when_it_came = ran.load(); }), 0);
    asked = true;
    asked.notify_all();
    EXPECT_EQ(lw_srcu_barrier(&older), 0);
    EXPECT_GT(ran_when_it_came, 0);
    EXPECT_LT(ran_when_it_came, count);
    EXPECT_EQ(lw_srcu_barrier(&newer), 0);
    EXPECT_EQ(ran, count);
}

// ---- where the worker runs ----

#ifndef LW_SANITIZED
bool deny_membarrier() {
    sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter = {4, steps};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

constexpr int no_filters = 77;

#if LW_HAVE_THREAD_WORDS && defined(__x86_64__)
// Kills the process at any other system call, as a sandbox does, of all its threads or (0) of this one: the lists of docs/library/srcu.md.
bool allow_only(std::vector<long> calls, unsigned of_threads) {
    calls.push_back(SYS_exit_group);
    std::vector<sock_filter> steps = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
    for (const long call : calls) {
        steps.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
        steps.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
    steps.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    const sock_fprog filter = {static_cast<unsigned short>(steps.size()), steps.data()};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, of_threads, &filter);
}

const std::vector<long> by_first_reader = {SYS_rt_sigprocmask, SYS_gettid, SYS_mmap, SYS_mprotect, SYS_madvise, SYS_munmap};
const std::vector<long> by_init = {SYS_membarrier, SYS_mmap, SYS_mprotect, SYS_futex};
const std::vector<long> by_waiting = {SYS_membarrier, SYS_futex, SYS_sched_yield};
const std::vector<long> by_new_thread = {
    SYS_clone3,   SYS_clone,   SYS_rseq, SYS_set_robust_list, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_mmap, SYS_munmap,
    SYS_mprotect, SYS_madvise, SYS_brk,  SYS_getrandom,       SYS_exit};
std::vector<long> by_the_workers_start() {
    std::vector<long> calls = {SYS_prctl,       SYS_futex,       SYS_sched_getscheduler, SYS_sched_setscheduler,
                               SYS_getpriority, SYS_setpriority, SYS_sched_setaffinity,  SYS_membarrier,
                               SYS_sched_yield};
    calls.insert(calls.end(), by_new_thread.begin(), by_new_thread.end());
    return calls;
}

struct Filtered {
    const char *what;
    std::vector<long> allowed;
    bool (*body)(lw_srcu &used, lw_srcu &fresh); // true: as expected; `used`: made and read before the filter
};
const Filtered filtered[] = {
    {"readers of a thread that has read before",
     {},
     [](lw_srcu &used, lw_srcu &) { return leave(&used, enter(&used)), true; }},
    {"a thread's first reader", by_first_reader,
     [](lw_srcu &, lw_srcu &fresh) { return leave(&fresh, enter(&fresh)), true; }},
    {"init and cleanup", by_init,
     [](lw_srcu &, lw_srcu &) {
         lw_srcu d;
         return !lw__srcu_init(&d, LW__SRCU_FAST) && !lw_srcu_cleanup(&d);
     }},
    {"synchronize", by_waiting,
     [](lw_srcu &used, lw_srcu &) { return !lw_srcu_synchronize(&used) && !lw_srcu_synchronize_expedited(&used); }},
    {"call, free, start_poll and barrier with a worker that was started before", by_waiting,
     [](lw_srcu &used, lw_srcu &) {
         static lw_srcu_head head;
         return !lw_srcu_call(&used, &head, [](lw_srcu_head *) {}) && !lw_srcu_barrier(&used) &&
                lw_srcu_poll(&used, lw_srcu_get_state(&used)) == false;
     }},
#ifndef LW_SANITIZED // sanitizers make calls of their own for a thread
    {"the thread that runs callbacks, from its start to its end", by_the_workers_start(),
     [](lw_srcu &used, lw_srcu &) {
         static lw_srcu_head head, again;
         const auto nothing = [](lw_srcu_head *) {};
         return !lw_srcu_worker_start() && !lw_srcu_call(&used, &head, nothing) && !lw_srcu_barrier(&used) &&
                !lw_srcu_worker_stop() && !lw_srcu_worker_start() && !lw_srcu_call(&used, &again, nothing) &&
                !lw_srcu_barrier(&used);
     }},
#endif
};

int under_filter(const Filtered &f, bool worker, const std::vector<long> &allowed) {
    return in_child([&] {
        static lw_srcu used, fresh;
        if (lw__srcu_init(&used, LW__SRCU_FAST) || lw__srcu_init(&fresh, LW__SRCU_FAST))
            return 1;
        const bool first = f.allowed == by_first_reader;
        if (first) // this thread may have read in an earlier test; it waits, by system calls that no reader makes
            std::thread([&] { _exit(!allow_only(allowed, 0) ? no_filters : f.body(used, fresh) ? 0 : 3); }).join();
        leave(&used, enter(&used));
        static lw_srcu_head begun; // behind the barrier, the worker's own beginning is over
        if (worker &&
            (lw_srcu_worker_start() || lw_srcu_call(&used, &begun, [](lw_srcu_head *) {}) || lw_srcu_barrier(&used)))
            return 2;
        if (!allow_only(allowed, SECCOMP_FILTER_FLAG_TSYNC))
            return no_filters;
        return f.body(used, fresh) ? 0 : 3;
    });
}

TEST(SrcuSandbox, MakesTheSystemCallsThatItSays) {
    for (const Filtered &f : filtered) {
        const int code = under_filter(f, std::strstr(f.what, "worker") != nullptr, f.allowed);
        if (code == no_filters)
            GTEST_SKIP() << "this system allows no filter";
        EXPECT_EQ(code, 0) << f.what;
    }
    EXPECT_EQ(under_filter(filtered[1], false, {SYS_rt_sigprocmask, SYS_mmap, SYS_mprotect, SYS_madvise}), 128 + SIGSYS)
        << "the filter kills";
#ifndef LW_SANITIZED
    const Filtered &start = filtered[std::size(filtered) - 1];
    EXPECT_EQ(under_filter(start, false, by_new_thread), 128 + SIGSYS) << "a thread alone is not enough";
#endif
}
#endif

// The first thread that needs the worker is sandboxed; others are not.
TEST(SrcuWorker, IsReplacedWhenItInheritedAFilter) {
    if (emulated())
        GTEST_SKIP() << "qemu-user";
    const int code = in_child([] {
        lw_srcu d;
        if (lw__srcu_init(&d, LW__SRCU_FAST))
            return 1;
        static std::atomic<int> ran;
        static lw_srcu_head heads[2];
        const auto count = +[](lw_srcu_head *) { ran++; };
        bool filtered = false;
        std::thread([&] {
            filtered = deny_membarrier();
            if (lw_srcu_call(&d, &heads[0], count))
                _exit(2);
        }).join();
        if (!filtered)
            return no_filters;
        // Where membarrier is denied the worker has said so once it has tried; it does not say so before it has begun.
        if (!comes_true([&] { return describe(&d).find("by membarrier") == std::string::npos; }))
            return 5;
        if (lw_srcu_call(&d, &heads[1], count))
            return 3;
        return comes_true([] { return ran == 2; }) ? 0 : 4;
    });
    if (code == no_filters)
        GTEST_SKIP() << "this system allows no filter";
    EXPECT_EQ(code, 0);
}

// The barrier's own thread ends the grace periods that the worker cannot end.
TEST(SrcuWorker, IsHelpedByABarrierWhenItInheritedAFilter) {
    if (emulated())
        GTEST_SKIP() << "qemu-user";
    const int code = in_child([] {
        lw_srcu d;
        if (lw__srcu_init(&d, LW__SRCU_FAST))
            return 1;
        static std::atomic<int> ran;
        static lw_srcu_head head;
        bool filtered = false;
        std::thread([&] {
            filtered = deny_membarrier();
            if (lw_srcu_call(&d, &head, [](lw_srcu_head *) { ran++; }))
                _exit(2);
        }).join();
        if (!filtered)
            return no_filters;
        while (lw_srcu_barrier(&d) == -EPERM)
            ; // the worker's error may come between the barrier's own steps
        return ran == 1 ? 0 : 3;
    });
    if (code == no_filters)
        GTEST_SKIP() << "this system allows no filter";
    EXPECT_EQ(code, 0);
}

struct Seen {
    lw_srcu_head head;
    std::atomic<int> policy, cpus;
};
void see(lw_srcu_head *head) {
    auto *seen = reinterpret_cast<Seen *>(head);
    cpu_set_t mask;
    sched_getaffinity(0, sizeof mask, &mask);
    seen->cpus = CPU_COUNT(&mask);
    seen->policy = sched_getscheduler(0);
}

TEST(SrcuWorker, HasTheProcessAttributesNotTheFirstCallersAndTakesAnAffinity) {
    if (emulated())
        GTEST_SKIP() << "qemu-user";
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    EXPECT_EQ(in_child([&] {
                  lw_srcu d;
                  static Seen seen;
                  if (lw__srcu_init(&d, LW__SRCU_NORMAL))
                      return 1;
                  std::thread([&] {
                      const sched_param none{};
                      sched_setaffinity(0, sizeof one, &one);
                      sched_setscheduler(0, SCHED_IDLE, &none);
                      if (lw_srcu_call(&d, &seen.head, see) || lw_srcu_barrier(&d))
                          _exit(2);
                  }).join();
                  if (seen.policy != SCHED_OTHER && geteuid() == 0)
                      return 3;
                  if (seen.cpus != CPU_COUNT(&all))
                      return 4;
                  // The worker before may be in its last round, in which it takes what is queued: until it has ended.
                  const auto one_worker = [] {
                      return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}) == 2;
                  };
                  if (lw_srcu_worker_affinity(sizeof one, &one) || !comes_true(one_worker) ||
                      lw_srcu_call(&d, &seen.head, see) || lw_srcu_barrier(&d))
                      return 5;
                  if (lw_srcu_worker_affinity(0, &one) != -EINVAL || lw_srcu_worker_affinity(8, nullptr) != -EINVAL)
                      return 6;
                  return seen.cpus == 1 ? 0 : 7;
              }),
              0);
}

TEST(SrcuWorker, KeepsNoProcessAlive) {
    if (emulated())
        GTEST_SKIP() << "qemu-user";
    EXPECT_EQ(in_child([&] {
                  static lw_srcu d;
                  static lw_srcu_head head;
                  if (lw__srcu_init(&d, LW__SRCU_FAST) || lw_srcu_call(&d, &head, [](lw_srcu_head *) {}) ||
                      lw_srcu_barrier(&d))
                      return 1;
                  syscall(SYS_exit, 0); // as pthread_exit(), without unwinding: the process ends when its last thread does
                  return 2;
              }),
              0);
}

TEST(SrcuWorker, StopsAndStartsAndIsDoneWithout) {
    if (emulated())
        GTEST_SKIP() << "qemu-user";
    EXPECT_EQ(in_child([] {
                  static std::atomic<pid_t> ran_on;
                  static lw_srcu_head head;
                  static int stopped;
                  const auto run = +[](lw_srcu_head *) {
                      stopped = lw_srcu_worker_stop();
                      ran_on = static_cast<pid_t>(syscall(SYS_gettid));
                  };
                  lw_srcu d;
                  if (lw__srcu_init(&d, LW__SRCU_FAST) || lw_srcu_worker_start() || lw_srcu_call(&d, &head, run) ||
                      lw_srcu_barrier(&d))
                      return 1;
                  if (ran_on == gettid() || stopped != -EDEADLK)
                      return 2;
                  if (lw_srcu_worker_stop() || lw_srcu_worker_stop() || lw_srcu_call(&d, &head, run))
                      return 3;
                  std::this_thread::sleep_for(20ms);
                  if (ran_on == gettid() || lw_srcu_barrier(&d) || ran_on != gettid())
                      return 4; // the barrier's caller runs it
                  const auto index = enter(&d);
                  const auto cookie = lw_srcu_start_poll(&d);
                  for (int i = 0; i < 100; i++)
                      if (!cookie || lw_srcu_poll(&d, cookie))
                          return 5;
                  leave(&d, index);
                  if (!comes_true([&] { return lw_srcu_poll(&d, cookie); }))
                      return 6;
                  if (lw_srcu_worker_start() || lw_srcu_call(&d, &head, run) || lw_srcu_barrier(&d) || ran_on == gettid())
                      return 7;
                  return lw_srcu_worker_stop() || lw_srcu_cleanup(&d) ? 8 : 0;
              }),
              0);
}

// ---- membarrier denied before init ----

TEST(SrcuMembarrier, FastDomainsMadeUnderAFilterWork) {
    Domain older(LW__SRCU_FAST);
    const int code = in_child([&] {
        if (!deny_membarrier())
            return no_filters;
        lw_srcu d;
        if (lw__srcu_init(&d, LW__SRCU_FAST) || lw_srcu_synchronize(&d))
            return 1;
        if (describe(&d).find("membarrier is not available") == std::string::npos)
            return 2;
        leave(&d, enter(&d));
        if (lw_srcu_synchronize_expedited(&d) || lw_srcu_cleanup(&d))
            return 3;
        if (describe(&older).find("by membarrier") == std::string::npos)
            return 0; // not available anyway
        // An older domain lost it: only a caller who knows that no reader is left can end it.
        const auto index = enter(&older);
        if (lw_srcu_cleanup(&older) != -EPERM || lw_srcu_cleanup_idle(&older) != -EBUSY)
            return 4;
        leave(&older, index);
        static int ran;
        static lw_srcu_head heads[2];
        const auto count = +[](lw_srcu_head *) { ran++; };
        if (emulated())
            return 0;
        if (lw_srcu_call(&older, &heads[0], count) || lw_srcu_call(&older, &heads[1], count))
            return 5;
        if (lw_srcu_barrier(&older) != -EPERM || lw_srcu_cleanup(&older) != -EPERM)
            return 6;
        return lw_srcu_cleanup_idle(&older) == 0 && ran == 2 && lw_srcu_synchronize(&older) == -EINVAL ? 0 : 7;
    });
    if (code == no_filters)
        GTEST_SKIP() << "this system allows no filter";
    EXPECT_EQ(code, 0);
}

// ---- another copy of the library ----

#ifdef LW_PLUGIN
// The plug-in's thread has a record of its own copy when it reads in the program's domain: it must not be counted there in
// silence.
TEST(SrcuDomains, AnotherCopysReaderFaults) {
    void *plugin = dlopen(LW_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(plugin, nullptr) << dlerror();
    const auto read = reinterpret_cast<void (*)(lw_srcu *)>(dlsym(plugin, "plugin_read"));
    const auto read_own = reinterpret_cast<int (*)()>(dlsym(plugin, "plugin_read_own"));
    ASSERT_TRUE(read && read_own);
    for (const auto flavour : {LW__SRCU_NORMAL, LW__SRCU_FAST}) {
        Domain d(flavour);
        if (describe(&d).find("counts per thread") == std::string::npos)
            GTEST_SKIP() << "words per CPU can be shared";
        leave(&d, enter(&d)); // this copy has a record of the thread too
        EXPECT_EQ(in_child([&] {
                      if (read_own())
                          return 1;
                      fclose(stderr);
                      read(&d);
                      return 0;
                  }),
                  128 + SIGSEGV);
    }
}

// It adds up its own threads' words, in which no reader of the program's copy is counted.
TEST(SrcuDomains, AnotherCopysUpdaterIsRefused) {
    void *plugin = dlopen(LW_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(plugin, nullptr) << dlerror();
    const auto update = reinterpret_cast<int (*)(lw_srcu *)>(dlsym(plugin, "plugin_update"));
    ASSERT_NE(update, nullptr);
    for (const auto flavour : all_flavours) {
        Domain d(flavour);
        const auto reader = enter(&d);
        EXPECT_EQ(update(&d), 0);
        EXPECT_EQ(lw_srcu_cleanup(&d), -EBUSY);
        leave(&d, reader);
    }
}
#endif

// ---- threads that have ended ----

#if LW_HAVE_THREAD_WORDS
extern "C" unsigned visited_records(); // records.c

TEST(SrcuThreads, ThatHaveEndedAreNotVisitedByGracePeriods) {
    constexpr unsigned count = 500;
    Domain d(LW__SRCU_NORMAL);
    leave(&d, enter(&d));
    const unsigned before = visited_records();
    static std::atomic<unsigned> inside;
    static std::atomic<bool> go;
    inside = 0;
    go = false;
    std::vector<pthread_t> threads;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 * 1024);
    for (unsigned i = 0; i < count; i++) {
        pthread_t t;
        ASSERT_EQ(pthread_create(
                      &t, &small,
                      [](void *s) -> void * {
                          leave(static_cast<lw_srcu *>(s), enter(static_cast<lw_srcu *>(s)));
                          inside++;
                          go.wait(false);
                          return nullptr;
                      },
                      &d),
                  0);
        threads.push_back(t);
    }
    while (inside < count)
        std::this_thread::sleep_for(1ms);
    EXPECT_EQ(visited_records(), before + count);
    go = true;
    go.notify_all();
    for (const auto t : threads)
        pthread_join(t, nullptr); // the thread's destructors have given its record back by then
    pthread_attr_destroy(&small);
    EXPECT_EQ(visited_records(), before);
    EXPECT_NE(describe(&d).find("0 readers inside"), std::string::npos) << describe(&d);
}
#endif
#endif

// Readers are inside while their threads' counts are folded: none may be missed, none doubled.
TEST(SrcuThreads, ThatEndKeepTheirReadersCounted) {
    Domain d(LW__SRCU_FAST_UPDOWN);
    std::atomic<bool> over = false;
    std::vector<lw_srcu_index> held(64);
    for (auto &index : held)
        std::thread([&] { index = enter(&d); }).join();
    std::thread waiter([&] {
        EXPECT_EQ(lw_srcu_synchronize(&d), 0);
        over = true;
    });
    for (auto &index : held) {
        EXPECT_FALSE(over);
        std::thread([&] {
            leave(&d, enter(&d));
            leave(&d, index);
        }).join();
    }
    waiter.join();
}

// ---- fork and waits in signal handlers ----

#if !defined(LW_SANITIZED) && LW_HAVE_THREAD_WORDS
pid_t forked_in_handler;

TEST(SrcuFork, InAHandlerDuringAThreadsFirstReader) {
    static lw_srcu d;
    ASSERT_EQ(lw__srcu_init(&d, LW__SRCU_FAST), 0);
    constexpr unsigned at_take = 8; // src/srcu/domain.h
    signal(SIGUSR1, [](int) { forked_in_handler = fork(); });
    __atomic_store_n(
        &lw__srcu_test_point,
        +[](unsigned where) {
            if (where == at_take) {
                __atomic_store_n(&lw__srcu_test_point, nullptr, __ATOMIC_RELEASE);
                raise(SIGUSR1);
            }
        },
        __ATOMIC_RELEASE);
    std::thread([] {
        leave(&d, enter(&d)); // forks on its way
        char *const mine = lw__srcu_self;
        if (forked_in_handler == 0) { // in the child: another thread must not get the same record
            char *others = nullptr;
            std::thread([&] {
                leave(&d, enter(&d));
                others = lw__srcu_self;
            }).join();
            _exit(mine && others && mine != others ? 0 : 1);
        }
        int status = -1;
        EXPECT_EQ(waitpid(forked_in_handler, &status, 0), forked_in_handler);
        EXPECT_EQ(status, 0);
    }).join();
    signal(SIGUSR1, SIG_DFL);
    EXPECT_EQ(lw_srcu_cleanup(&d), 0);
}
#endif

TEST(SrcuWaiters, InAWaitAreRefused) {
    static Domain *domain;
    static int answer;
    Domain d(LW__SRCU_NORMAL);
    domain = &d;
    answer = 0;
    __atomic_store_n(
        &lw__srcu_test_point, // stands for a signal handler that interrupts the wait
        +[](unsigned) {
            __atomic_store_n(&lw__srcu_test_point, nullptr, __ATOMIC_RELEASE);
            answer = lw_srcu_synchronize(domain);
        },
        __ATOMIC_RELEASE);
    EXPECT_EQ(lw_srcu_synchronize(&d), 0);
    EXPECT_EQ(answer, -EDEADLK);
    EXPECT_EQ(lw_srcu_synchronize(&d), 0);
}

// ---- misuse that is refused ----

TEST(SrcuRequests, InitOfALiveDomainIsRefused) {
    Domain d(LW__SRCU_FAST);
    const auto index = enter(&d);
    EXPECT_EQ(lw__srcu_init(&d, LW__SRCU_FAST), -EBUSY);
    EXPECT_EQ(lw_srcu_cleanup(&d), -EBUSY); // the reader is still counted
    leave(&d, index);
    lw_srcu garbage;
    std::memset(static_cast<void *>(&garbage), 0xa5, sizeof garbage);
    EXPECT_EQ(lw__srcu_init(&garbage, LW__SRCU_FAST), 0);
    EXPECT_EQ(lw_srcu_cleanup(&garbage), 0);
}

TEST(SrcuStall, AReportOfALongNameEndsInTime) {
    static std::atomic<size_t> length;
    const std::string name(6000, 'n');
    Domain d(LW__SRCU_FAST);
    d.name = name.c_str();
    length = 0;
    ASSERT_EQ(lw_srcu_on_stall(
                  &d, 1, [](const lw_srcu *, unsigned, const char *text, void *) { length = std::strlen(text); }, nullptr),
              0);
    const auto index = enter(&d);
    std::thread waiter([&] { EXPECT_EQ(lw_srcu_synchronize(&d), 0); });
    EXPECT_TRUE(comes_true([] { return length > 0; }));
    leave(&d, index);
    waiter.join();
    EXPECT_LT(length, 4096u);
    d.name = nullptr;
}

} // namespace
