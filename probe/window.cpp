// SPDX-License-Identifier: MIT
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
#include <optional>
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

enum Phase : unsigned { starting, open, closed, stop };

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

double clock_ns(clockid_t id) {
    timespec now{};
    clock_gettime(id, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

bool switched_since(const Presence &before) {
    const Presence after = presence();
    const double wall = after.wall_ns - before.wall_ns;
    return switched_out(wall - (after.ran_ns - before.ran_ns), wall);
}

Batch loop_for(Subject &subject, Mode mode, unsigned thread) {
    switch (mode) {
    case Mode::timed:
    case Mode::small: return subject.loop(thread);
    case Mode::baseline: return subject.baseline(thread);
    case Mode::completed: return thread == 0 ? subject.completed() : subject.loop(thread);
    case Mode::completed_baseline: return thread == 0 ? subject.completed_baseline() : subject.baseline(thread);
    }
    return nullptr;
}

bool counts(Mode mode) { return mode == Mode::timed || mode == Mode::small || mode == Mode::completed; }

// A contender: pins itself, runs until the phase says stop, and notes its own operations and time between the first batch
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
    // Counted from here until the phase says stop, its own loop all the time: a system call at the window's edges
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
    slot.switched = switched_since(before);
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

Presence presence() { return {clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_THREAD_CPUTIME_ID)}; }

bool switched_out(double away_ns, double window_ns) {
    return away_ns > 0.005 * window_ns + 2'000; // two microseconds: what reading the clocks itself may differ by
}

bool came_late(double own_ns, double window_ns) {
    // A millisecond is more than its longest spacing, in which it may have been both times.
    return own_ns + 1e6 + window_ns / 20 < window_ns;
}

void judge_batches(Window_result &result, std::span<const double> batch_ns, double overhead_ns, std::size_t ops,
                   wire::Histogram *samples, bool may_be_long) {
    const double longest = batch_ns.empty() ? 0 : std::ranges::max(batch_ns);
    if (longest > 1e6 && !may_be_long) // a long batch: a millisecond, and ten median batches
        result.long_batch |= longest > 10 * median({batch_ns.begin(), batch_ns.end()});
    if (!samples || result.switched || result.stolen || result.long_batch)
        return;
    for (double ns : batch_ns)
        samples->add((ns - overhead_ns) / static_cast<double>(ops));
}

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

namespace {

// One window while it is being run: the contenders' threads, what every thread counted, and the phase they all watch.
class Window {
public:
    Window(Subject &subject, const Machine &machine, const std::vector<unsigned> &cpus, const Window_request &request)
        : subject_(subject), machine_(machine), cpus_(cpus), request_(request), slots_(new Slot[cpus.size()]) {}

    // Lets the contenders go, whatever phase they wait in.
    ~Window() { shared_.phase.store(stop, std::memory_order_release); } // pairs with the contenders' acquire of `phase`

    // Starts every contender and waits until each runs; false: `error` says why one does not.
    bool start(std::string &error) {
        try {
            for (unsigned thread = 1; thread < cpus_.size(); ++thread)
                contenders_.emplace_back(contend, std::ref(subject_), std::cref(machine_), request_.mode, thread,
                                         request_.line, cpus_[thread], std::ref(shared_), std::ref(slots_[thread]),
                                         request_.events);
        } catch (const std::system_error &failure) { // a limit on threads or memory; those that were started are waiting
            error = "a contender could not be started: " + failure.code().message();
        }
        slots_[0].args = subject_.arguments(0, request_.line);
        for (unsigned thread = 1; thread <= contenders_.size(); ++thread) {
            unsigned state;
            // Acquire: pairs with the contender's release of `running`.
            while ((state = slots_[thread].running.load(std::memory_order_acquire)) == 0)
                std::this_thread::yield();
            if (state == 2)
                error = "the kernel refused to pin a contender to CPU " + std::to_string(cpus_[thread]);
        }
        return error.empty();
    }

    // Opens the window, times batches until it is long enough, and closes it. Only the timed thread calls this.
    void time() {
        Slot &self = slots_[0];
        const Clock &clock = machine_.clock;
        Batch run = loop_for(subject_, request_.mode, 0);
        // Only now: a contender that has yet to start on this very CPU must not be shut out by us.
        std::optional<Real_time> real_time;
        if (!shares_cpu())
            real_time.emplace();
        warm_up(run);
        self.args.ops = ops_;
        self.args.excluded_ticks = 0;
        const std::uint64_t length = std::max<std::uint64_t>(clock.ticks(request_.length_ms * 1e6), 1);
        std::uint64_t stolen_before = stolen_ticks(cpus_);
        Presence before = presence();
        if (request_.counters)
            request_.counters->start();
        const std::uint64_t before_window = self.ops_all;
        shared_.phase.store(open, std::memory_order_release); // pairs with the contenders' acquire of `phase`
        const std::uint64_t lasted = request_.mode == Mode::small ? time_single(run, length) : time_batches(run, length);
        shared_.phase.store(closed, std::memory_order_release); // pairs with the contenders' acquire of `phase`
        self.ticks_window = lasted - self.args.excluded_ticks;
        if (request_.counters)
            self.counted = request_.counters->stop();
        self.ops_all += taken_ * ops_;
        self.ops_window = self.ops_all - before_window;
        self.switched = switched_since(before);
        self.cpu = static_cast<unsigned>(sched_getcpu());
        run(self.args); // one more batch: contenders see the window close while the timed thread still runs
        self.ops_all += ops_;
        shared_.phase.store(stop, std::memory_order_release); // pairs with the contenders' acquire of `phase`
        contenders_.clear();
        subject_.leave(0, self.args);
        stolen_ = stolen_ticks(cpus_) != stolen_before;
    }

    // What the threads counted, with the subject's own account of it.
    void collect(Window_result &result) {
        const Clock &clock = machine_.clock;
        const Slot &self = slots_[0];
        std::vector<Loop_args> args;
        std::vector<std::uint64_t> every_op;
        for (unsigned thread = 0; thread < cpus_.size(); ++thread) {
            const Slot &slot = slots_[thread];
            result.ops.push_back(slot.ops_window);
            result.ns.push_back(clock.ns(slot.ticks_window));
            result.ticks.push_back(slot.ticks_window);
            result.cpus.push_back(slot.cpu);
            const bool away = slot.switched || came_late(clock.ns(slot.ticks_window), clock.ns(self.ticks_window));
            const bool may_sleep = counts(request_.mode) && subject_.may_sleep(thread);
            result.switched |= away && !may_sleep && !(thread == 0 && shares_cpu());
            result.moved |= slot.cpu != cpus_[thread];
            args.push_back(slot.args);
            every_op.push_back(slot.ops_all);
            (thread ? result.others : result.timed).add(slot.counted);
            result.others_ops += slot.ops_counted;
        }
        if (counts(request_.mode))
            subject_.account(request_.line, args, every_op);
        result.stolen = stolen_;
        result.batch_ops = ops_;
        result.ns_per_op = clock.ns(self.ticks_window) / static_cast<double>(self.ops_window);
    }

    void judge(Window_result &result, wire::Histogram *samples) const {
        const Clock &clock = machine_.clock;
        std::vector<double> batches;
        for (std::uint32_t ticks : std::span(sample_buffer()).first(taken_))
            batches.push_back(clock.ns(ticks));
        const double overhead_ns = request_.mode == Mode::small ? request_.small_overhead_ns : clock.cost_ns;
        judge_batches(result, batches, overhead_ns, ops_, samples, shares_cpu());
    }

private:
    // In windows of the baseline no other thread wants the CPU.
    bool shares_cpu() const { return counts(request_.mode) && subject_.shares_cpu(); }

    // Settles the number of operations of a batch; warms the line, the code and the branch predictor.
    void warm_up(Batch run) {
        Slot &self = slots_[0];
        ops_ = request_.mode == Mode::small ? request_.small_ops : request_.batch_ops;
        if (ops_ == 0) {
            ops_ = find_batch_ops(run, self.args, request_.batch_ns, machine_.clock, self.ops_all);
            return;
        }
        self.args.ops = request_.mode == Mode::small ? 1000 : ops_;
        run(self.args);
        self.ops_all += self.args.ops;
    }

    // Batches between two reads of the clock each, which one batch shares with the next; ticks from first to last read.
    std::uint64_t time_batches(Batch run, std::uint64_t length) {
        Loop_args &args = slots_[0].args;
        std::vector<std::uint32_t> &buffer = sample_buffer();
        std::uint64_t excluded_before = 0, now = lw_ticks();
        const std::uint64_t opened = now;
        do {
            std::uint64_t start = now;
            run(args);
            now = lw_ticks();
            std::uint64_t excluded = args.excluded_ticks - excluded_before;
            excluded_before = args.excluded_ticks;
            buffer[taken_] = static_cast<std::uint32_t>(std::min<std::uint64_t>(now - start - excluded, ~0u));
        } while (++taken_ < buffer.size() && now - opened < length);
        return now - opened;
    }

    // The same for a few operations at a time: the clock is read in order with what stands around it.
    std::uint64_t time_single(Batch run, std::uint64_t length) {
        Loop_args &args = slots_[0].args;
        std::vector<std::uint32_t> &buffer = sample_buffer();
        std::uint64_t now = lw_ticks_ordered();
        const std::uint64_t opened = now;
        do {
            std::uint64_t start = lw_ticks_ordered();
            run(args);
            now = lw_ticks_ordered();
            buffer[taken_] = static_cast<std::uint32_t>(std::min<std::uint64_t>(now - start, ~0u));
        } while (++taken_ < buffer.size() && now - opened < length);
        return now - opened;
    }

    Subject &subject_;
    const Machine &machine_;
    const std::vector<unsigned> &cpus_;
    const Window_request &request_;
    Shared shared_;
    std::unique_ptr<Slot[]> slots_;
    std::size_t ops_ = 0, taken_ = 0; // operations of a batch, batches of the window
    bool stolen_ = false;
    std::vector<std::jthread> contenders_; // last: joined before what they use goes away
};

} // namespace

Window_result run_window(Subject &subject, const Machine &machine, const std::vector<unsigned> &cpus,
                         const Window_request &request, wire::Histogram *samples) {
    Window_result result;
    if (!pin_to(cpus[0])) {
        result.error = "the kernel refused to pin the timed thread to CPU " + std::to_string(cpus[0]);
        return result;
    }
    Window window(subject, machine, cpus, request);
    if (!window.start(result.error))
        return result;
    window.time();
    window.collect(result);
    window.judge(result, samples);
    return result;
}

double small_batch_overhead_ns(Subject &subject, const Machine &machine, unsigned small_ops) {
    Loop_args args = subject.arguments(0, 0);
    args.work = 0;
    args.ops = small_ops;
    Batch empty = subject.baseline(0);
    std::vector<double> costs;
    for (int i = 0; i < 1001; ++i) {
        std::uint64_t start = lw_ticks_ordered();
        empty(args);
        costs.push_back(machine.clock.ns(lw_ticks_ordered() - start));
    }
    return median(costs);
}

} // namespace lw::probe
