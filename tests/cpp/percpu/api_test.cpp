// SPDX-License-Identifier: MIT
// The per-CPU interface: memory, bad input, every operation at every width against plain arithmetic.
#include <linewright/percpu.h>

extern "C" {
#include "../../../src/percpu/rseq.h"
}

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <sched.h>
#include <set>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

// One CPU for a test's length, so that "this CPU's copy" is one word.
class OneCpu {
public:
    OneCpu() {
        sched_getaffinity(0, sizeof old_, &old_);
        for (cpu_ = 0; !CPU_ISSET(cpu_, &old_); cpu_++)
            ;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu_, &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    ~OneCpu() { sched_setaffinity(0, sizeof old_, &old_); }
    unsigned cpu() const { return static_cast<unsigned>(cpu_); }

private:
    cpu_set_t old_;
    int cpu_;
};

TEST(Memory, RefusesWhatItCannotGive) {
    struct {
        size_t size, align;
    } bad[] = {{0, 8},
               {8, 3},
               {8, 24},
               {8, 8192},
               {LW_PERCPU_MAX_SIZE + 1, 8},
               {SIZE_MAX, 8},
               {SIZE_MAX - 7, 1},
               {8, SIZE_MAX},
               {LW_PERCPU_MAX_SIZE, 4096}};
    for (auto &b : bad) {
        errno = 0;
        EXPECT_EQ(lw_percpu_alloc(b.size, b.align), nullptr) << b.size << " bytes aligned to " << b.align;
        EXPECT_EQ(errno, EINVAL);
    }
}

TEST(Memory, ChecksCpuAndFree) {
    void *p = lw_percpu_alloc(8, 8);
    ASSERT_NE(p, nullptr);
    errno = 0;
    EXPECT_EQ(lw_per_cpu_ptr(p, lw_percpu_nr_cpus()), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(lw_per_cpu_ptr(p, ~0u), nullptr);
    EXPECT_EQ(lw_percpu_free(nullptr), 0);
#ifdef LW_DEBUG
    EXPECT_EQ(lw_percpu_free(p), 0);
#else
    EXPECT_EQ(lw_percpu_free(static_cast<char *>(p) + 4), -EINVAL);
    EXPECT_EQ(lw_percpu_free(p), 0);
    EXPECT_EQ(lw_percpu_free(p), -EINVAL);
    int on_stack;
    EXPECT_EQ(lw_percpu_free(&on_stack), -EINVAL);
#endif
}

#ifdef LW_DEBUG
TEST(MemoryDeathTest, FreedTwiceIsSaidAndStopsTheProgram) {
    void *p = lw_percpu_alloc(8, 8);
    lw_percpu_free(p);
    EXPECT_EXIT(lw_percpu_free(p), testing::KilledBySignal(SIGABRT), "not a live per-CPU allocation");
}
#endif

TEST(MemoryDeathTest, AHandleIsNotAPointer) {
    auto *p = static_cast<volatile uint64_t *>(lw_percpu_alloc(8, 8));
    ASSERT_NE(p, nullptr);
    EXPECT_DEATH(*p = 1, ""); // by signal, or by a sanitizer that caught it
    lw_percpu_free(const_cast<uint64_t *>(p));
}

TEST(Memory, PacksOneCpusWordsAndKeepsCpusApart) {
    std::vector<void *> all;
    for (int i = 0; i < 64; i++)
        all.push_back(lw_percpu_alloc(8, 8));
    std::set<uintptr_t> lines;
    for (void *p : all)
        lines.insert(reinterpret_cast<uintptr_t>(lw_per_cpu_ptr(p, 0)) / 64);
    EXPECT_LE(lines.size(), 10u) << "64 counters of 8 bytes need 8 lines of 64 bytes";
    for (unsigned cpu = 1; cpu < lw_percpu_nr_cpus(); cpu++)
        for (void *p : all)
            EXPECT_GE(static_cast<char *>(lw_per_cpu_ptr(p, cpu)) - static_cast<char *>(lw_per_cpu_ptr(p, cpu - 1)), 256);
    for (void *p : all)
        EXPECT_EQ(lw_percpu_free(p), 0);
}

TEST(Memory, AlignsEveryCopy) {
    std::vector<void *> all;
    for (size_t align = 1; align <= LW_PERCPU_MAX_ALIGN; align *= 2) {
        all.push_back(lw_percpu_alloc(24, align));
        ASSERT_NE(all.back(), nullptr) << align;
        for (unsigned cpu = 0; cpu < lw_percpu_nr_cpus(); cpu++)
            EXPECT_EQ(reinterpret_cast<uintptr_t>(lw_per_cpu_ptr(all.back(), cpu)) % align, 0u);
    }
    for (void *p : all)
        lw_percpu_free(p);
}

TEST(Memory, UsedAgainItIsZeroAndNothingOverlaps) {
    std::vector<std::pair<char *, size_t>> live;
    uint64_t state = 1;
    for (int round = 0; round < 3000; round++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const size_t size = 1 + (state >> 33) % (round % 50 ? 200 : LW_PERCPU_MAX_SIZE);
        if (live.size() > 60 || (!live.empty() && (state >> 20) % 3 == 0)) {
            const size_t victim = (state >> 40) % live.size();
            ASSERT_EQ(lw_percpu_free(live[victim].first), 0);
            live.erase(live.begin() + static_cast<long>(victim));
            continue;
        }
        auto *p = static_cast<char *>(lw_percpu_alloc(size, size_t{1} << (state >> 50) % 7));
        ASSERT_NE(p, nullptr);
        for (auto &[other, length] : live)
            ASSERT_TRUE(p + size <= other || other + length <= p);
        for (unsigned cpu = 0; cpu < lw_percpu_nr_cpus(); cpu++)
            for (int second = 0; second < 2; second++) {
                auto *copy = static_cast<unsigned char *>(lw_per_cpu_ptr(p, cpu)) + second * LW_PERCPU_SECOND;
                lw__percpu_mark(&lw__percpu_marks(p)->stripes, cpu); // as the library does before it stores there
                for (size_t i = 0; i < size; i++)
                    ASSERT_EQ(copy[i], 0);
                memset(copy, 0xa5, size);
            }
        live.emplace_back(p, size);
    }
    for (auto &each : live)
        EXPECT_EQ(lw_percpu_free(each.first), 0);
}

// Which CPU an operation took place on: a value whose copies hold their CPU's number above the count returns it with the
// count.
TEST(Value, TellsTheCpuItWasChangedOn) {
    constexpr int threads = 4, rounds = 20000, shift = 48;
    auto *p = static_cast<uint64_t *>(lw_percpu_alloc(8, 8));
    const unsigned cpus = lw_percpu_nr_cpus();
    for (unsigned cpu = 0; cpu < cpus; cpu++)
        *static_cast<uint64_t *>(lw_per_cpu_ptr(p, cpu)) = uint64_t{cpu} << shift;
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    std::vector<std::vector<uint64_t>> told(threads, std::vector<uint64_t>(cpus));
    std::vector<std::thread> all;
    for (auto &mine : told)
        all.emplace_back([&mine, &allowed, p] {
            for (int i = 0, cpu = 0; i < rounds; i++) {
                if (i % 100 == 0) { // on to the next CPU
                    do
                        cpu = (cpu + 1) % CPU_SETSIZE;
                    while (!CPU_ISSET(cpu, &allowed));
                    cpu_set_t one;
                    CPU_ZERO(&one);
                    CPU_SET(cpu, &one);
                    sched_setaffinity(0, sizeof one, &one);
                }
                mine.at(lw_this_cpu_fetch_add(p, 1) >> shift)++;
            }
        });
    for (auto &thread : all)
        thread.join();
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        uint64_t sum = 0;
        for (auto &mine : told)
            sum += mine[cpu];
        EXPECT_EQ(*static_cast<uint64_t *>(lw_per_cpu_ptr(p, cpu)), (uint64_t{cpu} << shift) + sum) << "CPU " << cpu;
    }
    EXPECT_EQ(lw_percpu_free(p), 0);
}

// Its own function, so that the compiler reads offset and limit here and not before.
__attribute__((noinline)) void one_of_each(uint64_t *counter, uint32_t *value, lw_percpu_node **list, lw_percpu_node *node) {
    lw_this_cpu_add_u64(counter, 3);
    lw_this_cpu_fetch_add_u32(value, 5);
    EXPECT_EQ(lw_this_cpu_add_cpu_u64(counter, 4), -1); // a second word has it
    lw_percpu_push(list, node);
}

// The state before the library's constructor has run, which a program that counts there, or whose compiler read the limit
// there, sees: the offset is not one of an area, so nothing may be stored at it, and nothing that is counted may be lost.
TEST(Start, WithoutALimitNoSequenceIsTried) {
    auto *counter = static_cast<uint64_t *>(lw_percpu_alloc(8, 8));
    auto *value = static_cast<uint32_t *>(lw_percpu_alloc(4, 4));
    auto **list = static_cast<lw_percpu_node **>(lw_percpu_alloc(sizeof(void *), sizeof(void *)));
    lw_percpu_node node = {};
    alignas(32) static thread_local volatile uint32_t elsewhere[8] = {
        0, ~0u}; // an area without a CPU; words 2 and 3 would receive a descriptor
    const struct lw_percpu_rt real = lw_percpu_rt;
    lw_percpu_rt.offset = reinterpret_cast<char *>(const_cast<uint32_t *>(elsewhere)) - lw__thread_pointer();
    lw_percpu_rt.limit = lw_percpu_rt.value_limit = 0;
    one_of_each(counter, value, list, &node);
    lw_percpu_rt = real;
    EXPECT_TRUE(elsewhere[2] == 0 && elsewhere[3] == 0) << "a descriptor was published without a limit";
    EXPECT_EQ(lw_percpu_sum(counter), 7u);
    uint32_t sum = 0, *copy;
    lw_percpu_for_each(copy, value) sum += *copy;
    EXPECT_EQ(sum, 5u);
    EXPECT_EQ(lw_percpu_pop_all(list), &node);
    for (void *p : {static_cast<void *>(counter), static_cast<void *>(value), static_cast<void *>(list)})
        EXPECT_EQ(lw_percpu_free(p), 0);
}

TEST(Memory, PossibleCpuLists) {
    EXPECT_EQ(lw__cpu_list_max("0\n"), 0);
    EXPECT_EQ(lw__cpu_list_max("0-127\n"), 127);
    EXPECT_EQ(lw__cpu_list_max("0-3,8,1000-4095\n"), 4095);
    EXPECT_EQ(lw__cpu_list_max("5000,2"), 5000);
    for (const char *bad : {"x", "0-", "3-1", "0,,1", "-1", "1;2", ""})
        EXPECT_EQ(lw__cpu_list_max(bad), -1) << bad;
}

TEST(Mode, SaysWhy) {
    const char *why = nullptr;
    const int mode = lw_percpu_mode(&why);
    ASSERT_NE(why, nullptr);
    if (const char *expected = getenv("LW_EXPECT_MODE")) { // the run knows which mode it has forced
        EXPECT_EQ(std::to_string(mode), expected) << why;
        EXPECT_EQ(lw_percpu_thread_registered(), mode != LW_PERCPU_ATOMIC);
    }
    EXPECT_GT(strlen(why), 10u);
    RecordProperty("why", why);
    printf("mode: %s; this thread %s\n", why, lw_percpu_thread_registered() ? "uses sequences" : "uses the fall-back");
}

// Every value operation against arithmetic, with canary words on both sides of the word.
template <typename T> class Width : public testing::Test {};
using Widths = testing::Types<unsigned char, unsigned short, unsigned int, unsigned long, unsigned long long>;
TYPED_TEST_SUITE(Width, Widths);

TYPED_TEST(Width, OperationsMatchArithmetic) {
    using T = TypeParam;
    OneCpu here;
    auto *row = static_cast<T *>(lw_percpu_alloc(3 * sizeof(T), 8));
    auto *copy = static_cast<T *>(lw_per_cpu_ptr(row, here.cpu()));
    copy[0] = copy[2] = static_cast<T>(0x5a5a5a5a5a5a5a5au);
    T *word = row + 1;
    T model = 0;
    uint64_t state = 42;
    for (int i = 0; i < 2000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const T v = static_cast<T>(state >> 13);
        switch (i % 9) {
        case 0: lw_this_cpu_write(word, v), model = v; break;
        case 1:
            EXPECT_EQ(lw_this_cpu_fetch_add(word, v), model);
            model = static_cast<T>(model + v);
            break;
        case 2: {
            model = static_cast<T>(model + v);
            EXPECT_EQ(lw_this_cpu_add_return(word, v), model);
            model = static_cast<T>(model - v);
            EXPECT_EQ(lw_this_cpu_sub_return(word, v), model);
            model = static_cast<T>(model ^ v);
            lw_this_cpu_xor(word, v);
            EXPECT_EQ(lw_this_cpu_read(word), model);
            EXPECT_EQ(lw_this_cpu_inc_return(word), ++model);
            EXPECT_EQ(lw_this_cpu_dec_return(word), --model);
            T expected = static_cast<T>(model + 1);
            EXPECT_FALSE(lw_this_cpu_try_cmpxchg(word, &expected, v));
            EXPECT_EQ(expected, model);
            EXPECT_TRUE(lw_this_cpu_try_cmpxchg(word, &expected, v));
            model = v;
            break;
        }
        case 3:
            EXPECT_EQ(lw_this_cpu_xchg(word, v), model);
            model = v;
            break;
        case 4: lw_this_cpu_and(word, v), model = static_cast<T>(model & v); break;
        case 5: lw_this_cpu_or(word, v), model = static_cast<T>(model | v); break;
        case 6: lw_this_cpu_andnot(word, v), model = static_cast<T>(model & ~v); break;
        case 7:
            EXPECT_EQ(lw_this_cpu_cmpxchg(word, model, v), model);
            model = v;
            break;
        case 8: EXPECT_EQ(lw_this_cpu_cmpxchg(word, static_cast<T>(model + 1), v), model); break;
        }
        ASSERT_EQ(lw_this_cpu_read(word), model) << "operation " << i % 9;
        ASSERT_EQ(copy[1], model);
        ASSERT_EQ(copy[0], static_cast<T>(0x5a5a5a5a5a5a5a5au));
        ASSERT_EQ(copy[2], static_cast<T>(0x5a5a5a5a5a5a5a5au));
    }
    lw_percpu_free(row);
}

// Large halves, so that a comparison of one half only, or of a sign-extended value, would be found out.
TEST(Values, CompareAllBits) {
    OneCpu here;
    auto *p = static_cast<uint64_t *>(lw_percpu_alloc(8, 8));
    lw_this_cpu_write(p, 0x8000000080000000u);
    for (const uint64_t wrong : {UINT64_C(0x80000000), UINT64_C(0x8000000000000000), UINT64_C(0xffffffff80000000)})
        EXPECT_EQ(lw_this_cpu_cmpxchg(p, wrong, 1), 0x8000000080000000u);
    EXPECT_EQ(lw_this_cpu_cmpxchg(p, 0x8000000080000000u, 1), 0x8000000080000000u);
    EXPECT_EQ(lw_this_cpu_read(p), 1u);
    lw_percpu_free(p);
}

TEST(Values, Pointers) {
    OneCpu here;
    int a, b;
    auto **p = static_cast<void **>(lw_percpu_alloc(sizeof(void *), sizeof(void *)));
    EXPECT_EQ(lw_this_cpu_read(p), nullptr);
    lw_this_cpu_write(p, &a);
    EXPECT_EQ(lw_this_cpu_xchg(p, &b), &a);
    EXPECT_EQ(lw_this_cpu_cmpxchg(p, &a, nullptr), &b);
    EXPECT_EQ(lw_this_cpu_cmpxchg(p, &b, &a), &b);
    EXPECT_EQ(lw_this_cpu_read(p), &a);
    lw_percpu_free(p);
}

TEST(Counters, WrapAndGoBelowZero) {
    auto *p32 = static_cast<uint32_t *>(lw_percpu_alloc(4, 4));
    auto *p64 = static_cast<uint64_t *>(lw_percpu_alloc(8, 8));
    lw_this_cpu_dec(p32), lw_this_cpu_dec(p64);
    EXPECT_EQ(lw_percpu_sum(p32), ~uint32_t{0});
    EXPECT_EQ(lw_percpu_sum(p64), ~uint64_t{0});
    lw_this_cpu_add(p32, 5u), lw_this_cpu_add(p64, uint64_t{1} << 40);
    lw_this_cpu_inc(p32), lw_this_cpu_sub(p64, uint64_t{1} << 40), lw_this_cpu_inc(p64);
    EXPECT_EQ(lw_percpu_sum(p32), 5u);
    EXPECT_EQ(lw_percpu_sum(p64), 0u);
    // The second words count too, and a carry crosses 32 bits.
    lw__percpu_add_second_u32(p32, 1), lw__percpu_add_second_u64(p64, 0xffffffffu), lw__percpu_add_second_u64(p64, 1);
    EXPECT_EQ(lw_percpu_sum(p32), 6u);
    EXPECT_EQ(lw_percpu_sum(p64), uint64_t{1} << 32);
    lw_percpu_free(p32), lw_percpu_free(p64);
}

TEST(Counters, AsAThing) {
    struct lw_counter c;
    ASSERT_EQ(lw_counter_init(&c), 0);
    lw_counter_inc(&c);
    lw_counter_add(&c, -10);
    EXPECT_EQ(lw_counter_sum(&c), -9);
    lw_counter_destroy(&c);
    lw_counter_destroy(&c); // nothing left to free
}

} // namespace

extern "C" int c_interface_works(void);

TEST(C, GenericNamesInC11) {
    OneCpu here;
    EXPECT_EQ(c_interface_works(), 0);
}
