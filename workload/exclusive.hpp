// SPDX-License-Identifier: MIT
// The workload of a lock that lets one thread in: critical sections write what the lock protects and notice an overlap.
#pragma once

#include "workload/worker.hpp"

#include <concepts>

namespace lw::workload {

// What a lock protects: one line, changed in every critical section and the same again only if no other thread was inside.
struct alignas(apart) Protected {
    Watched<std::uint64_t> count = 0, mirror = 0;
    Watched<std::uint32_t> owner = 0; // id + 1 of the thread inside
    Watched<std::uint32_t> last = 0;  // id + 1 of the thread that was inside before
};

template <class Lock> class Exclusive {
public:
    explicit Exclusive(const Options &options) : lock_(options.threads) {}

    static unsigned extra_threads(unsigned) { return 0; }

    bool once(Worker &w) {
        if (w.stop())
            return false;
        if (!w.timed([&] { return lock_.lock(w.seat, w.patience); }))
            return false;
        section(w);
        lock_.unlock(w.seat, w.patience);
        w.done();
        return true;
    }

    void verify(Result &result) const {
        const std::uint64_t done = result.all_operations;
        const std::string sections = std::to_string(done) + " critical sections";
        if (data_.count != done || data_.mirror != done)
            result.failures.push_back(sections + " left a count of " + std::to_string(data_.count) + " and " +
                                      std::to_string(data_.mirror));
        result.checks.push_back(sections + ", never two at once, no write lost");
        if constexpr (in_order)
            result.checks.push_back("served in the order of arrival");
    }

private:
    static constexpr bool by_ticket = std::derived_from<Lock, Ticket_lock>;
    static constexpr bool by_queue = std::derived_from<Lock, Mcs_lock>;
    static constexpr bool in_order = by_ticket || by_queue;

    void section(Worker &w) {
        const std::uint32_t me = w.id + 1;
        const std::uint64_t before = data_.count;
        const bool alone = data_.owner == 0 && data_.mirror == before;
        data_.owner = me;
        // The number drawn counts the sections before this one; the thread queued behind was the last one inside.
        if (by_ticket && static_cast<std::uint32_t>(before) != w.seat.ticket)
            ++w.broken[order];
        if (by_queue && w.seat.behind != 0 && data_.last != w.seat.behind)
            ++w.broken[order];
        w.hold();
        data_.count = before + 1;
        data_.mirror = data_.mirror + 1;
        if (!alone || data_.owner != me || data_.mirror != before + 1)
            ++w.broken[overlap];
        data_.last = me;
        data_.owner = 0;
    }

    Lock lock_;
    Protected data_;
};

} // namespace lw::workload
