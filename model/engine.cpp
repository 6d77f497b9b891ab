// SPDX-License-Identifier: MIT
// Time, messages and cores; what a line's states do is in protocol.hpp.
#include "model/engine.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace lw::model {
namespace {

constexpr Ps never = std::numeric_limits<Ps>::max();

// A debug build checks every run; a release build those that ask for it.
#ifdef NDEBUG
constexpr bool always_checked = false;
#else
constexpr bool always_checked = true;
#endif

// SplitMix64: small, integral, the same everywhere.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    Ps below(Ps bound) { return bound > 0 ? static_cast<Ps>(next() % static_cast<std::uint64_t>(bound)) : 0; }

private:
    std::uint64_t state_;
};

enum class Message : std::uint8_t { core, request, snoop, grant, far_done, free };

struct Event {
    Ps time;
    std::uint32_t sequence; // order of sending: ties are broken the same way everywhere
    Message message;
    Request request;
    bool conditional; // an exclusive store's upgrade: the home refuses it when the requester has lost its copy
    std::uint16_t core;
    std::uint16_t line;

    bool operator>(const Event &other) const {
        return time != other.time ? time > other.time : static_cast<std::int32_t>(sequence - other.sequence) > 0;
    }
};

// A binary heap of events, earliest first: the cost of an event grows with the logarithm of those under way.
class Events {
public:
    bool empty() const { return heap_.empty(); }
    const Event &top() const { return heap_.front(); }
    std::size_t size() const { return heap_.size(); }
    Ps next_time() const { return heap_.empty() ? never : heap_.front().time; }
    void push(const Event &event) {
        heap_.push_back(event);
        std::push_heap(heap_.begin(), heap_.end(), std::greater<>{});
    }
    Event pop() {
        std::pop_heap(heap_.begin(), heap_.end(), std::greater<>{});
        Event event = heap_.back();
        heap_.pop_back();
        return event;
    }
    const std::vector<Event> &all() const { return heap_; }

private:
    std::vector<Event> heap_;
};

struct Entry {
    std::uint64_t order;       // program order, counted over all dispatched operations
    std::uint64_t instruction; // the same in instructions, for the window
    std::uint32_t step;
    std::uint16_t line;
    bool asked; // its far request is under way
};

// A queue of bounded length that can drop its youngest entries.
class Queue {
public:
    void reserve(std::size_t most) {
        std::size_t size = 1;
        while (size < most + 1)
            size *= 2;
        ring_.resize(size);
        mask_ = size - 1;
    }
    bool empty() const { return first_ == end_; }
    std::size_t size() const { return end_ - first_; }
    Entry &front() { return ring_[first_ & mask_]; }
    const Entry &front() const { return ring_[first_ & mask_]; }
    const Entry &back() const { return ring_[(end_ - 1) & mask_]; }
    void push(const Entry &entry) { ring_[end_++ & mask_] = entry; }
    void pop() { ++first_; }
    void pop_back() { --end_; }

private:
    std::vector<Entry> ring_;
    std::size_t first_ = 0, end_ = 0, mask_ = 0;
};

struct Core {
    const Program *program = nullptr;
    std::uint32_t step = 0;
    std::uint64_t work_left = 0; // of the work step under way; 0: not begun
    Ps front = 0;                // when the next step can be dispatched
    std::uint64_t order = 0, instruction = 0;
    Queue loads, stores;
    Ps load_end = never, store_end = never; // end of the execution under way
    Ps idle_until = 0;           // a spinning or retrying head starts again no earlier
    std::uint32_t far_under_way = 0;
    bool monitor = false;
    std::uint16_t monitored = 0;
    std::uint64_t seen = 0;
    bool retrying = false;
    Ps scheduled = never; // time of its pending core event
    std::uint64_t ops = 0;
    bool dropped = false;        // a prefetch was dropped since the last far operation
};

// A line with its home's bookkeeping.
struct Place {
    explicit Place(unsigned cores) : line(cores) {}
    Line line;
    unsigned home = 0;
    Cores fills, fars; // cores with a request under way
    Cores reads, behind; // of these: the request is for a shared copy; one for a unique copy follows it
    Cores deferred;    // cores whose snoop waits for the end of an execution
    Ps ready = 0;      // when the slowest answer reaches the requester (or the home)
    bool supplied = false, extra = false, had_copy = false;
    std::uint64_t value = 0;
};

