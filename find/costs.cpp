// The events are those of a real run, on this thread; medians, so that another program's time slice changes nothing.
#include "find/costs.hpp"

#include "find/perf.hpp"
#include "find/session.hpp"
#include "find/watch.hpp"

#include <algorithm>
#include <atomic>
#include <sched.h>
#include <thread>
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

// Not inlined: copies of the loop at different places were seen to differ by half of what a sample costs.
[[gnu::noinline]] std::uint64_t timed_loop(std::uint64_t iterations) {
    std::uint64_t began = monotonic_ns();
    for (std::uint64_t i = 0; i < iterations; i++)
        asm volatile("" : "+r"(i));
    return monotonic_ns() - began;
}

// Iterations that take about one window.
std::uint64_t calibrated() {
    constexpr std::uint64_t first = 20'000;
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
            Handle event(perf_open(watch_attributes(request), self, -1));
            auto ring = event ? Ring::map(event.get(), 1) : std::nullopt;
            if (!ring || ioctl(event.get(), PERF_EVENT_IOC_REFRESH, 1) != 0)
                return;
            armed = monotonic_ns();
            word = static_cast<std::uint64_t>(i);
            stored = monotonic_ns();
            if (samples_in(*ring) != 1)
                return;
        }
        set.push_back(armed - began);
        hit.push_back(stored - armed);
    }
    costs.hit_ns = std::max<std::uint64_t>(median(hit), 1);
    costs.arm_ns = std::max<std::uint64_t>(median(set), 1);
    costs.watch_measured = true;
}

constexpr int switch_rounds = 15, round_trips = 100;

// Two threads of one CPU that hand a byte to each other; each round trip takes two changes of tasks.
class Handing {
public:
    Handing() {
        if (pipe(there_) != 0 || pipe(back_) != 0)
            return;
        cpu_set_t before, one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        sched_getaffinity(0, sizeof before, &before);
        sched_setaffinity(0, sizeof one, &one); // the new thread inherits it
        other_ = std::thread([this] {
            tid_.store(static_cast<pid_t>(syscall(SYS_gettid)), std::memory_order_release);
            for (char byte; read(there_[0], &byte, 1) == 1 && write(back_[1], &byte, 1) == 1;)
                continue;
        });
        while (!tid_.load(std::memory_order_acquire))
            sched_yield();
        before_ = before;
    }
    ~Handing() {
        close(there_[1]);
        if (other_.joinable()) {
            other_.join();
            sched_setaffinity(0, sizeof before_, &before_);
        }
        for (int fd : {there_[0], back_[0], back_[1]})
            close(fd);
    }
    Handing(const Handing &) = delete;
    Handing &operator=(const Handing &) = delete;

    pid_t other() const { return tid_.load(std::memory_order_relaxed); }
    std::uint64_t time_trips() {
        char byte = 0;
        std::uint64_t began = monotonic_ns();
        for (int i = 0; i < round_trips; i++)
            if (write(there_[1], &byte, 1) != 1 || read(back_[0], &byte, 1) != 1)
                return 0;
        return monotonic_ns() - began;
    }

private:
    int there_[2] = {-1, -1}, back_[2] = {-1, -1};
    std::atomic<pid_t> tid_{0};
    cpu_set_t before_{};
    std::thread other_;
};

// What such an event in each of two tasks of a CPU adds to a change between them; 0 where that does not show.
std::uint64_t added_to_switch(const perf_event_attr &attributes) {
    Handing handing;
    if (!handing.other())
        return 0;
    Handle events[] = {Handle(perf_open(attributes, 0, -1)), Handle(perf_open(attributes, handing.other(), -1))};
    std::vector<std::uint64_t> without, with;
    for (int i = 0; i < switch_rounds; i++) {
        without.push_back(handing.time_trips());
        for (const Handle &event : events)
            ioctl(event.get(), PERF_EVENT_IOC_ENABLE, 0);
        with.push_back(handing.time_trips());
        for (const Handle &event : events)
            ioctl(event.get(), PERF_EVENT_IOC_DISABLE, 0);
    }
    // The shortest of each: other programs' time slices, which these would otherwise share, only lengthen them.
    std::uint64_t more = std::ranges::min(with), less = std::ranges::min(without);
    return more > less && less ? (more - less) / (2 * round_trips) : 0;
}

} // namespace

std::uint64_t measure_switch() { return added_to_switch(timer_attributes(10 * window_ns, false, false)); }

Costs measure_costs() {
    Costs costs;
    measure_sample(costs);
    measure_watch(costs);
    alignas(64) static std::uint64_t untouched;
    if (costs.watch_measured)
        costs.watch_switch_ns = added_to_switch(watch_attributes({.address = reinterpret_cast<std::uint64_t>(&untouched)}));
    return costs;
}

} // namespace lw::find
