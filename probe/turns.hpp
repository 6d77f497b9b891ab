// SPDX-License-Identifier: MIT
// Cells in which two threads take turns on one line, which counts: even values are the timed thread's turn.
#pragma once

#include "probe/line_set.hpp"
#include "probe/subject.hpp"

#include <optional>
#include <span>
#include <vector>

namespace lw::probe {

// Lines of words, on which a round trip adds two, and each thread's next turn. A loop's `state` is its thread's `Turn`.
template <class Word> class Turns : public Subject {
public:
    struct Turn {
        Word next; // the value at which it is this thread's turn
    };

    unsigned lines() const override { return lines_.count(); }

    Loop_args arguments(unsigned thread, unsigned line) override {
        const auto value = lines_.template load<Word>(line); // odd where the timed thread has begun
        turns_[thread].turn.next = static_cast<Word>(value - value % 2 + thread);
        Loop_args args;
        args.target = lines_.line(line);
        set_work(args, cell_, thread);
        args.state = &turns_[thread].turn;
        return args;
    }

    void account(unsigned line, std::span<const Loop_args>, std::span<const std::uint64_t> ops) override {
        trips_[line] += ops[0];
    }

    // Every round trip advanced the word by exactly two.
    std::optional<Check> check() override {
        Check sum;
        for (unsigned line = 0; line < lines_.count(); ++line)
            sum.add(static_cast<Word>(2 * trips_[line]), lines_.template load<Word>(line));
        return sum;
    }

protected:
    explicit Turns(const wire::Cell &cell) : cell_(cell), lines_(cell.lines), trips_(cell.lines, 0), turns_(cell.threads) {}

    const wire::Cell cell_;

private:
    struct alignas(256) Slot {
        Turn turn{};
    };
    Line_set lines_;
    std::vector<std::uint64_t> trips_;
    std::vector<Slot> turns_; // by thread
};

} // namespace lw::probe
