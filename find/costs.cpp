// SPDX-License-Identifier: MIT
// The events are those of a real run, on this thread; medians, so that another program's time slice changes nothing.
#include "find/costs.hpp"

#include "find/perf.hpp"
#include "find/processes.hpp"
#include "find/session.hpp"
#include "find/watch.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>
#include <sched.h>
#include <thread>
#include <utility>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace lw::find {

namespace {

constexpr int pairs = 41, hits = 21;
constexpr std::uint64_t window_ns = 500'000, period_ns = 100'000; // short: few windows meet another program's time slice

std::uint64_t median(std::vector<std::uint64_t> values) {
    std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
    return values[values.size() / 2];
}

// What a program keeps in its caches, an interrupt drives out in part: some of these places read one of these words, a
// quarter of a mebibyte in all, and the next one's place depends on it (a linear congruential generator, which meets all of
// them).
constexpr std::size_t kept = 1 << 15;
// A program with much code loses more by an interrupt than one that uses much memory (in virtual machines: whether the CPU
// forgets instructions or branches was not told apart). So each place has a branch of its own, which is always decided
// alike.
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
// No time is taken there, and with the sanitizer's checks all of them take a minute to compile.
constexpr std::size_t functions = 2;
#else
constexpr std::size_t functions = 128;
#endif
constexpr std::size_t branches = 64;

using Places = std::uint64_t (*)(std::uint64_t value, const volatile std::uint64_t *words);

[[gnu::always_inline]] inline void place(std::uint64_t &value, const volatile std::uint64_t *words, std::size_t at) {
    if (words[at * 13 % branches])
        value += at;
    else
        value = value * 5 + words[value % kept];
    asm volatile("" : "+r"(value));
}

template <std::size_t number> std::uint64_t some_places(std::uint64_t value, const volatile std::uint64_t *words) {
    [&]<std::size_t... at>(std::index_sequence<at...>) {
        (place(value, words, number * branches + at), ...);
    }(std::make_index_sequence<branches>{});
    return value;
}

constexpr auto program = []<std::size_t... number>(std::index_sequence<number...>) {
    return std::array<Places, functions>{some_places<number>...};
}(std::make_index_sequence<functions>{});

std::vector<std::uint64_t> kept_words() {
    std::vector<std::uint64_t> words(kept, 1);
    for (std::size_t i = 0; i < branches; i += 3)
        words[i] = 0;
    return words;
}

// Time in ns of `iterations` functions of the program, which goes on where it was. Not inlined: copies of the loop at
// different places were seen to differ by half of what a sample costs.
[[gnu::noinline]] std::uint64_t timed_loop(std::uint64_t iterations) {
    static const std::vector<std::uint64_t> words = kept_words();
    static thread_local std::uint64_t value = 0, next = 0;
    std::uint64_t began = monotonic_ns();
    for (std::uint64_t i = 0; i < iterations; i++)
        value = program[next++ % functions](value, words.data());
    return monotonic_ns() - began;
}

// Iterations that take about one window.
std::uint64_t calibrated() {
    constexpr std::uint64_t first = 8 * functions;
    std::uint64_t took = std::min({timed_loop(first), timed_loop(first), timed_loop(first)});
    return std::max<std::uint64_t>(first, first * window_ns / std::max<std::uint64_t>(took, 1));
}

std::uint64_t samples_in(Ring &ring) {
    std::uint64_t count = 0;
    ring.drain([&](const perf_event_header &record) { count += record.type == PERF_RECORD_SAMPLE; });
    return count;
}

void measure_sample(Costs &costs) {
    perf_event_attr attributes = timer_attributes(period_ns, true, false);
    attributes.inherit = 0; // the ring of an inherited event must be one CPU's
    Handle event(perf_open(attributes, 0, -1));
    if (!event) { // samples in the kernel are not allowed here
        attributes.exclude_kernel = 1;
        event = Handle(perf_open(attributes, 0, -1));
    }
    auto ring = event ? Ring::map(event.get(), 32) : std::nullopt;
    if (!ring)
        return;
    std::uint64_t iterations = calibrated();
    std::vector<std::uint64_t> without, with, samples;
    for (int i = 0; i < pairs; i++) {
        without.push_back(timed_loop(iterations));
        ioctl(event.get(), PERF_EVENT_IOC_ENABLE, 0);
        with.push_back(timed_loop(iterations));
        ioctl(event.get(), PERF_EVENT_IOC_DISABLE, 0);
        samples.push_back(samples_in(*ring));
    }
    std::uint64_t more = median(with), less = median(without), count = median(samples);
    if (!count || more <= less)
        return;
    costs.sample_ns = std::max<std::uint64_t>((more - less) / count, 1);
    costs.sample_measured = true;
}

void measure_watch(Costs &costs) {
    alignas(64) static volatile std::uint64_t word;
    auto self = static_cast<pid_t>(syscall(SYS_gettid));
    Request request{.tid = self, .address = reinterpret_cast<std::uint64_t>(&word)};
    std::vector<std::uint64_t> set, hit;
    for (int i = 0; i < hits; i++) {
        std::uint64_t began = monotonic_ns(), armed, stored;
        {
            Handle event = open_watch(request);
            auto ring = event ? Ring::map(event.get(), 1) : std::nullopt;
            if (!ring || ioctl(event.get(), PERF_EVENT_IOC_REFRESH, 1) != 0)
                return;
            armed = monotonic_ns();
            word = static_cast<std::uint64_t>(i);
            stored = monotonic_ns();
            if (samples_in(*ring) != 1)
                return;
        }
        set.push_back(armed - began + (monotonic_ns() - stored));
        hit.push_back(stored - armed);
    }
    costs.hit_ns = std::max<std::uint64_t>(median(hit), 1);
    costs.arm_ns = std::max<std::uint64_t>(median(set), 1);
    costs.watch_measured = true;
}

// Keeps the calling thread where it is.
class OnOneCpu {
public:
    OnOneCpu() {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        sched_getaffinity(0, sizeof before_, &before_);
        sched_setaffinity(0, sizeof one, &one);
        CPU_XOR(&others_, &before_, &one);
    }
    ~OnOneCpu() { sched_setaffinity(0, sizeof before_, &before_); }
    OnOneCpu(const OnOneCpu &) = delete;
    OnOneCpu &operator=(const OnOneCpu &) = delete;
    const cpu_set_t &others() const { return others_; } // that it may use as well

private:
    cpu_set_t before_{}, others_{};
};

constexpr int setting_rounds = 15, settings = 8;

// A thread that counts on another CPU. What is done from this one takes turns away from it.
class Counting {
public:
    Counting() {
        if (CPU_COUNT(&here_.others()) == 0)
            return;
        thread_ = std::thread([this] {
            sched_setaffinity(0, sizeof(cpu_set_t), &here_.others());
            tid_.store(static_cast<pid_t>(syscall(SYS_gettid)), std::memory_order_release);
            while (!stop_.load(std::memory_order_relaxed)) {
                timed_loop(turn_iterations);
                turns_.fetch_add(1, std::memory_order_relaxed);
            }
        });
        while (!tid_.load(std::memory_order_acquire))
            sched_yield();
    }
    ~Counting() {
        stop_.store(true, std::memory_order_relaxed);
        if (thread_.joinable())
            thread_.join();
    }
    Counting(const Counting &) = delete;
    Counting &operator=(const Counting &) = delete;

