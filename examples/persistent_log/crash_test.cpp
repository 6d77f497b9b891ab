// SPDX-License-Identifier: MIT
// Power failures at any step, over the modelled cache: whatever lines reached memory, no record is torn or lost.
#include "log.h"

#include <cache_model/cache_model.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <csetjmp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace
{

constexpr size_t log_bytes = 32768;
const auto base = reinterpret_cast<void *>(uintptr_t{0x100000});
using Bytes = std::vector<unsigned char>;

// Bytes of a record say in which life it was appended, so that one of a dead life is seen for what it is.
void fill(unsigned char *bytes, size_t n, uint64_t sequence, uint64_t life)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = static_cast<unsigned char>(sequence * 131 + life * 29 + i * 7 + (i >> 8));
}

std::jmp_buf failure;

void power_fails(void *)
{
    std::longjmp(failure, 1);
}

// What the program knows of each record: its life, its length, whether its append returned.
struct Known {
    uint64_t life;
    size_t length;
};

struct World {
    std::mt19937_64 random;
    std::vector<Known> durable;  // acknowledged, by sequence number - 1
    std::vector<Known> attempt;  // being appended when the power failed
    uint64_t life = 0;
    record_log open{};
    unsigned char bytes[4][500];
    size_t tail = 0;

    explicit World(uint64_t seed) : random(seed) {}
    void live(); // until the power fails
    ::testing::AssertionResult intact();
};

void World::live()
{
    // opening takes a step for each 8 bytes read and for each line made durable; most failures ought to come later
    const size_t opening = tail / 8 + tail / lw_model_line_size() + 80;
    lw_model_at_step(random() % 4 ? opening + random() % 400 : 1 + random() % opening, power_fails, nullptr);
    if (setjmp(failure) == 0) {
        attempt.clear();
        open = {};
        if (log_attach(&open, base, log_bytes, true) != 0)
            return;
        for (;;) {
            iovec records[4];
            const size_t n = 1 + random() % 4;

            attempt.clear();
            for (size_t i = 0; i < n; i++) {
                const size_t length = random() % sizeof(bytes[0]);
                fill(bytes[i], length, open.sequence + i + 1, life);
                records[i] = {bytes[i], length};
                attempt.push_back({life, length});
            }
            if (log_append(&open, records, n) != 0)
                break; // full
            durable.insert(durable.end(), attempt.begin(), attempt.end());
            attempt.clear();
        }
        attempt.clear();
    }
    lw_model_at_step(0, nullptr, nullptr);
}

::testing::AssertionResult World::intact()
{
    record_log log{};
    size_t count = 0;

    if (const int error = log_attach(&log, base, log_bytes, true))
        return ::testing::AssertionFailure() << "cannot open: " << error;
    tail = log.tail;
    for (log_record record{}; log_next(&log, &record); count++) {
        const bool known = count < durable.size();
        const size_t beyond = count - durable.size();
        if (!known && beyond >= attempt.size())
            return ::testing::AssertionFailure() << "record " << count + 1 << " was never appended in this life";
        const Known expected = known ? durable[count] : attempt[beyond];
        Bytes found(record.length), right(record.length);
        log_read(&log, &record, found.data());
        fill(right.data(), right.size(), record.sequence, expected.life);
        if (record.sequence != count + 1 || record.length != expected.length || found != right)
            return ::testing::AssertionFailure() << "record " << count + 1 << " is not what was appended";
    }
    if (count < durable.size())
        return ::testing::AssertionFailure() << durable.size() << " records were acknowledged, " << count << " exist";
    for (size_t i = 0; durable.size() < count; i++)
        durable.push_back(attempt[i]); // whole, hence there
    attempt.clear();
    return ::testing::AssertionSuccess();
}

TEST(Persistent_log, survives_power_failures_and_kills_at_any_step)
{
    const char *asked = std::getenv("PERSISTENT_LOG_SEEDS"); // fewer where every step is emulated
    const uint64_t seeds = asked ? std::strtoull(asked, nullptr, 10) : 250;
    unsigned failures = 0, torn = 0;

    for (uint64_t seed = 1; seed <= seeds; seed++) {
        const lw_model_config config{size_t{16} << seed % 4, LW_MODEL_RANDOM, seed};
        World world(seed);

        ASSERT_EQ(lw_model_begin(&config), 0);
        ASSERT_EQ(lw_model_region(base, log_bytes), 0);
        for (int life = 0; life < 12; life++) {
            world.life++;
            world.live();
            torn += !world.attempt.empty();
            if (world.random() % 3) // otherwise only the process dies: the caches stay as they are
                lw_model_crash();
            failures++;
            ASSERT_TRUE(world.intact()) << "seed " << seed << " life " << life;
            if (world.random() % 2)
                lw_model_crash();
        }
    }
    lw_model_end();
    EXPECT_GT(torn, failures / 4) << "hardly any failure fell into an append: the test proves little";
    RecordProperty("failures", static_cast<int>(failures));
    RecordProperty("in_an_append", static_cast<int>(torn));
}

