// SPDX-License-Identifier: MIT
// The cache library over the modelled cache: every schedule, every edge, and the mistakes of its users that the model must
// see.
#include <linewright/cache.h>
#include <cache_model/cache_model.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace {

using Bytes = std::vector<unsigned char>;

struct Schedule {
    lw_model_schedule kind;
    uint64_t seed;
};

std::vector<Schedule> schedules(unsigned int seeds = 60) {
    std::vector<Schedule> all{{LW_MODEL_LAZY, 0}, {LW_MODEL_EAGER, 0}};

    for (uint64_t seed = 1; seed <= seeds; seed++)
        all.push_back({LW_MODEL_RANDOM, seed});
    return all;
}

constexpr size_t memory_bytes = 4096;
const auto base = reinterpret_cast<unsigned char *>(uintptr_t{0x10000});

lw_model_counts counts() {
    lw_model_counts c;

    lw_model_count(&c);
    return c;
}

void begin(size_t line, Schedule schedule) {
    const lw_model_config config{line, schedule.kind, schedule.seed};

    ASSERT_EQ(lw_model_begin(&config), 0);
    ASSERT_EQ(lw_model_region(base, memory_bytes), 0);
}

Bytes random_bytes(std::mt19937_64 &random, size_t n) {
    Bytes bytes(n);

    for (auto &byte : bytes)
        byte = static_cast<unsigned char>(random());
    return bytes;
}

Bytes load(const void *at, size_t n) {
    Bytes bytes(n);

    lw_model_load(at, bytes.data(), n);
    return bytes;
}

Bytes device_read(const void *at, size_t n) {
    Bytes bytes(n);

    lw_model_device_read(at, bytes.data(), n);
    return bytes;
}

void store(void *at, const Bytes &bytes) { lw_model_store(at, bytes.data(), bytes.size()); }

// Pieces of random length and alignment, in rising order; some adjoin, some share a line, some are empty.
std::vector<iovec> random_list(std::mt19937_64 &random) {
    std::vector<iovec> list;
    size_t at = random() % 200;

    while (at < memory_bytes - 700 && list.size() < 12) {
        const size_t n = random() % 5 ? random() % 300 : 0;

        list.push_back({base + at, n});
        at += n + (random() % 3 ? random() % 200 : 0);
    }
    return list;
}

struct Piece {
    void *at;
    Bytes bytes;
};

void device_writes(void *arg) {
    for (auto &piece : *static_cast<std::vector<Piece> *>(arg))
        lw_model_device_write(piece.at, piece.bytes.data(), piece.bytes.size());
}

bool covered(const std::vector<iovec> &list, uintptr_t line, size_t line_bytes) {
    for (const auto &piece : list)
        for (size_t i = 0; i < piece.iov_len; i++)
            if (((reinterpret_cast<uintptr_t>(piece.iov_base) + i) & ~(line_bytes - 1)) == line)
                return true;
    return false;
}

class Cache_model : public testing::TestWithParam<size_t> {
protected:
    size_t line() const { return GetParam(); }
    void TearDown() override { lw_model_end(); }
};

INSTANTIATE_TEST_SUITE_P(Line, Cache_model, testing::Values(16, 64, 128));

TEST_P(Cache_model, device_sees_what_was_stored) {
    for (const auto schedule : schedules()) {
        std::mt19937_64 random(schedule.seed + 1000);
        begin(line(), schedule);
        const auto list = random_list(random);
        const auto all = random_bytes(random, memory_bytes);

        store(base, all);
        ASSERT_EQ(lw_sync_for_device(list.data(), list.size(), LW_DMA_TO_DEVICE), 0);
        for (const auto &piece : list) { // the doorbell: the device reads at once
            const auto at = static_cast<unsigned char *>(piece.iov_base);
            ASSERT_EQ(device_read(at, piece.iov_len), Bytes(&all[at - base], &all[at - base] + piece.iov_len))
                << "schedule " << schedule.kind << " seed " << schedule.seed;
        }
        const auto before = counts().insns;
        ASSERT_EQ(lw_sync_for_cpu(list.data(), list.size(), LW_DMA_TO_DEVICE), 0);
        ASSERT_EQ(counts().insns, before) << "to-device needs nothing afterwards";
        ASSERT_EQ(load(base, memory_bytes), all);
    }
}

