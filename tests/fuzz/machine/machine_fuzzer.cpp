// Whatever the text, the reader answers with a machine or with Bad_machine, and an accepted machine runs under its laws.
#include "model/engine.hpp"

#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace lw;
    model::Machine machine;
    try {
        machine = model::parse_machine(std::string(reinterpret_cast<const char *>(data), size));
    } catch (const model::Bad_machine &) {
        return 0;
    }
    wire::Cell cell;
    cell.operation = "add";
    cell.form = machine.arch == "arm64" ? "stadd" : "lock_add";
    cell.work_iters = 5;
    if (machine.cores > 1) {
        cell.contender = "same_line";
        cell.threads = 2;
    }
    if (!model::obstacle(machine, cell).empty())
        return 0;
    const model::Setup setup = model::make_setup(machine, cell, {0, 1}, model::Harness::published);
    const model::Limits limits{.warm_ops = 2, .ops = 20, .batch_ops = 5, .time = 10'000'000, .visits = 0};
    model::run(machine, setup, limits, model::Start::shared, 1, true);
    return 0;
}