struct Waiting {
    Ps since;
    Request request;
    bool conditional, dropped;
    std::uint16_t core, line;
};

// What serialises the transactions of a line: its home.
struct Server {
    std::vector<Waiting> queue;
    std::size_t first = 0;
    bool busy = false;
    Ps busy_since = 0, busy_total = 0;
    // Little's law: the time integral of the number waiting equals the sum of the waits.
    Ps changed = 0, integral = 0, waits = 0;

    std::size_t waiting() const { return queue.size() - first; }
    void integrate(Ps now) {
        integral += static_cast<Ps>(waiting()) * (now - changed);
        changed = now;
    }
};

class Engine {
public:
    Engine(const Machine &machine, const Setup &setup, const Limits &limits, Start start, std::uint64_t seed, bool checked,
           std::vector<Trace_event> *trace)
        : machine_(machine), constants_(machine.constants), setup_(setup), limits_(limits),
          checked_(checked || always_checked), trace_(trace), random_(seed), cores_(setup.programs.size()),
          servers_(setup.lines) {
        const std::vector<unsigned> homes = possible_homes();
        for (unsigned line = 0; line < setup.lines; ++line) {
            places_.emplace_back(static_cast<unsigned>(cores_.size()));
            places_.back().home = homes[static_cast<std::size_t>(random_.below(static_cast<Ps>(homes.size())))];
        }
        for (unsigned index = 0; index < cores_.size(); ++index)
            start_core(index, start);
        outcome_.ops.assign(cores_.size(), 0);
        batches_left_ = limits.batch_ops;
        if (limits.warm_ops == 0 && limits.warm_time == 0)
            open_window(); // the first operation belongs to it
    }

    Outcome run() {
        while (!done_ && !events_.empty()) {
            const Event event = events_.pop();
            now_ = event.time;
            if (now_ > limits_.time) {
                now_ = limits_.time;
                outcome_.starved = outcome_.batches.empty() || !visited(); // else many threads share the line evenly
                in_hand_ = event.message != Message::core;
                break;
            }
            ++outcome_.events;
            deliver(event);
        }
        finish();
        return std::move(outcome_);
    }

private:
    // --- start and end

    // Every home; where a machine has central ones, these are for lines that several last-level caches use, one in each
    // socket, and a line that one cache uses has its home there.
    std::vector<unsigned> possible_homes() const {
        const auto uses = [&](const std::vector<unsigned> &group, unsigned number) {
            return std::ranges::any_of(setup_.cores, [&](unsigned core) { return group[core] == number; });
        };
        const unsigned own = machine_.l3[setup_.cores[0]], local = machine_.homes - machine_.central_homes;
        const bool one_cache = std::ranges::all_of(setup_.cores, [&](unsigned core) { return machine_.l3[core] == own; });
        std::vector<unsigned> homes;
        for (unsigned home = 0; home < machine_.homes; ++home) {
            const bool central = home >= local;
            if (machine_.central_homes == 0 || (central ? !one_cache && uses(machine_.socket, home - local)
                                                        : one_cache && machine_.l3[machine_.home_core(home)] == own))
                homes.push_back(home);
        }
        return homes.empty() ? std::vector<unsigned>{0} : homes;
    }

    void start_core(unsigned index, Start start) {
        Core &core = cores_[index];
        core.program = &setup_.programs[index];
        core.loads.reserve(static_cast<std::size_t>(constants_.window) + 2);
        core.stores.reserve(static_cast<std::size_t>(constants_.store_buffer) + 1);
        // Threads do not begin in step.
        core.front = random_.below(index == 0 ? 1 : limits_.spread);
        places_[0].line.preset(index, state_at_start(index, start));
        wake(index, core.front);
    }

    State state_at_start(unsigned index, Start start) const {
        if (!setup_.start.empty())
            return setup_.start[index];
        switch (start) {
        case Start::timed_dirty: return index == 0 ? State::UD : State::I;
        case Start::other_dirty: return index == 1 ? State::UD : State::I;
        case Start::shared: return State::SC;
        case Start::invalid: break;
        }
        return State::I;
    }