    pid_t tid() const { return tid_.load(std::memory_order_relaxed); } // 0 without another CPU
    // Time and turns that `work` took.
    template <class Work> std::pair<double, double> during(Work work) const {
        std::uint64_t began = monotonic_ns(), turns = turns_.load(std::memory_order_relaxed);
        work();
        std::uint64_t took = monotonic_ns() - began;
        return {static_cast<double>(took), static_cast<double>(turns_.load(std::memory_order_relaxed) - turns)};
    }

private:
    static constexpr std::uint64_t turn_iterations = 4; // about a microsecond
    OnOneCpu here_;
    std::atomic<pid_t> tid_{0};
    std::atomic<bool> stop_{false};
    std::atomic<std::uint64_t> turns_{0};
    std::thread thread_;
};

// What a thread on another CPU loses by one watchpoint that is set and closed from here; 0 where that does not show.
std::uint64_t lost_to_setting() {
    alignas(64) static std::uint64_t untouched;
    Counting there;
    if (!there.tid())
        return 0;
    std::vector<std::uint64_t> lost, disturbed;
    for (int i = 0; i < setting_rounds; i++) {
        std::uint64_t slices = slices_of(there.tid());
        auto [calm_ns, calm_turns] = there.during([] {
            for (std::uint64_t began = monotonic_ns(); monotonic_ns() - began < window_ns;)
                continue;
        });
        auto [busy_ns, busy_turns] = there.during([&] {
            for (int k = 0; k < settings; k++) {
                Handle event = open_watch({.tid = there.tid(), .address = reinterpret_cast<std::uint64_t>(&untouched)});
                ioctl(event.get(), PERF_EVENT_IOC_REFRESH, 1);
            }
        });
        double left_ns = busy_ns - busy_turns * calm_ns / std::max(calm_turns, 1.0);
        auto &rounds = slices_of(there.tid()) == slices ? lost : disturbed; // another program had its CPU
        rounds.push_back(static_cast<std::uint64_t>(std::max(left_ns, 0.0)) / settings);
    }
    return median(lost.empty() ? disturbed : lost);
}

// What copying loses while a watchpoint waits on its CPU: processors that have fast instructions for it (rep movsb, as the
// kernel and long calls of memcpy use it) were seen to take 15 times as long then.
double lost_to_waiting() {
    constexpr int turns = 5, copies = 20;
    alignas(64) static std::uint64_t untouched;
    static char bytes[4096];
    int ends[2];
    if (pipe(ends) != 0)
        return 0;
    auto copy = [&] {
        std::uint64_t began = monotonic_ns();
        for (int i = 0; i < copies; i++)
            if (write(ends[1], bytes, sizeof bytes) != sizeof bytes || read(ends[0], bytes, sizeof bytes) < 0)
                break;
        return monotonic_ns() - began;
    };
    auto self = static_cast<pid_t>(syscall(SYS_gettid));
    std::vector<std::uint64_t> without, with;
    for (int i = 0; i < turns; i++) {
        without.push_back(copy());
        Handle event = open_watch({.tid = self, .address = reinterpret_cast<std::uint64_t>(&untouched)});
        ioctl(event.get(), PERF_EVENT_IOC_REFRESH, 1);
        with.push_back(copy());
    }
    close(ends[0]), close(ends[1]);
    auto less = static_cast<double>(std::ranges::min(without)), more = static_cast<double>(std::ranges::min(with));
    return more > less ? 1 - less / more : 0;
}

constexpr int passes = 2, switch_rounds = 8, round_trips = 40;

// Two threads of one CPU that hand a byte to each other; each round trip takes two changes of tasks.
class Handing {
public:
    Handing() {
        if (pipe(there_) != 0 || pipe(back_) != 0)
            return;
        other_ = std::thread([this] { // it inherits the CPU
            tid_.store(static_cast<pid_t>(syscall(SYS_gettid)), std::memory_order_release);
            for (char byte; read(there_[0], &byte, 1) == 1 && write(back_[1], &byte, 1) == 1;)
                continue;
        });
        while (!tid_.load(std::memory_order_acquire))
            sched_yield();
    }
    ~Handing() {
        close(there_[1]);
        if (other_.joinable())
            other_.join();
        for (int fd : {there_[0], back_[0], back_[1]})
            close(fd);
    }
    Handing(const Handing &) = delete;
    Handing &operator=(const Handing &) = delete;