// How a program maintains a list: by the list call, or by a batch.
using Sync = std::function<void(const std::vector<iovec> &, lw_dma_direction)>;

void by_list_device(const std::vector<iovec> &list, lw_dma_direction direction) {
    ASSERT_EQ(lw_sync_for_device(list.data(), list.size(), direction), 0);
}

void by_list_cpu(const std::vector<iovec> &list, lw_dma_direction direction) {
    ASSERT_EQ(lw_sync_for_cpu(list.data(), list.size(), direction), 0);
}

void by_batch_device(const std::vector<iovec> &list, lw_dma_direction direction) {
    lw_cache_batch batch;

    ASSERT_EQ(lw_cache_batch_for_device(&batch, direction), 0);
    for (const auto &piece : list)
        ASSERT_EQ(lw_cache_batch_add(&batch, piece.iov_base, piece.iov_len), 0);
    ASSERT_EQ(lw_cache_batch_flush(&batch), 0);
}

void by_batch_cpu(const std::vector<iovec> &list, lw_dma_direction direction) {
    lw_cache_batch batch;

    ASSERT_EQ(lw_cache_batch_for_cpu(&batch, direction), 0);
    for (const auto &piece : list)
        ASSERT_EQ(lw_cache_batch_add(&batch, piece.iov_base, piece.iov_len), 0);
    ASSERT_EQ(lw_cache_batch_flush(&batch), 0);
}

void by_range_cpu(const std::vector<iovec> &list, lw_dma_direction) {
    for (const auto &piece : list)
        ASSERT_EQ(lw_cache_invalidate(piece.iov_base, piece.iov_len), 0);
}

void by_halves_cpu(const std::vector<iovec> &list, lw_dma_direction) {
    lw_cache_order();
    for (size_t i = 0; i < list.size(); i++)
        ASSERT_EQ((i % 2 ? lw_cache_invalidate_nowait : lw_cache_clean_invalidate_nowait)(list[i].iov_base, list[i].iov_len),
                  0);
    lw_cache_wait();
}

// One transfer from a device into a list whose memory was cached and dirty. True: the CPU read what the device wrote.
bool receive(size_t line, Schedule schedule, lw_dma_direction direction, const Sync &for_device, const Sync &for_cpu,
             bool aligned = false, bool disturb = false) {
    std::mt19937_64 random(schedule.seed + 2000);
    begin(line, schedule);
    auto list = random_list(random);
    if (aligned)
        list = {{base + 2 * line, 4 * line}, {base + 8 * line, line}};
    const auto mine = random_bytes(random, memory_bytes);
    auto expected = mine;
    std::vector<Piece> theirs;

    store(base, mine);
    load(base, memory_bytes);
    for_device(list, direction);
    for (const auto &piece : list) {
        theirs.push_back({piece.iov_base, random_bytes(random, piece.iov_len)});
        std::copy(theirs.back().bytes.begin(), theirs.back().bytes.end(),
                  expected.begin() + (static_cast<unsigned char *>(piece.iov_base) - base));
    }
    if (disturb)
        for (size_t i = 0; i < memory_bytes; i++) { // a neighbour stores to its own bytes meanwhile
            const auto piece = std::find_if(list.begin(), list.end(), [&](const iovec &p) {
                return base + i >= p.iov_base && base + i < static_cast<unsigned char *>(p.iov_base) + p.iov_len;
            });
            if (piece == list.end()) {
                expected[i] ^= 0xff;
                lw_model_store(base + i, &expected[i], 1);
            }
        }
    lw_model_await(device_writes, &theirs);
    for_cpu(list, direction);
    return load(base, memory_bytes) == expected;
}

