// The families of cells that this probe can run, in the order in which they are asked.
#include "probe/families.hpp"

#include "probe/loop.hpp"
#include "probe/machine.hpp"

#include <array>

namespace lw::probe {
namespace {

template <unsigned place>
constexpr std::array families{
    &rmw_family,
    &Families_at<place>::handoff,
    &Families_at<place>::percpu,
    &Families_at<place>::wide,
    &Families_at<place>::operations,
    &cache_family,
    &readers_family,
};
constexpr std::array places{families<0>, families<1>, families<2>, families<3>};
static_assert(places.size() == loop_places);

} // namespace

Made make_subject(const wire::Cell &cell, const Machine &machine) {
    for (const Family *family : places.at(machine.loop_place))
        if (family->handles(cell))
            return family->make(cell, machine);
    return {nullptr, "no family of this probe runs operation " + cell.operation};
}

} // namespace lw::probe
