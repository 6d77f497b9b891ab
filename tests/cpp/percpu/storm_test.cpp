// SPDX-License-Identifier: MIT
// Nothing is lost and nothing counted twice, whatever interrupts the threads: migration, signals, restarts, fork, threads
// without registration. Run plainly, with pauses between the steps of every sequence, and in each mode of the library.
#include "storm.hpp"

extern "C" {
#include "../../../src/percpu/rseq.h"
}

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <time.h>

namespace {

using storm::Weather;

constexpr int threads = 8;
constexpr auto length = std::chrono::milliseconds(50);
using Stop = const std::atomic<bool> &;

template <typename T> struct Percpu {
    T *p = static_cast<T *>(lw_percpu_alloc(sizeof(T), sizeof(T)));
    ~Percpu() { lw_percpu_free(p); }
    T &at(unsigned cpu) const { return *static_cast<T *>(lw_per_cpu_ptr(p, cpu)); }
    T sum() const {
        T total = 0;
        for (unsigned cpu = 0; cpu < lw_percpu_nr_cpus(); cpu++)
            total = static_cast<T>(total + at(cpu));
        return total;
    }
};

// Everything that a handler touches while it may interrupt any step of the workers.
struct State {
    Percpu<uint64_t> count64;
    Percpu<uint32_t> count32;
    Percpu<uint64_t> value64;
    Percpu<uint32_t> value32;
    Percpu<uint16_t> value16;
    Percpu<uint8_t> value8;
};
State *state;
std::atomic<uint64_t> handled{0};

void on_signal(int) {
    lw_this_cpu_add(state->count64.p, 7);
    lw_this_cpu_inc(state->count32.p);
    lw_this_cpu_fetch_add(state->value64.p, 0x100000001u);
    lw_this_cpu_add_return(state->value32.p, 3u);
    lw_this_cpu_add_return(state->value16.p, 3u);
    lw_this_cpu_fetch_add(state->value8.p, 3u);
    handled.fetch_add(1, std::memory_order_relaxed);
}

int in_child() {
    const uint64_t before = lw_percpu_sum(state->count64.p), value_before = state->value64.sum();
    for (int i = 0; i < 200; i++) {
        lw_this_cpu_inc(state->count64.p);
        lw_this_cpu_fetch_add(state->value64.p, 1);
    }
    return lw_percpu_sum(state->count64.p) - before == 200 && state->value64.sum() - value_before == 200 ? 0 : 1;
}

struct Case {
    const char *name;
    Weather weather;
};

class Storm : public testing::TestWithParam<Case> {
protected:
    void SetUp() override {
        const char *why = "";
        const auto mode = lw_percpu_mode(&why);
        RecordProperty("mode", static_cast<int>(mode));
        if (GetParam().weather.half_unregistered && mode == LW_PERCPU_ATOMIC)
            GTEST_SKIP() << "no thread is registered: " << why;
    }
    // The case's storm with `handler` for its signals; without fork(), since these tests count in memory that a child has a
    // copy of.
    template <class Body> void without_forks(void (*handler)(int), Body body) {
        struct sigaction action = {}, old = {};
        action.sa_handler = handler;
        sigaction(SIGUSR1, &action, &old);
        Weather weather = GetParam().weather;
        weather.fork = false;
        storm::run(threads, length, weather, body, [] { return 0; });
        sigaction(SIGUSR1, &old, nullptr);
    }
};

TEST_P(Storm, AddsAreExact) {
    State s;
    state = &s;
    handled = 0;
    struct sigaction action = {}, old = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, &old);
    std::atomic<uint64_t> n{0};
    const int failed = storm::run(
        threads, length, GetParam().weather,
        [&](int, Stop stop) {
            uint64_t mine = 0;
            for (; !stop; mine++) {
                lw_this_cpu_add(s.count64.p, 0x100000003u);
                lw_this_cpu_sub(s.count64.p, 2);
                lw_this_cpu_inc(s.count32.p);
                lw_this_cpu_fetch_add(s.value64.p, 0x100000001u);
                lw_this_cpu_fetch_add(s.value32.p, 5u);
                lw_this_cpu_add_return(s.value16.p, 5u);
                lw_this_cpu_fetch_add(s.value8.p, 5u);
            }
            n += mine;
        },
        in_child);
    sigaction(SIGUSR1, &old, nullptr);
    const uint64_t h = handled;
    EXPECT_EQ(failed, 0) << "forked children that lost counts or did not end";
    EXPECT_EQ(lw_percpu_sum(s.count64.p), n * 0x100000001u + h * 7);
    EXPECT_EQ(lw_percpu_sum(s.count32.p), static_cast<uint32_t>(n + h));
    EXPECT_EQ(s.value64.sum(), (n + h) * 0x100000001u);
    EXPECT_EQ(s.value32.sum(), static_cast<uint32_t>(n * 5 + h * 3));
    EXPECT_EQ(s.value16.sum(), static_cast<uint16_t>(n * 5 + h * 3));
    EXPECT_EQ(s.value8.sum(), static_cast<uint8_t>(n * 5 + h * 3));
    if (GetParam().weather.signals) {
        EXPECT_GT(h, 0u);
    }
}