TEST_P(Cache_model, cpu_sees_what_the_device_wrote) {
    for (const auto direction : {LW_DMA_FROM_DEVICE, LW_DMA_BIDIRECTIONAL})
        for (const auto schedule : schedules()) {
            ASSERT_TRUE(receive(line(), schedule, direction, by_list_device, by_list_cpu))
                << schedule.kind << " " << schedule.seed;
            ASSERT_TRUE(receive(line(), schedule, direction, by_batch_device, by_batch_cpu))
                << schedule.kind << " " << schedule.seed;
            ASSERT_TRUE(receive(line(), schedule, direction, by_list_device, by_range_cpu))
                << schedule.kind << " " << schedule.seed;
            ASSERT_TRUE(receive(line(), schedule, direction, by_list_device, by_halves_cpu))
                << schedule.kind << " " << schedule.seed;
            ASSERT_EQ(counts().overwritten, 0u);
            ASSERT_EQ(counts().discarded, 0u);
        }
}

// A neighbour of the buffer stores to a line it shares with it while the device writes.
TEST_P(Cache_model, a_neighbours_store_survives_and_an_aligned_buffer_too) {
    bool lost_device_bytes = false;

    for (const auto schedule : schedules()) {
        receive(line(), schedule, LW_DMA_FROM_DEVICE, by_list_device, by_list_cpu, false, true);
        ASSERT_EQ(counts().discarded, 0u) << "invalidating dropped a neighbour's store";
        lost_device_bytes |= counts().overwritten != 0; // what the header warns of: there is no other instruction
        ASSERT_TRUE(receive(line(), schedule, LW_DMA_FROM_DEVICE, by_list_device, by_list_cpu, true, true));
        ASSERT_EQ(counts().overwritten, 0u);
    }
    EXPECT_TRUE(lost_device_bytes) << "the model no longer shows why buffers must be aligned";
}

// Stores before each piece, as batches are meant for.
void store_and_add(lw_cache_batch &batch, const Bytes &all, const std::vector<iovec> &list) {
    for (const auto &piece : list) {
        const auto at = static_cast<unsigned char *>(piece.iov_base);
        lw_model_store(at, &all[at - base], piece.iov_len);
        ASSERT_EQ(lw_cache_batch_add(&batch, at, piece.iov_len), 0);
    }
    ASSERT_EQ(lw_cache_batch_flush(&batch), 0);
}

TEST_P(Cache_model, batch_includes_stores_made_just_before_each_add) {
    for (const auto schedule : schedules()) {
        std::mt19937_64 random(schedule.seed);
        begin(line(), schedule);
        const auto list = random_list(random);
        const auto all = random_bytes(random, memory_bytes);
        lw_cache_batch batch;

        ASSERT_EQ(lw_cache_batch_for_device(&batch, LW_DMA_TO_DEVICE), 0);
        ASSERT_NO_FATAL_FAILURE(store_and_add(batch, all, list));
        for (const auto &piece : list) {
            const auto at = static_cast<unsigned char *>(piece.iov_base);
            ASSERT_EQ(device_read(at, piece.iov_len), Bytes(&all[at - base], &all[at - base] + piece.iov_len));
        }
    }
}

TEST_P(Cache_model, touches_exactly_the_lines_that_hold_a_byte) {
    for (uint64_t seed = 1; seed <= 100; seed++) {
        std::mt19937_64 random(seed);
        std::vector<iovec> list;

        for (const bool batch : {false, true}) {
            begin(line(), {LW_MODEL_LAZY, 0});
            random.seed(seed);
            list = random_list(random);
            batch ? by_batch_device(list, LW_DMA_TO_DEVICE) : by_list_device(list, LW_DMA_TO_DEVICE);
            for (size_t i = 0; i < memory_bytes; i += line())
                ASSERT_EQ(lw_model_touched(base + i), covered(list, reinterpret_cast<uintptr_t>(base + i), line()))
                    << "line " << i / line() << " seed " << seed; // once each: rising pieces merge
            ASSERT_EQ(counts().outside, 0u);
        }
    }
}