    void finish() {
        outcome_.elapsed = now_;
        Ps busiest = 0;
        for (Server &server : servers_) {
            server.integrate(now_);
            Ps total = server.busy_total + (server.busy ? now_ - server.busy_since : 0);
            busiest = std::max(busiest, total);
            if (checked_)
                check_little(server, total);
        }
        outcome_.home_busy = busiest;
        for (const Place &place : places_)
            outcome_.found += place.value;
        for (const Event &event : events_.all())
            outcome_.messages_left += event.message != Message::core;
        if (window_open_ && outcome_.window == 0)
            outcome_.window = now_ - opened_;
        if (checked_ && outcome_.messages_sent != outcome_.messages_delivered + outcome_.messages_left + in_hand_)
            throw Broken_law("a message was lost");
        outcome_.expected -= far_left_;
        if (checked_ && outcome_.expected != outcome_.found)
            throw Broken_law("the lines do not hold the sum of the operations");
    }

    void check_little(const Server &server, Ps busy) const {
        Ps waits = server.waits;
        for (std::size_t i = server.first; i < server.queue.size(); ++i)
            waits += now_ - server.queue[i].since;
        if (waits != server.integral)
            throw Broken_law("Little's law does not hold at a home");
        if (busy > now_)
            throw Broken_law("a home was busy for longer than the run");
    }

    // --- messages

    Ps vary(Ps time) {
        if (constants_.jitter == 0)
            return time;
        return time + time * (random_.below(2 * constants_.jitter + 1) - constants_.jitter) / 1000;
    }

    void send(Ps time, Message message, unsigned core, unsigned line, Request request = {}, bool conditional = false) {
        events_.push({time, sequence_++, message, request, conditional, static_cast<std::uint16_t>(core),
                      static_cast<std::uint16_t>(line)});
        ++outcome_.messages_sent;
    }

    void wake(unsigned index, Ps time) {
        Core &core = cores_[index];
        if (core.scheduled <= time)
            return;
        core.scheduled = time;
        events_.push({time, sequence_++, Message::core, {}, false, static_cast<std::uint16_t>(index), 0});
    }

    void deliver(const Event &event) {
        if (event.message == Message::core) {
            Core &core = cores_[event.core];
            if (core.scheduled != event.time)
                return; // an earlier wake-up replaced this one
            core.scheduled = never;
            advance(event.core);
            return;
        }
        ++outcome_.messages_delivered;
        switch (event.message) {
        case Message::request: arrive(event); break;
        case Message::snoop: snooped_at(event.core, event.line); break;
        case Message::grant: granted_at(event.core, event.line); break;
        case Message::far_done: far_done(event.core, event.line); break;
        case Message::free: free_home(event.line); break;
        case Message::core: break;
        }
        if (checked_ && !places_[event.line].line.coherent())
            throw Broken_law("two cores hold a line that one of them may write");
    }

    // --- homes

    unsigned core_of(unsigned index) const { return setup_.cores[index]; }

    void arrive(const Event &event) {
        Server &server = servers_[event.line];
        server.integrate(now_);
        Core &core = cores_[event.core];
        bool dropped = false;
        if (event.request == Request::far_atomic)
            dropped = std::exchange(core.dropped, false);
        server.queue.push_back({now_, event.request, event.conditional, dropped, event.core, event.line});
        if (!server.busy)
            begin_next(server);
    }

    void begin_next(Server &server) {
        while (server.waiting() && !server.busy) {
            server.integrate(now_);
            const Waiting next = server.queue[server.first++];
            server.waits += now_ - next.since;
            if (server.first > 64 && server.first * 2 > server.queue.size()) {
                server.queue.erase(server.queue.begin(), server.queue.begin() + static_cast<std::ptrdiff_t>(server.first));
                server.first = 0;
            }
            Place &place = places_[next.line];
            if (next.conditional && place.line.state(next.core) != State::SC) {
                // The home's exclusive monitor: this store can no longer succeed. The core learns that without the line.
                send(now_ + constants_.home + machine_.to_home(core_of(next.core), place.home), Message::far_done, next.core,
                     next.line);
                continue;
            }
            begin(server, place, next);
        }
    }