// Every bit is set (cleared) by exactly one operation, on whichever CPU: over all copies exactly one shows it.
TEST_P(Storm, BitsAreNeitherLostNorInvented) {
#if defined(LW_RSEQ_DELAY) || defined(__aarch64__) // slow steps; emulated steps
    constexpr unsigned words = 256;
#else
    constexpr unsigned words = LW_PERCPU_MAX_SIZE / 8;
#endif
    auto *set = static_cast<uint64_t *>(lw_percpu_alloc(words * 8, 8));
    auto *clear = static_cast<uint64_t *>(lw_percpu_alloc(words * 8, 8));
    for (unsigned cpu = 0; cpu < lw_percpu_nr_cpus(); cpu++)
        for (unsigned w = 0; w < words; w++)
            static_cast<uint64_t *>(lw_per_cpu_ptr(clear, cpu))[w] = ~uint64_t{0};
    without_forks([](int) {},
                  [&](int t, Stop) {
                      for (unsigned k = 0; k < 64 / threads; k++)
                          for (unsigned w = 0; w < words; w++) {
                              const uint64_t bit = uint64_t{1} << (static_cast<unsigned>(t) * (64 / threads) + k);
                              lw_this_cpu_or(set + w, bit);
                              if (k % 2)
                                  lw_this_cpu_and(clear + w, ~bit);
                              else
                                  lw_this_cpu_andnot(clear + w, bit);
                          }
                  });
    for (unsigned w = 0; w < words; w++) {
        int is_set = 0, is_clear = 0;
        for (unsigned cpu = 0; cpu < lw_percpu_nr_cpus(); cpu++) {
            is_set += __builtin_popcountll(static_cast<uint64_t *>(lw_per_cpu_ptr(set, cpu))[w]);
            is_clear += __builtin_popcountll(~static_cast<uint64_t *>(lw_per_cpu_ptr(clear, cpu))[w]);
        }
        ASSERT_EQ(is_set, 64) << "word " << w;
        ASSERT_EQ(is_clear, 64) << "word " << w;
    }
    lw_percpu_free(set);
    lw_percpu_free(clear);
}

// Per-CPU stacks of `nodes` nodes through cmpxchg.
struct Stacks {
    static constexpr unsigned nodes = 64;
    static constexpr uint64_t none = 0xffffffff;
    struct Node {
        uint64_t next;                // tag << 32 | index
        std::atomic<uint32_t> pushes; // makes each appearance of a node on top a different word
    };
    std::vector<Node> node = std::vector<Node>(nodes);
    Percpu<uint64_t> top;

    Stacks() {
        for (unsigned cpu = 0; cpu < lw_percpu_nr_cpus(); cpu++)
            top.at(cpu) = none;
        for (unsigned i = 0; i < nodes; i++)
            push(i);
    }
    void push(uint64_t index) {
        const uint64_t tag = node[index].pushes.fetch_add(1) + 1;
        for (;;) {
            const uint64_t head = lw_this_cpu_read(top.p);
            __atomic_store_n(&node[index].next, head, __ATOMIC_RELAXED); // read by pop() of a thread that loses the race
            if (lw_this_cpu_cmpxchg(top.p, head, tag << 32 | index) == head)
                return;
        }
    }
    uint64_t pop() {
        for (;;) {
            const uint64_t head = lw_this_cpu_read(top.p);
            const uint64_t index = head & 0xffffffff;
            if (index == none)
                return none;
            const uint64_t next = __atomic_load_n(&node[index].next, __ATOMIC_RELAXED);
            if (lw_this_cpu_cmpxchg(top.p, head, next) == head)
                return index;
        }
    }
    // Every node is on one stack, once.
    void check() {
        std::vector<int> seen(nodes);
        for (unsigned cpu = 0; cpu < lw_percpu_nr_cpus(); cpu++)
            for (uint64_t at = top.at(cpu) & 0xffffffff; at != none; at = node[at].next & 0xffffffff) {
                ASSERT_LT(at, nodes);
                ASSERT_EQ(seen[at]++, 0) << "node " << at << " is on two stacks or in a circle";
            }
        for (unsigned i = 0; i < nodes; i++)
            EXPECT_EQ(seen[i], 1) << "node " << i;
    }
};

