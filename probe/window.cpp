// Runs one timed window over pinned threads, without allocation, locking or printing inside it.
#include "probe/window.hpp"

#include "probe/stats.hpp"

#include <linewright/arch/measure.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <memory>
#include <sched.h>
#include <span>
#include <ctime>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace lw::probe {
namespace {

// Two 128-byte lines: nothing that two threads write may share one, nor a pair that a prefetcher ties together.
constexpr std::size_t apart = 256;

enum Phase : unsigned { starting, open, closed, stop, abandoned };

struct alignas(apart) Slot {
    std::atomic<unsigned> running{0}; // 1 after the first batch, 2 when the thread could not start
    std::uint64_t ops_all = 0;        // every operation since the thread started
    std::uint64_t ops_window = 0;
    std::uint64_t ticks_window = 0;
    unsigned cpu = 0;
    bool switched = false;
    Counted counted;
    std::uint64_t ops_counted = 0;
    Loop_args args;
};

struct alignas(apart) Shared {
    std::atomic<unsigned> phase{starting};
};

// Wall time and the time that this thread really ran: the difference was spent switched out.
struct Presence {
    double wall_ns, ran_ns;
};

double clock_ns(clockid_t id) {
    timespec now{};
    clock_gettime(id, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

Presence presence() { return {clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_THREAD_CPUTIME_ID)}; }

// The rule for switched windows: off the CPU for more than 0.5 % of the window. Less than that moves a mean by less
// than the precision anyone asks for; a rule of "no switch at all" leaves nothing on a machine with one timer daemon.
bool switched_out(const Presence &before) {
    Presence after = presence();
    double wall = after.wall_ns - before.wall_ns, away = wall - (after.ran_ns - before.ran_ns);
    return away > 0.005 * wall + 2'000; // two microseconds: what reading the two clocks itself may differ by
}

// Ticks (normally 10 ms) that the hypervisor took from the given CPUs so far; 0 where /proc/stat does not say.
std::uint64_t stolen_ticks(const std::vector<unsigned> &cpus) {
    static const int fd = ::open("/proc/stat", O_RDONLY | O_CLOEXEC);
    static std::array<char, 1 << 16> text;
    if (fd < 0)
        return 0;
    ssize_t length = pread(fd, text.data(), text.size() - 1, 0);
    if (length <= 0)
        return 0;
    text[static_cast<std::size_t>(length)] = 0;
    std::uint64_t total = 0;
    const char *at = text.data();
    while (at && std::strncmp(at, "cpu", 3) == 0) {
        unsigned cpu = 0;
        unsigned long long field[8] = {};
        // user nice system idle iowait irq softirq steal (proc(5))
        if (std::sscanf(at, "cpu%u %llu %llu %llu %llu %llu %llu %llu %llu", &cpu, &field[0], &field[1], &field[2],
                        &field[3], &field[4], &field[5], &field[6], &field[7]) == 9 &&
            std::ranges::find(cpus, cpu) != cpus.end())
            total += field[7];
        at = std::strchr(at, '\n');
        at = at ? at + 1 : nullptr;
    }
    return total;
}

Batch loop_for(Subject &subject, Mode mode, unsigned thread) {
    switch (mode) {
    case Mode::timed:
    case Mode::small: return subject.loop(thread);
    case Mode::twin: return subject.empty(thread);
    case Mode::completed: return thread == 0 ? subject.completed() : subject.loop(thread);
    case Mode::completed_empty: return thread == 0 ? subject.completed_empty() : subject.empty(thread);
    }
    return nullptr;
}

bool counts(Mode mode) { return mode == Mode::timed || mode == Mode::small || mode == Mode::completed; }

// A contender: pins itself, runs until told to stop, and notes its own operations and time between the first batch
// boundary after the window opened and the last one before it closed.
void contend(Subject &subject, const Machine &machine, Mode mode, unsigned thread, unsigned line, unsigned cpu,
             Shared &shared, Slot &slot, const std::vector<Counter_event> *events) {
    if (!pin_to(cpu)) {
        slot.running.store(2, std::memory_order_release); // pairs with the timed thread's wait for `running`
        return;
    }
    Real_time real_time;
    slot.args = subject.arguments(thread, line);
    Batch run = loop_for(subject, mode, thread);
    const std::uint64_t aim = std::max<std::uint64_t>(machine.clock.ticks(10'000), 4);
    std::size_t ops = 1;
    std::uint64_t all = 0;
    auto batch = [&] {
        slot.args.ops = ops;
        std::uint64_t start = lw_ticks();
        run(slot.args);
        std::uint64_t ticks = lw_ticks() - start;
        all += slot.args.ops; // what it really performed: a loop that only answers may do less than it was given
        // Keep batches near 10 µs whatever contention does to the cost, so that window edges stay sharp.
        if (ticks < aim / 2 && ops < (std::size_t{1} << 24))
            ops *= 2;
        else if (ticks > aim * 2 && ops > 1)
            ops /= 2;
    };
    batch();
    // Counted from here until the thread is told to stop, its own loop all the time: a system call at the window's edges
    // would delay it just then.
    Counters counters;
    std::uint64_t ops_before = all;
    if (events) {
        counters = Counters(*events, Counter_calls::of_kernel());
        counters.start();
    }
    slot.running.store(1, std::memory_order_release); // pairs with the timed thread's wait for `running`
    // Acquire: pairs with the timed thread's release of each phase. The operation under test orders nothing here.
    while (shared.phase.load(std::memory_order_acquire) == starting)
        batch();
    Presence before = presence();
    std::uint64_t opened = lw_ticks(), ops_at_open = all;
    while (shared.phase.load(std::memory_order_acquire) == open)
        batch();
    slot.ticks_window = lw_ticks() - opened;
    slot.ops_window = all - ops_at_open;
    slot.switched = switched_out(before);
    slot.cpu = static_cast<unsigned>(sched_getcpu());
    while (shared.phase.load(std::memory_order_acquire) == closed)
        batch();
    if (counters.active()) {
        slot.counted = counters.stop();
        slot.ops_counted = all - ops_before;
    }
    slot.ops_all = all;
    subject.leave(thread, slot.args);
}

// Grows the batch until it lasts about as long as asked; contenders are running meanwhile, so the cost is the real one.
std::size_t find_batch_ops(Batch run, Loop_args &args, double batch_ns, const Clock &clock, std::uint64_t &all) {
    const std::uint64_t aim = std::max<std::uint64_t>(clock.ticks(batch_ns), 4);
    for (std::size_t ops = 1;; ops *= 2) {
        std::uint64_t shortest = ~std::uint64_t{0};
        for (int attempt = 0; attempt < 3; ++attempt) {
            args.ops = ops;
            std::uint64_t start = lw_ticks();
            run(args);
            shortest = std::min(shortest, lw_ticks() - start);
            all += ops;
        }
        if (shortest >= aim / 2 || ops >= (std::size_t{1} << 26))
            return ops;
    }
}

// Samples of one window, kept until it is over: the histogram itself would be work inside the window.
std::vector<std::uint32_t> &sample_buffer() {
    static std::vector<std::uint32_t> buffer(1u << 20);
    return buffer;
}

} // namespace

bool pin_to(unsigned cpu) {
    std::size_t count = std::max(1024u, cpu + 1);
    std::size_t bytes = CPU_ALLOC_SIZE(count);
    cpu_set_t *set = CPU_ALLOC(count);
    CPU_ZERO_S(bytes, set);
    CPU_SET_S(cpu, bytes, set);
    bool pinned = sched_setaffinity(0, bytes, set) == 0;
    CPU_FREE(set);
    return pinned;
}

// Round robin, not first in first out: the threads of two probes wait for their partners on the same CPUs, and without
// taking turns both could wait for ever.
Real_time::Real_time() {
    sched_param lowest{};
    lowest.sched_priority = sched_get_priority_min(SCHED_RR);
    active_ = sched_setscheduler(0, SCHED_RR, &lowest) == 0;
}

Real_time::~Real_time() {
    sched_param none{};
    if (active_)
        sched_setscheduler(0, SCHED_OTHER, &none);
}

Window_result run_window(Subject &subject, const Machine &machine, const std::vector<unsigned> &cpus,
                         const Window_request &request, wire::Histogram *samples) {
    Window_result result;
    const Clock &clock = machine.clock;
    const auto threads = static_cast<unsigned>(cpus.size());
    Shared shared;
    auto slots = std::make_unique<Slot[]>(threads);
    std::vector<std::uint32_t> &buffer = sample_buffer();
    std::size_t taken = 0;

    if (!pin_to(cpus[0])) {
        result.error = "the kernel refused to pin the timed thread to CPU " + std::to_string(cpus[0]);
        return result;
    }
    std::vector<std::jthread> contenders;
    try {
        for (unsigned thread = 1; thread < threads; ++thread)
            contenders.emplace_back(contend, std::ref(subject), std::cref(machine), request.mode, thread, request.line,
                                    cpus[thread], std::ref(shared), std::ref(slots[thread]), request.events);
    } catch (const std::system_error &error) { // a limit on threads or memory; those that were started wait for the window
        shared.phase.store(abandoned, std::memory_order_release); // pairs with the contenders' acquire of `phase`
        result.error = "a contender could not be started: " + error.code().message();
        return result; // jthreads join
    }

    Slot &self = slots[0];
    self.args = subject.arguments(0, request.line);
    Batch run = loop_for(subject, request.mode, 0);
    for (unsigned thread = 1; thread < threads; ++thread) {
        unsigned state;
        while ((state = slots[thread].running.load(std::memory_order_acquire)) == 0)
            std::this_thread::yield();
        if (state == 2)
            result.error = "the kernel refused to pin a contender to CPU " + std::to_string(cpus[thread]);
    }
    if (!result.error.empty()) {
        shared.phase.store(abandoned, std::memory_order_release);
        return result; // jthreads join
    }

    // Only now: a contender that has yet to start on this very CPU must not be shut out by us.
    Real_time real_time;
    std::size_t ops = request.mode == Mode::small ? request.small_ops : request.batch_ops;
    std::uint64_t all = 0;
    if (ops == 0)
        ops = find_batch_ops(run, self.args, request.batch_ns, clock, all);
    else { // warm the line, the code and the branch predictor
        self.args.ops = request.mode == Mode::small ? 1000 : ops;
        run(self.args);
        all += self.args.ops;
    }
    self.args.ops = ops;
    self.args.excluded_ticks = 0;

    const std::uint64_t length = std::max<std::uint64_t>(clock.ticks(request.length_ms * 1e6), 1);
    std::uint64_t stolen_before = stolen_ticks(cpus);
    Presence before = presence();
    if (request.counters)
        request.counters->start();
    std::uint64_t before_window = all, now, opened, excluded_before = 0;
    shared.phase.store(open, std::memory_order_release); // pairs with the contenders' acquire of `phase`
    if (request.mode == Mode::small) {
        opened = now = lw_ticks_ordered();
        do {
            std::uint64_t start = lw_ticks_ordered();
            run(self.args);
            now = lw_ticks_ordered();
            buffer[taken] = static_cast<std::uint32_t>(std::min<std::uint64_t>(now - start, ~0u));
            all += ops;
        } while (++taken < buffer.size() && now - opened < length);
    } else {
        opened = now = lw_ticks();
        do {
            std::uint64_t start = now;
            run(self.args);
            now = lw_ticks();
            std::uint64_t excluded = self.args.excluded_ticks - excluded_before;
            excluded_before = self.args.excluded_ticks;
            buffer[taken] = static_cast<std::uint32_t>(std::min<std::uint64_t>(now - start - excluded, ~0u));
            all += ops;
        } while (++taken < buffer.size() && now - opened < length);
    }
    shared.phase.store(closed, std::memory_order_release); // pairs with the contenders' acquire of `phase`
    self.ticks_window = now - opened - self.args.excluded_ticks;
    if (request.counters)
        self.counted = request.counters->stop();
    self.ops_window = all - before_window;
    self.switched = switched_out(before);
    self.cpu = static_cast<unsigned>(sched_getcpu());
    run(self.args); // one more batch: contenders see the window close while the timed thread still runs
    all += ops;
    self.ops_all = all;
    shared.phase.store(stop, std::memory_order_release); // pairs with the contenders' acquire of `phase`
    contenders.clear();
    subject.leave(0, self.args);
    result.stolen = stolen_ticks(cpus) != stolen_before;

    // A contender that was off its CPU when the window opened takes its own time from its return: it saw too little of
    // the window. A millisecond is more than its longest pause, on which it may have been both times.
    const std::uint64_t missed = clock.ticks(1e6) + self.ticks_window / 20;
    std::vector<Loop_args> args;
    std::vector<std::uint64_t> every_op;
    for (unsigned thread = 0; thread < threads; ++thread) {
        const Slot &slot = slots[thread];
        result.ops.push_back(slot.ops_window);
        result.ns.push_back(clock.ns(slot.ticks_window));
        result.ticks.push_back(slot.ticks_window);
        result.cpus.push_back(slot.cpu);
        bool away = slot.switched || slot.ticks_window + missed < self.ticks_window;
        result.switched |= away && !(counts(request.mode) && subject.may_sleep(thread));
        result.moved |= slot.cpu != cpus[thread];
        args.push_back(slot.args);
        every_op.push_back(slot.ops_all);
        (thread ? result.others : result.timed).add(slot.counted);
        result.others_ops += slot.ops_counted;
    }
    if (counts(request.mode))
        subject.account(request.line, args, every_op);

    result.batch_ops = ops;
    result.ns_per_op = clock.ns(self.ticks_window) / static_cast<double>(self.ops_window);
    auto seen = std::span(buffer).first(taken);
    double longest = clock.ns(std::ranges::max(seen));
    if (longest > 1e6) { // a long batch: a millisecond, and ten median batches
        std::vector<double> batches;
        for (std::uint32_t ticks : seen)
            batches.push_back(clock.ns(ticks));
        result.long_batch = longest > 10 * median(batches);
    }
    if (samples && !result.switched && !result.stolen && !result.long_batch)
        for (std::uint32_t ticks : seen)
            samples->add((clock.ns(ticks) - (request.mode == Mode::small ? request.small_overhead_ns : clock.cost_ns)) /
                         static_cast<double>(ops));
    return result;
}

double small_batch_overhead_ns(Subject &subject, const Machine &machine, unsigned small_ops) {
    Loop_args args = subject.arguments(0, 0);
    args.work = 0;
    args.ops = small_ops;
    Batch empty = subject.empty(0);
    std::vector<double> costs;
    for (int i = 0; i < 1001; ++i) {
        std::uint64_t start = lw_ticks_ordered();
        empty(args);
        costs.push_back(machine.clock.ns(lw_ticks_ordered() - start));
    }
    return median(costs);
}

} // namespace lw::probe
