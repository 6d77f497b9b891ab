// SPDX-License-Identifier: MIT
// The family of read-side critical sections: what entering and leaving costs each reader, and what an updater waits.
//
// Operations are listed in wire/forms/readers.def. All threads of a cell are readers, but
//   readers_grace            thread 0, the timed one, updates: it replaces an object, waits until no reader can hold the old
//                            one, and poisons it; one operation is one such update
//   parameter updater        the last thread does the same meanwhile, by that way: synchronize or expedited
// and then every read-side critical section reads the object, and one that finds poison makes the cell an error.
// Parameter `read_delay`: units of work inside each critical section. Parameter `instances` (a power of two): objects
// that lookups find. All readers run before and after the timed window, as in every window of the probe.
#include "probe/readers.hpp"

#include "probe/families.hpp"
#include "probe/machine.hpp"
#include "wire/forms.hpp"

#include <linewright/percpu.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <new>
#include <sched.h>
#include <vector>

namespace lw::probe {

Reader_world::Reader_world(unsigned count) : instances(count) {
    constexpr unsigned spares = 64; // lookups in progress keep an object each; an update needs a free one
    counters = static_cast<char *>(lw_percpu_alloc(128, 128));
    slots = new (std::nothrow) Typesafe *[count];
    pool = new (std::nothrow) Typesafe[count + spares];
    if (!counters || !slots || !pool) {
        lw_percpu_free(counters);
        delete[] slots;
        delete[] pool;
        throw std::bad_alloc();
    }
    for (unsigned i = 0; i < count; ++i) {
        slots[i] = &pool[i];
        pool[i].id = i;
        pool[i].refs = 1;
    }
    current = &objects[1]; // objects[spare ^ 1]
    pthread_mutex_init(&mutex, nullptr);
    pthread_rwlockattr_t writers_first;
    pthread_rwlockattr_init(&writers_first);
#ifdef __GLIBC__ // elsewhere the lock is the C library's own kind: musl has readers go first
    pthread_rwlockattr_setkind_np(&writers_first, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
    pthread_rwlock_init(&rwsem, &writers_first);
    pthread_rwlockattr_destroy(&writers_first);
}

Reader_world::~Reader_world() {
    if (domain_made)
        lw_srcu_cleanup(&domain);
    lw_percpu_free(counters);
    delete[] slots;
    delete[] pool;
    pthread_mutex_destroy(&mutex);
    pthread_rwlock_destroy(&rwsem);
}

namespace {

enum class Updater { none, synchronize, expedited };

struct Parameters {
    Updater updater = Updater::none;
    std::uint64_t read_delay = 0;
    unsigned instances = 1;
};

class Readers final : public Subject {
public:
    Readers(const wire::Cell &cell, const Reader_loops &loops, const Reader_loops &baseline, const Parameters &parameters)
        : cell_(cell), loops_(loops), baseline_(baseline), parameters_(parameters),
          grace_(cell.operation == "readers_grace"), checked_(grace_ || parameters.updater != Updater::none),
          seats_(cell.threads) {
        for (unsigned line = 0; line < cell.lines; ++line)
            worlds_.push_back(std::make_unique<Reader_world>(parameters.instances));
    }

    // Makes what the form needs in every world; false: why not.
    bool ready(std::string &why) {
        return std::ranges::all_of(worlds_, [&](auto &world) { return !loops_.ready || loops_.ready(*world, why); });
    }

    unsigned lines() const override { return cell_.lines; }

    Batch loop(unsigned thread) const override {
        if (thread > 0 && cell_.contender == "placebo")
            return baseline(thread);
        if (updates(thread))
            return parameters_.updater == Updater::expedited ? loops_.expedited : loops_.update;
        return checked_ ? loops_.checked : loops_.pairs;
    }

    Batch baseline(unsigned) const override { return checked_ ? baseline_.checked : baseline_.pairs; }

    std::string baseline_key() const override {
        return "readers/" + std::string(baseline_.form) + (checked_ ? "/checked" : "") + "/" + cell_.work +
               std::to_string(parameters_.read_delay) + "/n" + std::to_string(parameters_.instances) + "/t" +
               std::to_string(cell_.threads) + "/" + cell_.placement;
    }

    bool may_sleep(unsigned thread) const override {
        return updates(thread) ? loops_.updaters_sleep : loops_.readers_sleep && cell_.threads > 1;
    }

    Loop_args arguments(unsigned thread, unsigned line) override {
        lw_percpu_thread_registered(); // where threads register themselves: now, not inside the window
        if (loops_.join)
            loops_.join();
        Reader_world &world = *worlds_[line];
        Reader_seat &seat = seats_[thread];
        seat = Reader_seat{};
        seat.world = &world;
        seat.own = static_cast<char *>(lw_per_cpu_ptr(world.counters, static_cast<unsigned>(sched_getcpu())));
        seat.random = 0x9e3779b97f4a7c15u * (thread + 1); // any number but zero
        Loop_args args;
        args.target = &world;
        args.work = parameters_.read_delay;
        args.work_kind = work_kind(cell_);
        args.state = &seat;
        return args;
    }

    void leave(unsigned, Loop_args &) override {
        if (loops_.part)
            loops_.part();
    }

    void account(unsigned line, std::span<const Loop_args> args, std::span<const std::uint64_t> ops) override {
        for (unsigned thread = 0; thread < args.size(); ++thread) {
            if (updates(thread) || (thread > 0 && cell_.contender == "placebo"))
                continue;
            pairs_[line] += ops[thread];
            wrong_ += seats_[thread].wrong;
            retries_ += seats_[thread].retries;
        }
    }

    // Sections that saw what they should, by their own eyes and by the form's books.
    std::optional<Check> check() override {
        std::uint64_t all = 0, unsettled = 0;
        for (unsigned line = 0; line < cell_.lines; ++line) {
            all += pairs_[line];
            updates_ += worlds_[line]->updates;
            unsettled += worlds_[line]->failed;
            if (loops_.settled && !loops_.settled(*worlds_[line], pairs_[line]))
                ++unsettled;
        }
        return Check{all, all - wrong_ - unsettled};
    }

    void metrics(std::map<std::string, double> &values) override {
        values["sections"] = static_cast<double>(sum_of_pairs());
        if (checked_)
            values["updates"] = static_cast<double>(updates_);
        if (cell_.operation == "readers_lookup")
            values["lookup_retries"] = static_cast<double>(retries_);
    }

private:
    // Whether a thread is the updater: the timed one, or the last.
    bool updates(unsigned thread) const {
        return grace_ ? thread == 0 : parameters_.updater != Updater::none && thread + 1 == cell_.threads;
    }

    std::uint64_t sum_of_pairs() const {
        std::uint64_t all = 0;
        for (std::uint64_t pairs : pairs_)
            all += pairs;
        return all;
    }

    const wire::Cell cell_;
    const Reader_loops &loops_, &baseline_;
    const Parameters parameters_;
    const bool grace_, checked_;
    std::vector<Reader_seat> seats_;
    std::vector<std::unique_ptr<Reader_world>> worlds_;
    std::vector<std::uint64_t> pairs_ = std::vector<std::uint64_t>(cell_.lines, 0); // by world
    std::uint64_t wrong_ = 0, retries_ = 0, updates_ = 0;
};

Parameters parameters_of(const wire::Cell &cell) {
    auto wrong = [&](const std::string &what) { throw wire::Invalid(cell.id() + ": " + what); };
    for (const auto &[key, value] : cell.params)
        if (key != "read_delay" && key != "updater" && key != "instances")
            wrong("no parameter " + key + "; allowed: read_delay, updater, instances");
    Parameters out;
    constexpr std::array names{"none", "synchronize", "expedited"};
    const std::string updater = cell.text("updater", cell.operation == "readers_grace" ? "synchronize" : "none");
    auto found = std::ranges::find(names, updater);
    if (found == names.end())
        wrong("no updater " + updater + "; allowed: none, synchronize, expedited");
    out.updater = static_cast<Updater>(found - names.begin());
    out.read_delay = cell.number("read_delay", 0);
    if (out.read_delay > 100'000'000)
        wrong("read_delay from 0 to 100000000");
    const std::uint64_t instances = cell.number("instances", 1);
    if (instances < 1 || instances > most_instances || !std::has_single_bit(instances))
        wrong("instances: a power of two from 1 to " + std::to_string(most_instances));
    out.instances = static_cast<unsigned>(instances);
    if (cell.operation == "readers_grace" && out.updater == Updater::none)
        wrong("readers_grace has an updater: synchronize or expedited");
    if (cell.operation != "readers_grace" && out.updater != Updater::none && cell.threads < 2)
        wrong("an updater is one of the threads: at least 2");
    if (cell.work_iters != 0 || cell.contender_iters != 0)
        wrong("readers take read_delay, no work and no contender spacing");
    return out;
}

} // namespace

template <> std::span<const Reader_loops> reader_loops_at<0>();
template <> std::span<const Reader_loops> reader_loops_at<1>();
template <> std::span<const Reader_loops> reader_loops_at<2>();
template <> std::span<const Reader_loops> reader_loops_at<3>();

const Reader_loops *find_reader_loops(std::string_view form, unsigned place) {
    constexpr std::array places{reader_loops_at<0>, reader_loops_at<1>, reader_loops_at<2>, reader_loops_at<3>};
    static_assert(places.size() == loop_places);
    const std::span<const Reader_loops> loops = places.at(place)();
    auto found = std::ranges::find(loops, form, &Reader_loops::form);
    return found == loops.end() ? nullptr : &*found;
}

Made make_reader_subject(const wire::Cell &cell, const Reader_loops &loops, const Reader_loops &baseline) {
    const Parameters parameters = parameters_of(cell);
    if (parameters.updater == Updater::synchronize && !loops.update)
        return {nullptr, "no updater can wait for readers of " + cell.form};
    if (parameters.updater == Updater::expedited && !loops.expedited)
        return {nullptr, "updaters of " + cell.form + " have no expedited way"};
    auto subject = std::make_unique<Readers>(cell, loops, baseline, parameters);
    std::string why;
    if (!subject->ready(why))
        return {nullptr, why};
    return {std::move(subject), ""};
}

namespace {

Made make(const wire::Cell &cell, const Machine &machine) {
    const wire::Form *form = wire::find_form(cell.form, cell.width_bits);
    const Reader_loops *loops = find_reader_loops(cell.form, machine.loop_place);
    const bool grace = cell.operation == "readers_grace";
    if (!form || !loops || !(form->operation == cell.operation || (grace && loops->update)))
        return {nullptr, "this probe has no loop of " + cell.form + " for " + cell.operation};
    if (!machine.has(form->needs))
        return lacking(form->needs, cell);
    const bool lookup = form->operation == "readers_lookup" || cell.form == "lookup_empty";
    const char *empty = lookup ? "lookup_empty" : "readers_empty";
    return make_reader_subject(cell, *loops, *find_reader_loops(empty, machine.loop_place));
}

} // namespace

const Family readers_family{"readers", make};

} // namespace lw::probe