// Nodes go from stack to stack and tokens are handed on through xchg: in the end every one is somewhere, once.
TEST_P(Storm, NodesAndTokensSurvive) {
    Stacks stacks;
    Percpu<uint64_t> slot;
    std::vector<uint64_t> held(threads);
    without_forks([](int) {},
                  [&](int t, Stop stop) {
                      uint64_t token = static_cast<uint64_t>(t + 1) * 0x100000001u;
                      while (!stop) {
                          const uint64_t index = stacks.pop();
                          if (index != Stacks::none)
                              stacks.push(index);
                          token = lw_this_cpu_xchg(slot.p, token);
                      }
                      held[static_cast<size_t>(t)] = token;
                  });
    stacks.check();
    uint64_t total = slot.sum(), expected = 0;
    for (int t = 0; t < threads; t++) {
        total += held[static_cast<size_t>(t)];
        expected += static_cast<uint64_t>(t + 1) * 0x100000001u;
    }
    EXPECT_EQ(total, expected);
}

// Nodes on per-CPU lists: a thread that takes one off holds it until it puts it back, and no two do at once.
class HeldNodes {
    struct Node {
        lw_percpu_node link; // first: nodes are cast
        std::atomic<uint32_t> holders{0};
    };
    std::vector<Node> node_{count};
    std::vector<int> seen_ = std::vector<int>(count);

public:
    static constexpr unsigned count = 64;
    lw_percpu_node **list = static_cast<lw_percpu_node **>(lw_percpu_alloc(sizeof *list, sizeof *list));
    std::atomic<uint32_t> twice{0};
    HeldNodes() {
        for (auto &n : node_)
            if (list) // the test asserts it
                lw_percpu_push(list, &n.link);
    }
    ~HeldNodes() { lw_percpu_free(list); }
    void put(lw_percpu_node *link) {
        auto *n = reinterpret_cast<Node *>(link);
        if (n->holders++)
            twice++;
        n->holders--;
        lw_percpu_push(list, link);
    }
    // How often `link` was met at the end, with this time.
    int meet(lw_percpu_node *link) { return ++seen_[static_cast<size_t>(reinterpret_cast<Node *>(link) - node_.data())]; }
    void expect_all_met() const {
        for (unsigned i = 0; i < count; i++)
            EXPECT_EQ(seen_[i], 1) << "node " << i;
    }
};

// Per-CPU lists: threads and their signal handlers take nodes off and put them back. Every node is on one list at the end.
TEST_P(Storm, ListsKeepEveryNode) {
    HeldNodes held;
    static lw_percpu_node **list; // for the handler, as the nodes
    static HeldNodes *nodes;
    nodes = &held;
    list = held.list;
    ASSERT_NE(list, nullptr);
    static const auto pop_and_push = [] {
        if (lw_percpu_node *link = lw_percpu_pop(list))
            nodes->put(link);
    };
    without_forks([](int) { pop_and_push(); },
                  [](int, Stop stop) {
                      while (!stop)
                          pop_and_push();
                  });
    EXPECT_EQ(held.twice, 0u) << "two holders of one node";
    lw_percpu_node **head;
    lw_percpu_for_each(head, list) for (auto *at = *head; at; at = at->next) ASSERT_EQ(held.meet(at), 1);
    held.expect_all_met();
}

// Operations that say on which CPU they took place: each CPU's own copy holds what they said of it.
TEST_P(Storm, OperationsTellTheirCpu) {
    using Tally = std::vector<std::atomic<uint64_t>>;
    constexpr unsigned nodes = 64;
    static Percpu<uint64_t> *count;
    static lw_percpu_node **list;
    static Tally *added, *pushed, *popped; // by CPU; added: one further on, the second words first
    Percpu<uint64_t> count_here;
    const unsigned cpus = lw_percpu_nr_cpus();
    Tally added_here(cpus + 1), pushed_here(cpus), popped_here(cpus);
    std::vector<lw_percpu_node> node(nodes);
    count = &count_here, added = &added_here, pushed = &pushed_here, popped = &popped_here;
    list = static_cast<lw_percpu_node **>(lw_percpu_alloc(sizeof *list, sizeof *list));
    for (auto &n : node)
        (*pushed)[lw_percpu_push(list, &n)]++;
    static const auto operate = [] {
        (*added)[static_cast<size_t>(lw_this_cpu_add_cpu_u64(count->p, 0x100000001u) + 1)]++;
        unsigned from = ~0u;
        if (lw_percpu_node *n = lw_percpu_pop_cpu(list, &from)) {
            (*popped)[from]++;
            (*pushed)[lw_percpu_push(list, n)]++;
        }
    };
    without_forks([](int) { operate(); },
                  [](int, Stop stop) {
                      while (!stop)
                          operate();
                  });
    uint64_t all = added_here[0];
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        EXPECT_EQ(count_here.at(cpu), added_here[cpu + 1] * 0x100000001u) << "CPU " << cpu;
        all += added_here[cpu + 1];
        uint64_t listed = 0;
        for (auto *at = *static_cast<lw_percpu_node **>(lw_per_cpu_ptr(list, cpu)); at; at = at->next)
            listed++;
        EXPECT_EQ(listed, pushed_here[cpu] - popped_here[cpu]) << "CPU " << cpu;
    }
    EXPECT_EQ(lw_percpu_sum(count_here.p), all * 0x100000001u);
    lw_percpu_free(list);
}