TEST_P(Cache_model, single_ranges_touch_head_and_tail_and_both_in_one_line) {
    for (size_t offset : {size_t{0}, size_t{1}, line() - 1})
        for (size_t n : {size_t{1}, size_t{2}, line() - 1, line(), line() + 1, 2 * line(), 3 * line() - 1}) {
            using Range = int (*)(const void *, size_t);
            for (Range call : {Range{lw_cache_clean}, Range{lw_cache_invalidate}, Range{lw_cache_clean_invalidate},
                               Range{lw_cache_persist}, Range{lw_cache_clean_nowait}, Range{lw_cache_invalidate_nowait},
                               Range{lw_cache_clean_invalidate_nowait}, Range{lw_cache_persist_nowait}}) {
                begin(line(), {LW_MODEL_LAZY, 0});
                ASSERT_EQ(call(base + offset, n), 0);
                const std::vector<iovec> list{{base + offset, n}};
                for (size_t i = 0; i < 6 * line(); i += line())
                    ASSERT_EQ(lw_model_touched(base + i), covered(list, reinterpret_cast<uintptr_t>(base + i), line()));
            }
        }
}

TEST_P(Cache_model, nothing_to_do_touches_nothing_and_waits_for_nothing) {
    begin(line(), {LW_MODEL_LAZY, 0});
    const iovec empty[] = {{nullptr, 0}, {base, 0}, {base + 1, 0}, {reinterpret_cast<void *>(UINTPTR_MAX), 0}};
    lw_cache_batch batch;

    for (auto op : {LW_CACHE_CLEAN, LW_CACHE_PERSIST}) {
        EXPECT_EQ(lw_cache_list(empty, 4, op), 0);
        EXPECT_EQ(lw_cache_list(nullptr, 0, op), 0);
        EXPECT_EQ(lw_cache_batch_begin(&batch, op), 0);
        EXPECT_EQ(lw_cache_batch_add(&batch, nullptr, 0), 0);
        EXPECT_EQ(lw_cache_batch_flush(&batch), 0);
    }
    EXPECT_EQ(lw_cache_clean(nullptr, 0), 0);
    EXPECT_EQ(lw_cache_invalidate(base, 0), 0);
    EXPECT_EQ(lw_cache_persist(base, 0), 0);
    EXPECT_EQ(lw_cache_clean_nowait(base, 0), 0);
    EXPECT_EQ(lw_sync_for_cpu(empty, 4, LW_DMA_TO_DEVICE), 0);
    EXPECT_EQ(counts().insns, 0u);
    EXPECT_EQ(counts().waits, 0u);
}

TEST_P(Cache_model, a_list_ends_at_its_first_impossible_entry) {
    const auto top = reinterpret_cast<unsigned char *>(UINTPTR_MAX);
    const iovec bad[] = {{top, 2}, {top - 9, 11}, {base, static_cast<size_t>(-1)}, {base, SIZE_MAX / 2 + 1}};
    unsigned char *const far = base + 8 * line();

    for (const auto &piece : bad)
        for (const auto op : {LW_CACHE_CLEAN, LW_CACHE_INVALIDATE, LW_CACHE_PERSIST}) {
            begin(line(), {LW_MODEL_LAZY, 0});
            const iovec list[] = {{base, 1}, {base + 2 * line(), 1}, piece, {far, 1}, {nullptr, 0}};
            ASSERT_EQ(lw_cache_list(list, 5, op), -EINVAL);
            EXPECT_EQ(lw_model_touched(base), 1u);
            EXPECT_EQ(lw_model_touched(base + 2 * line()), 1u);
            EXPECT_EQ(lw_model_touched(far), 0u);
            EXPECT_EQ(counts().insns, 2u);
            EXPECT_EQ(counts().waits, 1u) << "what was done is in effect";
        }
}

