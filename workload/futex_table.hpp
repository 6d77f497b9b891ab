// SPDX-License-Identifier: MIT
// Two more shapes of the kernel's futex table in user space: waits that fail at once, spread over a table of buckets, and
// waiters that several threads wake at the same time. They correspond to `perf bench futex hash` and `wake-parallel`.
#pragma once

#include "workload/futex.hpp"
#include "workload/worker.hpp"

#include <bit>
#include <deque>

namespace lw::workload {

// Every thread has words of its own. A wait counts itself in the word's bucket, takes the bucket's lock, finds another
// value than it expects, and leaves again. A test has one bucket, so that threads meet.
template <class Lock = Ticket_lock, std::size_t buckets_each = 256> // for every CPU, as in the kernel's table
class Futex_hash {
public:
    explicit Futex_hash(const Options &options) : words_(options.threads * words_each, 1) {
        const std::size_t places = std::max<std::size_t>(1, allowed_cpus().size());
        const std::size_t count = buckets_each > 1 ? std::bit_ceil(buckets_each * places) : 1;
        for (std::size_t i = 0; i < count; ++i)
            buckets_.emplace_back(options.threads);
    }

    static unsigned extra_threads(unsigned) { return 0; }

    bool once(Worker &w) {
        if (w.stop())
            return false;
        const std::size_t word = w.id * words_each + w.operations % words_each;
        Bucket &bucket = buckets_[place(word)];
        lw_inc_u32(&bucket.waiters);
        const bool had = w.timed([&] { return bucket.lock.lock(w.seat, w.patience); });
        if (had) {
            compare(bucket, words_[word], w);
            bucket.lock.unlock(w.seat, w.patience);
        }
        lw_dec_u32(&bucket.waiters);
        if (had)
            w.done();
        return had;
    }

    void verify(Result &result) {
        std::uint64_t looked = 0, waiters = 0;
        for (const Bucket &bucket : buckets_) {
            looked += bucket.looked;
            waiters += lw_read_u32_relaxed(&bucket.waiters);
        }
        if (looked != result.all_operations || waiters != 0)
            result.failures.push_back(std::to_string(result.all_operations) + " waits, but " + std::to_string(looked) +
                                      " looked at their word, and " + std::to_string(waiters) + " are still counted");
        result.checks.push_back(std::to_string(result.all_operations) + " waits in " + std::to_string(buckets_.size()) +
                                " buckets found another value under the bucket's lock, and left");
    }

private:
    static constexpr std::size_t words_each = 1024; // as the benchmark's default

    struct alignas(apart) Bucket {
        explicit Bucket(unsigned threads) : lock(threads) {}

        std::uint32_t waiters = 0;
        Watched<std::uint32_t> owner = 0; // id + 1 of the thread inside
        Watched<std::uint64_t> looked = 0;
        Lock lock;
    };

    // Neighbouring words fall into buckets that are far apart.
    std::size_t place(std::size_t word) const {
        const std::uint64_t mixed = (word + 1) * 0x9e3779b97f4a7c15u;
        return static_cast<std::size_t>(mixed >> 32) & (buckets_.size() - 1);
    }

    void compare(Bucket &bucket, std::uint32_t value, Worker &w) {
        constexpr std::uint32_t expected = 1234; // no word has it
        w.broken[overlap] += bucket.owner != 0;
        bucket.owner = w.id + 1;
        w.hold();
        bucket.looked = bucket.looked + (value != expected);
        w.broken[overlap] += bucket.owner != w.id + 1;
        bucket.owner = 0;
    }

