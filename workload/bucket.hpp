// SPDX-License-Identifier: MIT
// Waiters queued in a hash bucket under the bucket's lock, moved to another bucket, and woken one by one: the shape of
// the kernel's futex table, in user space, so that LINEWRIGHT_ATOMICS reaches its lock and its count of waiters.
//
// A round: every waiter counts itself in the bucket of the key, takes the bucket's lock, queues and sleeps. When all
// have queued the waker moves them to the other key's bucket one by one, both buckets locked, and then wakes them from there
// one by one. Who is woken queues again at once, in the bucket that the waker is still emptying. Without moving, they are
// woken where they queued, and queue again in the other bucket.
#pragma once

#include "workload/futex.hpp"
#include "workload/worker.hpp"

#include <algorithm>
#include <array>

namespace lw::workload {

template <class Lock = Ticket_lock, bool moves = true> class Hash_bucket {
public:
    explicit Hash_bucket(const Options &options)
        : threads_(options.threads), waiters_(options.threads + 1),
          buckets_{Bucket(options.threads + 1), Bucket(options.threads + 1)} {}

    static unsigned extra_threads(unsigned) { return 1; } // the waker

    bool once(Worker &w) { return w.id < threads_ ? wait(w) : wake(w); }

    void verify(Result &result) {
        if (result.failures.empty())
            for (const Bucket &bucket : buckets_)
                if (bucket.length != 0 || bucket.head != 0 || lw_read_u32_relaxed(&bucket.waiters) != 0)
                    result.failures.push_back("a bucket was left with " + std::to_string(bucket.length) + " queued and " +
                                              std::to_string(lw_read_u32_relaxed(&bucket.waiters)) + " counted waiters");
        if (result.all_operations != rounds_ * threads_)
            result.failures.push_back(std::to_string(rounds_) + " rounds of " + std::to_string(threads_) + " waiters, but " +
                                      std::to_string(result.all_operations) + " wake-ups");
        result.checks.push_back(std::to_string(rounds_) + " rounds: each waiter queued, " + (moves ? "requeued " : "") +
                                "and woken once in each, in the order of queueing");
        result.rounds = {rounds_, median(block_ms_), median(requeue_ms_), median(wake_ms_), moves, 1};
    }

private:
    // Queue links are ids, not pointers: what a broken lock does to them stays inside the table.
    struct alignas(apart) Waiter {
        std::uint32_t woken = 1; // 0 while queued: the word it sleeps on
        Watched<std::uint32_t> next = 0; // id + 1
        Watched<std::uint64_t> sequence = 0; // place in the bucket's history, given under its lock
        Watched<std::uint32_t> round = 0;
    };
    struct alignas(apart) Bucket {
        explicit Bucket(unsigned threads) : lock(threads) {}

        std::uint32_t waiters = 0; // counted before the lock is taken, so that a waker of an empty bucket need not take it
        Lock lock;
        Watched<std::uint32_t> owner = 0; // id + 1 of the thread inside
        Watched<std::uint32_t> head = 0, tail = 0, length = 0;
        Watched<std::uint64_t> history = 0;
    };

    bool enter(Bucket &bucket, Seat &seat, Worker &w) {
        if (!bucket.lock.lock(seat, w.patience))
            return false;
        w.broken[overlap] += bucket.owner != 0;
        bucket.owner = w.id + 1;
        return true;
    }

    void leave(Bucket &bucket, Seat &seat, Worker &w) {
        w.broken[overlap] += bucket.owner != w.id + 1;
        bucket.owner = 0;
        bucket.lock.unlock(seat, w.patience);
    }

    void push(Bucket &bucket, std::uint32_t who) {
        Waiter &waiter = waiters_[who - 1];
        waiter.next = 0;
        waiter.sequence = bucket.history;
        bucket.history = bucket.history + 1;
        if (const std::uint32_t tail = bucket.tail) // read once, since a broken lock lets it change
            waiters_[tail - 1].next = who;
        else
            bucket.head = who;
        bucket.tail = who;
        bucket.length = bucket.length + 1;
    }

    std::uint32_t pop(Bucket &bucket) {
        const std::uint32_t who = bucket.head;
        if (who) {
            const std::uint32_t next = waiters_[who - 1].next;
            bucket.head = next;
            if (next == 0)
                bucket.tail = 0;
            bucket.length = bucket.length - 1;
        }
        return who;
    }

    bool wait(Worker &w) {
        if (lw_read_u32_acquire(&over_)) // pairs with the waker's release in its last round
            return false;
        Waiter &me = waiters_[w.id];
        Bucket &bucket = buckets_[w.operations & 1];
        lw_write_u32(&me.woken, 0); // the waker writes it only after it has found this waiter under the lock
        lw_inc_u32(&bucket.waiters);
        if (!w.timed([&] { return enter(bucket, w.seat, w); }))
            return false;
        me.round = static_cast<std::uint32_t>(w.operations);
        w.hold();
        push(bucket, w.id + 1);
        leave(bucket, w.seat, w);
        lw_inc_u32_release(&arrived_); // pairs with gather()'s acquire
        if (!asleep(me, w))
            return false;
        w.done();
        return true;
    }

    bool asleep(Waiter &me, Worker &w) {
        // A few reads before the system call; they and the next pair with rouse()'s release.
        for (unsigned left = 100; left && !lw_read_u32_acquire(&me.woken); --left)
            lw_relax();
        while (!lw_read_u32_acquire(&me.woken)) {
            futex_sleep(&me.woken, 0, 100);
            if (w.patience.abandoned && w.patience.abandoned->load(std::memory_order_relaxed))
                return false;
        }
        return true;
    }

    void rouse(std::uint32_t who) {
        Waiter &waiter = waiters_[who - 1];
        lw_write_u32_release(&waiter.woken, 1); // pairs with asleep()'s acquire
        futex_wake(&waiter.woken);
    }

    // Wait until every waiter has queued; then only the waker touches the buckets.
    bool gather(Worker &w) {
        Wait wait(w.patience);
        while (lw_read_u32_acquire(&arrived_) != threads_) // pairs with wait()'s release
            if (!wait.again())
                return false;
        lw_write_u32(&arrived_, 0); // the next to write it has been woken by rouse()'s release first
        return true;
    }

    // The waker's round. False ends the run: the last waiters know, or something was lost.
    bool wake(Worker &w) {
        const auto round = static_cast<std::uint32_t>(rounds_);
        Bucket &from = buckets_[rounds_ & 1], &to = moves ? buckets_[(rounds_ & 1) ^ 1] : from;
        const double start = now_ns();
        if (!gather(w))
            return false;
        const bool last = w.stop();
        const double gathered = now_ns();
        for (unsigned i = 0; moves && i < threads_; ++i)
            if (!requeue(from, to, w))
                return lose(w);
        if (last)
            lw_write_u32_release(&over_, 1); // pairs with wait()'s acquire
        const double requeued = now_ns();
        std::uint64_t before = 0;
        for (unsigned i = 0; i < threads_; ++i)
            if (!wake_one(to, round, i, before, w))
                return lose(w);
        const double woken = now_ns();
        block_ms_.push_back((gathered - start) / 1e6);
        requeue_ms_.push_back((requeued - gathered) / 1e6);
        wake_ms_.push_back((woken - requeued) / 1e6);
        ++rounds_;
        w.done();
        return !last;
    }

    // A waiter is missing: a failure; the others are released.
    bool lose(Worker &w) {
        ++w.broken[lost];
        lw_write_u32_release(&over_, 1);
        for (std::uint32_t who = 1; who <= threads_; ++who)
            rouse(who);
        return false;
    }

    // Both buckets locked, always in the same order, as for any two locks.
    bool requeue(Bucket &from, Bucket &to, Worker &w) {
        Bucket &first = &from < &to ? from : to, &second = &from < &to ? to : from;
        Seat one = w.seat, two = w.seat;
        if (!enter(first, one, w) || !enter(second, two, w))
            return false;
        const std::uint32_t who = pop(from);
        if (who) {
            lw_dec_u32(&from.waiters);
            lw_inc_u32(&to.waiters);
            push(to, who);
        }
        leave(second, two, w);
        leave(first, one, w);
        return who != 0;
    }

    bool wake_one(Bucket &bucket, std::uint32_t round, unsigned nth, std::uint64_t &before, Worker &w) {
        if (!enter(bucket, w.seat, w))
            return false;
        const std::uint32_t who = pop(bucket);
        const bool expected = who && waiters_[who - 1].round == round;
        if (expected) {
            const std::uint64_t place = waiters_[who - 1].sequence;
            if (nth && place <= before)
                ++w.broken[order];
            before = place;
            lw_dec_u32(&bucket.waiters);
        }
        leave(bucket, w.seat, w);
        if (expected)
            rouse(who);
        return expected;
    }

    const unsigned threads_;
    std::vector<Waiter> waiters_;
    std::array<Bucket, 2> buckets_; // those that the two keys fall into
    alignas(apart) std::uint32_t arrived_ = 0;
    alignas(apart) std::uint32_t over_ = 0;
    alignas(apart) std::uint64_t rounds_ = 0;
    std::vector<double> block_ms_, requeue_ms_, wake_ms_;
};

} // namespace lw::workload
