// SPDX-License-Identifier: MIT
// Anonymous memory of this process in KiB, counted page by page: /proc/self/status and statm may be wrong by dozens of pages for
// each CPU. 0 where the kernel does not count it.
#pragma once
#include <fstream>
#include <string>

inline long own_memory_kib() {
    std::ifstream pages("/proc/self/smaps_rollup");
    long kib = 0;
    for (std::string word; !kib && pages >> word;)
        if (word == "Anonymous:")
            pages >> kib;
    return kib;
}