TEST_P(Cache_model, impossible_requests_are_refused_before_anything_is_touched) {
    begin(line(), {LW_MODEL_LAZY, 0});
    const auto top = reinterpret_cast<unsigned char *>(UINTPTR_MAX);
    const iovec bad[] = {{top, 2}, {top - 9, 11}, {base, static_cast<size_t>(-1)}, {base, SIZE_MAX / 2 + 1}};
    lw_cache_batch batch;

    for (const auto &piece : bad) {
        const iovec list[] = {{nullptr, 0}, piece, {base, 64}};
        ASSERT_EQ(lw_sync_for_device(list, 3, LW_DMA_TO_DEVICE), -EINVAL);
        ASSERT_EQ(lw_sync_for_cpu(list, 3, LW_DMA_FROM_DEVICE), -EINVAL);
        ASSERT_EQ(lw_sync_for_cpu(list, 3, LW_DMA_TO_DEVICE), -EINVAL);
        ASSERT_EQ(lw_cache_list(list, 3, LW_CACHE_PERSIST), -EINVAL);
        ASSERT_EQ(lw_cache_clean(piece.iov_base, piece.iov_len), -EINVAL);
        ASSERT_EQ(lw_cache_invalidate_nowait(piece.iov_base, piece.iov_len), -EINVAL);
        ASSERT_EQ(lw_cache_persist(piece.iov_base, piece.iov_len), -EINVAL);
    }
    EXPECT_EQ(lw_sync_for_device(nullptr, 1, LW_DMA_TO_DEVICE), -EINVAL);
    EXPECT_EQ(lw_sync_for_device(bad, 0, static_cast<lw_dma_direction>(3)), -EINVAL);
    EXPECT_EQ(lw_sync_for_cpu(bad, 0, static_cast<lw_dma_direction>(3)), -EINVAL);
    EXPECT_EQ(lw_cache_list(bad, 0, static_cast<lw_cache_op>(0)), -EINVAL);
    EXPECT_EQ(lw_cache_list(bad, 0, static_cast<lw_cache_op>(6)), -EINVAL);
    EXPECT_EQ(lw_cache_batch_begin(&batch, static_cast<lw_cache_op>(0)), -EINVAL);
    EXPECT_EQ(lw_cache_batch_for_device(&batch, static_cast<lw_dma_direction>(3)), -EINVAL);
    EXPECT_EQ(lw_cache_batch_for_cpu(&batch, static_cast<lw_dma_direction>(3)), -EINVAL);
    EXPECT_EQ(counts().insns, 0u);
    EXPECT_EQ(counts().waits, 0u);
}

TEST_P(Cache_model, a_batch_that_refused_a_piece_does_the_others_and_says_so) {
    begin(line(), {LW_MODEL_LAZY, 0});
    lw_cache_batch batch{};

    EXPECT_EQ(lw_cache_batch_add(&batch, base, 1), -EINVAL) << "never begun";
    EXPECT_EQ(lw_cache_batch_flush(&batch), -EINVAL);
    ASSERT_EQ(lw_cache_batch_begin(&batch, LW_CACHE_CLEAN), 0);
    EXPECT_EQ(lw_cache_batch_add(&batch, base, 1), 0);
    EXPECT_EQ(lw_cache_batch_add(&batch, base, SIZE_MAX), -EINVAL);
    EXPECT_EQ(lw_cache_batch_add(&batch, base + 8 * line(), 1), 0);
    EXPECT_EQ(lw_cache_batch_flush(&batch), -EINVAL);
    EXPECT_EQ(counts().insns, 2u);
    EXPECT_EQ(counts().pending, 0u);
    EXPECT_EQ(lw_cache_batch_add(&batch, base, 1), -EINVAL) << "ended";
    EXPECT_EQ(lw_cache_batch_flush(&batch), -EINVAL) << "ended";
    EXPECT_EQ(counts().insns, 2u);
}

