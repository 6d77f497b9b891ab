// SPDX-License-Identifier: MIT
// What the loops over read-side critical sections work on, and the cell that runs them; programs that link other kinds of
// readers (bench/readers) bring loops of their own and get the same cells.
#pragma once

#include "probe/subject.hpp"

#include <linewright/rwlock.h>
#include <linewright/srcu.h>

#include <cstddef>
#include <cstdint>
#include <pthread.h>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace lw::probe {

constexpr std::size_t reader_apart = 256; // two lines: nothing that is written by different parties shares one

// What a read-side critical section may read while an updater runs. `live` is checked at its end.
struct alignas(reader_apart) Guarded {
    std::uint64_t live = 1;
};

// An object that is found among many and may become another one at any moment, but never anything else than an object.
struct alignas(128) Typesafe {
    std::uint32_t refs = 0;
    std::uint32_t sequence = 0;  // odd while it changes
    std::uint32_t next = 0, owner = 0; // ticket lock
    std::uint64_t id = 0;        // slot that it is published in
    std::uint64_t a = 0, b = ~std::uint64_t{0}; // b is always ~a
};

struct Ticket_lock {
    std::uint32_t next = 0, owner = 0;
};

constexpr unsigned most_instances = 1u << 14;

// Everything that the readers of one cell share; every member that is written stands on lines of its own.
struct Reader_world {
    explicit Reader_world(unsigned instances);
    ~Reader_world();
    Reader_world(const Reader_world &) = delete;
    Reader_world &operator=(const Reader_world &) = delete;

    alignas(reader_apart) lw_srcu domain{};
    bool domain_made = false;
    alignas(reader_apart) std::size_t index = 0;   // of the SRCU-shaped pairs: read by every thread, never written here
    char *counters = nullptr;                      // per-CPU memory: locks[2], unlocks[2]
    unsigned instances = 1;
    alignas(reader_apart) std::uint32_t word = 0;  // reference count; readers of the spinning rwlock and its writer's bit
    alignas(reader_apart) Ticket_lock ticket;
    alignas(reader_apart) pthread_mutex_t mutex;
    alignas(reader_apart) pthread_rwlock_t rwsem;
    alignas(reader_apart) lw_rwlock biased = LW_RWLOCK_INIT;
    alignas(reader_apart) Guarded *current = nullptr; // what readers look at
    Guarded objects[2];
    alignas(reader_apart) std::size_t spare = 0;      // from here on the updater's own
    std::uint64_t updates = 0, failed = 0, random = 1;
    std::uint32_t writer_ticket = 0;
    alignas(reader_apart) Typesafe **slots = nullptr; // what lookups find
    Typesafe *pool = nullptr;                         // instances + 64 objects: some are always free
};

// What one thread brings to its loops and takes out of them.
struct alignas(reader_apart) Reader_seat {
    Reader_world *world = nullptr;
    char *own = nullptr;         // this CPU's copy of the world's counters
    std::uint64_t random = 1;
    std::uint64_t wrong = 0;     // critical sections that read what they must not
    std::uint64_t retries = 0;   // lookups that found an object on its way elsewhere
    std::uint64_t counted = 0;   // thread's own sums, where the world keeps none
};

// The loops of one form. `pairs` does nothing inside its critical sections but the delay, `checked` reads what an updater
// removes.
struct Reader_loops {
    std::string_view form;
    Batch pairs = nullptr, checked = nullptr;
    Batch update = nullptr,
          expedited = nullptr; // one operation: replace, wait for readers, poison; null: no updater can wait
    bool readers_sleep = false, updaters_sleep = false; // waiting for each other
    bool (*ready)(Reader_world &,
                  std::string &why) = nullptr; // makes what the form needs; false: not on this machine, and why
    bool (*settled)(Reader_world &,
                    std::uint64_t pairs) = nullptr; // after the last critical section: do the form's own counts add up?
    void (*join)() = nullptr, (*part)() = nullptr; // on each thread before its first and after its last batch
};

// The loops of the forms that this project and the language offer, all at one place (probe/loop.hpp).
template <unsigned place> std::span<const Reader_loops> reader_loops_at();

// The loops of a form at a place; null for an unknown form.
const Reader_loops *find_reader_loops(std::string_view form, unsigned place = 0);

// One update of a world's guarded object: the new one is published, `wait` waits until no reader holds the old one, and
// the old one is poisoned. Called by one updater at a time. A wait that returns an error has proved nothing, so that nothing
// is poisoned.
template <class Wait> [[gnu::always_inline]] inline void replace_guarded(Reader_world &world, Wait wait) {
    Guarded *fresh = &world.objects[world.spare], *old = &world.objects[world.spare ^ 1];
    __atomic_store_n(&fresh->live, 1, __ATOMIC_RELAXED); // released by the next line
    __atomic_store_n(&world.current, fresh, __ATOMIC_RELEASE); // pairs with the readers' acquire of `current`
    if constexpr (std::is_void_v<decltype(wait())>) {
        wait();
    } else if (wait() != 0) {
        ++world.failed;
        return;
    }
    __atomic_store_n(&old->live, 0, __ATOMIC_RELAXED); // no reader may see it: that is what is checked
    world.spare ^= 1;
    ++world.updates;
}

// Read-side critical sections with a delay in them, and what a checked one reads. A reader R is made from the seat at the
// start of a batch, so that addresses are in registers; enter() returns the index that leave() takes.
template <class R, bool checked> [[gnu::always_inline]] inline void run_sections(Loop_args &args);

// The cell over given loops and the baseline, whose loop lacks the reader; checks parameters (throws wire::Invalid).
Made make_reader_subject(const wire::Cell &cell, const Reader_loops &loops, const Reader_loops &baseline);

} // namespace lw::probe

template <class R, bool checked> [[gnu::always_inline]] inline void lw::probe::run_sections(Loop_args &args) {
    auto *seat = static_cast<Reader_seat *>(args.state);
    R reader(*seat);
    Reader_world *const world = seat->world;
    std::uint64_t wrong = 0;
    auto section = [&](auto inside) __attribute__((always_inline)) {
        auto index = reader.enter();
        const Guarded *seen = nullptr;
        if constexpr (checked)
            seen = __atomic_load_n(&world->current, __ATOMIC_ACQUIRE); // pairs with the release in replace_guarded()
        inside();
        __asm__ volatile("" : : : "memory"); // what is inside stays inside
        if constexpr (checked)
            wrong += __atomic_load_n(&seen->live, __ATOMIC_RELAXED) != 1; // ordered by what is under test
        reader.leave(index);
    };
    with_work(args, [&](auto inside) __attribute__((always_inline)) {
        std::size_t left = args.ops;
        align_loop();
        do
            section(inside);
        while (--left);
    });
    seat->wrong += wrong;
    reader.finish(*seat);
}