// The same with nodes that come from other CPUs' lists, one at a time and all at once, and lengths meanwhile.
TEST_P(Storm, ListsKeepEveryNodeThatIsTakenFromAnotherCpu) {
    HeldNodes held;
    static lw_percpu_node **list; // for the handler, as the nodes
    static HeldNodes *nodes;
    nodes = &held;
    list = held.list;
    ASSERT_NE(list, nullptr);
    EXPECT_EQ(lw_percpu_length(list), HeldNodes::count);
    std::atomic<unsigned> too_long{0};
    without_forks(
        [](int) {
            if (lw_percpu_node *link = lw_percpu_pop_any(list))
                nodes->put(link);
        },
        [&](int, Stop stop) {
            for (unsigned i = 0; !stop; i++) {
                if (lw_percpu_node *link = i % 4 ? lw_percpu_pop(list) : lw_percpu_pop_any(list))
                    nodes->put(link);
                if (i % 64 == 0)
                    for (lw_percpu_node *all = lw_percpu_pop_all(list); all;) {
                        lw_percpu_node *const next = all->next;
                        nodes->put(all);
                        all = next;
                    }
                // A node that wanders may be counted once on each CPU.
                if (i % 64 == 32)
                    too_long += lw_percpu_length(list) > size_t{HeldNodes::count} * lw_percpu_nr_cpus();
            }
        });
    EXPECT_EQ(held.twice, 0u) << "two holders of one node";
    EXPECT_EQ(too_long, 0u);
    EXPECT_EQ(lw_percpu_length(list), HeldNodes::count);
    for (auto *at = lw_percpu_pop_all(list); at; at = at->next)
        ASSERT_EQ(held.meet(at), 1);
    held.expect_all_met();
    EXPECT_EQ(lw_percpu_length(list), 0u);
}

// A pool whose blocks are freed on one CPU and allocated on another makes no more blocks than live at once.
TEST(Lists, APoolOverTwoCpusDoesNotGrow) {
    const std::vector<int> cpus = storm::allowed_cpus();
    if (cpus.size() < 2)
        GTEST_SKIP() << "needs two CPUs";
    constexpr unsigned live = 1024, rounds = 20;
    auto **list = static_cast<lw_percpu_node **>(lw_percpu_alloc(sizeof(void *), sizeof(void *)));
    std::vector<std::unique_ptr<lw_percpu_node>> made;
    for (unsigned round = 0; round < rounds; round++) {
        std::vector<lw_percpu_node *> held;
        std::thread([&] {
            storm::pin(0, {cpus.back()});
            for (unsigned i = 0; i < live; i++) {
                lw_percpu_node *node = lw_percpu_pop_any(list);
                if (!node) {
                    made.push_back(std::make_unique<lw_percpu_node>());
                    node = made.back().get();
                }
                held.push_back(node);
            }
        }).join();
        std::thread([&] {
            storm::pin(0, {cpus.front()});
            for (lw_percpu_node *node : held)
                lw_percpu_push(list, node);
        }).join();
    }
    EXPECT_EQ(made.size(), live);
    EXPECT_EQ(lw_percpu_length(list), live);
    EXPECT_EQ(lw_percpu_free(list), 0);
}