TEST_P(Cache_model, the_top_of_the_address_space_is_a_place_like_any_other) {
    begin(line(), {LW_MODEL_LAZY, 0});
    const auto last = reinterpret_cast<unsigned char *>(UINTPTR_MAX);
    const auto top = last - (4 * line() - 1);
    const auto bottom = reinterpret_cast<unsigned char *>(uintptr_t{0});
    ASSERT_EQ(lw_model_region(top, 4 * line()), 0);
    ASSERT_EQ(lw_model_region(bottom, 4 * line()), 0);

    EXPECT_EQ(lw_cache_clean(last, 1), 0);
    EXPECT_EQ(lw_model_touched(last), 1u);
    EXPECT_EQ(counts().insns, 1u);
    EXPECT_EQ(lw_cache_clean(top, 4 * line()), 0);
    EXPECT_EQ(counts().insns, 5u);
    const iovec list[] = {{top + 3 * line(), line()}, {bottom, 1}, {bottom + line(), 1}};
    EXPECT_EQ(lw_sync_for_device(list, 3, LW_DMA_TO_DEVICE), 0);
    EXPECT_EQ(counts().insns, 8u);
    EXPECT_EQ(lw_model_touched(bottom), 1u);
    by_batch_device({list[0], list[1], list[2]}, LW_DMA_TO_DEVICE);
    EXPECT_EQ(counts().insns, 11u);
    EXPECT_EQ(lw_model_touched(bottom + 2 * line()), 0u);
    EXPECT_EQ(counts().outside, 0u);
}

TEST_P(Cache_model, adjacent_pieces_are_maintained_once) {
    begin(line(), {LW_MODEL_LAZY, 0});
    std::vector<iovec> list;

    for (size_t i = 0; i < 4 * line(); i += 4)
        list.push_back({base + i, 4});
    by_list_device(list, LW_DMA_TO_DEVICE);
    EXPECT_EQ(counts().insns, 4u);
    EXPECT_EQ(counts().waits, 1u);
    by_batch_device(list, LW_DMA_TO_DEVICE);
    EXPECT_EQ(counts().insns, 8u);
    EXPECT_EQ(counts().waits, 2u);
    // falling order does not merge, and must not be taken for adjacent either
    by_list_device({{base + 2 * line(), line()}, {base + line(), line()}, {base, line()}}, LW_DMA_TO_DEVICE);
    EXPECT_EQ(counts().insns, 11u);
}

TEST_P(Cache_model, coherent_devices_cost_nothing_and_persistence_stays) {
    begin(line(), {LW_MODEL_LAZY, 0});
    const iovec list[] = {{base, 4 * line()}};
    lw_cache_description description;

    ASSERT_EQ(lw_cache_configure("coherent"), 0);
    lw_cache_describe(&description);
    EXPECT_TRUE(description.coherent);
    EXPECT_EQ(lw_sync_for_device(list, 1, LW_DMA_TO_DEVICE), 0);
    EXPECT_EQ(lw_sync_for_cpu(list, 1, LW_DMA_FROM_DEVICE), 0);
    EXPECT_EQ(lw_cache_clean(base, 64), 0);
    EXPECT_EQ(lw_cache_invalidate_nowait(base, 64), 0);
    by_batch_device({list[0]}, LW_DMA_TO_DEVICE);
    by_batch_cpu({list[0]}, LW_DMA_FROM_DEVICE);
    lw_cache_order();
    lw_cache_wait();
    EXPECT_EQ(counts().insns + counts().waits + counts().orders, 0u);
    EXPECT_EQ(lw_cache_persist(base, line()), 0);
    EXPECT_EQ(lw_cache_persist_nowait(base, line()), 0);
    lw_cache_persist_wait();
    EXPECT_EQ(counts().insns, 2u);
    EXPECT_EQ(counts().waits, 2u);
}

