// SPDX-License-Identifier: MIT
// The family of core-to-core handoffs: two threads take turns on one line, under three stated definitions.
//
//   cmpxchg_blind  each side tries to swap "my turn" for "your turn" and does nothing else until it succeeds
//   load_cmpxchg   each side loads until it sees its turn, then swaps: the line arrives shared and must be upgraded
//   store_load     each side loads until it sees its turn, then stores: no locked operation at all
//
// One operation is a round trip, two handoffs.
#include "probe/families.hpp"

#include "probe/machine.hpp"
#include "probe/turns.hpp"
#include "wire/forms.hpp"

#include <linewright/arch/forms.h>
#include <linewright/arch/measure.h>

namespace lw::probe {
namespace {
inline namespace place0 {

// The word that both sides work on.
using Word = std::uintptr_t;

[[gnu::always_inline]] inline bool swap_turn(Word *line, Word expected, Word desired) {
    return LW_WORD_SWAP(line, expected, desired);
}

struct Blind {
    [[gnu::always_inline]] static bool take(Word *line, Word turn) {
        return swap_turn(line, turn, static_cast<Word>(turn + 1));
    }
};

struct Load_first {
    [[gnu::always_inline]] static bool take(Word *line, Word turn) {
        // Relaxed: the line itself is all that is handed over, nothing else is published by it.
        return __atomic_load_n(line, __ATOMIC_RELAXED) == turn && swap_turn(line, turn, static_cast<Word>(turn + 1));
    }
};

struct Store_load {
    [[gnu::always_inline]] static bool take(Word *line, Word turn) {
        if (__atomic_load_n(line, __ATOMIC_RELAXED) != turn)
            return false;
        __atomic_store_n(line, static_cast<Word>(turn + 1), __ATOMIC_RELAXED); // pairs with the other side's load
        return true;
    }
};

using Turn = Turns<Word>::Turn;

// The timed side: waits for its turn as long as it takes; the other side answers until the window is over.
template <class Definition> void ask(Loop_args &args) {
    Word *line = static_cast<Word *>(args.target);
    auto *turn = static_cast<Turn *>(args.state);
    Word next = turn->next;
    repeat(args, [&]() __attribute__((always_inline)) {
        while (!Definition::take(line, next)) {
        }
        next = static_cast<Word>(next + 2);
    });
    // A round trip is over when the answer is there: leave the line at this thread's turn.
    while (__atomic_load_n(line, __ATOMIC_RELAXED) != next) {
    }
    turn->next = next;
}

// The other side: answers, but checks for the end after a bounded number of empty polls, because no question may come.
template <class Definition> void answer(Loop_args &args) {
    Word *line = static_cast<Word *>(args.target);
    auto *turn = static_cast<Turn *>(args.state);
    const std::size_t asked = args.ops;
    Word next = turn->next;
    std::size_t answered = 0;
    for (unsigned empty_polls = 0; answered < asked && empty_polls < 2000;) {
        if (Definition::take(line, next)) {
            next = static_cast<Word>(next + 2);
            ++answered;
            empty_polls = 0;
        } else {
            ++empty_polls;
        }
    }
    turn->next = next;
    args.ops = answered;
}

void no_handoff(Loop_args &args) {
    repeat(args, [] { lw_nop(); });
}

class Handoff final : public Turns<Word> {
public:
    Handoff(const wire::Cell &cell, Batch ask, Batch answer) : Turns(cell), ask_(ask), answer_(answer) {}

    Batch loop(unsigned thread) const override { return thread == 0 ? ask_ : answer_; }
    Batch baseline(unsigned) const override { return no_handoff; }
    std::string baseline_key() const override {
        return "handoff/" + cell_.work + std::to_string(cell_.work_iters) + cell_.placement;
    }

    void metrics(std::map<std::string, double> &values) override { values["handoffs_per_operation"] = 2; }

private:
    Batch ask_, answer_;
};

Made make(const wire::Cell &cell, const Machine &machine) {
    const wire::Form *form = wire::find_form(cell.form, cell.width_bits);
    if (!form || form->operation != cell.operation)
        return {nullptr, "this architecture has no form " + cell.form + " for " + cell.operation};
    if (!machine.has(form->needs))
        return lacking(form->needs, cell);
    if (cell.contender != "same_line" || cell.threads != 2)
        throw wire::Invalid(cell.id() + ": a handoff is between 2 threads on the same_line");
    if (cell.contender_iters != 0 || !cell.params.empty())
        throw wire::Invalid(cell.id() + ": a handoff takes neither contender_iters nor parameters");
    if (cell.form == "cmpxchg_blind")
        return {std::make_unique<Handoff>(cell, ask<Blind>, answer<Blind>), ""};
    if (cell.form == "load_cmpxchg")
        return {std::make_unique<Handoff>(cell, ask<Load_first>, answer<Load_first>), ""};
    return {std::make_unique<Handoff>(cell, ask<Store_load>, answer<Store_load>), ""};
}

} // namespace place0
} // namespace

template <> const Family Families_at<0>::handoff{"handoff", make};

} // namespace lw::probe
