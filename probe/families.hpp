// One declaration for each family of cells.
#pragma once

#include "probe/subject.hpp"

namespace lw::probe {

extern const Family rmw_family;        // probe/rmw.cpp: one operation on one line
extern const Family handoff_family;    // probe/handoff.cpp: one line handed between two cores
extern const Family percpu_family;     // probe/percpu.cpp: counters on the current CPU
extern const Family wide_family;       // probe/wide.cpp: 8 bytes on i386, 16 elsewhere
extern const Family operations_family; // probe/operations.cpp: the library's operations under a policy
extern const Family readers_family;    // probe/readers.cpp: read-side critical sections and their updaters
extern const Family cache_family;      // probe/cache.cpp: cache maintenance over a list of entries

} // namespace lw::probe