TEST(Lists, AChainIsPushedInItsOrder) {
    auto **list = static_cast<lw_percpu_node **>(lw_percpu_alloc(sizeof(void *), sizeof(void *)));
    std::thread([&] {
        storm::pin(0, {storm::allowed_cpus().front()});
        lw_percpu_node a = {nullptr}, b = {nullptr}, c = {nullptr};
        b.next = &c;
        lw_percpu_push(list, &a);
        lw_percpu_push_chain(list, &b, &c);
        EXPECT_EQ(lw_percpu_length(list), 3u);
        EXPECT_EQ(lw_percpu_pop(list), &b);
        EXPECT_EQ(lw_percpu_pop_any(list), &c);
        EXPECT_EQ(lw_percpu_pop_all(list), &a);
        EXPECT_EQ(a.next, nullptr);
        EXPECT_EQ(lw_percpu_pop_any(list), nullptr);
        EXPECT_EQ(lw_percpu_pop_all(list), nullptr);
    }).join();
    EXPECT_EQ(lw_percpu_free(list), 0);
}

// Writers store only values whose halves agree; a torn write or read would show halves that do not.
TEST_P(Storm, NothingTears) {
    Percpu<uint64_t> word;
    std::atomic<int> torn{0};
    auto whole = [](uint64_t v) { return static_cast<uint32_t>(v) == static_cast<uint32_t>(v >> 32); };
    without_forks([](int) {},
                  [&](int t, Stop stop) {
                      for (uint32_t i = 0; !stop; i++) {
                          const uint64_t half = i * 8 + static_cast<uint32_t>(t);
                          lw_this_cpu_write(word.p, half << 32 | half);
                          if (!whole(lw_this_cpu_read(word.p)))
                              torn++;
                          const auto *other = static_cast<const uint64_t *>(lw_per_cpu_ptr(word.p, i % lw_percpu_nr_cpus()));
                          uint64_t seen;
#ifdef __i386__
                          __asm__("fildll %1\n\tfistpll %0" : "=m"(seen) : "m"(*other) : "memory"); // one 8-byte load
#else
                          seen = __atomic_load_n(other, __ATOMIC_RELAXED);
#endif
                          if (!whole(seen))
                              torn++;
                      }
                  });
    EXPECT_EQ(torn, 0);
}

Weather weather(bool migrate, bool signals, bool membarrier, bool fork, bool shrink, bool half) {
    Weather w;
    w.migrate = migrate, w.signals = signals, w.membarrier = membarrier;
    w.fork = fork, w.shrink = shrink, w.half_unregistered = half;
    return w;
}

INSTANTIATE_TEST_SUITE_P(Percpu, Storm,
                         testing::Values(Case{"calm", weather(false, false, false, false, false, false)},
                                         Case{"migration", weather(true, false, false, false, false, false)},
                                         Case{"signals", weather(false, true, false, false, false, false)},
                                         Case{"restarts", weather(false, false, true, false, false, false)},
                                         Case{"fork", weather(false, false, false, true, false, false)},
                                         Case{"shrinking", weather(true, false, false, false, true, false)},
                                         Case{"half_unregistered", weather(true, true, true, true, false, true)},
                                         Case{"everything", weather(true, true, true, true, true, false)}),
                         [](const auto &info) { return std::string(info.param.name); });

// The weather is real: single attempts do get aborted, and every one that says so has added nothing.
TEST(Sequence, AbortedAttemptsAddNothing) {
    if (!lw_percpu_thread_registered())
        GTEST_SKIP() << "this thread has no sequences";
    Percpu<uint64_t> word;
    std::atomic<uint64_t> added{0}, aborted{0};
    struct sigaction action = {}, old = {};
    action.sa_handler = [](int) {};
    sigaction(SIGUSR1, &action, &old);
#if defined(LW_RSEQ_DELAY) && !defined(__SANITIZE_THREAD__)
    const int most_runs = 1000; // on a busy machine one run may pass without an abort
#else
    const int most_runs = 1;
#endif
    for (int runs = 0; added == 0 || (runs < most_runs && aborted == 0); runs++) // or before a worker had a CPU
        storm::run(
            threads, length, weather(true, true, true, false, false, false),
            [&](int, Stop stop) {
                lw_percpu_thread_registered(); // where threads are registered by us, the first attempt would fail for that
                while (!stop)
                    (lw_rseq_add_u64(word.p, 1) ? added : aborted)++;
            },
            [] { return 0; });
    sigaction(SIGUSR1, &old, nullptr);
    EXPECT_EQ(word.sum(), added);
    EXPECT_TRUE(most_runs == 1 || aborted > 0);
    RecordProperty("aborted", static_cast<int>(aborted));
}

