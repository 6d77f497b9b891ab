// SPDX-License-Identifier: MIT
// The family of single-line operations: every thread performs one form on one line, and the sum must come out.
#include "probe/families.hpp"

#include "probe/line_set.hpp"
#include "probe/machine.hpp"
#include "probe/rmw_loops.hpp"
#include "wire/forms.hpp"

namespace lw::probe {
namespace {

class Rmw final : public Subject {
public:
    Rmw(const wire::Cell &cell, const Rmw_loop &loop, const Rmw_loop &empty)
        : cell_(cell), loop_(loop), empty_(empty), lines_(cell.lines), expected_(cell.lines, 0) {}

    unsigned lines() const override { return lines_.count(); }
    Batch loop(unsigned thread) const override {
        return thread > 0 && cell_.contender == "placebo" ? empty_.issue : loop_.issue;
    }
    Batch baseline(unsigned) const override { return empty_.issue; }
    Batch completed() const override { return loop_.completed; }
    Batch completed_baseline() const override { return empty_.completed; }
    unsigned small_batch_ops() const override { return 16; }

    // Contended or not, the baseline's contenders only spin: one baseline serves every form with the same loop.
    std::string baseline_key() const override {
        return "rmw/" + cell_.work + std::to_string(cell_.work_iters) + "/t" + std::to_string(cell_.threads) + "/ci" +
               std::to_string(cell_.contender_iters) + "/" + cell_.placement + "/u" + std::to_string(cell_.width_bits);
    }

    Loop_args arguments(unsigned thread, unsigned line) override {
        Loop_args args;
        args.target = lines_.line(line);
        set_work(args, cell_, thread);
        args.operand = cell_.operation == "xchg" ? thread + 1 : 1;
        return args;
    }

    // Additions: the line holds one count for every operation. Exchanges: what went in equals what came out plus what
    // is still there. Reads and empty loops: the line keeps its value.
    void account(unsigned line, std::span<const Loop_args> args, std::span<const std::uint64_t> ops) override {
        for (std::size_t thread = 0; thread < args.size(); ++thread) {
            if (thread > 0 && cell_.contender == "placebo")
                continue;
            if (cell_.operation == "read" || cell_.operation == "none")
                continue;
            expected_[line] += ops[thread] * args[thread].operand - args[thread].sum_out;
        }
    }

    std::optional<Check> check() override {
        Check sum;
        for (unsigned line = 0; line < lines_.count(); ++line)
            if (cell_.width_bits == 64)
                sum.add(expected_[line], lines_.load<std::uint64_t>(line));
            else
                sum.add(static_cast<std::uint32_t>(expected_[line]), lines_.load<std::uint32_t>(line));
        return sum;
    }

private:
    const wire::Cell cell_;
    const Rmw_loop &loop_;
    const Rmw_loop &empty_;
    Line_set lines_;
    std::vector<std::uint64_t> expected_;
};

Made make(const wire::Cell &cell, const Machine &machine) {
    const wire::Form *form = wire::find_form(cell.form, cell.width_bits);
    const Rmw_loop *loop = find_rmw_loop(cell.form, cell.width_bits, machine.loop_place);
    if (!form || !loop)
        return {nullptr, "this architecture has no form " + cell.form + " of " + std::to_string(cell.width_bits) + " bits"};
    if (!machine.has(form->needs))
        return lacking(form->needs, cell);
    if (!cell.params.empty())
        throw wire::Invalid(cell.id() + ": operation " + cell.operation + " takes no parameters");
    const Rmw_loop *empty = find_rmw_loop("empty", cell.width_bits, machine.loop_place);
    if (!empty)
        throw wire::Invalid(cell.id() + ": no baseline loop at this width");
    return {std::make_unique<Rmw>(cell, *loop, *empty), ""};
}

} // namespace

const Family rmw_family{"rmw", make};

} // namespace lw::probe
