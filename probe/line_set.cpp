// SPDX-License-Identifier: MIT
// Maps the lines of a cell.
#include "probe/line_set.hpp"

#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace lw::probe {

Line_set::Line_set(unsigned count)
    : count_(count), page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))), bytes_(page_ * count) {
    void *memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw std::bad_alloc();
    base_ = static_cast<unsigned char *>(memory);
    std::memset(base_, 0, bytes_);
}

Line_set::~Line_set() { munmap(base_, bytes_); }

void *Line_set::line(unsigned index) const {
    // 4096 / 256 = 16 offsets on the smallest page, then again from the start, on other pages.
    return base_ + index * page_ + (index * 256u) % page_;
}

} // namespace lw::probe
