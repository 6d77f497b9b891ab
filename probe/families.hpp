// One declaration for each family of cells.
#pragma once

#include "probe/subject.hpp"

namespace lw::probe {

extern const Family rmw_family;     // probe/rmw.cpp: one operation on one line
extern const Family readers_family; // probe/readers.cpp: read-side critical sections and their updaters
extern const Family cache_family;   // probe/cache.cpp: cache maintenance over a list of entries

// Families that are compiled whole at every place of loops (probe/loop.hpp). A pass of cache maintenance takes microseconds,
// nearly all of it outside its loop, and is not.
template <unsigned place> struct Families_at {
    static const Family handoff; // probe/handoff.cpp: one line handed between two cores
    static const Family percpu; // probe/percpu.cpp: counters on the current CPU
    static const Family wide; // probe/wide.cpp: 8 bytes on i386, 16 elsewhere
    static const Family operations; // probe/operations.cpp: the library's operations under a policy
};
#define LW_PLACED(place)                                  \
    template <> const Family Families_at<place>::handoff; \
    template <> const Family Families_at<place>::percpu;  \
    template <> const Family Families_at<place>::wide;    \
    template <> const Family Families_at<place>::operations;
LW_PLACED(0)
LW_PLACED(1)
LW_PLACED(2)
LW_PLACED(3)
#undef LW_PLACED

} // namespace lw::probe