    void begin(Server &server, Place &place, const Waiting &next) {
        server.busy = true;
        server.busy_since = now_;
        place.had_copy = place.line.state(next.core) != State::I && next.request != Request::far_atomic;
        place.line.begin(next.core, next.request);
        place.ready = now_ + vary(constants_.home);
        place.supplied = false;
        place.extra = next.dropped;
        note_phase(); // also when another core's turn begins: the timed core then waits for the home
        if (machine_.options.upgrade_at_once && next.request == Request::read_unique && place.had_copy)
            drop_at_once(place, next.line);
        bool any = false;
        place.line.unanswered().for_each([&](unsigned holder) {
            any = true;
            const Ps way = constants_.home + machine_.to_home(core_of(holder), place.home) + constants_.snoop;
            send(now_ + vary(way), Message::snoop, holder, next.line);
        });
        if (!any)
            complete(next.line);
    }

    // An upgrade that is not kept waiting: the home has ordered it, so that the copies are worth nothing from now on.
    void drop_at_once(Place &place, unsigned line) {
        const Cores holders = place.line.unanswered();
        holders.for_each([&](unsigned holder) {
            place.line.answer(holder);
            taken_from(holder, line);
            wake(holder, now_);
        });
    }

    void snooped_at(unsigned index, unsigned line) {
        Core &core = cores_[index];
        const bool loading = core.load_end != never && core.loads.front().line == line;
        const bool storing = core.store_end != never && core.stores.front().line == line;
        if ((loading && core.load_end > now_) || (storing && core.store_end > now_)) {
            places_[line].deferred.set(index); // an operation holds the line until it is done
            return;
        }
        // What ends at this very moment ends before the line is given up; nothing new begins.
        places_[line].deferred.set(index);
        if (loading)
            end_load(index);
        else if (storing)
            end_store(index);
        else
            give_up(index, line);
    }

    // A core no longer executes on a line: it answers the snoop that waited for that.
    void give_up(unsigned index, unsigned line) {
        places_[line].deferred.clear(index);
        answer(index, line);
    }

    void answer(unsigned index, unsigned line) {
        Place &place = places_[line];
        const unsigned to = place.line.requester();
        const bool supplies = place.line.answer(index);
        const bool far = place.line.request() == Request::far_atomic;
        const Ps way = far ? machine_.to_home(core_of(index), place.home) : machine_.between(core_of(index), core_of(to));
        const Ps arrival = now_ + way + (supplies ? vary(constants_.data) : 0);
        place.supplied |= supplies;
        place.ready = std::max(place.ready, arrival);
        if (place.line.state(index) == State::I)
            taken_from(index, line);
        if (place.line.unanswered().none())
            complete(line);
        wake(index, now_);
    }

    void taken_from(unsigned index, unsigned line) {
        Core &core = cores_[index];
        if (core.monitor && core.monitored == line)
            core.monitor = false;
        if (index == 0 && line == 0 && window_open_) {
            ++outcome_.tenures[std::min<std::size_t>(15, static_cast<std::size_t>(std::bit_width(tenure_)))];
            tenure_ = 0;
        }
    }

    // Every answer is in (or none was needed): data go to the requester, or the home performs the operation.
    void complete(unsigned line) {
        Place &place = places_[line];
        const unsigned to = place.line.requester();
        const Ps back = machine_.to_home(core_of(to), place.home);
        if (place.line.request() == Request::far_atomic) {
            place.line.grant();
            ++place.value;
            --far_left_;
            const Ps extra = place.extra ? constants_.prefetch_dropped : 0;
            send(place.ready + vary(constants_.far) + back + extra, Message::far_done, to, line);
            send(place.ready + vary(constants_.far_busy) + extra, Message::free, to, line);
            return;
        }
        Ps ready = place.ready;
        if (!place.supplied && !place.had_copy)
            ready += back + vary(constants_.data) + (place.line.holders().none() ? constants_.memory : 0);
        else if (!place.supplied)
            ready += back;
        send(ready, Message::grant, to, line);
    }

    void granted_at(unsigned index, unsigned line) {
        Place &place = places_[line];
        place.line.grant();
        received(place, index, place.line.request());
        trace_home(place, index);
        send(now_ + vary(constants_.acknowledge) + machine_.to_home(core_of(index), place.home), Message::free, index, line);
        advance(index);
    }

    void received(Place &place, unsigned index, Request request) {
        place.reads.clear(index);
        if (request == Request::read_shared && place.behind.test(index))
            place.behind.clear(index);
        else
            place.fills.clear(index);
    }

