// SPDX-License-Identifier: MIT
// The family of operations wider than a register: reads and writes of one operand in a stated share, by every thread.
//
// Parameter `write_percent` (0 to 100): the share of writes among a thread's operations, spread evenly. A write turns
// all bits over, so that a torn read shows; where the form is an add, a write is that add and the sum must come out.
// Parameter `rounds=counted`: the loop of compare-exchanges is written out and its failed rounds counted. It is not the
// form itself (it keeps a count), so its times are those of no form.
#include "probe/families.hpp"

#include "probe/line_set.hpp"
#include "probe/machine.hpp"
#include "probe/own_rows.hpp"
#include "wire/forms.hpp"

#include <linewright/wide.h>

#include <algorithm>
#include <array>
#include <vector>

namespace lw::probe {
namespace {
inline namespace place0 {

#if !defined(__i386__) && !defined(__x86_64__) && !defined(__aarch64__) && !defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16)
Made make(const wire::Cell &, const Machine &) {
    return {nullptr, "this architecture has no compare-and-swap wider than a register"};
}
#else

#if defined(__i386__)
constexpr unsigned bits = 64;
using Value = std::uint64_t;
using Operand = lw_u64;
#else
constexpr unsigned bits = 128;
__extension__ using Value = unsigned __int128;
using Operand = lw_u128;
#endif

// What a thread brings to its loop and takes out of it; on lines of its own.
struct alignas(256) Slot {
    unsigned write_percent = 0;
    std::uint64_t writes = 0; // made
    std::uint64_t reads = 0;
    std::uint64_t torn = 0; // values read that no thread wrote
    std::uint64_t failed = 0; // rounds, where they are counted
};

[[gnu::always_inline]] inline bool is_torn(Value v) { return v + 1 > 1; } // neither 0 nor all ones

// The mix: the same count-down for every form and every share, so that one baseline loop serves all of them.
template <class Read, class Write> [[gnu::always_inline]] inline void mix(Loop_args &args, Read read, Write write) {
    auto *slot = static_cast<Slot *>(args.state);
    const unsigned percent = slot->write_percent;
    unsigned due = 0;
    std::size_t writes = 0;
    with_work(args, [&](auto work) __attribute__((always_inline)) {
        align_loop();
        for (std::size_t left = args.ops; left; --left) {
            due += percent;
            if (due >= 100) {
                due -= 100;
                write();
                ++writes;
            } else {
                read();
            }
            work();
        }
    });
    slot->writes += writes;
    slot->reads += args.ops - writes;
}

// The plainest forms that this CPU has: for the part of a mix that the form does not name. Asked outside the loop.
enum class Plain { vector, fallback };

template <Plain plain> [[gnu::always_inline]] inline Value plain_read(Operand *p) {
#if defined(__i386__)
    return plain == Plain::vector ? lw_movq_read_u64(p) : lw_fild_read_u64(p);
#elif defined(__x86_64__)
    return plain == Plain::vector ? lw_movdqa_read_u128(p) : lw_cmpxchg16b_read_once_u128(p);
#elif defined(__aarch64__)
    return plain == Plain::vector ? lw_ldp_read_u128(p) : lw_ldxp_stxp_read_u128(p);
#endif
}

template <Plain plain> [[gnu::always_inline]] inline void plain_write(Operand *p, Value v) {
#if defined(__i386__)
    plain == Plain::vector ? lw_movq_write_u64(p, v) : lw_fistp_write_u64(p, v);
#elif defined(__x86_64__)
    plain == Plain::vector ? lw_movdqa_write_u128(p, v) : (void)lw_cmpxchg16b_loop_xchg_u128(p, v);
#elif defined(__aarch64__)
    plain == Plain::vector ? lw_stp_write_u128(p, v) : (void)lw_ldxp_stxp_xchg_u128(p, v);
#endif
}

// The three kinds of form, by operation.
template <auto Form, Plain plain> void run_wide_read(Loop_args &args) {
    auto *p = static_cast<Operand *>(args.target);
    Value v = 0;
    std::size_t torn = 0;
    mix(args, [&] { torn += is_torn(Form(p)); }, [&] { plain_write<plain>(p, v = ~v); });
    static_cast<Slot *>(args.state)->torn += torn;
}

template <auto Form, Plain plain> void run_wide_write(Loop_args &args) {
    auto *p = static_cast<Operand *>(args.target);
    Value v = 0;
    std::size_t torn = 0;
    mix(args, [&] { torn += is_torn(plain_read<plain>(p)); }, [&] { Form(p, v = ~v); });
    static_cast<Slot *>(args.state)->torn += torn;
}

// Reads of a counter: any value may be there, so nothing but the sum is checked.
template <auto Form, Plain plain> void run_wide_add(Loop_args &args) {
    auto *p = static_cast<Operand *>(args.target);
    Value last = 0;
    auto read = [&] {
        Value v = plain_read<plain>(p);
        __asm__ volatile("" : : "m"(v)); // the value is wanted
    };
    if constexpr (requires { Form(p, last, &last); })
        mix(args, read, [&] { (void)Form(p, 1, &last); });
    else
        mix(args, read, [&] { (void)Form(p, 1); });
}

void run_empty(Loop_args &args) {
    Slot own = *static_cast<Slot *>(args.state); // a baseline's operations are not counted
    void *state = args.state;
    args.state = &own;
    mix(args, [] { __asm__ volatile(""); }, [] { __asm__ volatile(""); });
    args.state = state;
}

#if defined(__i386__) || defined(__x86_64__)
[[gnu::always_inline]] inline bool swap_if(Operand *p, Value *old, Value desired) {
#if defined(__i386__)
    return lw_cmpxchg8b_u64(p, old, desired);
#else
    return lw_cmpxchg16b_u128(p, old, desired);
#endif
}

[[gnu::always_inline]] inline Value read_twice(Operand *p) {
#if defined(__i386__)
    return lw_read_twice_read_u64(p);
#else
    return lw_read_twice_read_u128(p);
#endif
}

// A verify loop whose failed rounds are counted.
template <Plain plain> void count_verify(Loop_args &args) {
    auto *p = static_cast<Operand *>(args.target);
    Value v = 0;
    std::size_t torn = 0, failed = 0;
    mix(
        args,
        [&] {
            Value old = read_twice(p);
            while (!swap_if(p, &old, old)) {
                ++failed;
                old = read_twice(p);
            }
            torn += is_torn(old);
        },
        [&] { plain_write<plain>(p, v = ~v); });
    static_cast<Slot *>(args.state)->torn += torn;
    static_cast<Slot *>(args.state)->failed += failed;
}
#endif

#if defined(__i386__) || defined(__x86_64__) || defined(__aarch64__)
// One round of a form that writes by a loop: whether the value is there now; `old` is what was.
#if defined(__aarch64__)
[[gnu::always_inline]] inline Value read_twice(Operand *p) { return lw_read_twice_read_u128(p); }
[[gnu::always_inline]] inline bool casp_round(Operand *p, Value *old, Value v) { return lw_casp_u128(p, old, v); }
[[gnu::always_inline]] inline bool pair_round(Operand *p, Value *old, Value v) { return lw_ldxp_stxp_round_u128(p, old, v); }
#endif

// A write by compare-exchange or exclusive pair whose failed rounds are counted.
template <auto round, Plain plain> void count_write(Loop_args &args) {
    auto *p = static_cast<Operand *>(args.target);
    Value v = 0;
    std::size_t torn = 0, failed = 0;
    mix(
        args, [&] { torn += is_torn(plain_read<plain>(p)); },
        [&] {
            Value old = read_twice(p);
            v = ~v;
            while (!round(p, &old, v))
                ++failed;
        });
    static_cast<Slot *>(args.state)->torn += torn;
    static_cast<Slot *>(args.state)->failed += failed;
}
#endif

#if defined(__i386__)
enum class Start { torn, read, guess, last };

// An add whose failed rounds are counted, from each of the four starts.
template <Start start, Plain plain> void count_add(Loop_args &args) {
    auto *p = static_cast<Operand *>(args.target);
    Value last = 0;
    std::size_t failed = 0;
    mix(
        args,
        [&] {
            Value v = plain_read<plain>(p);
            __asm__ volatile("" : : "m"(v));
        },
        [&] {
            Value old = start == Start::torn    ? read_twice(p)
                        : start == Start::read  ? plain_read<plain>(p)
                        : start == Start::guess ? Value{LW_WIDE_GUESS}
                                                : last;
            while (!swap_if(p, &old, old + 1))
                ++failed;
            last = old + 1;
        });
    static_cast<Slot *>(args.state)->failed += failed;
}
#endif

struct Wide_loop {
    std::string_view form;
    std::array<Batch, 2> run; // by Plain
    std::array<Batch, 2> counted{nullptr, nullptr};
};

#define LW_ROW(name, operation, order, width, needs) \
    Wide_loop{                                       \
        #name,                                       \
        {run_##operation<lw_##name##_u##width, Plain::vector>, run_##operation<lw_##name##_u##width, Plain::fallback>}},

#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__)
const auto loops = [] {
    auto all = std::to_array<Wide_loop>({
#include "wire/forms/wide.def"
    });
    for ([[maybe_unused]] Wide_loop &loop : all) {
#if defined(__i386__) || defined(__x86_64__)
        const wire::Form *form = wire::find_form(loop.form, bits);
        if (!form || !wire::made_of(loop.form).retries)
            continue;
        if (form->operation == "wide_read")
            loop.counted = {count_verify<Plain::vector>, count_verify<Plain::fallback>};
        if (form->operation == "wide_write")
            loop.counted = {count_write<swap_if, Plain::vector>, count_write<swap_if, Plain::fallback>};
#elif defined(__aarch64__)
        if (loop.form == "casp_loop_xchg")
            loop.counted = {count_write<casp_round, Plain::vector>, count_write<casp_round, Plain::fallback>};
        if (loop.form == "ldxp_stxp_xchg")
            loop.counted = {count_write<pair_round, Plain::vector>, count_write<pair_round, Plain::fallback>};
#endif
#if defined(__i386__)
        auto count = [&]<Start start>(std::string_view form) {
            if (loop.form == form)
                loop.counted = {count_add<start, Plain::vector>, count_add<start, Plain::fallback>};
        };
        count.operator()<Start::torn>("cmpxchg8b_loop_torn_first_add");
        count.operator()<Start::read>("cmpxchg8b_loop_read_first_add");
        count.operator()<Start::guess>("cmpxchg8b_loop_guess_first_add");
        count.operator()<Start::last>("cmpxchg8b_loop_last_value_add");
#endif
    }
    return all;
}();
#else
const std::array<Wide_loop, 0> loops{};
#endif
#undef LW_ROW

const Wide_loop *find_loop(const wire::Cell &cell) {
    auto found = std::ranges::find_if(loops, [&](const Wide_loop &loop) { return loop.form == cell.form; });
    return found == loops.end() || cell.width_bits != bits ? nullptr : &*found;
}

class Wide final : public Subject {
public:
    Wide(const wire::Cell &cell, Batch loop, unsigned write_percent)
        : cell_(cell), loop_(loop), write_percent_(write_percent), lines_(cell.lines), slots_(cell.threads),
          writes_(cell.lines, 0), total_(cell.threads) {}

    unsigned lines() const override { return lines_.count(); }
    Batch loop(unsigned thread) const override { return thread > 0 && cell_.contender == "placebo" ? run_empty : loop_; }
    Batch baseline(unsigned) const override { return run_empty; }
    std::string baseline_key() const override {
        return "wide/p" + std::to_string(write_percent_) + "/" + cell_.work + std::to_string(cell_.work_iters) + "/t" +
               std::to_string(cell_.threads) + "/ci" + std::to_string(cell_.contender_iters) + "/" + cell_.placement;
    }

    Loop_args arguments(unsigned thread, unsigned line) override {
        Slot &slot = slots_[thread];
        slot = Slot{};
        slot.write_percent = write_percent_;
        Loop_args args;
        args.target = lines_.line(line);
        set_work(args, cell_, thread);
        args.state = &slot;
        return args;
    }

    // A window has ended: what its threads counted joins the cell's totals.
    void account(unsigned line, std::span<const Loop_args> args, std::span<const std::uint64_t>) override {
        for (std::size_t thread = 0; thread < args.size(); ++thread) {
            const Slot &slot = slots_[thread];
            Slot &total = total_[thread];
            total.writes += slot.writes;
            total.reads += slot.reads;
            total.torn += slot.torn;
            total.failed += slot.failed;
            writes_[line] += slot.writes;
        }
    }

    // An add: every write is one count. Else: no value may be torn, but for the control, which is there to tear.
    std::optional<Check> check() override {
        if (cell_.operation == "wide_add") {
            Check sum;
            for (unsigned line = 0; line < lines_.count(); ++line)
                sum.add(writes_[line], static_cast<std::uint64_t>(*static_cast<Operand *>(lines_.line(line))));
            return sum;
        }
        if (cell_.form == "read_twice_read")
            return std::nullopt;
        return Check{0, sum_of(&Slot::torn)};
    }

    void metrics(std::map<std::string, double> &values) override {
        values["torn_values"] = static_cast<double>(sum_of(&Slot::torn));
        values["wide_reads"] = static_cast<double>(sum_of(&Slot::reads));
        values["wide_writes"] = static_cast<double>(sum_of(&Slot::writes));
        if (cell_.params.contains("rounds"))
            values["failed_rounds_per_op"] =
                static_cast<double>(sum_of(&Slot::failed)) /
                static_cast<double>(std::max<std::uint64_t>(1, cell_.operation == "wide_read" ? sum_of(&Slot::reads)
                                                                                              : sum_of(&Slot::writes)));
    }

private:
    std::uint64_t sum_of(std::uint64_t Slot::*field) const {
        std::uint64_t sum = 0;
        for (const Slot &total : total_)
            sum += total.*field;
        return sum;
    }

    const wire::Cell cell_;
    const Batch loop_;
    const unsigned write_percent_;
    Line_set lines_;
    std::vector<Slot> slots_; // of the window that runs
    std::vector<std::uint64_t> writes_; // by line
    std::vector<Slot> total_; // of the cell, by thread
};

// The parameters, checked: share of writes, and whether rounds are counted.
std::pair<unsigned, bool> parameters(const wire::Cell &cell) {
    std::pair<unsigned, bool> out{0, false};
    for (const auto &[key, value] : cell.params) {
        const auto *number = std::get_if<std::uint64_t>(&value);
        const auto *word = std::get_if<std::string>(&value);
        if (key == "write_percent" && number && *number <= 100)
            out.first = static_cast<unsigned>(*number);
        else if (key == "rounds" && word && *word == "counted")
            out.second = true;
        else
            throw wire::Invalid(cell.id() + ": parameter " + key +
                                ": allowed are write_percent from 0 to 100 and rounds=counted");
    }
    return out;
}

Made make(const wire::Cell &cell, const Machine &machine) {
    const auto [percent, counted] = parameters(cell);
    const wire::Form *form = wire::find_form(cell.form, cell.width_bits);
    const Wide_loop *loop = find_loop(cell);
    if (!form || !loop)
        return {nullptr, "this architecture has no form " + cell.form + " of " + std::to_string(cell.width_bits) + " bits"};
    if (!machine.has(form->needs))
        return lacking(form->needs, cell);
#if defined(__i386__)
    const Plain plain = machine.has("sse2") ? Plain::vector : Plain::fallback;
#elif defined(__x86_64__)
    const Plain plain = machine.has("avx") ? Plain::vector : Plain::fallback;
    if (plain == Plain::fallback && !machine.has("cx16"))
        return {nullptr, "this CPU has neither avx nor cx16"};
#else
    const Plain plain = machine.has("lse2") ? Plain::vector : Plain::fallback;
#endif
    const Batch batch = (counted ? loop->counted : loop->run)[static_cast<unsigned>(plain)];
    if (!batch)
        throw wire::Invalid(cell.id() + ": rounds=counted is for compare-exchange loops that may fail");
    return {std::make_unique<Wide>(cell, batch, percent), ""};
}
#endif

} // namespace place0
} // namespace

template <> const Family Families_at<0>::wide{"wide", make};

} // namespace lw::probe
