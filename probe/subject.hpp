// SPDX-License-Identifier: MIT
// What a cell times: memory, the loops over it, and the check of what they left behind.
//
// A family of plans (single-line read-modify-writes, per-CPU counters, readers, cache maintenance …) implements Subject
// as probe/families.hpp says. The window and block code knows nothing of any family.
#pragma once

#include "probe/loop.hpp"
#include "wire/schema.hpp"

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lw::probe {

struct Machine;

// Final value of the memory against what the operations add up to.
struct Check {
    std::uint64_t expected = 0;
    std::uint64_t found = 0;

    // One more word. The first wrong one stands alone, so that no other word's fault makes up for it.
    void add(std::uint64_t word_expected, std::uint64_t word_found) {
        if (expected != found)
            return;
        const bool right = word_expected == word_found;
        expected = word_expected + (right ? expected : 0);
        found = word_found + (right ? found : 0);
    }
};

class Subject {
public:
    virtual ~Subject() = default;

    // Lines (or slots) that windows rotate over, one per window.
    virtual unsigned lines() const = 0;

    // The loop that a thread runs; thread 0 is the timed one.
    virtual Batch loop(unsigned thread) const = 0;

    // The same loop with the operation left out: the baseline of thread 0 and what a placebo runs.
    virtual Batch baseline(unsigned thread) const = 0;

    // Cells whose baselines are the same loop share its windows; equal keys say so.
    virtual std::string baseline_key() const = 0;

    // Each operation followed by what really waits for it, and the wait alone; null where that has no meaning.
    virtual Batch completed() const { return nullptr; }
    virtual Batch completed_baseline() const { return nullptr; }

    // Called on the thread, pinned and before the window opens: where it may touch memory or register itself.
    virtual Loop_args arguments(unsigned thread, unsigned line) = 0;

    // Called on the thread after its last batch of a window, still pinned.
    virtual void leave(unsigned thread, Loop_args &args) { (void)thread, (void)args; }

    // Called when all threads of a window have ended: `args` and `ops` by thread, every operation counted.
    virtual void account(unsigned line, std::span<const Loop_args> args, std::span<const std::uint64_t> ops) = 0;

    // Called at the end of the cell; no value where there is nothing that adds up.
    virtual std::optional<Check> check() = 0;

    // Whether a thread may sleep inside its operations, waiting for another: its windows are then not discarded for it.
    virtual bool may_sleep(unsigned thread) const { return (void)thread, false; }

    // Whether the timed thread shares its CPU with a thread of the subject's: it runs at no higher priority than that one, and what it waits
    // for the CPU is part of its operations.
    virtual bool shares_cpu() const { return false; }

    // Operations in a sample of the small-batch percentiles; 0: the family has none.
    virtual unsigned small_batch_ops() const { return 0; }

    // Quantities particular to the family, added to the record.
    virtual void metrics(std::map<std::string, double> &values) { (void)values; }
};

inline Work_kind work_kind(const wire::Cell &cell) {
    return cell.work == "chain" ? Work_kind::chain : cell.work == "memory" ? Work_kind::memory : Work_kind::nop_loop;
}

// The work of a cell's thread: that of the cell for the timed one, and a contender's spacing in iterations of the NOP loop.
inline void set_work(Loop_args &args, const wire::Cell &cell, unsigned thread) {
    args.work = thread == 0 ? cell.work_iters : cell.contender_iters;
    args.work_kind = thread > 0 ? Work_kind::nop_loop : work_kind(cell);
}

// A subject, or the one-sentence reason why this machine cannot run the cell; throws wire::Invalid for a cell that
// makes no sense anywhere.
struct Made {
    std::unique_ptr<Subject> subject;
    std::string unavailable;
};

// The answer where a form's instructions are missing.
inline Made lacking(std::string_view needs, const wire::Cell &cell) {
    return {nullptr, "this CPU lacks " + std::string(needs) + ", which form " + cell.form + " needs"};
}

struct Family {
    std::string_view name;
    Made (*make)(const wire::Cell &, const Machine &);
};

Made make_subject(const wire::Cell &cell, const Machine &machine);

} // namespace lw::probe
