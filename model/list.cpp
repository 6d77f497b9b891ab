// SPDX-License-Identifier: MIT
// A pass over a scatter list: the saving of one wait for all entries follows from three constants.
#include "model/list.hpp"

#include <algorithm>
#include <vector>

#include <fmt/core.h>

namespace lw::model {

bool is_list(const wire::Cell &cell) { return cell.operation == "clean" || cell.operation == "clean_invalidate"; }

List_outcome run_list(const Machine &machine, const wire::Cell &cell) {
    const Constants &c = machine.constants;
    for (const auto &[key, value] : cell.params)
        if (key != "entry_bytes" && key != "entries" && key != "wait" && key != "state" && key != "align_bytes")
            throw wire::Invalid(fmt::format("{}: no parameter {}", cell.id(), key));
    const std::string wait = cell.text("wait", "once");
    const std::uint64_t bytes = cell.number("entry_bytes", 4096), entries = cell.number("entries", 2560);
    if (wait != "each" && wait != "once")
        throw wire::Invalid(fmt::format("{}: no wait {}; allowed: each, once", cell.id(), wait));
    if (bytes < 1 || bytes > (1u << 26) || entries < 1 || entries > 1'000'000 || bytes * entries > (1u << 29))
        throw wire::Invalid(cell.id() +
                            ": entry_bytes from 1 to 64 MiB, entries from 1 to 1000000, together at most 512 MiB");
    const std::uint64_t align = cell.number("align_bytes", 0) % list_line_bytes;
    const std::uint64_t lines = (align + bytes + list_line_bytes - 1) / list_line_bytes;
    // A ring of the ends of the lines under way: a line is issued once there is room for it.
    std::vector<Ps> ends(static_cast<std::size_t>(c.maintain_outstanding), 0);
    std::size_t oldest = 0;
    Ps now = 0, last = 0;
    List_outcome outcome;
    for (std::uint64_t entry = 0; entry < entries; ++entry) {
        for (std::uint64_t line = 0; line < lines; ++line) {
            now = std::max(now, ends[oldest]);
            last = std::max(last, now + c.maintain_busy);
            ends[oldest] = now + c.maintain_busy;
            oldest = (oldest + 1) % ends.size();
            now += c.maintain_issue;
        }
        if (wait == "each" || entry + 1 == entries) {
            now = std::max(now, last) + c.maintain_drain;
            ++outcome.waits;
        }
    }
    outcome.pass = now;
    outcome.lines = lines * entries;
    outcome.walk = static_cast<Ps>(outcome.lines) * c.loop;
    return outcome;
}

} // namespace lw::model