TEST_P(Cache_model, what_was_persisted_survives_a_power_failure) {
    for (const auto schedule : schedules()) {
        std::mt19937_64 random(schedule.seed);
        begin(line(), schedule);
        const auto list = random_list(random);
        const auto all = random_bytes(random, memory_bytes);

        store(base, all);
        ASSERT_EQ(lw_cache_list(list.data(), list.size(), LW_CACHE_PERSIST), 0);
        ASSERT_EQ(lw_cache_persist(base + memory_bytes - 100, 100), 0);
        ASSERT_EQ(lw_cache_persist_deep(base + memory_bytes - 200, 100), -EOPNOTSUPP) << "no deeper point in the model";
        lw_model_crash();
        for (const auto &piece : list) {
            const auto at = static_cast<unsigned char *>(piece.iov_base);
            ASSERT_EQ(load(at, piece.iov_len), Bytes(&all[at - base], &all[at - base] + piece.iov_len));
        }
        ASSERT_EQ(load(base + memory_bytes - 200, 200), Bytes(all.end() - 200, all.end()));
    }
}

// CLFLUSH on parts that order it by a full fence alone: behind the stores it is to write back, and waited for.
TEST_P(Cache_model, an_instruction_that_only_a_full_fence_orders_gets_one_on_both_sides) {
    using Way = std::function<void(const Bytes &, const std::vector<iovec> &)>;
    const auto then_ranges = [](auto call, auto wait) {
        return [=](const Bytes &all, const std::vector<iovec> &list) {
            store(base, all);
            for (const auto &piece : list)
                ASSERT_EQ(call(piece.iov_base, piece.iov_len), 0);
            wait();
        };
    };
    const auto then_list = [](lw_cache_op op) {
        return [=](const Bytes &all, const std::vector<iovec> &list) {
            store(base, all);
            ASSERT_EQ(lw_cache_list(list.data(), list.size(), op), 0);
        };
    };
    const auto batch = [](lw_cache_op op) {
        return [=](const Bytes &all, const std::vector<iovec> &list) {
            lw_cache_batch begun;

            ASSERT_EQ(lw_cache_batch_begin(&begun, op), 0);
            ASSERT_NO_FATAL_FAILURE(store_and_add(begun, all, list));
        };
    };
    const auto no_wait = [] {};
    const Way ways[] = {
        then_ranges(lw_cache_clean, no_wait),
        then_ranges(lw_cache_clean_nowait, lw_cache_wait),
        then_ranges(lw_cache_persist, no_wait),
        then_ranges(lw_cache_persist_nowait, lw_cache_persist_wait),
        then_list(LW_CACHE_CLEAN),
        then_list(LW_CACHE_PERSIST),
        batch(LW_CACHE_CLEAN),
        batch(LW_CACHE_PERSIST),
    };
    for (const auto schedule : schedules(20))
        for (const Way &way : ways) {
            std::mt19937_64 random(schedule.seed);
            begin(line(), schedule);
            ASSERT_EQ(lw_cache_configure("clean=model_flush,invalidate=model_flush,persist=model_flush"), 0);
            const auto list = random_list(random);
            const auto all = random_bytes(random, memory_bytes);

            way(all, list);
            for (const auto &piece : list) {
                const auto at = static_cast<unsigned char *>(piece.iov_base);
                ASSERT_EQ(device_read(at, piece.iov_len), Bytes(&all[at - base], &all[at - base] + piece.iov_len))
                    << "way " << &way - ways << " schedule " << schedule.kind << " seed " << schedule.seed;
            }
        }
}

// Mistakes of a program that uses the library: the model must show each of them under some schedule.
bool ever_fails(const std::function<bool(Schedule)> &scenario) {
    for (const auto schedule : schedules())
        if (!scenario(schedule))
            return true;
    return false;
}

void nothing(const std::vector<iovec> &, lw_dma_direction) {}

void device_nowait(const std::vector<iovec> &list, lw_dma_direction) {
    for (const auto &piece : list)
        lw_cache_clean_nowait(piece.iov_base, piece.iov_len);
}

void cpu_nowait(const std::vector<iovec> &list, lw_dma_direction) {
    lw_cache_order();
    for (const auto &piece : list)
        lw_cache_invalidate_nowait(piece.iov_base, piece.iov_len);
}

