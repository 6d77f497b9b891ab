// SPDX-License-Identifier: MIT
// Hardware breakpoints through perf: each is enabled for exactly one hit (PERF_EVENT_IOC_REFRESH 1) and then closed.
#include "find/watch.hpp"

#include "find/processes.hpp"

#include <algorithm>
#include <cerrno>
#include <linux/hw_breakpoint.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace lw::find {

perf_event_attr watch_attributes(const Request &request) {
    perf_event_attr attributes = common_attributes();
    attributes.type = PERF_TYPE_BREAKPOINT;
    attributes.bp_type = request.reads ? HW_BREAKPOINT_RW : HW_BREAKPOINT_W;
    attributes.bp_addr = request.address;
    attributes.bp_len = request.length;
    attributes.sample_period = 1;
    attributes.wakeup_events = 1;
    attributes.disabled = 1;
    attributes.exclude_kernel = 1;
    return attributes;
}

Handle open_watch(const Request &request, int cpu) {
    perf_event_attr attributes = watch_attributes(request);
    attributes.exclude_kernel = 0;
    pid_t tid = cpu < 0 ? request.tid : -1;
    Handle event(perf_open(attributes, tid, cpu));
    if (!event && (errno == EACCES || errno == EPERM)) {
        attributes.exclude_kernel = 1;
        event = Handle(perf_open(attributes, tid, cpu));
    }
    return event;
}

namespace {

const char *why(int error) {
    switch (error) {
    case ESRCH: return "gone";
    case ENOSPC:
    case EBUSY: return "busy";
    default: return "refused";
    }
}

constexpr std::uint64_t ms_ns = 1'000'000;

bool same_bytes(const Request &one, const Request &other) {
    return one.address == other.address && one.length == other.length && one.reads == other.reads;
}

} // namespace

// The budget grows with time; a first allowance lets the first lines be watched at once, also in a program that soon ends. A
// thread's watchpoint is set anew whenever the thread gets a CPU, and what that comes to is known when it has ended: until
// then it is taken to cost what the earlier ones did.
bool Watches::affordable(std::size_t points) const {
    constexpr std::uint64_t allowance_ns = 20'000'000, unknown_ns = 500'000;
    std::uint64_t ended = count_ - points_, one_ns = ended ? cost_ns() / ended : unknown_ns;
    std::uint64_t pending = (points_ + points) * std::max(one_ns, costs_.hit_ns + costs_.arm_ns);
    auto earned = static_cast<std::uint64_t>(share_ * static_cast<double>(busy_ns_));
    return cost_ns() + pending <= earned + allowance_ns;
}

// A CPU's watchpoints take registers from all threads.
bool Watches::free_for(pid_t tid) const {
    unsigned used = 0, most = 0;
    for (auto [whose, count] : in_use_) {
        most = std::max(most, whose ? count : 0);
        used += !whose || whose == tid ? count : 0;
    }
    return (tid ? used : used + most) < registers;
}

void Watches::step(std::uint64_t now_ns, std::uint64_t busy_ns, const std::set<int> &cpus) {
    constexpr std::size_t most_cpus = 8; // more would cost more than a watchpoint for each thread
    bool by_cpu = !cpus.empty() && cpus.size() <= most_cpus;
    busy_ns_ = busy_ns;
    for (auto [whose, _] : in_use_)
        waited_ns_ += (now_ns - stepped_ns_) * (whose ? 1 : cpus.size());
    stepped_ns_ = now_ns;
    std::erase_if(armed_, [&](Armed &watch) { return finished(watch, now_ns); });
    for (auto next = waiting_.begin(); next != waiting_.end() && affordable(by_cpu ? cpus.size() : 1);) {
        if (!free_for(by_cpu ? 0 : next->tid)) {
            if (by_cpu)
                break;
            ++next;
            continue;
        }
        auto end = next + 1; // those for the same bytes were asked for one behind the other
        while (by_cpu && end != waiting_.end() && same_bytes(*next, *end))
            ++end;
        std::vector<Request> requests(next, end);
        next = waiting_.erase(next, end);
        arm(requests, now_ns, by_cpu ? cpus : std::set<int>{-1});
    }
}

// Nothing on failure, errno says why.
std::optional<Watches::Point> Watches::set(const Request &request, int cpu) {
    Handle event = open_watch(request, cpu);
    auto ring = event ? Ring::map(event.get(), 1) : std::nullopt;
    if (!ring || ioctl(event.get(), PERF_EVENT_IOC_REFRESH, 1) != 0)
        return std::nullopt;
    count_++, points_++;
    return Point{std::move(event), std::move(*ring), cpu};
}