// A handler that takes its thread to another CPU in the middle of any step: whatever the thread does next, it must not do
// to the CPU it has left. One thread only, so that every change there is its own.
struct Left {
    State *state;
    std::vector<int> cpus;
    timer_t timer;
    std::atomic<unsigned> moves, wrong;
    uint64_t seen[4]; // the words of the CPU that was left last
    void read(unsigned cpu, uint64_t (&words)[4]) const {
        words[0] = state->count64.at(cpu), words[1] = state->count32.at(cpu);
        // Without membarrier they are atomic instructions, on the CPU that the thread was on when it asked: any may be
        // right.
        const bool sequences = lw_percpu_rt.value_limit != 0;
        words[2] = sequences ? state->value64.at(cpu) : 0, words[3] = sequences ? state->value8.at(cpu) : 0;
    }
};
Left left;

void on_signal_move(int) {
    const int saved = errno;
    const unsigned n = left.moves;
    uint64_t now[4];
    left.read(static_cast<unsigned>(left.cpus[(n + 1) % 2]), now);
    if (n && memcmp(now, left.seen, sizeof now))
        left.wrong++;
    storm::move_to(left.cpus[(n + 1) % 2]);
    left.read(static_cast<unsigned>(left.cpus[n % 2]), left.seen);
    left.moves = n + 1;
    // Two moves close together, to fall into one operation; then room for what they may have broken to show.
    itimerspec next = {};
    next.it_value.tv_nsec = n % 16 == 0 ? 2'000'000 : n % 2 ? 60'000 + n % 41 * 1'000 : 1'000 + n % 97 * 100;
    timer_settime(left.timer, 0, &next, nullptr);
    errno = saved;
}

TEST(Sequence, NothingIsAddedToACpuThatWasLeft) {
    left.cpus = storm::allowed_cpus();
    if (!lw_percpu_thread_registered() || left.cpus.size() < 2)
        GTEST_SKIP() << "needs sequences and two CPUs";
    State s;
    state = left.state = &s;
    left.moves = left.wrong = 0;
    struct sigaction action = {}, old = {};
    action.sa_handler = on_signal_move;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, &old);
    uint64_t n = 0;
    std::thread([&] {
        storm::pin(0, {left.cpus[0]});
        sigevent event = {};
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = SIGUSR1;
        event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
        ASSERT_EQ(timer_create(CLOCK_MONOTONIC, &event, &left.timer), 0);
        on_signal_move(0);
        const auto begin = std::chrono::steady_clock::now();
        for (; std::chrono::steady_clock::now() - begin < 6 * length || left.moves < 100; n++) {
            lw_this_cpu_inc(s.count64.p);
            lw_this_cpu_inc(s.count32.p);
            lw_this_cpu_fetch_add(s.value64.p, 0x100000001u);
            lw_this_cpu_fetch_add(s.value8.p, 1u);
        }
        timer_delete(left.timer);
    }).join();
    sigaction(SIGUSR1, &old, nullptr);
    EXPECT_EQ(left.wrong, 0u) << "of " << left.moves << " moves";
    RecordProperty("moves", static_cast<int>(left.moves));
    EXPECT_EQ(lw_percpu_sum(s.count64.p), n);
    EXPECT_EQ(s.value64.sum(), n * 0x100000001u);
}

// A plain add and an atomic add of one word lose counts; they must never meet, on whichever CPU the plain one runs.
TEST(Counters, PlainAndAtomicAddsNeverMeet) {
    const std::vector<int> cpus = storm::allowed_cpus();
    if (!lw_percpu_thread_registered() || cpus.size() < 2)
        GTEST_SKIP() << "needs sequences and two CPUs";
    for (int side = 0; side < 2; side++) {
        Percpu<uint64_t> word;
        std::atomic<bool> stop{false};
        std::atomic<int> ready{0};
        uint64_t counts[2] = {};
        auto adder = [&](int index) {
            storm::pin(0, {cpus[static_cast<size_t>(index ^ side)]});
            if (index == 1) {
                storm::unregister_this_thread();
            }
            uint64_t mine = 0;
            for (ready++; !stop; mine++)
                lw_this_cpu_inc(word.p);
            counts[index] = mine;
        };
        std::thread a(adder, 0), b(adder, 1);
        while (ready < 2)
            sched_yield();
        std::this_thread::sleep_for(4 * length);
        stop = true;
        a.join(), b.join();
        EXPECT_EQ(lw_percpu_sum(word.p), counts[0] + counts[1]);
    }
}

#ifdef LW_RSEQ_DELAY
// The lock word's way, step by step: what must not happen between two steps is made to happen there.
class LockWord : public testing::Test {
protected:
    void SetUp() override {
        if (!lw_percpu_thread_registered() || !lw_percpu_rt.value_limit)
            GTEST_SKIP() << "no lock words without sequences for values";
        s_ = std::make_unique<State>();
        state = s_.get();
    }
    void TearDown() override { lw__pause_hook = nullptr; }

