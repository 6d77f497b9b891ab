// SPDX-License-Identifier: MIT
// The family of words apart: two threads, each on a word of its own, a stated number of bytes from the other's.
//
// Parameter `bytes_apart` (8 to 512): from the timed thread's word up to the other one. Parameter `half`: `lower` or
// `upper`, the half of an aligned pair of 64-byte lines that the timed word lies in. 64 bytes up from the lower half is the
// other line of the same pair, 64 bytes up from the upper half is a line of the next pair.
#include "probe/families.hpp"

#include "probe/line_set.hpp"
#include "probe/machine.hpp"
#include "wire/forms.hpp"

#include <algorithm>
#include <array>
#include <variant>
#include <vector>

namespace lw::probe {
namespace {
inline namespace place0 {

constexpr std::size_t half_bytes = 64, most_apart = 512;

template <class T> [[gnu::always_inline]] inline void plain_add(T *word) {
    *word += 1;
    __asm__ volatile("" : : : "memory"); // one add each time
}

// What a compiler makes of an add without a wanted value. Relaxed: the word is all that there is, nothing is published by
// it.
template <class T> [[gnu::always_inline]] inline void c11_add(T *word) { __atomic_fetch_add(word, T{1}, __ATOMIC_RELAXED); }

void run_apart_empty(Loop_args &args) {
    repeat(args, [word = args.target] { __asm__ volatile("" : : "r"(word)); });
}

template <class T> void run_apart_plain(Loop_args &args) {
    repeat(args, [word = static_cast<T *>(args.target)] { plain_add(word); });
}

template <class T> void run_apart_c11(Loop_args &args) {
    repeat(args, [word = static_cast<T *>(args.target)] { c11_add(word); });
}

template <class T> void run_apart_read(Loop_args &args) {
    repeat(args, [word = static_cast<const T *>(args.target)] {
        const T value = __atomic_load_n(word, __ATOMIC_RELAXED); // a word that nothing writes: its line may
        __asm__ volatile("" : : "r"(value));                     // the value is wanted: the read may not be dropped
    });
}

// The word that both threads write, then the thread's own.
template <class T> void run_apart_beside_shared(Loop_args &args) {
    repeat(args, [word = static_cast<T *>(args.target), shared = static_cast<T *>(args.state)] {
        c11_add(shared);
        plain_add(word);
    });
}

// What either thread runs, and which words it adds to.
struct Apart_loop {
    std::string_view form;
    unsigned bits;
    Batch timed, other;
    bool timed_adds, other_adds, both_add_to_other;
};

template <class T, unsigned bits>
constexpr std::array loops{
    Apart_loop{"apart_plain_add", bits, run_apart_plain<T>, run_apart_plain<T>, true, true, false},
    Apart_loop{"apart_c11_add", bits, run_apart_c11<T>, run_apart_c11<T>, true, true, false},
    Apart_loop{"apart_read", bits, run_apart_read<T>, run_apart_plain<T>, false, true, false},
    Apart_loop{"apart_add_beside_reader", bits, run_apart_plain<T>, run_apart_read<T>, true, false, false},
    Apart_loop{"apart_add_beside_shared", bits, run_apart_beside_shared<T>, run_apart_c11<T>, true, true, true},
};

const Apart_loop *find_loop(std::string_view form, unsigned bits) {
    auto search = [&](const auto &all) -> const Apart_loop * {
        const auto found = std::ranges::find(all, form, &Apart_loop::form);
        return found == all.end() ? nullptr : &*found;
    };
    return bits == 32 ? search(loops<std::uint32_t, 32>) : bits == 64 ? search(loops<std::uint64_t, 64>) : nullptr;
}

struct Distance {
    std::size_t bytes_apart = 0; // 0: the other thread is a placebo and has no word
    bool upper = false;
};

class Apart final : public Subject {
public:
    Apart(const wire::Cell &cell, const Apart_loop &loop, Distance distance)
        : cell_(cell), loop_(loop), distance_(distance), lines_(2 * cell.lines), added_(cell.lines) {}

    unsigned lines() const override { return cell_.lines; }
    Batch loop(unsigned thread) const override {
        return thread == 0 ? loop_.timed : placebo() ? run_apart_empty : loop_.other;
    }
    Batch baseline(unsigned) const override { return run_apart_empty; }
    std::string baseline_key() const override {
        return "spacing/" + cell_.work + std::to_string(cell_.work_iters) + "/ci" + std::to_string(cell_.contender_iters) +
               "/" + cell_.placement + "/u" + std::to_string(cell_.width_bits);
    }

    Loop_args arguments(unsigned thread, unsigned line) override {
        Loop_args args;
        args.target = thread == 0 ? timed_word(line) : other_word(line);
        set_work(args, cell_, thread);
        args.state = other_word(line);
        return args;
    }

    void account(unsigned line, std::span<const Loop_args>, std::span<const std::uint64_t> ops) override {
        Sums &sums = added_[line];
        sums.timed += loop_.timed_adds ? ops[0] : 0;
        sums.other += (loop_.both_add_to_other ? ops[0] : 0) + (loop_.other_adds && !placebo() ? ops[1] : 0);
    }

    // Either word holds one count for every add to it.
    std::optional<Check> check() override {
        Check sum;
        for (unsigned line = 0; line < cell_.lines; ++line)
            for (const auto &[word, added] :
                 {std::pair{timed_word(line), added_[line].timed}, {other_word(line), added_[line].other}})
                sum.add(cell_.width_bits == 64 ? added : static_cast<std::uint32_t>(added), value_of(word));
        return sum;
    }

private:
    struct Sums {
        std::uint64_t timed = 0, other = 0;
    };

    bool placebo() const { return cell_.contender == "placebo"; }

    // On every second page: what lies behind the end of one reaches into a page that no other line has.
    char *timed_word(unsigned line) const {
        return static_cast<char *>(lines_.line(2 * line)) + (distance_.upper ? half_bytes : 0);
    }
    char *other_word(unsigned line) const { return timed_word(line) + (placebo() ? most_apart : distance_.bytes_apart); }

    std::uint64_t value_of(const char *word) const {
        return cell_.width_bits == 64 ? *reinterpret_cast<const std::uint64_t *>(word)
                                      : *reinterpret_cast<const std::uint32_t *>(word);
    }

    const wire::Cell cell_;
    const Apart_loop &loop_;
    const Distance distance_;
    Line_set lines_;
    std::vector<Sums> added_;
};

Distance distance_of(const wire::Cell &cell) {
    Distance found;
    bool half = false; // is stated
    for (const auto &[key, value] : cell.params) {
        const auto *number = std::get_if<std::uint64_t>(&value);
        const auto *word = std::get_if<std::string>(&value);
        if (key == "bytes_apart" && number && *number >= 8 && *number <= most_apart && *number % 8 == 0)
            found.bytes_apart = *number;
        else if (key == "half" && word && (*word == "lower" || *word == "upper"))
            half = true, found.upper = *word == "upper";
        else
            throw wire::Invalid(cell.id() + ": parameter " + key +
                                ": allowed are bytes_apart, a multiple of 8 from 8 to 512, and half, lower or upper");
    }
    if (!half || (found.bytes_apart == 0) != (cell.contender == "placebo"))
        throw wire::Invalid(cell.id() + ": words apart have a half, and bytes_apart unless the second thread is a placebo");
    return found;
}

Made make(const wire::Cell &cell, const Machine &) {
    const wire::Form *form = wire::find_form(cell.form, cell.width_bits);
    const Apart_loop *loop = find_loop(cell.form, cell.width_bits);
    if (!form || !loop || form->operation != cell.operation)
        return {nullptr, "this architecture has no form " + cell.form + " of " + std::to_string(cell.width_bits) +
                             " bits for " + cell.operation};
    if (cell.threads != 2)
        throw wire::Invalid(cell.id() + ": words apart are those of 2 threads");
    const Distance distance = distance_of(cell);
    return {std::make_unique<Apart>(cell, *loop, distance), ""};
}

} // namespace place0
} // namespace

template <> const Family Families_at<0>::spacing{"spacing", make};

} // namespace lw::probe