    void far_done(unsigned index, unsigned line) {
        Core &core = cores_[index];
        Place &place = places_[line];
        if (!place.fars.test(index)) { // a refused exclusive store
            place.fills.clear(index);
            advance(index);
            return;
        }
        place.fars.clear(index);
        --core.far_under_way;
        if (!core.loads.empty() && core.loads.front().asked && core.loads.front().line == line) {
            const Step &step = core.program->steps[core.loads.front().step];
            core.loads.pop();
            counted(index, step);
        }
        advance(index);
    }

    void free_home(unsigned line) {
        Server &server = servers_[line];
        server.busy = false;
        server.busy_total += now_ - server.busy_since;
        places_[line].line.release();
        begin_next(server);
    }

    void ask(unsigned index, unsigned line, Request request, bool conditional = false) {
        Place &place = places_[line];
        (request == Request::far_atomic ? place.fars : place.fills).set(index);
        if (request == Request::read_shared)
            place.reads.set(index);
        send(now_ + vary(constants_.request + machine_.to_home(core_of(index), place.home)), Message::request, index, line,
             request, conditional);
    }

    // --- cores

    // Does what a core can do now, and again as long as nothing else happens earlier than its next step.
    void advance(unsigned index) {
        Core &core = cores_[index];
        for (;;) {
            while (act(index) && !done_) {
            }
            if (index == 0)
                note_phase();
            if (done_)
                return;
            const Ps next = std::min(
                {core.load_end, core.store_end, front_time(core), core.idle_until > now_ ? core.idle_until : never});
            if (next == never)
                return;
            if (next >= events_.next_time() || next > limits_.time) {
                wake(index, next);
                return;
            }
            now_ = next;
            ++outcome_.events;
        }
    }

    // One action that is due; false when there is none.
    bool act(unsigned index) {
        Core &core = cores_[index];
        if (core.load_end <= now_) {
            end_load(index);
            return true;
        }
        if (core.store_end <= now_) {
            end_store(index);
            return true;
        }
        if (core.load_end == never && !core.loads.empty() && core.idle_until <= now_ && start_load(index))
            return true;
        if (core.store_end == never && !core.stores.empty() && start_store(index))
            return true;
        return core.front <= now_ && dispatch(index);
    }

    // How many instructions the core may still run ahead.
    std::int64_t room(const Core &core) const {
        if (core.loads.empty())
            return constants_.window;
        return static_cast<std::int64_t>(core.loads.front().instruction) + constants_.window -
               static_cast<std::int64_t>(core.instruction);
    }

    bool front_can_go(const Core &core) const {
        const Step &step = core.program->steps[core.step];
        if (is_posted(step) && core.stores.size() >= static_cast<std::size_t>(constants_.store_buffer))
            return false;
        if (!core.loads.empty() && core.program->steps[core.loads.back().step].kind == Kind::spin)
            return false; // what comes after a turn is not begun before it
        return room(core) >= step.instructions;
    }

    Ps front_time(const Core &core) const { return front_can_go(core) ? core.front : never; }

    static bool is_posted(const Step &step) {
        return step.kind == Kind::store || (step.kind == Kind::atomic && step.of == Class::store);
    }

    bool dispatch(unsigned index) {
        Core &core = cores_[index];
        if (!front_can_go(core))
            return false;
        const Step &step = core.program->steps[core.step];
        if (step.kind == Kind::work) {
            do_work(core, step);
            return true;
        }
        const unsigned line = core.program->lines[step.slot];
        core.instruction += step.instructions;
        if (step.kind == Kind::prefetch)
            prefetch(index, line);
        else
            enqueue(index, step, line);
        next_step(core, step.kind == Kind::prefetch ? constants_.prefetch : 0);
        return true;
    }

    void next_step(Core &core, Ps cost) {
        core.front = std::max(core.front, now_) + cost + (core.program->steps[core.step].ends ? constants_.loop : 0);
        if (++core.step == core.program->steps.size())
            core.step = 0;
    }

    // Work goes as far as the window allows; the rest waits for the oldest incomplete operation.
    void do_work(Core &core, const Step &step) {
        if (core.work_left == 0)
            core.work_left = step.count;
        std::uint64_t units = core.work_left;
        if (!core.loads.empty())
            units = std::min<std::uint64_t>(units, static_cast<std::uint64_t>(room(core)) / step.instructions);
        core.work_left -= units;
        core.instruction += units * step.instructions;
        Ps time = static_cast<Ps>(units) * (step.nop_loop ? constants_.nop_iter : constants_.unit);
        if (core.work_left) {
            core.front = std::max(core.front, now_) + time;
            return;
        }
        if (step.nop_loop && step.count >= static_cast<std::uint64_t>(constants_.nop_exit_from))
            time += constants_.nop_exit;
        next_step(core, time);
    }