    // Adds by a registered thread on one CPU and by an unregistered one, which the hook is run for; true if all is there.
    bool exact(void (*hook)(enum lw__step)) {
        const std::vector<int> cpus = storm::allowed_cpus();
        std::atomic<bool> stop{false};
        std::atomic<uint64_t> done{0};
        lw__pause_hook = hook;
        std::thread plain([&] {
            storm::pin(0, {cpus.front()});
            for (; !stop; done++)
                lw_this_cpu_fetch_add(s_->value64.p, 1);
        });
        std::thread locked([&] {
            storm::unregister_this_thread();
            for (; !stop; done++)
                lw_this_cpu_fetch_add(s_->value64.p, 1);
        });
        std::this_thread::sleep_for(6 * length);
        stop = true;
        plain.join(), locked.join();
        lw__pause_hook = nullptr;
        return s_->value64.sum() == done;
    }

    std::unique_ptr<State> s_;
};

// The thread leaves the CPU that it chose before it locks that CPU's word: sequences there were not switched out by it.
TEST_F(LockWord, AbortsSequencesOfAnotherCpu) {
    static std::vector<int> cpus;
    cpus = storm::allowed_cpus();
    if (cpus.size() < 2)
        GTEST_SKIP() << "needs two CPUs";
    EXPECT_TRUE(exact([](enum lw__step step) {
        if (step == LW__BEFORE_LOCK) // away from the sequences' CPU
            storm::pin(0, {cpus.back()});
        else if (step == LW__LOADED) // and there again for the next operation
            storm::pin(0, {cpus.front()});
    }));
}

// A thread takes the list of a CPU that another thread's sequences are at work on: they must be aborted, or a node is popped
// twice.
TEST_F(LockWord, ListsOfAnotherCpuAreTakenWithoutItsSequences) {
    const std::vector<int> cpus = storm::allowed_cpus();
    if (cpus.size() < 2)
        GTEST_SKIP() << "needs two CPUs";
    auto **list = static_cast<lw_percpu_node **>(lw_percpu_alloc(sizeof(void *), sizeof(void *)));
    std::vector<lw_percpu_node> nodes(8);
    for (auto &node : nodes)
        lw_percpu_push(list, &node);
    std::atomic<bool> stop{false};
    std::thread plain([&] {
        storm::pin(0, {cpus.front()});
        while (!stop)
            if (lw_percpu_node *node = lw_percpu_pop(list))
                lw_percpu_push(list, node);
    });
    std::thread taker([&] {
        storm::pin(0, {cpus.back()});
        while (!stop) {
            std::vector<lw_percpu_node *> taken;
            for (lw_percpu_node *node = lw_percpu_pop_all(list); node && taken.size() <= nodes.size(); node = node->next)
                taken.push_back(node);
            storm::move_to(cpus.front());
            for (lw_percpu_node *node : taken)
                lw_percpu_push(list, node);
            storm::move_to(cpus.back());
        }
    });
    std::this_thread::sleep_for(6 * length);
    stop = true;
    plain.join(), taker.join();
    std::vector<int> seen(nodes.size());
    unsigned found = 0;
    for (lw_percpu_node *at = lw_percpu_pop_all(list); at && found <= nodes.size(); at = at->next, found++)
        seen[static_cast<size_t>(at - nodes.data())]++;
    EXPECT_EQ(seen, std::vector<int>(nodes.size(), 1));
    lw_percpu_free(list);
}

// A thread that is denied membarrier after start-up cannot have sequences aborted: it comes to its end by staying in place.
TEST_F(LockWord, EndsWhereMembarrierIsDeniedLater) {
    static std::vector<int> cpus;
    static std::atomic<unsigned> chosen;
    cpus = storm::allowed_cpus();
    chosen = 0;
    if (cpus.size() < 2)
        GTEST_SKIP() << "needs two CPUs";
    std::atomic<bool> stop{false}, denied{true};
    std::atomic<uint64_t> done{0}, operations{0};
    lw__pause_hook = [](enum lw__step step) { // three times out of four somewhere else when the lock is there
        if (step == LW__BEFORE_LOCK && ++chosen % 4)
            storm::pin(0, {cpus[chosen % cpus.size()]});
    };
    std::thread plain([&] {
        storm::pin(0, {cpus.front()});
        for (; !stop; done++)
            lw_this_cpu_fetch_add(s_->value64.p, 1);
    });
    std::thread([&] {
        storm::unregister_this_thread();
        if ((denied = storm::deny_this_thread(__NR_membarrier)))
            for (; operations < 200; operations++)
                lw_this_cpu_fetch_add(s_->value64.p, 1);
    }).join();
    stop = true;
    plain.join();
    lw__pause_hook = nullptr;
    EXPECT_EQ(s_->value64.sum(), done + operations);
    if (!denied)
        GTEST_SKIP() << "no seccomp filters here";
    EXPECT_GT(chosen, 200u) << "never moved in between";
}

