// SPDX-License-Identifier: MIT
// Opens the events as perf record does: one for each task and CPU, the rings shared by the events of a CPU.
#include "find/timers.hpp"

#include "find/processes.hpp"
#include "find/session.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace lw::find {

namespace {

// 512 KiB with the control page is what an unprivileged user may lock for each CPU (perf_event_mlock_kb); then less. Who may
// sample whole CPUs may have more, and needs it: other programs' samples are in the rings until they are read.
constexpr std::size_t ring_pages[] = {512, 128, 32, 8};
constexpr long most_cpus = 64; // with rings of the first size

template <class T> T at(const perf_event_header &record, std::size_t offset) {
    T value{};
    if (offset + sizeof value <= record.size)
        std::memcpy(&value, reinterpret_cast<const char *>(&record) + offset, sizeof value);
    return value;
}

// The time in the trailer that sample_id_all adds: ids, time, CPU, eight bytes each.
std::uint64_t time_of(const perf_event_header &record) { return at<std::uint64_t>(record, record.size - 16u); }

std::string_view string_at(const perf_event_header &record, std::size_t offset) {
    if (offset >= record.size)
        return {};
    auto *begin = reinterpret_cast<const char *>(&record) + offset;
    return {begin, strnlen(begin, record.size - offset)};
}

} // namespace

// Periods of tasks' timers differ by up to 3 % between CPUs, so that two CPUs' samples come at all distances from each other
// and not at one that the start of two threads decided (movement.py looks at close pairs). The golden section spreads the
// periods of few and many CPUs. CPUs' own timers are aligned instead.
std::uint64_t Timers::period_on(int cpu) const {
    constexpr double golden = 0.618034, spread = 0.03;
    double whole = 0;
    if (machine_)
        return period_ns_;
    return period_ns_ +
           static_cast<std::uint64_t>(static_cast<double>(period_ns_) * spread * std::modf(golden * cpu, &whole));
}

// Started one right behind the other the timers of two CPUs fire within microseconds, so that nearly every pair of their
// samples is a close one. From then to the next time the later one goes that distance ahead and as far again: it comes at
// all small distances.
void Timers::align(std::uint64_t now_ns) {
    constexpr std::uint64_t interval_ns = 250'000'000;
    if (!machine_ || now_ns < aligned_ns_ + interval_ns)
        return;
    aligned_ns_ = now_ns;
    std::uint64_t periods = std::max<std::uint64_t>(1, interval_ns / period_ns_), later_ns = 0;
    for (const Handle &event : events_) {
        std::uint64_t period = period_ns_ - std::min(period_ns_ / 32, 2 * later_ns / periods);
        ioctl(event.get(), PERF_EVENT_IOC_PERIOD, &period);
        later_ns = monotonic_ns() - now_ns;
    }
}

int Timers::open(pid_t tid, int cpu, bool on_exec) {
    auto attributes = [&] {
        perf_event_attr found = timer_attributes(period_on(cpu), kernel_, on_exec);
        found.exclude_idle = !machine_; // the timer fires there all the same
        return found;
    };
    int fd = perf_open(attributes(), tid, cpu);
    if (fd < 0 && (errno == EACCES || errno == EPERM) && kernel_ && events_.empty()) {
        kernel_ = false;
        fd = perf_open(attributes(), tid, cpu);
    }
    if (fd < 0)
        return errno;
    Handle event(fd);
    if (auto known = cpus_.find(cpu); known != cpus_.end()) {
        if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, known->second.first) != 0)
            return errno;
    } else {
        std::optional<Ring> ring;
        bool large = machine_ && sysconf(_SC_NPROCESSORS_CONF) <= most_cpus;
        for (std::size_t pages : std::span(ring_pages).subspan(large ? 0 : 1))
            if (!ring)
                ring = Ring::map(fd, pages);
        if (!ring)
            return errno;
        cpus_.emplace(cpu, Cpu{fd, std::move(*ring)});
    }
    events_.push_back(std::move(event));
    return 0;
}

