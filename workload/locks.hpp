// SPDX-License-Identifier: MIT
// The locks of the workloads, on the library's operations, so that LINEWRIGHT_ATOMICS reaches every one of them.
//
// Each has lock(seat, patience), which returns false when the run was given up, and unlock(seat, patience). A seat is what
// one thread brings to one lock; its id counts from 0. Words that threads fight for have 256 bytes to themselves.
#pragma once

#include "workload/wait.hpp"

#include <linewright/atomic.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lw::workload {

constexpr std::size_t apart = 256; // two 128-byte lines: some parts fetch lines in pairs

struct Seat {
    std::uint32_t id = 0;
    std::uint32_t ticket = 0; // ticket lock: the number drawn
    std::uint32_t behind = 0; // queue lock: id + 1 of the thread queued before this one, 0 for none
};

// Test-and-set: the thread that exchanges a 0 for a 1 has it. Waits by reading, so that waiters share the line.
class Spinlock {
public:
    explicit Spinlock(unsigned) {}

    bool lock(Seat &, const Patience &patience) {
        Wait wait(patience);
        while (lw_xchg_u32_acquire(&word_, 1)) // pairs with unlock()'s release
            while (lw_read_u32_relaxed(&word_)) // decides nothing: the exchange does
                if (!wait.again())
                    return false;
        return true;
    }

    void unlock(Seat &, const Patience &) { lw_write_u32_release(&word_, 0); } // pairs with the exchange in lock()

private:
    alignas(apart) std::uint32_t word_ = 0;
};

// Draw a number, wait until it is served: first come, first served.
class Ticket_lock {
public:
    explicit Ticket_lock(unsigned) {}

    bool lock(Seat &seat, const Patience &patience) {
        Wait wait(patience);
        seat.ticket = lw_fetch_add_u32_relaxed(&next_, 1); // only the number matters; serving_ carries the order
        while (lw_read_u32_acquire(&serving_) != seat.ticket) // pairs with unlock()'s release
            if (!wait.again())
                return false;
        return true;
    }

    void unlock(Seat &seat, const Patience &) {
        lw_write_u32_release(&serving_, seat.ticket + 1);
    } // pairs with lock()'s acquire

private:
    alignas(apart) std::uint32_t next_ = 0;
    std::uint32_t serving_ = 0; // on the same line, as in the locks that this one stands for
};

// A queue of waiters (Mellor-Crummey and Scott): each polls a word of its own, and the holder passes the lock to its heir.
class Mcs_lock {
public:
    explicit Mcs_lock(unsigned threads) : nodes_(threads + 1) {}

    bool lock(Seat &seat, const Patience &patience) {
        const std::uint32_t me = seat.id + 1;
        Node &node = nodes_[me];
        lw_write_u32(&node.heir, 0);    // both seen by the thread behind, after its exchange of tail_
        lw_write_u32(&node.waiting, 1);
        seat.behind = lw_xchg_u32_acq_rel(&tail_, me); // acquire: unlock()'s emptying of the queue; release: the two above
        if (seat.behind == 0)
            return true;
        lw_write_u32_release(&nodes_[seat.behind].heir, me); // pairs with heir_of()
        Wait wait(patience);
        while (lw_read_u32_acquire(&node.waiting)) // pairs with unlock()'s last release
            if (!wait.again())
                return false;
        return true;
    }

    void unlock(Seat &seat, const Patience &patience) {
        const std::uint32_t me = seat.id + 1;
        std::uint32_t heir = heir_of(me);
        if (heir == 0) {
            if (lw_cmpxchg_u32_release(&tail_, me, 0) == me) // pairs with the next lock()'s exchange
                return;
            Wait wait(patience); // a thread has queued but not yet published its node
            while ((heir = heir_of(me)) == 0)
                if (!wait.again())
                    return;
        }
        lw_write_u32_release(&nodes_[heir].waiting, 0); // pairs with lock()'s acquire
    }

private:
    struct alignas(apart) Node {
        std::uint32_t waiting = 0;
        std::uint32_t heir = 0;
    };

    std::uint32_t heir_of(std::uint32_t me) const { return lw_read_u32_acquire(&nodes_[me].heir); }

    alignas(apart) std::uint32_t tail_ = 0;
    std::vector<Node> nodes_; // [0] belongs to no thread
};

// Many readers or one writer, by one counter. A waiting writer holds new readers back.
class Rw_lock {
public:
    explicit Rw_lock(unsigned) {}

    bool read_lock(const Patience &patience) {
        Wait wait(patience);
        while (lw_fetch_add_u32_acquire(&word_, reader) & (writing | wanted)) { // pairs with write_unlock()'s release
            lw_sub_u32(&word_, reader); // it read nothing, so there is nothing to order
            while (lw_read_u32_relaxed(&word_) & (writing | wanted)) // decides nothing: the addition does
                if (!wait.again())
                    return false;
        }
        return true;
    }

    void read_unlock() { lw_sub_u32_release(&word_, reader); } // pairs with write_lock()'s acquire

    bool write_lock(const Patience &patience) {
        Wait wait(patience);
        for (;;) {
            std::uint32_t seen = lw_read_u32_relaxed(&word_); // decides nothing: the compare-and-swap does
            if ((seen & ~wanted) == 0) {
                if (lw_cmpxchg_u32_acquire(&word_, seen, writing) == seen) // pairs with both unlocks' releases
                    return true;
            } else if (!(seen & wanted)) {
                lw_or_u32(&word_, wanted);
            }
            if (!wait.again())
                return false;
        }
    }

    // Clears its own bit alone: readers that came and are about to leave again are still counted in the word.
    void write_unlock() { lw_andnot_u32_release(&word_, writing); } // pairs with the acquires in both lock functions

private:
    static constexpr std::uint32_t writing = 1, wanted = 2, reader = 4;

    alignas(apart) std::uint32_t word_ = 0;
};

} // namespace lw::workload