// The holder is switched out between load and store: sequences on that CPU must wait.
TEST_F(LockWord, KeepsSequencesOut) {
    EXPECT_TRUE(exact([](enum lw__step step) {
        if (step == LW__LOADED)
            std::this_thread::sleep_for(std::chrono::microseconds(50));
    }));
}

// A handler that comes while its own thread holds the lock uses the same words.
TEST_F(LockWord, HandlersDoNotWaitForTheirOwnThread) {
    struct sigaction action = {}, old = {};
    action.sa_handler = on_signal;
    sigaction(SIGUSR1, &action, &old);
    handled = 0;
    alarm(200);
    std::thread([] {
        storm::unregister_this_thread();
        lw__pause_hook = [](enum lw__step step) {
            if (step == LW__LOADED && handled < 10)
                raise(SIGUSR1);
        };
        for (int i = 0; i < 100; i++)
            lw_this_cpu_fetch_add(state->value64.p, 1);
    }).join();
    alarm(0);
    sigaction(SIGUSR1, &old, nullptr);
    EXPECT_GE(handled, 10u);
    EXPECT_EQ(s_->value64.sum(), 100 + handled * 0x100000001u);
}

// A child made while a lock is held has no holder that could free it.
TEST_F(LockWord, IsNotInheritedByAChild) {
    static std::atomic<int> children, failed;
    children = failed = 0;
    std::thread([] {
        storm::unregister_this_thread();
        lw__pause_hook = [](enum lw__step step) {
            if (step != LW__LOCKED || children.fetch_add(1) >= 5)
                return;
            pid_t child = fork();
            if (child == 0) {
                lw__pause_hook = nullptr;
                signal(SIGALRM, SIG_DFL);
                sigset_t none;
                sigemptyset(&none);
                sigprocmask(SIG_SETMASK, &none, nullptr);
                alarm(200);
                _exit(in_child());
            }
            int status = 0;
            if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
                failed++;
        };
        for (int i = 0; i < 20; i++)
            lw_this_cpu_fetch_add(state->value64.p, 1);
    }).join();
    EXPECT_GE(children, 5);
    EXPECT_EQ(failed, 0);
    EXPECT_EQ(s_->value64.sum(), 20u);
}

// In a new PID namespace the child of process 1 is process 1 again, and not the holder for that.
TEST_F(LockWord, IsNotInheritedByAChildWithTheSameProcessId) {
    constexpr int not_allowed = 77;
    const auto status_of = [](pid_t child) {
        int status = 0;
        return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    };
    static int inner;
    inner = not_allowed;
    const pid_t outer = fork();
    if (outer == 0) {
        if (unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID))
            _exit(not_allowed);
        const pid_t first = fork();
        if (first != 0)
            _exit(status_of(first));
        if (getpid() != 1 || unshare(CLONE_NEWPID))
            _exit(not_allowed);
        cpu_set_t here; // the child has to want the same CPU's lock
        CPU_ZERO(&here);
        CPU_SET(static_cast<size_t>(sched_getcpu()), &here);
        sched_setaffinity(0, sizeof here, &here);
        storm::unregister_this_thread();
        lw__pause_hook = [](enum lw__step step) {
            if (step != LW__LOADED || inner != not_allowed)
                return;
            const pid_t child = fork();
            if (child == 0) {
                lw__pause_hook = nullptr;
                const bool same = getpid() == 1;
                lw_this_cpu_fetch_add(state->value64.p, 1);
                _exit(same ? 0 : 3);
            }
            int status = 0;
            for (int i = 0; i < 300'000 && waitpid(child, &status, WNOHANG) == 0; i++)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            inner = kill(child, SIGKILL) == 0 ? 4 : WIFEXITED(status) ? WEXITSTATUS(status) : 5; // 4: it hangs
        };
        lw_this_cpu_fetch_add(state->value64.p, 1);
        _exit(inner);
    }
    const int code = status_of(outer);
    if (code == not_allowed)
        GTEST_SKIP() << "this system allows no PID namespace, or needs no lock word";
    EXPECT_EQ(code, 0);
}
#endif

} // namespace
