// SPDX-License-Identifier: MIT
// The coherence protocol of one line as a state machine without time: the engine and the exhaustive test run this same text.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace lw::model {

constexpr unsigned max_cores = 256;

// Invalid, shared clean, unique clean, unique dirty: the states of a line in one core's caches.
enum class State : std::uint8_t { I, SC, UC, UD };

// What a core asks of a line's home node. An upgrade is a read_unique by a core that still holds the line shared.
enum class Request : std::uint8_t { read_shared, read_unique, far_atomic };

constexpr bool is_unique(State state) { return state == State::UC || state == State::UD; }

// What a holder does when it is snooped: its state afterwards, and whether it sends its copy along.
struct Snooped {
    State after;
    bool supplies;
};

// The protocol table: row by request, column by the holder's state (I, SC, UC, UD).
constexpr std::array<std::array<Snooped, 4>, 3> snoop_table{{
    // read_shared: every cache keeps a clean copy; the unique holder supplies it
    {{{State::I, false}, {State::SC, false}, {State::SC, true}, {State::SC, true}}},
    // read_unique: no cache keeps a copy
    {{{State::I, false}, {State::I, false}, {State::I, true}, {State::I, true}}},
    // far_atomic: the home performs the operation on the only copy, so no cache keeps one
    {{{State::I, false}, {State::I, false}, {State::I, true}, {State::I, true}}},
}};

constexpr Snooped snooped(Request request, State state) {
    return snoop_table[static_cast<unsigned>(request)][static_cast<unsigned>(state)];
}

// The state in which the requester holds the line once its transaction is granted; `others` is whether another core holds
// it.
constexpr State granted(Request request, State before, bool others) {
    switch (request) {
    case Request::read_shared: return is_unique(before) ? before : others ? State::SC : State::UC;
    case Request::read_unique: return is_unique(before) ? before : State::UC;
    case Request::far_atomic: return State::I;
    }
    return State::I;
}

// A set of cores.
class Cores {
public:
    void set(unsigned core) { words_[core >> 6] |= std::uint64_t{1} << (core & 63); }
    void clear(unsigned core) { words_[core >> 6] &= ~(std::uint64_t{1} << (core & 63)); }
    bool test(unsigned core) const { return words_[core >> 6] >> (core & 63) & 1; }
    bool none() const { return !(words_[0] | words_[1] | words_[2] | words_[3]); }
    bool operator==(const Cores &) const = default;

    template <class Visit> void for_each(Visit visit) const {
        for (unsigned word = 0; word < words_.size(); ++word)
            for (std::uint64_t bits = words_[word]; bits; bits &= bits - 1)
                visit(word * 64 + static_cast<unsigned>(std::countr_zero(bits)));
    }

private:
    std::array<std::uint64_t, max_cores / 64> words_{};
};

// One line: every core's state, the home's record of who may hold a copy, and the transaction that the home is busy with.
// The home serialises: a transaction begins only when the one before it has been acknowledged.
class Line {
public:
    explicit Line(unsigned cores) : states_(cores, State::I) {}

    State state(unsigned core) const { return states_[core]; }
    bool busy() const { return busy_; }
    Request request() const { return request_; }
    unsigned requester() const { return requester_; }
    const Cores &unanswered() const { return unanswered_; }
    const Cores &holders() const { return holders_; }
    unsigned cores() const { return static_cast<unsigned>(states_.size()); }

    // A core that holds the line unique writes it: silent, the home is not asked.
    void write(unsigned core) { states_[core] = State::UD; }

    // For a test or a cell that starts elsewhere than with every cache empty.
    void preset(unsigned core, State state) {
        states_[core] = state;
        state == State::I ? holders_.clear(core) : holders_.set(core);
    }

    // The home takes up a transaction and snoops every core whose copy must change: see unanswered().
    void begin(unsigned core, Request request) {
        busy_ = true;
        requester_ = core;
        request_ = request;
        unanswered_ = {};
        // A core that asks to read holds no other copy than the one it upgrades; it does not snoop itself.
        const bool itself = request == Request::far_atomic;
        holders_.for_each([&](unsigned holder) {
            if (holder == core && !itself)
                return;
            // The home knows unique holders from shared ones; a shared copy survives another reader.
            if (request == Request::read_shared && states_[holder] == State::SC)
                return;
            unanswered_.set(holder);
        });
    }

    // Whether the newest value is in the core's cache alone, and memory has an old one.
    bool dirty(unsigned core) const { return states_[core] == State::UD; }

    // A snooped core answers; true when it sends its copy.
    bool answer(unsigned core) {
        const Snooped rule = snooped(request_, states_[core]);
        states_[core] = rule.after;
        if (rule.after == State::I)
            holders_.clear(core);
        unanswered_.clear(core);
        return rule.supplies;
    }

    // Every snoop is answered: the requester gets the line in the state that the table says.
    State grant() {
        Cores others = holders_;
        others.clear(requester_);
        const State after = granted(request_, states_[requester_], !others.none());
        states_[requester_] = after;
        after == State::I ? holders_.clear(requester_) : holders_.set(requester_);
        return after;
    }

    // The acknowledgement has arrived: the home is free for the next transaction.
    void release() { busy_ = false; }

    // Single writer or many readers, and no copy that the home does not know of.
    bool coherent() const {
        unsigned unique = 0, shared = 0;
        for (unsigned core = 0; core < cores(); ++core) {
            unique += is_unique(states_[core]);
            shared += states_[core] == State::SC;
            if (states_[core] != State::I && !holders_.test(core))
                return false;
        }
        return unique == 0 || (unique == 1 && shared == 0);
    }

private:
    std::vector<State> states_;
    Cores holders_, unanswered_;
    unsigned requester_ = 0;
    Request request_ = Request::read_shared;
    bool busy_ = false;
};

} // namespace lw::model
