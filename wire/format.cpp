// SPDX-License-Identifier: MIT
// The formatting library, compiled once: every other file includes its declarations, fmt/core.h, alone.
// A static program has no libfmt.so, Debian has no libfmt.a, and neither exists for another architecture.
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>

namespace lw::wire {

// Its functions are inline here. One whose address is taken is emitted, and is what the others call.
using Format = std::string (*)(fmt::string_view, fmt::format_args);
extern const Format format_by_library;
const Format format_by_library = static_cast<Format>(fmt::vformat);

} // namespace lw::wire