    void prefetch(unsigned index, unsigned line) {
        Core &core = cores_[index];
        Place &place = places_[line];
        if (is_unique(place.line.state(index)) || place.fills.test(index))
            return;
        if (machine_.options.prefetch_dropped_while_far && core.far_under_way) {
            core.dropped = true;
            return;
        }
        ask(index, line, Request::read_unique);
    }

    void enqueue(unsigned index, const Step &step, unsigned line) {
        Core &core = cores_[index];
        const Entry entry{core.order++, core.instruction, core.step, static_cast<std::uint16_t>(line), false};
        if (is_posted(step)) {
            core.stores.push(entry);
            return;
        }
        core.loads.push(entry);
        // Lines are asked for as soon as an operation is seen, long before its turn.
        switch (step.kind) {
        case Kind::load:
        case Kind::exclusive_load:
        case Kind::spin: fetch(index, line, false); break;
        case Kind::atomic:
        case Kind::compare:
            if (where(step.of, places_[line].line.state(index)) == Where::near)
                fetch_for_atomic(index, line);
            break;
        default: break;
        }
    }

    Where where(Class of, State state) const {
        return machine_.policy[static_cast<unsigned>(of)][static_cast<unsigned>(state)];
    }

    void fetch(unsigned index, unsigned line, bool unique) {
        const Place &place = places_[line];
        const State state = place.line.state(index);
        if (place.fills.test(index) || is_unique(state) || (!unique && state != State::I))
            return;
        ask(index, line, unique ? Request::read_unique : Request::read_shared);
    }

    // The line that an atomic will want. A load of it may be under way, and shared is not enough.
    void fetch_for_atomic(unsigned index, unsigned line) {
        if (machine_.options.upgrade_behind_load && places_[line].reads.test(index)) {
            places_[line].reads.clear(index);
            places_[line].behind.set(index);
            ask(index, line, Request::read_unique); // the home serves it behind the load's request
        } else {
            fetch(index, line, true);
        }
    }

    bool drained(const Core &core) const {
        return core.far_under_way == 0 && (core.stores.empty() || core.stores.front().order > core.loads.front().order);
    }

    // Starts the oldest load-side operation; false when it has to wait.
    bool start_load(unsigned index) {
        Core &core = cores_[index];
        Entry &head = core.loads.front();
        const Step &step = core.program->steps[head.step];
        const unsigned line = head.line;
        if (head.asked || places_[line].deferred.test(index))
            return false;
        switch (step.kind) {
        case Kind::fence:
            if (!drained(core))
                return false;
            core.load_end = now_ + constants_.fence;
            return true;
        case Kind::load:
        case Kind::spin:
            if (!core.stores.empty() && core.stores.front().order < head.order)
                return false; // it reads what an older store has still to write
            return start_held(index, line, false, constants_.plain_load);
        case Kind::exclusive_load: return start_held(index, line, false, constants_.exclusive_load);
        case Kind::exclusive_store: return start_exclusive_store(index, line);
        default: return start_atomic(index, head, step);
        }
    }

    bool start_held(unsigned index, unsigned line, bool unique, Ps cost) {
        const State state = places_[line].line.state(index);
        if (is_unique(state) || (!unique && state == State::SC)) {
            cores_[index].load_end = now_ + cost;
            return true;
        }
        fetch(index, line, unique);
        return false;
    }

    bool start_exclusive_store(unsigned index, unsigned line) {
        Core &core = cores_[index];
        Place &place = places_[line];
        const bool lost = !core.monitor || core.monitored != line;
        if (!lost && !is_unique(place.line.state(index))) {
            if (!place.fills.test(index))
                ask(index, line, Request::read_unique, true);
            return false;
        }
        core.load_end = now_ + constants_.exclusive_store;
        return true;
    }