// Of two records appended at once, the failure tore the first and left the second; the first is written anew.
TEST(Persistent_log, a_record_of_a_dead_life_does_not_come_back)
{
    const lw_model_config config{64, LW_MODEL_LAZY, 0};
    unsigned char bytes[100] = {1};
    const iovec records[] = {{bytes, 100}, {bytes, 100}};
    const unsigned char torn = 2;
    record_log log{};
    log_record first{};

    ASSERT_EQ(lw_model_begin(&config), 0);
    ASSERT_EQ(lw_model_region(base, log_bytes), 0);
    ASSERT_EQ(log_attach(&log, base, log_bytes, true), 0);
    ASSERT_EQ(log_append(&log, records, 2), 0);
    ASSERT_TRUE(log_next(&log, &first));
    lw_model_crash();
    lw_model_device_write(static_cast<unsigned char *>(base) + first.position + 50, &torn, 1);
    ASSERT_EQ(log_attach(&log, base, log_bytes, true), 0);
    ASSERT_EQ(log.sequence, 0u);
    ASSERT_EQ(log_append(&log, records, 1), 0);
    ASSERT_EQ(log_attach(&log, base, log_bytes, true), 0);
    EXPECT_EQ(log.sequence, 1u);
    lw_model_end();
}

TEST(Persistent_log, ends_at_a_damaged_record_and_refuses_what_is_not_a_log)
{
    const lw_model_config config{64, LW_MODEL_LAZY, 0};
    unsigned char bytes[300];
    record_log log{};
    const iovec records[] = {{bytes, 300}, {bytes, 0}, {bytes, 17}};

    ASSERT_EQ(lw_model_begin(&config), 0);
    ASSERT_EQ(lw_model_region(base, log_bytes), 0);
    std::memset(bytes, 9, sizeof(bytes));
    ASSERT_EQ(log_attach(&log, base, log_bytes, true), 0);
    ASSERT_EQ(log_append(&log, records, 3), 0);
    log_record second{};
    ASSERT_TRUE(log_next(&log, &second));
    const auto in_first = static_cast<unsigned char *>(base) + second.position + 250;
    ASSERT_TRUE(log_next(&log, &second));
    ASSERT_EQ(log_attach(&log, base, log_bytes, true), 0);
    EXPECT_EQ(log.sequence, 3u);
    const unsigned char wrong = 10;
    lw_model_store(in_first, &wrong, 1);
    ASSERT_EQ(log_attach(&log, base, log_bytes, true), 0);
    EXPECT_EQ(log.sequence, 0u);
    const iovec large{bytes, log_bytes};
    EXPECT_EQ(log_append(&log, &large, 1), -ENOSPC);
    const uint64_t foreign = 0x1234;
    lw_model_store(base, &foreign, 8);
    lw_model_store(static_cast<unsigned char *>(base) + 2048, &foreign, 8);
    EXPECT_EQ(log_attach(&log, base, log_bytes, true), -EBADMSG);
    EXPECT_EQ(log_attach(&log, base, 64, true), -EINVAL);
    lw_model_end();
}

// False: it failed at the step.
bool opened_before(uint64_t step)
{
    lw_model_at_step(step, power_fails, nullptr);
    if (setjmp(failure))
        return false;
    record_log log{};
    EXPECT_EQ(log_attach(&log, base, log_bytes, true), 0);
    lw_model_at_step(0, nullptr, nullptr);
    return true;
}

void fail_in_the_third_opening(uint64_t step, bool power, bool &ended)
{
    const lw_model_config config{16, LW_MODEL_RANDOM, step};
    unsigned char bytes[100] = {1};
    const iovec record{bytes, 100};
    record_log log{};

    ASSERT_EQ(lw_model_begin(&config), 0);
    ASSERT_EQ(lw_model_region(base, log_bytes), 0);
    for (int life = 0; life < 2; life++) {
        ASSERT_EQ(log_attach(&log, base, log_bytes, true), 0);
        ASSERT_EQ(log_append(&log, &record, 1), 0);
    }
    ended = opened_before(step);
    if (power)
        lw_model_crash();
    ASSERT_EQ(log_attach(&log, base, log_bytes, true), 0) << "step " << step << (power ? ", power" : ", kill");
    ASSERT_EQ(log.sequence, 2u);
    lw_model_end();
}

// The third opening fails at each of its steps in turn; what the two before appended is there every time.
TEST(Persistent_log, opens_after_a_failure_at_any_step_of_an_opening)
{
    bool ended = false;

    for (uint64_t step = 1; !ended && !HasFatalFailure(); step++) {
        fail_in_the_third_opening(step, false, ended);
        fail_in_the_third_opening(step, true, ended);
    }
}

