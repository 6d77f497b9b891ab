// SPDX-License-Identifier: MIT
// Which of the families of cells runs a cell.
#include "probe/families.hpp"

#include "probe/loop.hpp"
#include "probe/machine.hpp"
#include "probe/rmw_loops.hpp"
#include "wire/forms.hpp"

#include <array>

namespace lw::probe {
namespace {

#define LW_ONCE(name) &name##_family,
#define LW_PLACED(name) &Families_at<place>::name,
template <unsigned place>
constexpr std::array families{
#include "every_family.def"
};
#undef LW_ONCE
#undef LW_PLACED
constexpr std::array places{families<0>, families<1>, families<2>, families<3>};
static_assert(places.size() == loop_places);

} // namespace

Made make_subject(const wire::Cell &cell, const Machine &machine) {
    if (cell.work == "memory" && !find_rmw_loop(cell.form, cell.width_bits))
        throw wire::Invalid(cell.id() + ": work in memory stands behind operations on one line");
    for (const Family *family : places.at(machine.loop_place))
        if (family->name == wire::family_of(cell.form))
            return family->make(cell, machine);
    return {nullptr, "this probe has no form " + cell.form};
}

} // namespace lw::probe