    bool start_atomic(unsigned index, Entry &head, const Step &step) {
        Core &core = cores_[index];
        if (machine_.options.locked_drains && !drained(core))
            return false;
        Place &place = places_[head.line];
        const State state = place.line.state(index);
        if (where(step.of, state) == Where::far) {
            if (place.fars.test(index) || place.fills.test(index) ||
                core.far_under_way >= static_cast<std::uint32_t>(constants_.far_outstanding))
                return false;
            head.asked = true;
            ++core.far_under_way;
            ++outcome_.expected;
            ++far_left_;
            ask(index, head.line, Request::far_atomic);
            return false;
        }
        return start_held(index, head.line, true, machine_.near(step.of));
    }

    // Starts the oldest posted operation, once every older load-side operation is complete.
    bool start_store(unsigned index) {
        Core &core = cores_[index];
        const Entry head = core.stores.front();
        if (!core.loads.empty() && core.loads.front().order < head.order)
            return false;
        const Step &step = core.program->steps[head.step];
        Place &place = places_[head.line];
        const State state = place.line.state(index);
        if (place.deferred.test(index))
            return false;
        if (step.kind == Kind::atomic && !is_unique(state) && where(Class::store, state) == Where::far) {
            if (place.fars.test(index) || core.far_under_way >= static_cast<std::uint32_t>(constants_.far_outstanding) ||
                place.fills.test(index)) // it waits for a fill under way
                return false;
            ++core.far_under_way;
            ++outcome_.expected;
            ++far_left_;
            core.stores.pop();
            ask(index, head.line, Request::far_atomic);
            counted(index, step);
            return true;
        }
        if (!is_unique(state)) {
            fetch(index, head.line, true);
            return false;
        }
        core.store_end = now_ + (step.kind == Kind::store ? constants_.plain_store : constants_.near_store);
        return true;
    }

    void end_load(unsigned index) {
        Core &core = cores_[index];
        const Entry head = core.loads.front();
        const Step &step = core.program->steps[head.step];
        Place &place = places_[head.line];
        core.load_end = never;
        const bool again = step.kind == Kind::spin && place.value % 2 != core.program->turn;
        if (again) {
            core.idle_until = now_ + constants_.poll;
        } else {
            core.loads.pop();
            perform(index, head, step);
        }
        if (place.deferred.test(index))
            give_up(index, head.line);
    }

    void perform(unsigned index, const Entry &head, const Step &step) {
        Core &core = cores_[index];
        Place &place = places_[head.line];
        bool failed = false;
        switch (step.kind) {
        case Kind::load:
        case Kind::spin: core.seen = place.value; break;
        case Kind::exclusive_load:
            core.monitor = true;
            core.monitored = head.line;
            break;
        case Kind::exclusive_store:
            failed = !core.monitor || core.monitored != head.line;
            core.monitor = false;
            break;
        case Kind::compare:
            failed = step.expects == Expects::wrong  ? true
                     : step.expects == Expects::turn ? place.value % 2 != core.program->turn
                                                     : core.seen != place.value;
            core.seen = place.value;
            break;
        default: break;
        }
        const bool writes = step.kind == Kind::atomic || step.kind == Kind::exclusive_store || step.kind == Kind::compare;
        if (writes && !failed) {
            place.value += !step.keeps;
            outcome_.expected += !step.keeps;
            place.line.write(index);
        } else if (step.kind == Kind::compare) {
            place.line.write(index); // a failing compare-and-swap dirties the line as well
        }
        if (failed && step.expects != Expects::wrong) {
            rewind(index, head, step);
            return;
        }
        if (step.kind != Kind::compare || step.expects != Expects::wrong)
            core.retrying = false;
        counted(index, step);
    }

    // A failed attempt: what was dispatched behind it never happened.
    void rewind(unsigned index, const Entry &head, const Step &step) {
        Core &core = cores_[index];
        while (!core.loads.empty())
            core.loads.pop_back();
        while (!core.stores.empty() && core.stores.back().order > head.order)
            core.stores.pop_back();
        core.instruction = head.instruction;
        core.step = step.target;
        core.work_left = 0;
        core.front = now_ + constants_.retry;
        core.retrying = true;
        if (index == 0 && window_open_)
            ++outcome_.failed;
    }

