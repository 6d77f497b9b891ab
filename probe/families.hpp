// SPDX-License-Identifier: MIT
// Every family of cells, by name, and one declaration for each.
#pragma once

#include "probe/subject.hpp"

namespace lw::probe {

// Each is probe/<name>.cpp, runs the forms of wire/forms/<name>.def, and is found by that file (probe/CMakeLists.txt).
// Families that define themselves at a place are compiled whole at every place of loops (probe/loop.hpp), the others once.
// A pass of cache maintenance takes microseconds, nearly all of it outside its loop.
#define LW_PLACED(name)
#define LW_ONCE(name) extern const Family name##_family;
#include "every_family.def"
#undef LW_ONCE
#undef LW_PLACED

#define LW_ONCE(name)
template <unsigned place> struct Families_at {
#define LW_PLACED(name) static const Family name;
#include "every_family.def"
#undef LW_PLACED
};
#define LW_PLACED(name)                            \
    template <> const Family Families_at<0>::name; \
    template <> const Family Families_at<1>::name; \
    template <> const Family Families_at<2>::name; \
    template <> const Family Families_at<3>::name;
#include "every_family.def"
#undef LW_PLACED
#undef LW_ONCE

} // namespace lw::probe