    pid_t other() const { return tid_.load(std::memory_order_relaxed); }
    // Time of the quickest of some rounds, for each change of tasks: other programs' time slices, which these would otherwise
    // share, only lengthen them. `interrupted`: a timer's interrupt comes before each round trip, and so a third change.
    std::uint64_t change_ns(bool interrupted) {
        std::uint64_t best = time_trips(interrupted);
        for (int i = 1; i < switch_rounds; i++)
            best = std::min(best, time_trips(interrupted));
        return best / ((interrupted ? 3 : 2) * round_trips);
    }

private:
    std::uint64_t time_trips(bool interrupted) {
        char byte = 0;
        timespec shortest{.tv_sec = 0, .tv_nsec = 1};
        std::uint64_t began = monotonic_ns();
        for (int i = 0; i < round_trips; i++)
            if ((interrupted && nanosleep(&shortest, nullptr) != 0) || write(there_[1], &byte, 1) != 1 ||
                read(back_[0], &byte, 1) != 1)
                return 0;
        return monotonic_ns() - began;
    }

    OnOneCpu here_;
    int there_[2] = {-1, -1}, back_[2] = {-1, -1};
    std::atomic<pid_t> tid_{0};
    std::thread other_;
};

// What `begin` makes, of the other task, adds to a change of tasks of this CPU while it is there. 0 where that does not show.
template <class Begin> std::uint64_t added_by(Begin begin, bool interrupted) {
    Handing handing;
    if (!handing.other())
        return 0;
    std::uint64_t more = ~0ull, less = ~0ull;
    for (int pass = 0; pass < passes; pass++) {
        less = std::min(less, handing.change_ns(interrupted));
        auto there = begin(handing.other());
        more = std::min(more, handing.change_ns(interrupted));
    }
    return more > less && less ? more - less : 0;
}

Handle enabled(const perf_event_attr &attributes, pid_t tid, int cpu = -1) {
    Handle event(perf_open(attributes, tid, cpu));
    ioctl(event.get(), PERF_EVENT_IOC_ENABLE, 0);
    return event;
}

// Such an event in each of the two tasks: a disabled one costs there, too.
std::uint64_t added_to_switch(const perf_event_attr &attributes, bool interrupted) {
    auto in_both = [&](pid_t other) { return std::array{enabled(attributes, 0), enabled(attributes, other)}; };
    return added_by(in_both, interrupted);
}

// Records of all changes of this CPU.
std::pair<Handle, std::optional<Ring>> recording(pid_t) {
    Handle event = enabled(switch_attributes(), -1, sched_getcpu());
    auto ring = event ? Ring::map(event.get(), 32) : std::nullopt;
    return {std::move(event), std::move(ring)};
}

} // namespace

std::uint64_t measure_switch() { return added_to_switch(timer_attributes(10 * window_ns, false, false), false); }

Costs measure_costs() {
    alignas(64) static std::uint64_t untouched;
    // First of all: a thread that had an event before, and for a second every thread, is left more slowly than one that had
    // none. Interrupted, since a virtual machine's debug registers are trapped once after each exit to the hypervisor.
    std::uint64_t at_switch =
        added_to_switch(watch_attributes({.address = reinterpret_cast<std::uint64_t>(&untouched)}), true);
    Costs costs;
    if (Handle(perf_open(switch_attributes(), -1, sched_getcpu()))) // else none are recorded
        if (std::uint64_t recorded = added_by(recording, false))
            costs.recorded_switch_ns = recorded;
    measure_sample(costs);
    measure_watch(costs);
    if (costs.watch_measured) {
        constexpr double copying_ns = 100'000; // of a program's millisecond: memcached had some 80'000, PostgreSQL 30'000
        costs.watch_switch_ns = at_switch;
        costs.wait_ns = static_cast<std::uint64_t>(copying_ns * lost_to_waiting());
        if (std::uint64_t lost = lost_to_setting())
            costs.arm_ns = lost;
    }
    return costs;
}

} // namespace lw::find