    std::vector<std::uint32_t> words_;
    std::deque<Bucket> buckets_;
};

// As many wakers as waiters, each of which wakes one. A round begins when all waiters have queued and ends when every
// waker is through; who is woken queues again at once, in the other of two buckets.
template <class Lock = Ticket_lock> class Parallel_wake {
public:
    explicit Parallel_wake(const Options &options)
        : threads_(options.threads), waiters_(options.threads),
          buckets_{Bucket(2 * options.threads), Bucket(2 * options.threads)} {}

    static unsigned extra_threads(unsigned threads) { return threads; }

    bool once(Worker &w) { return w.id < threads_ ? wait(w) : wake(w); }

    void verify(Result &result) {
        if (result.failures.empty())
            for (const Bucket &bucket : buckets_)
                if (bucket.head != 0 || lw_read_u32_relaxed(&bucket.waiters) != 0)
                    result.failures.push_back("a bucket was left with waiters");
        if (result.all_operations != rounds_ * threads_)
            result.failures.push_back(std::to_string(rounds_) + " rounds of " + std::to_string(threads_) + " waiters, but " +
                                      std::to_string(result.all_operations) + " wake-ups");
        result.checks.push_back(std::to_string(rounds_) + " rounds: each waiter queued and woken once in each, by one of " +
                                std::to_string(threads_) + " wakers");
        result.rounds = {rounds_, median(block_ms_), 0, median(wake_ms_), false, threads_};
    }

private:
    struct alignas(apart) Waiter {
        std::uint32_t woken = 1; // 0 while queued: the word it sleeps on
        Watched<std::uint32_t> next = 0; // id + 1
        Watched<std::uint32_t> round = 0;
    };
    struct alignas(apart) Bucket {
        explicit Bucket(unsigned threads) : lock(threads) {}

        std::uint32_t waiters = 0;
        Lock lock;
        Watched<std::uint32_t> owner = 0, head = 0;
    };

    // Runs `section` under the bucket's lock; false when the run was given up.
    template <class Function> bool inside(Bucket &bucket, Worker &w, Function section) {
        if (!bucket.lock.lock(w.seat, w.patience))
            return false;
        w.broken[overlap] += bucket.owner != 0;
        bucket.owner = w.id + 1;
        section();
        w.broken[overlap] += bucket.owner != w.id + 1;
        bucket.owner = 0;
        bucket.lock.unlock(w.seat, w.patience);
        return true;
    }

    bool wait(Worker &w) {
        if (lw_read_u32_acquire(&over_)) // pairs with the last waker's release
            return false;
        Waiter &me = waiters_[w.id];
        Bucket &bucket = buckets_[w.operations & 1];
        lw_write_u32(&me.woken, 0); // written again only by the waker that found this waiter under the lock
        lw_inc_u32(&bucket.waiters);
        const bool queued = w.timed([&] {
            return inside(bucket, w, [&] {
                w.hold();
                me.round = static_cast<std::uint32_t>(w.operations);
                me.next = bucket.head;
                bucket.head = w.id + 1;
            });
        });
        if (!queued)
            return false;
        lw_inc_u32_release(&arrived_); // pairs with the first waker's acquire
        if (!asleep(me, w))
            return false;
        w.done();
        return true;
    }

    bool asleep(Waiter &me, Worker &w) {
        while (!lw_read_u32_acquire(&me.woken)) { // pairs with wake_one()'s release
            futex_sleep(&me.woken, 0, 100);
            if (w.patience.abandoned && w.patience.abandoned->load(std::memory_order_relaxed))
                return false;
        }
        return true;
    }

    // Poll a word until it has a value.
    bool until(std::uint32_t &word, std::uint32_t value, Worker &w) {
        Wait wait(w.patience);
        while (lw_read_u32_acquire(&word) != value) // pairs with the release of its writer
            if (!wait.again())
                return false;
        return true;
    }

    // The first of the wakers opens and closes rounds for all.
    bool wake(Worker &w) {
        const bool first = w.id == threads_;
        const auto round = static_cast<std::uint32_t>(w.operations);
        const double start = now_ns();
        if (first && !open(round, w))
            return false;
        if (!until(opened_, round + 1, w))
            return false;
        const bool last = lw_read_u32_relaxed(&last_) != 0; // written before the release that opened the round
        if (first)
            block_ms_.push_back((now_ns() - start) / 1e6);
        if (!wake_one(round, w))
            return false;
        lw_inc_u32_release(&through_); // pairs with close()'s acquire
        if (first && !close(w))
            return false;
        w.done();
        return !last;
    }

    bool open(std::uint32_t round, Worker &w) {
        if (!until(arrived_, threads_, w))
            return false;
        lw_write_u32(&arrived_, 0); // the next to write it is woken in this round
        if (w.stop()) {
            lw_write_u32(&last_, 1);
            lw_write_u32_release(&over_, 1); // pairs with wait()'s acquire, made by those who are woken
        }
        lw_write_u32_release(&opened_, round + 1); // pairs with until()'s acquire in every waker
        return true;
    }

    bool wake_one(std::uint32_t round, Worker &w) {
        Bucket &bucket = buckets_[round & 1];
        std::uint32_t who = 0;
        const double start = now_ns();
        const bool held = inside(bucket, w, [&] {
            who = bucket.head;
            if (who)
                bucket.head = waiters_[who - 1].next;
        });
        if (!held)
            return false;
        if (!who || waiters_[who - 1].round != round) {
            ++w.broken[lost];
            return true; // the others go on; the run is given up when one of them waits in vain
        }
        lw_dec_u32(&bucket.waiters);
        lw_write_u32_release(&waiters_[who - 1].woken, 1); // pairs with asleep()'s acquire
        futex_wake(&waiters_[who - 1].woken);
        lw_fetch_add_u64_relaxed(&spent_ns_, static_cast<std::uint64_t>(now_ns() - start)); // read behind through_
        return true;
    }

    // Wait for all wakers of the round, and note what they took.
    bool close(Worker &w) {
        if (!until(through_, threads_, w))
            return false;
        lw_write_u32(&through_, 0); // no thread adds to it before the next round is opened
        wake_ms_.push_back(static_cast<double>(lw_xchg_u64(&spent_ns_, 0)) / threads_ / 1e6);
        ++rounds_;
        return true;
    }

    const unsigned threads_;
    std::vector<Waiter> waiters_;
    std::array<Bucket, 2> buckets_;
    alignas(apart) std::uint32_t arrived_ = 0;
    alignas(apart) std::uint32_t opened_ = 0; // rounds opened
    std::uint32_t last_ = 0;
    alignas(apart) std::uint32_t through_ = 0; // wakers of the round that are done
    alignas(apart) std::uint64_t spent_ns_ = 0; // by all wakers of the round
    alignas(apart) std::uint32_t over_ = 0;
    std::uint64_t rounds_ = 0;
    std::vector<double> block_ms_, wake_ms_;
};

} // namespace lw::workload
