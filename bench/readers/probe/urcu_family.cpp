// SPDX-License-Identifier: MIT
// The probe's cells over liburcu's readers, beside those of this project: same plan in, same records out.
#include "urcu_flavour.h"

#include "probe/families.hpp"
#include "probe/readers.hpp"
#include "wire/forms.hpp"

#include <array>
#include <cstddef>

namespace lw::probe {
namespace {

// `live` is what the C side sees of a guarded object.
static_assert(offsetof(Guarded, live) == 0);

template <const urcu_flavour &flavour> void run_pairs(Loop_args &args) { flavour.pairs(args.ops, args.work, nullptr); }

template <const urcu_flavour &flavour> void run_checked(Loop_args &args) {
    auto *seat = static_cast<Reader_seat *>(args.state);
    seat->wrong += flavour.checked(args.ops, args.work, reinterpret_cast<std::uint64_t **>(&seat->world->current));
}

template <const urcu_flavour &flavour> void run_updates(Loop_args &args) {
    Reader_world &world = *static_cast<Reader_seat *>(args.state)->world;
    for (std::size_t left = args.ops; left; --left)
        replace_guarded(world, flavour.synchronize);
}

template <const urcu_flavour &flavour> Reader_loops loops_of() {
    Reader_loops loops;
    loops.form = flavour.name;
    loops.pairs = run_pairs<flavour>;
    loops.checked = run_checked<flavour>;
    loops.update = run_updates<flavour>;
    loops.updaters_sleep = true;
    loops.join = flavour.join;
    loops.part = flavour.part;
    return loops;
}

const Reader_loops *find_urcu_loops(std::string_view form) {
    static const std::array all{loops_of<urcu_memb>(),    loops_of<urcu_memb_call>(), loops_of<urcu_bp>(),
                                loops_of<urcu_bp_call>(), loops_of<urcu_mb>(),        loops_of<urcu_mb_call>(),
                                loops_of<urcu_qsbr>()};
    for (const Reader_loops &loops : all)
        if (loops.form == form)
            return &loops;
    return nullptr;
}

} // namespace

// Takes the place of the probe's own: this program runs readers only.
Made make_subject(const wire::Cell &cell, const Machine &machine) {
    if (wire::family_of(cell.form) != "readers")
        return {nullptr, "this program runs the cells of plan readers only, not form " + cell.form};
    const Reader_loops *loops = find_urcu_loops(cell.form);
    if (!loops)
        return readers_family.make(cell, machine);
    if (cell.operation != "readers_pair" && cell.operation != "readers_grace")
        return {nullptr, "form " + cell.form + " is a reader_pair, not " + cell.operation};
    return make_reader_subject(cell, *loops, *find_reader_loops("readers_empty"));
}

} // namespace lw::probe
