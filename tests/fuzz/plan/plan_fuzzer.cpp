// SPDX-License-Identifier: MIT
// libFuzzer target: whatever bytes come, a plan is read or refused with a line of text; nothing else happens.
#include "probe/topology.hpp"
#include "wire/schema.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    std::string text(reinterpret_cast<const char *>(data), size);
    try {
        lw::wire::Plan plan = lw::wire::parse_plan(text);
        for (const lw::wire::Cell &cell : plan.cells)
            if (cell.id().empty())
                std::abort();
    } catch (const lw::wire::Invalid &error) {
        if (std::string(error.what()).find('\n') != std::string::npos)
            std::abort(); // a refusal is one line
    }
    auto cpus = lw::probe::parse_cpu_list(text);
    if (cpus && cpus->size() > 65'536 * (size + 1))
        std::abort();
    return 0;
}
