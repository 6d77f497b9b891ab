// SPDX-License-Identifier: MIT
// Finds a timed loop over a single-line form, by form, width and place.
#include "probe/rmw_loops.hpp"

#include <algorithm>
#include <array>

namespace lw::probe {

template <> std::span<const Rmw_loop> rmw_loops_at<0>();
template <> std::span<const Rmw_loop> rmw_loops_at<1>();
template <> std::span<const Rmw_loop> rmw_loops_at<2>();
template <> std::span<const Rmw_loop> rmw_loops_at<3>();

const Rmw_loop *find_rmw_loop(std::string_view form, unsigned width_bits, unsigned place) {
    constexpr std::array places{rmw_loops_at<0>, rmw_loops_at<1>, rmw_loops_at<2>, rmw_loops_at<3>};
    static_assert(places.size() == loop_places);
    const std::span<const Rmw_loop> loops = places.at(place)();
    auto found =
        std::ranges::find_if(loops, [&](const Rmw_loop &l) { return l.form == form && l.width_bits == width_bits; });
    return found == loops.end() ? nullptr : &*found;
}

} // namespace lw::probe
