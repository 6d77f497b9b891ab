// SPDX-License-Identifier: MIT
// What all workloads share: names, CPUs, lengths, and the figures of a finished run.
#include "workload/run.hpp"

#include "workload/bucket.hpp"
#include "workload/exclusive.hpp"
#include "workload/futex_table.hpp"
#include "workload/pi_lock.hpp"
#include "workload/shared.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <memory>

#include <sched.h>
#include <sys/resource.h>

namespace lw::workload {
namespace {

constexpr unsigned most_cpus = 65536;

struct Cpu_set {
    std::unique_ptr<cpu_set_t, void (*)(cpu_set_t *)> set{CPU_ALLOC(most_cpus), [](cpu_set_t *s) { CPU_FREE(s); }};
    std::size_t size = CPU_ALLOC_SIZE(most_cpus);

    Cpu_set() { CPU_ZERO_S(size, set.get()); }
};

using Runner = Result (*)(const Options &, const std::atomic<bool> &);

struct Kind {
    const char *name;
    Runner run;
    unsigned (*extra_threads)(unsigned threads);
};

template <class Workload> constexpr Kind kind_of(const char *name) {
    return {name, run_team<Workload>, Workload::extra_threads};
}

constexpr Kind table[] = {
    kind_of<Refcount<>>("refcount"),
    kind_of<Exclusive<Spinlock>>("spinlock"),
    kind_of<Exclusive<Ticket_lock>>("ticket"),
    kind_of<Exclusive<Mcs_lock>>("mcs"),
    kind_of<Reader_writer<>>("rwlock"),
    kind_of<Hash_bucket<>>("hash-bucket"),
    kind_of<Handoff<>>("handoff"),
    kind_of<Futex_hash<>>("futex-hash"),
    kind_of<Hash_bucket<Ticket_lock, false>>("futex-wake"),
    kind_of<Parallel_wake<>>("futex-wake-parallel"),
    kind_of<Hash_bucket<>>("futex-requeue"),
    kind_of<Exclusive<Pi_lock>>("futex-lock-pi"),
};

const Kind &kind_named(const std::string &name) {
    for (const Kind &kind : table)
        if (name == kind.name)
            return kind;
    throw Invalid("no workload " + name);
}

// The best of several, since whatever disturbs only lengthens.
double time_of(std::uint64_t iterations) {
    double best = HUGE_VAL;
    for (int i = 0; i < 5; ++i) {
        const double start = now_ns();
        compute(iterations);
        best = std::min(best, now_ns() - start);
    }
    return best;
}

// Two readings with nothing between them, at best, in ticks.
std::uint64_t clock_ticks() {
    std::uint64_t best = ~std::uint64_t{0};
    for (int i = 0; i < 1000; ++i) {
        const std::uint64_t before = lw_ticks_ordered();
        best = std::min(best, lw_ticks_ordered() - before);
    }
    return best;
}

double iteration_ns() {
    static const double length = [] {
        constexpr std::uint64_t some = 200'000;
        return time_of(some) / static_cast<double>(some);
    }();
    return length;
}

} // namespace

const std::vector<std::string> &kinds() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        for (const Kind &kind : table)
            all.emplace_back(kind.name);
        return all;
    }();
    return names;
}

Result run(const Options &options, const std::atomic<bool> &stop) { return kind_named(options.kind).run(options, stop); }

unsigned extra_threads(const std::string &kind, unsigned threads) { return kind_named(kind).extra_threads(threads); }

Figure figure(const Options &options, const Result &result) {
    if (options.kind == "futex-requeue")
        return {"requeued", "ms", result.rounds.requeue_ms, false};
    if (options.kind == "futex-wake" || options.kind == "futex-wake-parallel")
        return {"woken", "ms", result.rounds.wake_ms, false};
    return {"rate", "operations/s", result.seconds > 0 ? static_cast<double>(result.operations) / result.seconds : 0, true};
}

std::vector<unsigned> allowed_cpus() {
    Cpu_set cpus;
    std::vector<unsigned> found;
    if (sched_getaffinity(0, cpus.size, cpus.set.get()) == 0)
        for (unsigned cpu = 0; cpu < most_cpus; ++cpu)
            if (CPU_ISSET_S(cpu, cpus.size, cpus.set.get()))
                found.push_back(cpu);
    return found;
}

bool pin_to(unsigned cpu) {
    Cpu_set cpus;
    CPU_SET_S(cpu, cpus.size, cpus.set.get());
    return sched_setaffinity(0, cpus.size, cpus.set.get()) == 0;
}

double process_cpu_ns() {
    timespec spent{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return static_cast<double>(spent.tv_sec) * 1e9 + static_cast<double>(spent.tv_nsec);
}

Switches thread_switches() {
    rusage used{};
    getrusage(RUSAGE_THREAD, &used);
    return {static_cast<std::uint64_t>(used.ru_nvcsw), static_cast<std::uint64_t>(used.ru_nivcsw), {}};
}

Length length_of_iterations(std::uint64_t iterations) {
    return {iterations, iterations ? static_cast<double>(iterations) * iteration_ns() : 0};
}

Length length_of_ns(double ns) {
    const auto iterations = static_cast<std::uint64_t>(std::llround(ns / std::max(iteration_ns(), 1e-3)));
    return length_of_iterations(iterations);
}

double jain(const std::vector<std::uint64_t> &shares) {
    double sum = 0, squares = 0;
    for (std::uint64_t share : shares) {
        const auto value = static_cast<double>(share);
        sum += value;
        squares += value * value;
    }
    return squares > 0 ? sum * sum / (static_cast<double>(shares.size()) * squares) : 0;
}

void sum_up(Result &result, const std::deque<Worker> &team, unsigned threads, double ns_per_tick) {
    static constexpr const char *words[violations] = {
        "critical sections overlapped or lost a write", "waiters were passed by others", "reads saw half a write",
        "references were held to an object already released", "rounds lost a waiter"};
    auto all = std::make_unique<wire::Histogram>();
    std::array<std::uint64_t, violations> broken{};
    for (const Worker &w : team) {
        if (w.id < threads)
            all->merge(w.waits);
        result.long_holds += w.long_holds;
        result.granted += w.granted;
        result.switches.voluntary += w.switches.voluntary;
        result.switches.involuntary += w.switches.involuntary;
        if (w.switches.in_sections)
            result.switches.in_sections = result.switches.in_sections.value_or(0) + *w.switches.in_sections;
        for (unsigned i = 0; i < violations; ++i)
            broken[i] += w.broken[i];
    }
    result.fairness = jain(result.per_thread);
    result.waits = {all->samples(), all->quantile_ns(0.50) * ns_per_tick, all->quantile_ns(0.99) * ns_per_tick,
                    all->quantile_ns(1) * ns_per_tick, static_cast<double>(clock_ticks()) * ns_per_tick};
    for (unsigned i = 0; i < violations; ++i)
        if (broken[i])
            result.failures.push_back(std::to_string(broken[i]) + " " + words[i]);
}

} // namespace lw::workload
