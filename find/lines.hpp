// SPDX-License-Identifier: MIT
// The sampler's output: JSON lines as linewright/find/stream.py defines them, written through one buffer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lw::find {

// Collects lines and writes them to a file descriptor; a reader that went away ends the output, never the program.
class Output {
public:
    explicit Output(int fd) : fd_(fd) {}
    ~Output() { flush(); }
    Output(const Output &) = delete;
    Output &operator=(const Output &) = delete;

    void flush();
    bool broken() const { return broken_; }

private:
    friend class Line;
    int fd_;
    bool broken_ = false;
    std::string buffer_;
};

// One line; its fields are written in the order of the calls, and the end of the object ends the line.
class Line {
public:
    Line(Output &output, std::string_view type);
    ~Line();
    Line(const Line &) = delete;
    Line &operator=(const Line &) = delete;

    Line &number(std::string_view key, std::uint64_t value);
    Line &flag(std::string_view key, bool value);
    Line &text(std::string_view key, std::string_view value); // bytes that are not UTF-8 become U+FFFD
    Line &list(std::string_view key, std::span<const std::uint64_t> values);
    Line &texts(std::string_view key, std::span<const std::string> values);
    Line &hex(std::string_view key, std::span<const std::uint8_t> bytes);

private:
    void key(std::string_view name);
    void quoted(std::string_view value);
    Output &out_;
};

} // namespace lw::find
