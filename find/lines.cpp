// SPDX-License-Identifier: MIT
// Writes JSON lines without a library: the sampler runs beside the program under test and must stay small.
#include "find/lines.hpp"

#include <cerrno>
#include <charconv>
#include <unistd.h>

namespace lw::find {

namespace {

constexpr std::size_t flush_at = 1 << 16;

// Length of the UTF-8 character that begins at `at`, or 0 where there is none. Overlong forms and surrogates are none.
std::size_t character(std::string_view text, std::size_t at) {
    auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    unsigned char first = byte(at);
    std::size_t length = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
    if (length == 0 || at + length > text.size())
        return 0;
    std::uint32_t point = length == 1 ? first : first & (0xFF >> (length + 1));
    for (std::size_t i = 1; i < length; i++) {
        if (byte(at + i) >> 6 != 2)
            return 0;
        point = point << 6 | (byte(at + i) & 0x3F);
    }
    constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    return point < least[length] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000) ? 0 : length;
}

} // namespace

void Output::flush() {
    for (std::size_t done = 0; done < buffer_.size() && !broken_;) {
        ssize_t written = write(fd_, buffer_.data() + done, buffer_.size() - done);
        if (written > 0)
            done += static_cast<std::size_t>(written);
        else if (errno != EINTR)
            broken_ = true;
    }
    buffer_.clear();
}

Line::Line(Output &output, std::string_view type) : out_(output) {
    out_.buffer_ += "{\"type\":";
    quoted(type);
}

Line::~Line() {
    out_.buffer_ += "}\n";
    if (out_.buffer_.size() > flush_at)
        out_.flush();
}

void Line::key(std::string_view name) {
    out_.buffer_ += ",\"";
    out_.buffer_ += name;
    out_.buffer_ += "\":";
}

void Line::quoted(std::string_view value) {
    std::string &to = out_.buffer_;
    constexpr char digits[] = "0123456789abcdef";
    to += '"';
    for (std::size_t at = 0; at < value.size();) {
        std::size_t length = character(value, at);
        unsigned char first = static_cast<unsigned char>(value[at]);
        if (length == 0) {
            to += "\xEF\xBF\xBD";
            length = 1;
        } else if (first == '"' || first == '\\') {
            to += '\\';
            to += static_cast<char>(first);
        } else if (first < 0x20) {
            to += "\\u00";
            to += digits[first >> 4];
            to += digits[first & 15];
        } else {
            to += value.substr(at, length);
        }
        at += length;
    }
    to += '"';
}

Line &Line::number(std::string_view name, std::uint64_t value) {
    key(name);
    char digits[24];
    auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    out_.buffer_.append(digits, end);
    return *this;
}

Line &Line::flag(std::string_view name, bool value) {
    key(name);
    out_.buffer_ += value ? "true" : "false";
    return *this;
}

Line &Line::text(std::string_view name, std::string_view value) {
    key(name);
    quoted(value);
    return *this;
}

Line &Line::list(std::string_view name, std::span<const std::uint64_t> values) {
    key(name);
    out_.buffer_ += '[';
    char digits[24];
    for (std::size_t i = 0; i < values.size(); i++) {
        if (i)
            out_.buffer_ += ',';
        out_.buffer_.append(digits, std::to_chars(digits, digits + sizeof digits, values[i]).ptr);
    }
    out_.buffer_ += ']';
    return *this;
}

Line &Line::texts(std::string_view name, std::span<const std::string> values) {
    key(name);
    out_.buffer_ += '[';
    for (std::size_t i = 0; i < values.size(); i++) {
        if (i)
            out_.buffer_ += ',';
        quoted(values[i]);
    }
    out_.buffer_ += ']';
    return *this;
}

Line &Line::hex(std::string_view name, std::span<const std::uint8_t> bytes) {
    key(name);
    constexpr char digits[] = "0123456789abcdef";
    out_.buffer_ += '"';
    for (std::uint8_t byte : bytes) {
        out_.buffer_ += digits[byte >> 4];
        out_.buffer_ += digits[byte & 15];
    }
    out_.buffer_ += '"';
    return *this;
}

} // namespace lw::find
