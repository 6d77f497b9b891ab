// A locked add with the test of the policy word in front of it against the same add without: ratios from one run.
//
// x86 has one form per operation and reads no policy, so what arm64 programs do is rebuilt here on x86 forms: one load
// of the library's own word, one mask, one branch that is never taken, and behind it the forms not chosen.
#include <linewright/arch/forms.h>
#include <linewright/policy.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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

template <class Form, bool policy> [[gnu::noinline]] void loop(Word *p, unsigned ops, unsigned work) {
    for (; ops; --ops) {
        if constexpr (policy)
            by_policy<Form>(p);
        else
            Form::plain(p);
        for (unsigned w = work; w; --w)
            __asm__ volatile("nop");
    }
}

// Baseline loop: the same loop with the operation left out.
[[gnu::noinline]] void empty(Word *p, unsigned ops, unsigned work) {
    for (; ops; --ops) {
        __asm__ volatile("" : : "r"(p));
        for (unsigned w = work; w; --w)
            __asm__ volatile("nop");
    }
}

using Loop = void (*)(Word *, unsigned, unsigned);

double ns_per_operation(Loop run, Word *p, unsigned ops, unsigned work) {
    auto begin = std::chrono::steady_clock::now();
    run(p, ops, work);
    std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    return took.count() / ops;
}

constexpr unsigned rounds = 101;
constexpr unsigned window_ns = 400'000;

struct Middle {
    double median, low, high; // interval of the median by order statistics, 95 % for 101 samples: ranks 41 and 61
};

Middle middle(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return {v[50], v[40], v[60]};
}

void compare(const char *name, Loop without, Loop with, unsigned work) {
    alignas(256) static std::array<Word, 32> line{};
    Word *p = line.data();
    auto ops = static_cast<unsigned>(window_ns / std::max(ns_per_operation(without, p, 20'000, work), 0.1));
    std::vector<double> alone, tested, ratio, exposed;
    for (unsigned round = 0; round < rounds; round++) {
        double a, b;
        if (round % 2) { // neither is always second
            a = ns_per_operation(without, p, ops, work);
            b = ns_per_operation(with, p, ops, work);
        } else {
            b = ns_per_operation(with, p, ops, work);
            a = ns_per_operation(without, p, ops, work);
        }
        double baseline = ns_per_operation(empty, p, ops, work);
        alone.push_back(a - baseline);
        tested.push_back(b - baseline);
        ratio.push_back(b / a);
        exposed.push_back(b - a);
    }
    Middle a = middle(alone), b = middle(tested), r = middle(ratio), d = middle(exposed);
    std::printf("%-10s %5u  %8.3f %8.3f   %6.4f [%6.4f, %6.4f]   %+7.3f [%+.3f, %+.3f]\n", name, work, a.median, b.median,
                r.median, r.low, r.high, d.median, d.low, d.high);
}

template <class Form> void compare_at(unsigned work) { compare(Form::name, loop<Form, false>, loop<Form, true>, work); }

} // namespace

int main() {
    if (lw_policy_set("default") != 0 || lw_policy_word != 0) {
        std::fprintf(stderr, "policy_branch: the policy word is not clear\n");
        return 3;
    }
    std::printf("ns per operation above the empty loop (median of %u interleaved windows), and the whole loop's ratio\n",
                rounds);
    std::printf("%-10s %5s  %8s %8s   %-24s   %s\n", "operation", "work", "without", "with", "ratio [95 %]",
                "difference, ns [95 %]");
    for (unsigned work : {0u, 20u, 100u}) {
        compare_at<Locked>(work);
        compare_at<Value>(work);
        compare_at<Unlocked>(work);
    }
    std::puts("work 0 is back to back, the others exposed; goal: no interval of a locked operation apart from 1");
    return 0;
}
#else
int main() {
    std::puts("the policy branch is timed on x86-64 only; see arm64_instructions for its length there");
    return 0;
}
#endif
