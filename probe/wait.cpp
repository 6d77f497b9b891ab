// SPDX-License-Identifier: MIT
// The family of waiting: how long a round of each hint is, how long after a store its waiter goes on, and what waiters cost the thread that
// they wait for.
//
// wait_woken: the word counts wake-ups. Each side waits for its turn by the hint and stores the next value, with release, so one operation is
// a round trip: two stores, each with the wake-up of the other side.
//
// wait_held: the timed thread holds a lock, and the others wait by the hint for a turn that does not come. One operation is a section, which is
// the cell's work, and its end: the word is loaded and counted on, with release, as the unlock of a ticket lock does, so that every waiter
// looks again. Parameter `preempted`: a thread of equal priority wants the holder's CPU meanwhile.
#include "probe/families.hpp"

#include "probe/machine.hpp"
#include "probe/turns.hpp"
#include "probe/window.hpp"
#include "wire/forms.hpp"

#include <linewright/arch/measure.h>
#include <linewright/arch/select.h>
#include LW_ARCH_HEADER(wait.h)

#include <string_view>
#include <thread>

namespace lw::probe {
namespace {

using Word = std::uint32_t;

// One round of a hint on a word in which `seen` was found; of one that watches the rounds in vain that fill a tenth of a ms.
#define LW_DELAYS(name, needs)                                                             \
    struct Hint_##name {                                                                   \
        static constexpr unsigned in_vain = 2000;                                          \
        [[gnu::always_inline]] static void round(const Word *, Word) { lw_hint_##name(); } \
    };
#define LW_WATCHES(name, needs)                                                                                      \
    struct Hint_##name {                                                                                             \
        static constexpr unsigned in_vain = 3;                                                                       \
        [[gnu::always_inline]] static void round(const Word *word, Word seen) { lw_watch_##name##_u32(word, seen); } \
    };
LW_WAIT_HINTS(LW_DELAYS, LW_WATCHES)
#undef LW_DELAYS
#undef LW_WATCHES

template <class Hint> void rounds(Loop_args &args) {
    const Word *word = static_cast<Word *>(args.target);
    repeat(args, [word]() __attribute__((always_inline)) { Hint::round(word, 0); });
}

// Waits for `turn` for at most `rounds` rounds, or without end where there are none; acquire: pairs with give()'s release.
template <class Hint> [[gnu::always_inline]] inline bool arrives(const Word *word, Word turn, unsigned rounds = 0) {
    Word seen = 0;
    for (unsigned left = rounds; (seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != turn;) {
        if (rounds && left-- == 0)
            return false;
        Hint::round(word, seen);
    }
    return true;
}

[[gnu::always_inline]] inline void give(Word *word, Word turn) { __atomic_store_n(word, turn, __ATOMIC_RELEASE); }

using Turn = Turns<Word>::Turn;

// The timed side, whose turn it is before and after every operation.
template <class Hint> void wakes(Loop_args &args) {
    Word *word = static_cast<Word *>(args.target);
    auto *turn = static_cast<Turn *>(args.state);
    Word next = turn->next;
    repeat(args, [&]() __attribute__((always_inline)) {
        give(word, static_cast<Word>(next + 1));
        next = static_cast<Word>(next + 2);
        arrives<Hint>(word, next);
    });
    turn->next = next;
}

// The other side: it answers, and leaves after some rounds in vain, because no store may come any more.
template <class Hint> void answers(Loop_args &args) {
    Word *word = static_cast<Word *>(args.target);
    auto *turn = static_cast<Turn *>(args.state);
    const std::size_t asked = args.ops;
    for (args.ops = 0; args.ops < asked && arrives<Hint>(word, turn->next, Hint::in_vain); ++args.ops) {
        give(word, static_cast<Word>(turn->next + 1));
        turn->next = static_cast<Word>(turn->next + 2);
    }
}

void no_wait(Loop_args &args) {
    repeat(args, [] { lw_nop(); });
}

// Once begun, a thread that wants the CPU of the thread which began it, at its priority, until it is stopped.
class Competitor {
public:
    void begin() {
        if (thread_.joinable())
            return;
        begun_ = presence();
        thread_ = std::jthread([](std::stop_token stop) { // pinned as its maker is, whose policy it has, too
            while (!stop.stop_requested())
                for (int i = 0; i < 1000; ++i)
                    lw_nop();
        });
    }

    void stop() {
        if (!thread_.joinable())
            return;
        const Presence now = presence();
        wall_ns_ += now.wall_ns - begun_.wall_ns;
        ran_ns_ += now.ran_ns - begun_.ran_ns;
        thread_.request_stop();
        thread_.join();
    }

    // Of the time in which there was a competitor, the share in which its maker did not run.
    double away_share() const { return wall_ns_ > 0 ? 1 - ran_ns_ / wall_ns_ : 0; }

private:
    std::jthread thread_;
    Presence begun_{};
    double wall_ns_ = 0, ran_ns_ = 0;
};

// The holder's sections. Values are even.
void holds(Loop_args &args) {
    Word *word = static_cast<Word *>(args.target);
    if (args.state) // not in windows of the baseline, which run another loop
        static_cast<Competitor *>(args.state)->begin();
    repeat(args, [word]() __attribute__((always_inline)) {
        give(word, __atomic_load_n(word, __ATOMIC_RELAXED) + 2); // no other thread writes it
    });
}

// A waiter, whose turn does not come, so that it performs no section.
template <class Hint> void waits(Loop_args &args) {
    const Word *word = static_cast<Word *>(args.target);
    repeat(args, [word]() __attribute__((always_inline)) { arrives<Hint>(word, 1, 1); });
    args.ops = 0;
}

struct Loops {
    std::string_view hint;
    Batch rounds, wakes, answers, waits;
};

constexpr Loops every_hint[] = {
#define LW_ROW(name, needs) {#name, rounds<Hint_##name>, wakes<Hint_##name>, answers<Hint_##name>, waits<Hint_##name>},
    LW_WAIT_HINTS(LW_ROW, LW_ROW)
#undef LW_ROW
};

class Waiting final : public Turns<Word> {
public:
    Waiting(const wire::Cell &cell, const Loops &loops) : Turns(cell), loops_(loops) {}

    Batch loop(unsigned thread) const override {
        if (held())
            return thread > 0 ? loops_.waits : holds;
        return thread > 0 ? loops_.answers : alone() ? loops_.rounds : loops_.wakes;
    }
    Batch baseline(unsigned) const override { return no_wait; }
    std::string baseline_key() const override {
        return "wait/" + cell_.work + std::to_string(cell_.work_iters) + cell_.placement + std::to_string(cell_.threads);
    }
    unsigned small_batch_ops() const override { return alone() ? 1 : 0; }
    bool shares_cpu() const override { return preempted(); }

    Loop_args arguments(unsigned thread, unsigned line) override {
        Loop_args args = Turns::arguments(thread, line);
        if (held())
            args.state = thread == 0 && preempted() ? &competitor_ : nullptr;
        return args;
    }

    void leave(unsigned thread, Loop_args &) override {
        if (thread == 0)
            competitor_.stop();
    }

    void account(unsigned line, std::span<const Loop_args> args, std::span<const std::uint64_t> ops) override {
        if (!alone()) // a lone thread writes nothing
            Turns::account(line, args, ops);
    }

    void metrics(std::map<std::string, double> &values) override {
        if (cell_.operation == "wait_woken")
            values["wake_ups_per_operation"] = 2;
        if (preempted())
            values["holder_away_share"] = competitor_.away_share();
    }

private:
    bool alone() const { return cell_.operation == "wait_hint"; }
    bool held() const { return cell_.operation == "wait_held"; }
    bool preempted() const { return !cell_.params.empty(); }

    const Loops &loops_;
    Competitor competitor_;
};

bool preempts(const std::map<std::string, wire::Param> &params) {
    const auto found = params.find("preempted");
    return params.size() == 1 && found != params.end() && found->second == wire::Param{std::uint64_t{1}};
}

Made make(const wire::Cell &cell, const Machine &machine) {
    const wire::Form *form = wire::find_form(cell.form, cell.width_bits);
    if (!form || form->operation != cell.operation)
        return {nullptr, "this architecture has no form " + cell.form + " for " + cell.operation};
    if (!machine.has(form->needs))
        return lacking(form->needs, cell);
    if (cell.operation == "wait_woken" && (cell.contender != "same_line" || cell.threads != 2))
        throw wire::Invalid(cell.id() + ": a wake-up is between 2 threads on the same_line");
    if (cell.operation == "wait_hint" && (cell.contender != "none" || cell.threads != 1))
        throw wire::Invalid(cell.id() + ": a hint is timed alone");
    if ((cell.contender == "none") != (cell.threads == 1))
        throw wire::Invalid(cell.id() + ": a holder is alone, or has contenders");
    if (cell.contender_iters != 0 || !(cell.params.empty() || (cell.operation == "wait_held" && preempts(cell.params))))
        throw wire::Invalid(cell.id() + ": waiting takes no contender_iters, and for wait_held one parameter, preempted=1");
    const std::string_view hint = std::string_view(cell.form).substr(cell.form.find('_') + 1);
    for (const Loops &loops : every_hint)
        if (loops.hint == hint)
            return {std::make_unique<Waiting>(cell, loops), ""};
    return {nullptr, "this probe has no form " + cell.form};
}

} // namespace

const Family wait_family{"wait", make};

} // namespace lw::probe
