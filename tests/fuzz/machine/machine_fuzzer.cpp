// SPDX-License-Identifier: MIT
// Whatever the text, the reader answers with a machine or with Bad_machine, and an accepted machine runs under its laws.
#include "model/engine.hpp"

#include <algorithm>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace lw;
    model::Machine machine;
    try {
        machine = model::parse_machine(std::string(reinterpret_cast<const char *>(data), size));
    } catch (const model::Bad_machine &) {
        return 0;
    }
    const bool arm = machine.arch == "arm64";
    for (const char *form :
         {arm ? "prfm_keep_stadd" : "prefetchw_lock_add", arm ? "cas_loop_read_first" : "cmpxchg_loop_read_first",
          arm ? "llsc_add" : "cmpxchg_loop_guess_first"}) {
        wire::Cell cell;
        cell.operation = "add";
        cell.form = form;
        cell.work_iters = 5;
        if (machine.cores > 1) {
            cell.contender = "same_line";
            cell.threads = std::min(machine.cores, 4u);
        }
        if (!model::obstacle(machine, cell).empty())
            continue;
        const model::Setup setup = model::make_setup(machine, cell, {0, 1, 2, 3}, model::Harness::published);
        const model::Limits limits{.warm_ops = 2, .ops = 20, .batch_ops = 5, .time = 10'000'000, .visits = 0};
        model::run(machine, setup, limits, model::Start::shared, 1, true);
    }
    return 0;
}