// A flipped bit in the newest slot used to forget its epoch, which the next opening but one took again, with its records.
TEST(Persistent_log, refuses_a_damaged_slot_whichever_it_is)
{
    const lw_model_config config{64, LW_MODEL_LAZY, 0};
    unsigned char bytes[100] = {1};
    const iovec record{bytes, 100};

    for (size_t at : {0u, 9u, 24u, 2048u, 2057u, 2072u}) {
        record_log log{};
        ASSERT_EQ(lw_model_begin(&config), 0);
        ASSERT_EQ(lw_model_region(base, log_bytes), 0);
        for (int life = 0; life < 3; life++) {
            ASSERT_EQ(log_attach(&log, base, log_bytes, true), 0);
            ASSERT_EQ(log_append(&log, &record, 1), 0);
        }
        unsigned char byte;
        lw_model_load(static_cast<unsigned char *>(base) + at, &byte, 1);
        byte ^= 1;
        lw_model_store(static_cast<unsigned char *>(base) + at, &byte, 1);
        EXPECT_EQ(log_attach(&log, base, log_bytes, true), -EBADMSG) << at;
        lw_model_end();
    }
}

// A slot lost whole looks like one that was never written; the records of its epoch tell.
TEST(Persistent_log, refuses_records_of_an_epoch_that_no_slot_knows)
{
    const lw_model_config config{64, LW_MODEL_LAZY, 0};
    unsigned char bytes[100] = {1}, zeros[32] = {0};
    const iovec record{bytes, 100};
    record_log log{};

    ASSERT_EQ(lw_model_begin(&config), 0);
    ASSERT_EQ(lw_model_region(base, log_bytes), 0);
    for (int life = 0; life < 2; life++) {
        ASSERT_EQ(log_attach(&log, base, log_bytes, true), 0);
        ASSERT_EQ(log_append(&log, &record, 1), 0);
    }
    lw_model_store(static_cast<unsigned char *>(base) + log.epoch % 2 * 2048, zeros, sizeof(zeros));
    EXPECT_EQ(log_attach(&log, base, log_bytes, true), -EBADMSG);
    lw_model_store(base, zeros, sizeof(zeros));
    lw_model_store(static_cast<unsigned char *>(base) + 2048, zeros, sizeof(zeros));
    EXPECT_EQ(log_attach(&log, base, log_bytes, true), -EBADMSG) << "records, but no slot at all";
    lw_model_end();
}

TEST(Persistent_log, refuses_lengths_that_a_size_cannot_hold)
{
    const lw_model_config config{64, LW_MODEL_LAZY, 0};
    unsigned char byte = 1;
    record_log log{};

    ASSERT_EQ(lw_model_begin(&config), 0);
    ASSERT_EQ(lw_model_region(base, log_bytes), 0);
    ASSERT_EQ(log_attach(&log, base, log_bytes, true), 0);
    for (size_t length : {size_t{0xfffffff0}, SIZE_MAX, SIZE_MAX - 15, SIZE_MAX - 47}) {
        const iovec large{&byte, length};
        EXPECT_EQ(log_append(&log, &large, 1), -ENOSPC) << length;
    }
    lw_model_end();
}

TEST(Persistent_log, is_not_taken_for_empty_when_its_file_has_another_size)
{
    const lw_model_config config{64, LW_MODEL_LAZY, 0};
    unsigned char bytes[100] = {1};
    const iovec record{bytes, 100};
    record_log log{};

    ASSERT_EQ(lw_model_begin(&config), 0);
    ASSERT_EQ(lw_model_region(base, log_bytes), 0);
    ASSERT_EQ(log_attach(&log, base, log_bytes, true), 0);
    ASSERT_EQ(log_append(&log, &record, 1), 0);
    EXPECT_EQ(log_attach(&log, base, log_bytes / 2, true), -EBADMSG);
    const unsigned char torn = 9;
    lw_model_store(static_cast<unsigned char *>(base) + 2048 + 8, &torn, 1); // its only slot
    lw_model_store(static_cast<unsigned char *>(base), &torn, 1);           // and something where none ever was
    EXPECT_EQ(log_attach(&log, base, log_bytes, true), -EBADMSG);
    lw_model_end();
}

TEST(Persistent_log, appends_nothing_behind_a_write_back_that_failed)
{
    const lw_model_config config{64, LW_MODEL_LAZY, 0};
    unsigned char bytes[100] = {1};
    const iovec records[] = {{bytes, 100}, {bytes, 100}};
    record_log log{};

    ASSERT_EQ(lw_model_begin(&config), 0);
    ASSERT_EQ(lw_model_region(base, log_bytes), 0);
    ASSERT_EQ(log_attach(&log, base, log_bytes, true), 0);
    log.direct = false;
    log.mapped = true; // msync() of modelled memory: nothing is mapped there
    ASSERT_EQ(log_append(&log, records, 2), -ENOMEM);
    log.direct = true;
    log.mapped = false;
    EXPECT_EQ(log_append(&log, records, 1), -ENOMEM) << "the second record of the failed append would follow this one";
    EXPECT_EQ(log.sequence, 0u);
    ASSERT_EQ(log_attach(&log, base, log_bytes, true), 0);
    EXPECT_EQ(log_append(&log, records, 1), 0);
    lw_model_end();
}

} // namespace
