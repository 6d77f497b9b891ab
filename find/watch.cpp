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
    attributes.read_format = PERF_FORMAT_TOTAL_TIME_RUNNING;
    return attributes;
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

} // namespace

// The budget grows with time; a first allowance lets the first line be watched at once. A watchpoint is set anew whenever its thread
// gets a CPU, and what that comes to is known when it has ended: until then it is taken to cost what the earlier ones did.
bool Watches::affordable() const {
    constexpr std::uint64_t allowance_ns = 5'000'000, unknown_ns = 500'000;
    std::uint64_t ended = count_ - armed_.size(), one_ns = ended ? cost_ns() / ended : unknown_ns;
    std::uint64_t pending = (armed_.size() + 1) * std::max(one_ns, costs_.hit_ns + costs_.arm_ns);
    auto earned = static_cast<std::uint64_t>(share_ * static_cast<double>(busy_ns_));
    return cost_ns() + pending <= earned + allowance_ns;
}

void Watches::step(std::uint64_t now_ns, std::uint64_t busy_ns) {
    busy_ns_ = busy_ns;
    for (auto watch = armed_.begin(); watch != armed_.end();) {
        if (finished(*watch, now_ns)) {
            in_use_[watch->request.tid]--;
            switches_ += std::max(watch->switches, switches_of(watch->request.tid)) - watch->switches; // it may be gone
            watch = armed_.erase(watch);
        } else
            ++watch;
    }
    for (auto next = waiting_.begin(); next != waiting_.end() && affordable();) {
        if (in_use_[next->tid] >= registers) {
            ++next;
            continue;
        }
        Request request = *next;
        next = waiting_.erase(next);
        arm(request, now_ns);
    }
}

void Watches::arm(const Request &request, std::uint64_t now_ns) {
    Handle event(perf_open(watch_attributes(request), request.tid, -1));
    if (!event)
        return report(request, why(errno), 0, nullptr);
    auto ring = Ring::map(event.get(), 1);
    if (!ring || ioctl(event.get(), PERF_EVENT_IOC_REFRESH, 1) != 0)
        return report(request, "refused", 0, nullptr);
    count_++;
    in_use_[request.tid]++;
    armed_.push_back(Armed{request, std::move(event), std::move(*ring), now_ns,
                           now_ns + std::uint64_t{request.ms} * 1'000'000, switches_of(request.tid)});
}

bool Watches::starved(const Armed &watch, std::uint64_t now_ns) {
    constexpr std::uint64_t longest = 20; // times what was asked for
    std::uint64_t asked_ns = std::uint64_t{watch.request.ms} * 1'000'000, counts[2]; // hits, time that the thread ran
    if (now_ns >= watch.since_ns + longest * asked_ns || read(watch.event.get(), counts, sizeof counts) != sizeof counts)
        return false;
    return counts[1] < asked_ns / 2 && wants_cpu(watch.request.tid);
}

bool Watches::finished(Armed &watch, std::uint64_t now_ns) {
    bool hit = false;
    Sample sample;
    watch.ring.drain([&](const perf_event_header &record) {
        if (record.type == PERF_RECORD_SAMPLE && !hit)
            hit = parse(record, sample);
    });
    if (hit) {
        hits_++;
        report(watch.request, "hit", sample.time_ns - watch.since_ns, &sample);
    } else if (now_ns >= watch.until_ns) {
        if (starved(watch, now_ns))
            watch.until_ns = now_ns + std::uint64_t{watch.request.ms} * 1'000'000;
        else
            report(watch.request, "silent", now_ns - watch.since_ns, nullptr);
    }
    return hit || now_ns >= watch.until_ns;
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
