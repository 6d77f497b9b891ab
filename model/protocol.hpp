// The coherence protocol of one line as a state machine without time: the engine and the exhaustive test run this same text.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace lw::model {

constexpr unsigned max_cores = 256;

// Invalid, shared clean, unique clean, unique dirty: the states of a line in one core's caches.
enum class State : std::uint8_t { I, SC, UC, UD };

// What a core asks of a line's home node. An upgrade is a read_unique by a core that still holds the line shared.
enum class Request : std::uint8_t { read_shared, read_unique, far_atomic, clean, clean_invalidate };

constexpr bool is_unique(State state) { return state == State::UC || state == State::UD; }

// What a holder does when it is snooped: its state afterwards, and whether it sends its copy along.
struct Snooped {
    State after;
    bool supplies;
};

// The protocol table: row by request, column by the holder's state (I, SC, UC, UD).
constexpr std::array<std::array<Snooped, 4>, 5> snoop_table{{
    // read_shared: every cache keeps a clean copy; the unique holder supplies it
    {{{State::I, false}, {State::SC, false}, {State::SC, true}, {State::SC, true}}},
    // read_unique: no cache keeps a copy
    {{{State::I, false}, {State::I, false}, {State::I, true}, {State::I, true}}},
    // far_atomic: the home performs the operation on the only copy, so no cache keeps one
    {{{State::I, false}, {State::I, false}, {State::I, true}, {State::I, true}}},
    // clean: written back, kept clean
    {{{State::I, false}, {State::SC, false}, {State::UC, false}, {State::UC, true}}},
    // clean_invalidate: written back, kept by no cache
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
    case Request::clean: return before; // what it was cleaned to when it answered; it may have been written since
    case Request::far_atomic:
    case Request::clean_invalidate: return State::I;
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
//
// Cores of one group share a cache. Within a group a copy passes from core to core without the home, and a group whose cores
// all hold the line shared may still own it: it was unique there before a second core of the group read it.
class Line {
public:
    explicit Line(unsigned cores) : Line(numbers(cores)) {}
    // `groups` has the number of each core's group.
    explicit Line(std::vector<unsigned> groups) : states_(groups.size(), State::I), groups_(std::move(groups)) {}

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
        busy_ = pending_ = true;
        requester_ = core;
        request_ = request;
        unanswered_ = {};
        // A core that asks to read holds no other copy than the one it upgrades; it does not snoop itself.
        const bool itself =
            request == Request::far_atomic || request == Request::clean || request == Request::clean_invalidate;
        holders_.for_each([&](unsigned holder) {
            if (holder == core && !itself)
                return;
            // The home knows unique holders from shared ones; a shared copy survives another reader.
            if (request == Request::read_shared && states_[holder] == State::SC && groups_[holder] != owner_)
                return;
            unanswered_.set(holder);
        });
    }

    // Whether the newest value is in the core's cache alone, and memory has an old one.
    bool dirty(unsigned core) const {
        return states_[core] == State::UD || (states_[core] == State::SC && groups_[core] == owner_ && owner_dirty_);
    }

    // Whether the core's group owns the line that its cores hold shared.
    bool owned_by_group(unsigned core) const { return groups_[core] == owner_; }

    // A snooped core answers; true when it sends its copy.
    bool answer(unsigned core) {
        Snooped rule = snooped(request_, states_[core]);
        if (groups_[core] == owner_) { // the first core of the group answers for the cache that they share
            rule.supplies = request_ != Request::clean || owner_dirty_;
            owner_ = no_group;
        }
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
        pending_ = false;
        states_[requester_] = after;
        after == State::I ? holders_.clear(requester_) : holders_.set(requester_);
        return after;
    }

    // The acknowledgement has arrived: the home is free for the next transaction.
    void release() { busy_ = false; }

    // Whether the cache that a core shares with others can serve its request to read alone: one of them holds the line
    // (unique, or as the group's own, where the request is for a unique copy), and no transaction of the home is about to
    // change that.
    bool within_group(unsigned core, Request request) const {
        bool held = false, unique = groups_[core] == owner_;
        for (unsigned other = 0; other < cores(); ++other) {
            if (groups_[other] != groups_[core])
                continue;
            if (pending_ && (unanswered_.test(other) || requester_ == other))
                return false;
            held |= other != core && states_[other] != State::I;
            unique |= other != core && is_unique(states_[other]);
        }
        return held && (unique || request == Request::read_shared);
    }

    // Serves such a request. The core's copy is then shared, or unique and as dirty as what was in the cache.
    void serve_within_group(unsigned core, Request request) {
        bool unique = false, dirty = groups_[core] == owner_ && owner_dirty_;
        for (unsigned other = 0; other < cores(); ++other) {
            if (other == core || groups_[other] != groups_[core] || states_[other] == State::I)
                continue;
            unique |= is_unique(states_[other]);
            dirty |= states_[other] == State::UD;
            preset(other, request == Request::read_shared ? State::SC : State::I);
        }
        if (request == Request::read_unique) {
            owner_ = no_group;
            preset(core, dirty ? State::UD : State::UC);
            return;
        }
        preset(core, State::SC);
        if (unique) {
            owner_ = groups_[core];
            owner_dirty_ = dirty;
        }
    }

    // Single writer or many readers, and no copy that the home does not know of.
    bool coherent() const {
        unsigned unique = 0, shared = 0;
        for (unsigned core = 0; core < cores(); ++core) {
            unique += is_unique(states_[core]);
            shared += states_[core] == State::SC;
            if (states_[core] != State::I && !holders_.test(core))
                return false;
        }
        if (owner_ != no_group)
            for (unsigned core = 0; core < cores(); ++core)
                if (states_[core] != State::I && groups_[core] != owner_)
                    return false;
        return unique == 0 || (unique == 1 && shared == 0 && owner_ == no_group);
    }

private:
    static constexpr unsigned no_group = ~0u;

    static std::vector<unsigned> numbers(unsigned count) {
        std::vector<unsigned> all(count);
        std::iota(all.begin(), all.end(), 0u);
        return all;
    }

    std::vector<State> states_;
    std::vector<unsigned> groups_;
    unsigned owner_ = no_group; // the group that owns the line though its cores hold it shared
    bool owner_dirty_ = false;
    Cores holders_, unanswered_;
    unsigned requester_ = 0;
    Request request_ = Request::read_shared;
    bool busy_ = false;
    bool pending_ = false; // begun and not granted
};

} // namespace lw::model
