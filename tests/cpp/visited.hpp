// SPDX-License-Identifier: MIT
// The states that an exploration has met, by digests of 128 bits, which cost less to keep and compare than the states. Two
// of a hundred million states have the same digest by chance once in 10^22 explorations, and only then is a state
// overlooked.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

class Digest {
public:
    // Each half is a bijection of what it was and of the word, so texts that differ in one word never meet.
    Digest &word(uint64_t w) {
        low_ = (low_ ^ w) * 0x9fb21c651e98df25u;
        low_ ^= low_ >> 32;
        high_ = (high_ + w) * 0xd6e8feb86659fd93u;
        high_ ^= high_ >> 29;
        return *this;
    }
    Digest &bytes(const void *begin, size_t size) {
        const char *at = static_cast<const char *>(begin);
        word(size);
        for (; size >= sizeof(uint64_t); at += sizeof(uint64_t), size -= sizeof(uint64_t)) {
            uint64_t w;
            std::memcpy(&w, at, sizeof w);
            word(w);
        }
        uint64_t rest = 0;
        std::memcpy(&rest, at, size);
        return size ? word(rest) : *this;
    }
    Digest &of(const Digest &other) { return word(other.low_).word(other.high_); }
    size_t place() const { return low_ ^ high_; }
    auto operator<=>(const Digest &) const = default;

private:
    uint64_t low_ = 1, high_ = 1;
};

// A table with open addressing, at most half full.
class Visited {
public:
    // False: it is there already.
    bool insert(const Digest &d) {
        if (2 * size_ >= table_.size())
            grow();
        Digest &place = find(d);
        if (place == d)
            return false;
        place = d;
        size_++;
        return true;
    }
    size_t size() const { return size_; }

private:
    Digest &find(const Digest &d) {
        size_t i = d.place() & (table_.size() - 1);
        while (table_[i] != d && table_[i] != Digest())
            i = (i + 1) & (table_.size() - 1);
        return table_[i];
    }
    void grow() {
        std::vector<Digest> before(table_.empty() ? 1024 : 2 * table_.size());
        before.swap(table_);
        for (const Digest &d : before)
            if (d != Digest())
                find(d) = d;
    }
    std::vector<Digest> table_; // an empty place is the digest of nothing
    size_t size_ = 0;
};