int Timers::add(pid_t tid, bool on_exec) {
    int opened = 0;
    for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++) {
        int error = open(tid, cpu, on_exec);
        if (error == ENODEV || error == ENXIO) // that CPU is offline
            continue;
        if (error)
            return error;
        opened++;
    }
    return opened ? 0 : ENODEV;
}

int Timers::add_machine(const std::vector<pid_t> &family) {
    machine_ = true;
    for (pid_t pid : family)
        family_[static_cast<std::uint32_t>(pid)] = true;
    int error = add(-1, false);
    if (!error)
        open_switches();
    return error;
}

// Changes of tasks have events of their own, which can end before the timers.
void Timers::open_switches() {
    for (const auto &[cpu, ring] : cpus_)
        if (Handle event(perf_open(switch_attributes(), -1, cpu));
            event && ioctl(event.get(), PERF_EVENT_IOC_SET_OUTPUT, ring.first) == 0)
            switches_.push_back(std::move(event));
}

void Timers::end_switches(std::uint64_t recorded_until_ns) {
    switches_.clear();
    if (totals_.recorded_until_ns)
        return;
    totals_.recorded_until_ns = recorded_until_ns;
    totals_.recording_ended_ns = monotonic_ns();
}

// Where whatever runs here changes so often that recording it takes more than this part of each CPU's time, it ends.
bool Timers::afford_switch(std::uint64_t now_ns) {
    constexpr std::uint64_t part = 200, burst = 1000, unread_ns = 1'000'000'000; // what other CPUs' rings hold is younger
    seen_switches_++;
    if (seen_switches_ > burst && seen_switches_ * switch_ns_ / 2 * part > (now_ns - started_ns_) * switches_.size())
        end_switches(now_ns - unread_ns);
    return !switches_.empty();
}

// A process that was not met before may have left its record in the ring of another CPU, which is read later: its parents
// tell.
bool Timers::ours(std::uint32_t pid) {
    if (!machine_)
        return true;
    if (auto known = family_.find(pid); known != family_.end())
        return known->second;
    auto parent = pid > 1 ? static_cast<std::uint32_t>(parent_of(static_cast<pid_t>(pid))) : 0;
    bool found = parent && ours(parent);
    return family_[pid] = found;
}

void Timers::start() {
    started_ns_ = monotonic_ns();
    if (machine_ && switches_.size() < cpus_.size())
        end_switches(started_ns_);
    for (const auto *events : {&events_, &switches_})
        for (const Handle &event : *events)
            ioctl(event.get(), PERF_EVENT_IOC_ENABLE, 0);
}

void Timers::stop() {
    for (const Handle &event : events_)
        ioctl(event.get(), PERF_EVENT_IOC_DISABLE, 0);
}

void Timers::drain() {
    for (auto &[number, cpu] : cpus_)
        cpu.ring.drain([this](const perf_event_header &record) { take(record); });
}

void Timers::take(const perf_event_header &record) {
    switch (record.type) {
    case PERF_RECORD_SAMPLE: return take_sample(record);
    case PERF_RECORD_MMAP2: return take_mapping(record);
    case PERF_RECORD_COMM: return take_name(record);
    case PERF_RECORD_FORK: return take_task(record, "start");
    case PERF_RECORD_EXIT: return take_task(record, "exit");
    case PERF_RECORD_SWITCH_CPU_WIDE: return take_switch(record);
    case PERF_RECORD_LOST: totals_.lost += at<std::uint64_t>(record, 16); return;
    case PERF_RECORD_LOST_SAMPLES: totals_.lost += at<std::uint64_t>(record, 8); return;
    case PERF_RECORD_THROTTLE: totals_.throttled++; return;
    default: return;
    }
}