void cpu_stores_only_wait(const std::vector<iovec> &list, lw_dma_direction direction) {
    cpu_nowait(list, direction);
    lw_cache_persist_wait();
}

void cpu_unordered(const std::vector<iovec> &list, lw_dma_direction) {
    for (const auto &piece : list)
        lw_cache_invalidate_nowait(piece.iov_base, piece.iov_len);
    lw_cache_wait();
}

void cpu_too_early(const std::vector<iovec> &list, lw_dma_direction) {
    lw_cache_wait();
    device_nowait(list, LW_DMA_FROM_DEVICE);
}

TEST_P(Cache_model, shows_the_mistakes_of_its_users) {
    const auto receives = [&](const Sync &device, const Sync &cpu) {
        return ever_fails([&](Schedule s) { return receive(line(), s, LW_DMA_FROM_DEVICE, device, cpu); });
    };
    EXPECT_FALSE(receives(by_list_device, by_list_cpu));
    EXPECT_TRUE(receives(nothing, by_list_cpu)) << "not handed to the device: a dirty line overwrites its data";
    EXPECT_TRUE(receives(by_list_device, nothing)) << "not taken back: stale lines";
    EXPECT_TRUE(receives(by_list_device, cpu_nowait)) << "no wait";
    EXPECT_TRUE(receives(by_list_device, cpu_stores_only_wait)) << "a wait that orders stores only";
    EXPECT_TRUE(receives(by_list_device, cpu_unordered)) << "not ordered after the load that saw the device finish";
    EXPECT_TRUE(receives(by_list_device, cpu_too_early)) << "waited first, issued after";

    const auto sends = [&](const std::function<void(const iovec *)> &sync_then_ring, bool stored_after) {
        return ever_fails([&](Schedule s) {
            std::mt19937_64 random(s.seed);
            begin(line(), s);
            const auto mine = random_bytes(random, 3 * line());
            const iovec piece{base + 7, mine.size()};
            if (!stored_after)
                store(piece.iov_base, mine);
            sync_then_ring(&piece);
            if (stored_after)
                store(piece.iov_base, mine);
            return device_read(piece.iov_base, mine.size()) == mine;
        });
    };
    EXPECT_FALSE(sends([](const iovec *p) { lw_sync_for_device(p, 1, LW_DMA_TO_DEVICE); }, false));
    EXPECT_TRUE(sends([](const iovec *) {}, false)) << "nothing cleaned";
    EXPECT_TRUE(sends([](const iovec *p) { lw_cache_clean_nowait(p->iov_base, p->iov_len); }, false)) << "no wait";
    EXPECT_TRUE(sends(
        [](const iovec *p) {
            lw_cache_wait();
            lw_cache_clean_nowait(p->iov_base, p->iov_len);
        },
        false))
        << "swapped";
    EXPECT_TRUE(sends([](const iovec *p) { lw_sync_for_device(p, 1, LW_DMA_TO_DEVICE); }, true)) << "stored too late";
    EXPECT_TRUE(sends([this](const iovec *p) { lw_cache_clean((char *)p->iov_base + line(), p->iov_len - line()); }, false))
        << "head missed";
    EXPECT_TRUE(sends([this](const iovec *p) { lw_cache_clean(p->iov_base, p->iov_len - line()); }, false)) << "tail missed";
}

TEST(Cache_model_itself, refuses_what_it_cannot_model) {
    for (size_t line : {0, 4, 48, 4096}) {
        const lw_model_config config{line, LW_MODEL_LAZY, 0};
        EXPECT_EQ(lw_model_begin(&config), -EINVAL) << line;
    }
    begin(64, {LW_MODEL_LAZY, 0});
    EXPECT_EQ(lw_model_region(base, 0), -EINVAL);
    EXPECT_EQ(lw_model_region(reinterpret_cast<void *>(UINTPTR_MAX), 2), -EINVAL);
    char byte;
    EXPECT_DEATH(lw_model_load(base - 1, &byte, 1), "");
    lw_model_end();
}

} // namespace
