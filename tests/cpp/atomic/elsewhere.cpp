// SPDX-License-Identifier: MIT
// Another shared object of the same program, everything hidden in it but this function: who waits is woken from here.
#include <linewright/atomic.h>

extern "C" LW_API void raise_elsewhere(uint32_t *word) {
    lw::atomic_ref<uint32_t> ref(*word);
    ref.store(1);
    ref.notify_all();
}
