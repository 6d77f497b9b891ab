// The families of cells that this probe can run, in the order in which they are asked.
#include "probe/families.hpp"

#include <array>

namespace lw::probe {

Made make_subject(const wire::Cell &cell, const Machine &machine) {
    const std::array families{
        rmw_family,        //
        handoff_family,    //
        percpu_family,     //
        wide_family,       //
        operations_family, //
        cache_family,      //
        readers_family,
    };
    for (const Family &family : families)
        if (family.handles(cell))
            return family.make(cell, machine);
    return {nullptr, "no family of this probe runs operation " + cell.operation};
}

} // namespace lw::probe
