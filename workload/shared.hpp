// SPDX-License-Identifier: MIT
// Workloads whose threads are together on the line: a reference count, a reader-writer lock, a turn that is handed on.
#pragma once

#include "workload/worker.hpp"

namespace lw::workload {

// The counting of a Refcount, apart from it so that a test can break it.
struct Counting {
    static void get(std::uint32_t *count) { lw_inc_u32(count); } // relaxed: the caller has a reference already
    // True for the thread that drops the last one; its full order pairs with every other thread's put, and so the release of
    // the object comes after all use of it.
    static bool put(std::uint32_t *count) { return lw_dec_and_test_u32(count); }
};

// One object, held once by the run itself: get a reference, use the object, put the reference.
template <class Count = Counting> class Refcount {
public:
    explicit Refcount(const Options &) {}

    static unsigned extra_threads(unsigned) { return 0; }

    bool once(Worker &w) {
        if (w.stop())
            return false;
        w.timed([&] {
            Count::get(&count_);
            return true;
        });
        if (lw_read_u32_relaxed(&released_)) // while a reference is held no thread may release
            ++w.broken[dead];
        w.hold();
        put();
        w.done();
        return true;
    }

    void verify(Result &result) {
        const std::uint32_t early = lw_read_u32_relaxed(&released_);
        put();
        const std::uint32_t count = lw_read_u32_relaxed(&count_), released = lw_read_u32_relaxed(&released_);
        if (early || count != 0 || released != 1)
            result.failures.push_back("the last reference left a count of " +
                                      std::to_string(static_cast<std::int32_t>(count)) + ", released " +
                                      std::to_string(released) + " times, " + std::to_string(early) + " too early");
        result.checks.push_back(std::to_string(result.all_operations) +
                                " references got and put; the count ended at 0, the object was released once, by the last");
    }

private:
    void put() {
        if (Count::put(&count_))
            lw_inc_u32(&released_);
    }

    alignas(apart) std::uint32_t count_ = 1;
    alignas(apart) std::uint32_t released_ = 0; // a stand-in for freeing
};

// Readers and writers of two words that a writer makes differ and match again.
template <class Lock = Rw_lock> class Reader_writer {
public:
    explicit Reader_writer(const Options &options) : lock_(options.threads), written_(options.threads) {}

    static unsigned extra_threads(unsigned) { return 0; }

    bool once(Worker &w) {
        if (w.stop())
            return false;
        const bool writes = w.random() % 100 < w.options.write_percent;
        if (!w.timed([&] { return writes ? lock_.write_lock(w.patience) : lock_.read_lock(w.patience); }))
            return false;
        if (writes) {
            write(w);
            lock_.write_unlock();
        } else {
            read(w);
            lock_.read_unlock();
        }
        w.done();
        return true;
    }

    void verify(Result &result) const {
        std::uint64_t writes = 0;
        for (const Count &own : written_)
            writes += own.writes;
        if (a_ != writes || b_ != writes)
            result.failures.push_back(std::to_string(writes) + " writes left the words at " + std::to_string(a_) + " and " +
                                      std::to_string(b_));
        result.checks.push_back(std::to_string(writes) + " writes, none lost; " +
                                std::to_string(result.all_operations - writes) + " reads, none of them saw half a write");
    }

private:
    struct alignas(apart) Count {
        std::uint64_t writes = 0;
    };

    void write(Worker &w) {
        const std::uint64_t before = a_;
        a_ = before + 1;
        w.hold();
        if (b_ != before || a_ != before + 1)
            ++w.broken[overlap];
        b_ = before + 1;
        ++written_[w.id].writes;
    }

    void read(Worker &w) {
        const std::uint64_t first = a_, second = b_;
        w.hold();
        if (first != second || a_ != first || b_ != second)
            ++w.broken[torn];
    }

    Lock lock_;
    alignas(apart) Watched<std::uint64_t> a_ = 0;
    Watched<std::uint64_t> b_ = 0;
    alignas(apart) std::vector<Count> written_;
};

// How a turn is handed on, apart from Handoff so that a test can break it.
struct Passing {
    static void pass(std::uint32_t *turn) { lw_inc_u32_release(turn); } // pairs with Handoff's acquire
};

// One word goes round: with N threads, thread i may go on at i, i + N, i + 2N … modulo 2^32.
template <class Pass = Passing> class Handoff {
public:
    explicit Handoff(const Options &options) : threads_(options.threads) {}

    static unsigned extra_threads(unsigned) { return 0; }

    bool once(Worker &w) {
        const std::uint32_t turn = static_cast<std::uint32_t>(w.operations * threads_ + w.id);
        if (!w.timed([&] { return comes(turn, w); }))
            return false;
        if (baton_ != turn)
            ++w.broken[overlap]; // what the thread before wrote is not visible, or another thread is inside too
        w.hold();
        if (baton_ != turn || lw_read_u32_relaxed(&turn_) != turn)
            ++w.broken[overlap];
        baton_ = turn + 1;
        Pass::pass(&turn_);
        w.done();
        return true;
    }

    void verify(Result &result) const {
        const auto done = static_cast<std::uint32_t>(result.all_operations);
        if (turn_ != done || baton_ != done)
            result.failures.push_back(std::to_string(result.all_operations) + " turns left the word at " +
                                      std::to_string(turn_) + " and what it guards at " + std::to_string(baton_) +
                                      ", modulo 2^32");
        result.checks.push_back(std::to_string(result.all_operations) +
                                " turns in order, each saw what the one before wrote");
    }

private:
    // Between two of its turns a thread may see the end, since others may have left already.
    bool comes(std::uint32_t turn, Worker &w) {
        Wait wait(w.patience);
        while (lw_read_u32_acquire(&turn_) != turn) // pairs with Passing's release
            if (w.stop() || !wait.again())
                return false;
        return !w.stop();
    }

    const std::uint32_t threads_;
    alignas(apart) std::uint32_t turn_ = 0;
    alignas(apart) Watched<std::uint32_t> baton_ = 0;
};

} // namespace lw::workload
