// Every family of cells, by name, and one declaration for each.
#pragma once

#include "probe/subject.hpp"

namespace lw::probe {

// In the order in which they are asked; each is probe/<name>.cpp. Families that are `placed` are compiled whole at every
// place of loops (probe/loop.hpp), the others once. A pass of cache maintenance takes microseconds, nearly all of it
// outside its loop.
#define LW_FAMILIES(once, placed) \
    once(rmw) placed(handoff) placed(percpu) placed(wide) placed(operations) once(cache) once(readers)

#define LW_NOTHING(name)
#define LW_ONCE(name) extern const Family name##_family;
LW_FAMILIES(LW_ONCE, LW_NOTHING)
#undef LW_ONCE

template <unsigned place> struct Families_at {
#define LW_MEMBER(name) static const Family name;
    LW_FAMILIES(LW_NOTHING, LW_MEMBER)
#undef LW_MEMBER
};
#define LW_PLACED(name)                            \
    template <> const Family Families_at<0>::name; \
    template <> const Family Families_at<1>::name; \
    template <> const Family Families_at<2>::name; \
    template <> const Family Families_at<3>::name;
LW_FAMILIES(LW_NOTHING, LW_PLACED)
#undef LW_PLACED
#undef LW_NOTHING

} // namespace lw::probe