void Watches::arm(const std::vector<Request> &requests, std::uint64_t now_ns, const std::set<int> &cpus) {
    constexpr std::size_t others = 4; // hits of a thread that had one or that was not asked about
    const Request &first = requests.front();
    Armed watch{.since_ns = now_ns, .until_ns = now_ns + first.ms * ms_ns, .tid = *cpus.begin() < 0 ? first.tid : 0};
    const char *failed = "";
    for (int cpu : cpus)
        if (auto point = set(first, cpu))
            watch.points.push_back(std::move(*point));
        else
            failed = why(errno);
    if (watch.points.empty()) { // one of the CPUs may be offline
        for (const Request &request : requests)
            report(request, failed, 0, nullptr);
        return;
    }
    in_use_[watch.tid]++;
    watch.hits_left = watch.tid ? 1 : requests.size() + others;
    for (const Request &request : requests)
        watch.open.push_back({request, ran_ns(request.tid), watch.tid ? switches_of(request.tid) : 0});
    armed_.push_back(std::move(watch));
}

// A watchpoint of a thread stops at its hit, and with it the watch. One of a CPU is set again: another thread may be next.
// It is opened anew, since Linux 6.18 leaves a breakpoint that has reached its limit stopped when it is enabled again.
void Watches::take_hits(Armed &watch) {
    Sample sample;
    std::vector<int> hit;
    std::erase_if(watch.points, [&](Point &point) {
        bool was_hit = false;
        point.ring.drain([&](const perf_event_header &record) {
            if (record.type != PERF_RECORD_SAMPLE || was_hit || !parse(record, sample))
                return;
            was_hit = true;
            auto open =
                std::ranges::find(watch.open, static_cast<pid_t>(sample.tid), [](const Open &o) { return o.request.tid; });
            if (open == watch.open.end())
                return;
            report(open->request, "hit", sample.time_ns - watch.since_ns, sample.kernel ? nullptr : &sample);
            close(watch, open);
        });
        if (was_hit)
            hit.push_back(point.cpu);
        return was_hit;
    });
    hits_ += hit.size();
    points_ -= hit.size();
    watch.hits_left -= std::min(watch.hits_left, hit.size());
    if (hit.empty() || !watch.hits_left || watch.open.empty())
        return;
    for (int cpu : hit)
        if (auto point = set(watch.open.front().request, cpu))
            watch.points.push_back(std::move(*point));
    for (Open &open : watch.open) // what ran meanwhile was not watched
        open.ran_ns = ran_ns(open.request.tid);
}

void Watches::close(Armed &watch, std::vector<Open>::iterator open) {
    if (watch.tid)
        switches_ += std::max(open->switches, switches_of(watch.tid)) - open->switches; // it may be gone
    watch.open.erase(open);
}

// Whether its thread wants a CPU and had it for too short a time to meet a line that it uses often: a hit may still come.
bool Watches::starved(const Armed &watch, const Open &open, std::uint64_t now_ns) {
    constexpr std::uint64_t longest = 50; // times what was asked for: two turns of real-time threads on one CPU
    // A line that is used often is met within 0.3 ms; longer waiting costs a thread that switches often more than it shows.
    constexpr std::uint64_t enough_ns = 2'000'000;
    std::uint64_t asked_ns = open.request.ms * ms_ns;
    return open.ran_ns && now_ns < watch.since_ns + longest * asked_ns &&
           ran_ns(open.request.tid) < open.ran_ns + std::min(asked_ns / 2, enough_ns) && wants_cpu(open.request.tid);
}

bool Watches::finished(Armed &watch, std::uint64_t now_ns) {
    take_hits(watch);
    bool waits = watch.hits_left && !watch.open.empty();
    if (waits && now_ns >= watch.until_ns) {
        waits = std::ranges::any_of(watch.open, [&](const Open &open) { return starved(watch, open, now_ns); });
        watch.until_ns = now_ns + watch.open.front().request.ms * ms_ns;
    }
    if (waits)
        return false;
    take_hits(watch); // a thread may have run, and been hit, between the hits above and the look at how long it ran
    while (!watch.open.empty()) {
        report(watch.open.back().request, "silent", now_ns - watch.since_ns, nullptr);
        close(watch, watch.open.end() - 1);
    }
    points_ -= watch.points.size();
    if (--in_use_[watch.tid] == 0)
        in_use_.erase(watch.tid);
    return true;
}

void Watches::report(const Request &request, const char *outcome, std::uint64_t after_ns, const Sample *sample) {
    Line line(out_, "watch");
    line.number("id", request.id)
        .number("tid", static_cast<std::uint64_t>(request.tid))
        .number("address", request.address)
        .number("length", request.length)
        .flag("reads", request.reads)
        .text("outcome", outcome)
        .number("after_ns", after_ns);
    if (sample)
        line.number("ip", sample->ip).list("registers", sample->registers);
}

} // namespace lw::find