    void end_store(unsigned index) {
        Core &core = cores_[index];
        const Entry head = core.stores.front();
        const Step &step = core.program->steps[head.step];
        Place &place = places_[head.line];
        core.store_end = never;
        core.stores.pop();
        place.line.write(index);
        if (step.kind == Kind::atomic || step.adds) {
            ++place.value;
            ++outcome_.expected;
        }
        counted(index, step);
        if (place.deferred.test(index))
            give_up(index, head.line);
    }

    // --- what is counted

    void counted(unsigned index, const Step &step) {
        if (!step.counts)
            return;
        ++cores_[index].ops;
        if (window_open_)
            ++outcome_.ops[index];
        if (index != 0)
            return;
        ++tenure_;
        if (!window_open_) {
            if (cores_[0].ops >= limits_.warm_ops && now_ >= limits_.warm_time)
                open_window();
            return;
        }
        if (--batches_left_ == 0) {
            outcome_.batches.push_back(now_ - batch_began_);
            batch_began_ = now_;
            batches_left_ = limits_.batch_ops;
        }
        if (outcome_.ops[0] < limits_.ops)
            return;
        const bool enough = visited();
        if (enough || now_ - opened_ >= limits_.patience) {
            outcome_.starved |= !enough;
            outcome_.window = now_ - opened_;
            note_phase();
            done_ = true;
        }
    }

    bool visited() const {
        return std::all_of(outcome_.ops.begin() + 1, outcome_.ops.end(),
                           [&](std::uint64_t ops) { return ops >= limits_.visits; });
    }

    void open_window() {
        window_open_ = true;
        opened_ = batch_began_ = phase_since_ = now_;
    }

    Phase phase_of(const Core &core) const {
        const bool load = !core.loads.empty();
        if (core.load_end != never || (!load && core.store_end != never))
            return core.retrying ? Phase::retry : Phase::execute;
        if (core.retrying && !load)
            return Phase::retry;
        if (!load && (core.stores.size() < static_cast<std::size_t>(constants_.store_buffer)))
            return Phase::work;
        const Entry &head = load ? core.loads.front() : core.stores.front();
        const Place &place = places_[head.line];
        const unsigned self = static_cast<unsigned>(&core - cores_.data());
        const bool far = place.fars.test(self);
        if (!far && !place.fills.test(self))
            return Phase::work;
        if (!place.line.busy() || place.line.requester() != self)
            return Phase::home;
        return far && place.line.unanswered().none() ? Phase::execute : Phase::snoop;
    }

    void note_phase() {
        const Phase phase = phase_of(cores_[0]);
        if (phase == phase_ && !done_)
            return;
        if (window_open_) {
            outcome_.spent[static_cast<unsigned>(phase_)] += now_ - phase_since_;
            if (trace_ && now_ > phase_since_)
                trace_->push_back({phase_since_, now_, 0, phase_, false});
        }
        phase_ = phase;
        phase_since_ = now_;
    }

    void trace_home(const Place &place, unsigned index) {
        if (trace_ && window_open_) {
            const Server &server = servers_[static_cast<std::size_t>(&place - places_.data())];
            trace_->push_back({std::max(server.busy_since, opened_), now_, index, Phase::snoop, true});
        }
    }

    const Machine &machine_;
    const Constants &constants_;
    const Setup &setup_;
    const Limits limits_;
    const bool checked_;
    std::vector<Trace_event> *trace_;
    Random random_;
    std::vector<Core> cores_;
    std::vector<Place> places_;
    std::vector<Server> servers_;
    Events events_;
    std::uint32_t sequence_ = 0;
    Ps now_ = 0;
    Outcome outcome_;
    std::uint64_t in_hand_ = 0;  // a message that the end of the run came before
    std::uint64_t far_left_ = 0; // far operations that no home has performed yet
    bool done_ = false, window_open_ = false;
    Ps opened_ = 0, batch_began_ = 0, phase_since_ = 0;
    std::uint64_t batches_left_ = 0, tenure_ = 0;
    Phase phase_ = Phase::work;
};

} // namespace

const char *phase_name(Phase phase) {
    constexpr const char *names[phases] = {"work", "wait_for_home", "wait_for_snoop", "execute", "retry"};
    return names[static_cast<unsigned>(phase)];
}

Outcome run(const Machine &machine, const Setup &setup, const Limits &limits, Start start, std::uint64_t seed, bool checked,
            std::vector<Trace_event> *trace) {
    return Engine(machine, setup, limits, start, seed, checked, trace).run();
}

} // namespace lw::model
