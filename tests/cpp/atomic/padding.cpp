// SPDX-License-Identifier: MIT
// A compare-exchange of a type with padding, and of one that is declared to have none.
#include <linewright/atomic.h>

struct Floats {
    float a, b;
};
template <> inline constexpr bool lw::has_no_padding<Floats> = true;

bool exchange(Floats &object, Floats expected);
bool exchange(Floats &object, Floats expected) {
    return lw::atomic_ref<Floats>(object).compare_exchange_strong(expected, {1, 2});
}

#ifdef WITH_PADDING
struct Padded {
    char letter;
    int number;
};
bool exchange(Padded &object, Padded expected);
bool exchange(Padded &object, Padded expected) {
    return lw::atomic_ref<Padded>(object).compare_exchange_strong(expected, {'a', 1});
}
#endif
