// SPDX-License-Identifier: MIT
// What a section of slice.h costs, beside the same loop without it, in turns: as this kernel has it, and as a kernel that has extensions and grants
// none, whose part two bytes of ours take. The thread's CPU time, so that other programs count little: the least and the median of all turns.
#include <linewright/slice.h>

#include "../brief.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include <time.h>

namespace {

constexpr unsigned pairs = 20000;

double cpu_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

template <class Section> double one_ns(Section section) {
    const double begun = cpu_ns();
    for (unsigned i = 0; i < pairs; i++)
        section();
    return (cpu_ns() - begun) / pairs;
}

void show(const char *name, unsigned turns) {
    std::vector<double> all;
    double least = 1e9, least_empty = 1e9;
    for (unsigned turn = 0; turn < turns; turn++) {
        const double empty = one_ns([] { __asm__ volatile("" : : : "memory"); });
        const double section = one_ns([] {
            lw_slice_begin();
            lw_slice_end();
        });
        least = std::min(least, section);
        least_empty = std::min(least_empty, empty);
        all.push_back(section - empty);
    }
    std::sort(all.begin(), all.end());
    const double median = all[all.size() / 2], of_least = least - least_empty;
    std::printf("%-34s %5.2f ns of the least, %5.2f of the median turn, goal 1: %s\n", name, of_least, median,
                std::max(of_least, median) <= 1 ? "met"
                : of_least > 1                  ? "not met"
                                                : "undecided");
}

} // namespace

int main() {
    const char *why;
    const bool available = lw_slice_available(&why);
    const auto turns = static_cast<unsigned>(lw_bench_times(2000, 20));
    std::printf("lw_slice_begin() and lw_slice_end() together, less the loop; this process: %s\n", why);
    show(available ? "extensions, as they are" : "no extensions", turns);
    if (!available) {
        alignas(4) static uint8_t bytes[4];
        lw__slice.control = lw__slice.outer = bytes;
        show("extensions, none granted", turns);
    }
    return 0;
}
