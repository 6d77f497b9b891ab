// SPDX-License-Identifier: MIT
// Cache lines spread over pages and page offsets, so that no cell depends on one line's home node or one cache set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lw::probe {

// `count` lines, each on a page of its own and at an offset of its own (multiples of 256 bytes: two 128-byte lines,
// so that prefetchers of line pairs do not tie neighbours together). Zeroed and touched at construction.
class Line_set {
public:
    explicit Line_set(unsigned count);
    ~Line_set();
    Line_set(const Line_set &) = delete;
    Line_set &operator=(const Line_set &) = delete;

    unsigned count() const { return count_; }
    void *line(unsigned index) const;

    template <class T> T load(unsigned index) const {
        return __atomic_load_n(static_cast<T *>(line(index)), __ATOMIC_SEQ_CST);
    }

private:
    unsigned count_;
    std::size_t page_;
    std::size_t bytes_;
    unsigned char *base_;
};

} // namespace lw::probe
