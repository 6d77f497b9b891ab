// SPDX-License-Identifier: MIT
// The family of library operations: what a program that calls lw_add_u64() and its like pays, under a given policy.
//
// The policy is process-wide: the timed thread sets it before each of its windows, and the next cell sets its own.
#include "probe/families.hpp"

#include "probe/line_set.hpp"
#include "probe/machine.hpp"
#include "probe/step_loops.hpp"
#include "wire/forms.hpp"

#include <linewright/atomic.h>
#include <linewright/policy.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace lw::probe {
namespace {
inline namespace place0 {

template <class T, auto Read, auto Op> [[gnu::always_inline]] inline void run_cmpxchg(Loop_args &args) {
    T *line = static_cast<T *>(args.target);
    const T operand = static_cast<T>(args.operand);
    repeat(args, [=] {
        T old = Read(line); // relaxed: what it saw counts only if the compare-and-swap finds it still there
        while (!Op(line, &old, static_cast<T>(old + operand))) {
        }
    });
}

void run_empty(Loop_args &args) {
    void *line = args.target;
    repeat(args, [=] { __asm__ volatile("" : : "r"(line)); });
}

struct Row {
    std::string_view form;
    unsigned width_bits;
    Batch loop;
};

// op_add_release at 8 bits calls lw_add_u8_release; the table has one row for each, spelt out by these.
#define LW_VALUE_ROWS(name, bits, RUN)                                                                       \
    Row{"op_" #name, bits, RUN(name, bits, )}, Row{"op_" #name "_relaxed", bits, RUN(name, bits, _relaxed)}, \
        Row{"op_" #name "_acquire", bits, RUN(name, bits, _acquire)},                                        \
        Row{"op_" #name "_release", bits, RUN(name, bits, _release)}, Row {                                  \
        "op_" #name "_acq_rel", bits, RUN(name, bits, _acq_rel)                                              \
    }
#define LW_ADD(name, bits, order) run_add<std::uint##bits##_t, lw_##name##_u##bits##order>
#define LW_XCHG(name, bits, order) run_xchg<std::uint##bits##_t, lw_##name##_u##bits##order>
#define LW_CMPXCHG(name, bits, order) \
    run_cmpxchg<std::uint##bits##_t, lw_read_u##bits##_relaxed, lw_try_##name##_u##bits##order>
#define LW_ROWS(bits)                                                                                   \
    Row{"op_add", bits, LW_ADD(add, bits, )}, Row{"op_add_release", bits, LW_ADD(add, bits, _release)}, \
        LW_VALUE_ROWS(fetch_add, bits, LW_ADD), LW_VALUE_ROWS(xchg, bits, LW_XCHG),                     \
        LW_VALUE_ROWS(cmpxchg, bits, LW_CMPXCHG)

constexpr auto rows = std::to_array<Row>({LW_ROWS(8), LW_ROWS(16), LW_ROWS(32), LW_ROWS(64)});

const Row *find_row(std::string_view form, unsigned width_bits) {
    for (const Row &row : rows)
        if (row.form == form && row.width_bits == width_bits)
            return &row;
    return nullptr;
}

class Operation final : public Subject {
public:
    Operation(const wire::Cell &cell, const Row &row, std::string policy)
        : cell_(cell), row_(row), policy_(std::move(policy)), lines_(cell.lines), expected_(cell.lines, 0) {}

    unsigned lines() const override { return lines_.count(); }
    Batch loop(unsigned thread) const override { return thread > 0 && cell_.contender == "placebo" ? run_empty : row_.loop; }
    Batch baseline(unsigned) const override { return run_empty; }
    unsigned small_batch_ops() const override { return 16; }
    std::string baseline_key() const override {
        return "operations/" + cell_.work + std::to_string(cell_.work_iters) + "/t" + std::to_string(cell_.threads) + "/ci" +
               std::to_string(cell_.contender_iters) + "/" + cell_.placement;
    }

    Loop_args arguments(unsigned thread, unsigned line) override {
        if (thread == 0)
            lw_policy_set(policy_.c_str()); // cannot fail: make() has tried it on this CPU
        Loop_args args;
        args.target = lines_.line(line);
        set_work(args, cell_, thread);
        args.operand = cell_.operation == "library_xchg" ? thread + 1 : 1;
        return args;
    }

    void account(unsigned line, std::span<const Loop_args> args, std::span<const std::uint64_t> ops) override {
        for (std::size_t thread = 0; thread < args.size(); ++thread)
            if (thread == 0 || cell_.contender != "placebo")
                expected_[line] += ops[thread] * args[thread].operand - args[thread].sum_out;
    }

    // Modulo the width: a byte holds the last eight bits of a long count.
    std::optional<Check> check() override {
        const std::uint64_t mask = cell_.width_bits == 64 ? ~0ULL : (1ULL << cell_.width_bits) - 1;
        Check sum;
        for (unsigned line = 0; line < lines_.count(); ++line) // the whole word: nothing beside a narrow operand may change
            sum.add(expected_[line] & mask, lines_.load<std::uint64_t>(line));
        return sum;
    }

private:
    const wire::Cell cell_;
    const Row &row_;
    const std::string policy_;
    Line_set lines_;
    std::vector<std::uint64_t> expected_;
};

// Parameter `policy`: a setting of LINEWRIGHT_ATOMICS with '+' for ',' and '-' for '=' (an id is written without those).
std::string policy_of(const wire::Cell &cell) {
    std::string text = "default";
    for (const auto &[name, value] : cell.params) {
        const std::string *word = std::get_if<std::string>(&value);
        if (name != "policy" || !word)
            throw wire::Invalid(cell.id() + ": parameter " + name + "; allowed: policy, a word");
        text = *word;
    }
    for (char &c : text)
        c = c == '+' ? ',' : c == '-' ? '=' : c;
    return text;
}

Made make(const wire::Cell &cell, const Machine &) {
    const Row *row = find_row(cell.form, cell.width_bits);
    if (!row)
        return {nullptr, "this architecture has no form " + cell.form + " of " + std::to_string(cell.width_bits) + " bits"};
    const std::string policy = policy_of(cell);
    std::array<char, 320> why{};
    struct lw_policy parsed;
    if (lw_policy_parse(policy.c_str(), &parsed, why.data(), why.size()) != 0)
        throw wire::Invalid(cell.id() + ": policy: " + why.data());
    if (lw_policy_set(policy.c_str()) == -EOPNOTSUPP)
        return {nullptr, "this CPU lacks the LSE atomics that policy " + policy + " asks for"};
    return {std::make_unique<Operation>(cell, *row, policy), ""};
}

} // namespace place0
} // namespace

template <> const Family Families_at<0>::operations{"operations", make};

} // namespace lw::probe