void Timers::take_sample(const perf_event_header &record) {
    if (!parse(record, sample_))
        return;
    if (!ours(sample_.pid)) { // the timers' distances from each other count, whatever runs there
        Line(out_, "tick").number("time_ns", sample_.time_ns).number("cpu", sample_.cpu);
        return;
    }
    totals_.samples++;
    active_.insert(sample_.pid);
    if (machine_)
        watchable_.insert(static_cast<int>(sample_.cpu));
    totals_.kernel += sample_.kernel;
    if (!sample_.kernel && sample_.bits)
        want_surroundings();
    Line line(out_, "sample");
    line.number("time_ns", sample_.time_ns)
        .number("pid", sample_.pid)
        .number("tid", sample_.tid)
        .number("cpu", sample_.cpu)
        .number("ip", sample_.ip);
    if (sample_.kernel) {
        line.flag("kernel", true);
        return;
    }
    line.number("bits", sample_.bits)
        .list("registers", sample_.registers)
        .list("chain", sample_.chain)
        .list("top", sample_.top);
}

// What the sample's instruction and its addresses are read from: code, and where the thread's own data lie.
void Timers::want_surroundings() {
    code_.want(sample_.pid, sample_.ip, sample_.time_ns);
    if (sample_.bits == 64)
        blocks_.want(sample_.pid, sample_.tid, sample_.registers[stack_pointer]);
}

void Timers::take_mapping(const perf_event_header &record) {
    auto pid = at<std::uint32_t>(record, 8);
    if (!ours(pid))
        return;
    auto protection = at<std::uint32_t>(record, 64), flags = at<std::uint32_t>(record, 68);
    Line(out_, "map")
        .number("time_ns", time_of(record))
        .number("pid", pid)
        .number("start", at<std::uint64_t>(record, 16))
        .number("length", at<std::uint64_t>(record, 24))
        .number("offset", at<std::uint64_t>(record, 32))
        .number("device", static_cast<std::uint64_t>(at<std::uint32_t>(record, 40)) << 32 | at<std::uint32_t>(record, 44))
        .number("inode", at<std::uint64_t>(record, 48))
        .text("path", string_at(record, 72))
        .flag("executable", protection & PROT_EXEC)
        .flag("writable", protection & PROT_WRITE)
        .flag("shared", flags & MAP_SHARED);
}

void Timers::take_name(const perf_event_header &record) {
    auto pid = at<std::uint32_t>(record, 8);
    if (!ours(pid))
        return;
    bool exec = record.misc & PERF_RECORD_MISC_COMM_EXEC;
    if (exec)
        code_.forget(pid), blocks_.forget(pid);
    Line(out_, "task")
        .number("time_ns", time_of(record))
        .text("event", exec ? "exec" : "name")
        .number("pid", pid)
        .number("tid", at<std::uint32_t>(record, 12))
        .text("name", string_at(record, 16));
}

// A thread leaves its CPU: who waits for it is then seen to wait for a thread that does not run. Of those that follow each
// other closely, one says it.
void Timers::take_switch(const perf_event_header &record) {
    constexpr std::uint64_t closely_ns = 100'000;
    auto pid = at<std::uint32_t>(record, record.size - 24u), tid = at<std::uint32_t>(record, record.size - 20u);
    bool recorded = afford_switch(time_of(record));
    if (!(record.misc & PERF_RECORD_MISC_SWITCH_OUT) || !pid || !ours(pid))
        return;
    totals_.switches++; // those that came behind the end, too: they were paid for
    if (!recorded)
        return;
    std::pair left{time_of(record), (record.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0};
    auto &[last_ns, last_preempted] = left_[tid];
    if (left.first < last_ns + closely_ns && left.second == last_preempted)
        return;
    left_[tid] = left;
    Line(out_, "off").number("time_ns", left.first).number("pid", pid).number("tid", tid).flag("preempted", left.second);
}

void Timers::take_task(const perf_event_header &record, const char *event) {
    auto pid = at<std::uint32_t>(record, 8), parent = at<std::uint32_t>(record, 12);
    if (machine_ && record.type == PERF_RECORD_FORK && pid != parent)
        family_[pid] = ours(parent); // its number may have been another's before
    if (!ours(pid))
        return;
    Line(out_, "task")
        .number("time_ns", at<std::uint64_t>(record, 24))
        .text("event", event)
        .number("pid", pid)
        .number("tid", at<std::uint32_t>(record, 16))
        .number("parent", parent);
}

} // namespace lw::find
