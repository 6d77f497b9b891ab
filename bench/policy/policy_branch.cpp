// SPDX-License-Identifier: MIT
// A locked add with the test of the policy word in front of it against the same add without: ratios from one run.
//
// x86 has one form per operation and reads no policy, so what arm64 programs do is rebuilt here on x86 forms: one load
// of the library's own word, one mask, one branch that is never taken, and behind it the forms not chosen.
//
// Work between the operations is the probe's: dependent additions of one cycle each, entered at a run-time offset. Each loop
// stands at four places in the code, and the rounds go through all pairs of places, so that the luck of a place is in the
// intervals.
#include "loop.hpp"

#include "../brief.h"

#include <linewright/arch/forms.h>
#include <linewright/policy.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#if defined(__x86_64__)
namespace {

using Word = std::uint64_t;

struct Locked {
    static void plain(Word *p) { lw_lock_add_u64(p, 1); }
    static void otherwise(Word *p) { lw_cmpxchg_loop_read_first_u64(p, 1); }
    static constexpr const char *name = "lock add";
};

struct Value {
    static void plain(Word *p) {
        Word old = lw_lock_xadd_u64(p, 1);
        __asm__ volatile("" : : "r"(old));
    }
    static void otherwise(Word *p) { lw_cmpxchg_loop_guess_first_u64(p, 1); }
    static constexpr const char *name = "lock xadd";
};

// The cheapest read-modify-write there is: no latency can hide the branch here.
struct Unlocked {
    static void plain(Word *p) { lw_plain_add_u64(p, 1); }
    static void otherwise(Word *p) { lw_lock_add_u64(p, 1); }
    static constexpr const char *name = "plain add";
};

template <class Form> [[gnu::always_inline]] inline void by_policy(Word *p) {
    std::uint32_t policy = __atomic_load_n(&lw_policy_word, __ATOMIC_RELAXED) & LW_POLICY_AT(LW_POLICY_VOID, LW_POLICY_MASK);
    if (__builtin_expect(policy != 0, 0)) {
        if (policy & LW_POLICY_AT(LW_POLICY_VOID, LW_POLICY_PREFETCH_BIT))
            lw_prefetchw(p);
        if (policy & LW_POLICY_AT(LW_POLICY_VOID, LW_POLICY_LLSC_BIT))
            return Form::otherwise(p);
    }
    Form::plain(p);
}

using lw::probe::loop_offset_bytes, lw::probe::loop_places, lw::probe::Loop_args, lw::probe::with_work;

// What a loop does in each turn. `Baseline` is the same loop with the operation left out.
template <class Form> struct Plain {
    static void step(Word *p) { Form::plain(p); }
};
template <class Form> struct By_policy {
    static void step(Word *p) { by_policy<Form>(p); }
};
struct Baseline {
    static void step(Word *p) { __asm__ volatile("" : : "r"(p)); }
};

template <class Body, unsigned place> [[gnu::noinline]] void loop(Loop_args &args) {
    with_work(args, [&](auto work) __attribute__((always_inline)) {
        auto *p = static_cast<Word *>(args.target);
        std::size_t left = args.ops;
        __asm__ volatile(".p2align 6\n\t.rept %c0\n\tnop\n\t.endr" : : "i"(loop_offset_bytes(place)));
        do {
            Body::step(p);
            work();
        } while (--left);
    });
}

using Loop = void (*)(Loop_args &);
using Placed = std::array<Loop, loop_places>;
template <class Body>
constexpr Placed placed = []<std::size_t... place>(std::index_sequence<place...>) {
    return Placed{loop<Body, place>...};
}(std::make_index_sequence<loop_places>{});

double ns_per_operation(Loop run, Loop_args args) {
    auto begin = std::chrono::steady_clock::now();
    run(args);
    std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    return took.count() / static_cast<double>(args.ops);
}

constexpr unsigned pairs_of_places = loop_places * loop_places;
const unsigned rounds = static_cast<unsigned>(lw_bench_times(7, 1)) * pairs_of_places;
const int window_ns = lw_bench_times(400'000, 40'000);

struct Middle {
    double median, low, high; // interval of the median by order statistics: 95 %, ranks n/2 -+ 0.98 sqrt(n)
};

Middle middle(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    std::size_t half = v.size() / 2, away = std::size_t(std::ceil(0.98 * std::sqrt(double(v.size()))));
    return {v[half], v[half - away], v[half + away]};
}

void compare(const char *name, const Placed &without, const Placed &with, unsigned work) {
    alignas(256) static std::array<Word, 32> line{};
    Loop_args args{.target = line.data(), .ops = 20'000, .work = work};
    args.ops = static_cast<std::size_t>(window_ns / std::max(ns_per_operation(without[0], args), 0.1));
    std::vector<double> alone, tested, ratio, exposed;
    for (unsigned round = 0; round < rounds; round++) {
        unsigned pair = round % pairs_of_places, place = pair / loop_places;
        Loop plain = without[place], branch = with[pair % loop_places];
        double a, b;
        if (round / pairs_of_places % 2) { // neither is always second
            a = ns_per_operation(plain, args);
            b = ns_per_operation(branch, args);
        } else {
            b = ns_per_operation(branch, args);
            a = ns_per_operation(plain, args);
        }
        double baseline = ns_per_operation(placed<Baseline>[place], args);
        alone.push_back(a - baseline);
        tested.push_back(b - baseline);
        ratio.push_back(b / a);
        exposed.push_back(b - a);
    }
    Middle a = middle(alone), b = middle(tested), r = middle(ratio), d = middle(exposed);
    std::printf("%-10s %5u  %8.3f %8.3f   %6.4f [%6.4f, %6.4f]   %+7.3f [%+.3f, %+.3f]\n", name, work, a.median, b.median,
                r.median, r.low, r.high, d.median, d.low, d.high);
}

template <class Form> void compare_at(unsigned work) {
    compare(Form::name, placed<Plain<Form>>, placed<By_policy<Form>>, work);
}

} // namespace

int main() {
    if (lw_policy_set("default") != 0 || lw_policy_word != 0) {
        std::fprintf(stderr, "policy_branch: the policy word is not clear\n");
        return 3;
    }
    std::printf(
        "ns per operation above the baseline loop (median of %u interleaved windows at 4 x 4 places), and the whole loop's ratio\n",
        rounds);
    std::printf("%-10s %5s  %8s %8s   %-24s   %s\n", "operation", "work", "without", "with", "ratio [95 %]",
                "difference, ns [95 %]");
    for (unsigned work : {0u, 10u, 20u, 100u}) {
        compare_at<Locked>(work);
        compare_at<Value>(work);
        compare_at<Unlocked>(work);
    }
    std::puts(
        "work 0 is back to back, the others exposed, in cycles of work; goal: no interval of a locked operation apart from 1");
    return 0;
}
#else
int main() {
    std::puts("the policy branch is timed on x86-64 only; see arm64_instructions for its length there");
    return 0;
}
#endif
