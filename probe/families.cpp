// Which of the families of cells runs a cell.
#include "probe/families.hpp"

#include "probe/loop.hpp"
#include "probe/machine.hpp"
#include "probe/rmw_loops.hpp"

#include <array>

namespace lw::probe {
namespace {

#define LW_ONCE(name) &name##_family,
#define LW_PLACED(name) &Families_at<place>::name,
template <unsigned place> constexpr std::array families{LW_FAMILIES(LW_ONCE, LW_PLACED)};
#undef LW_ONCE
#undef LW_PLACED
constexpr std::array places{families<0>, families<1>, families<2>, families<3>};
static_assert(places.size() == loop_places);

} // namespace

Made make_subject(const wire::Cell &cell, const Machine &machine) {
    if (cell.work == "memory" && !find_rmw_loop(cell.form, cell.width_bits))
        throw wire::Invalid(cell.id() + ": work in memory stands behind operations on one line");
    for (const Family *family : places.at(machine.loop_place))
        if (family->handles(cell))
            return family->make(cell, machine);
    return {nullptr, "no family of this probe runs operation " + cell.operation};
}

} // namespace lw::probe
