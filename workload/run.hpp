// SPDX-License-Identifier: MIT
// Runs one workload over a team of threads: all run before the window opens, and after it closes every one is heard out.
#pragma once

#include "workload/competitors.hpp"
#include "workload/worker.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <system_error>
#include <thread>

namespace lw::workload {

// CPU time of the whole process, ns.
double process_cpu_ns();

// Figures and failures that need nothing of the workload itself.
void sum_up(Result &result, const std::deque<Worker> &team, unsigned threads, double ns_per_tick);

template <class Workload> class Team {
public:
    Team(const Options &options, const std::atomic<bool> &interrupt)
        : options_(options), interrupt_(interrupt), workload_(options) {
        patience_.polls = options.polls;
        patience_.yields = options.yields;
        patience_.abandoned = &abandoned_;
        lw_wait_round_ps(); // measured before anybody waits
        for (unsigned id = 0; id < options.threads + Workload::extra_threads(options.threads); ++id)
            workers_.emplace_back(id, options_, patience_, stop_);
    }

    Result run() {
        Result result;
        if (options_.competitors)
            competitors_.start(result.competed = options_.cpus.empty() ? allowed_cpus() : options_.cpus);
        start();
        window(result);
        finish(result);
        competitors_.stop();
        for (const Worker &w : workers_)
            if (w.id < options_.threads)
                result.all_operations += w.operations;
        sum_up(result, workers_, options_.threads, ns_per_tick_);
        workload_.verify(result);
        return result;
    }

private:
    using Ops = std::vector<std::uint64_t>;

    void start() {
        try {
            for (Worker &w : workers_)
                threads_.emplace_back([this, &w] { work(w); });
        } catch (...) {
            abandoned_ = true; // those already there must not wait for the ones that never came
            stop_ = true;
            go_ = true;
            join();
            throw;
        }
        go_.store(true, std::memory_order_release); // pairs with work()'s acquire
        for (const Worker &w : workers_)
            while (!w.running.load(std::memory_order_relaxed) && !w.finished.load(std::memory_order_relaxed) && !interrupt_)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }

    void work(Worker &w) {
        if (w.id < options_.cpus.size() && !pin_to(options_.cpus[w.id]))
            unpinned_.store(true, std::memory_order_relaxed); // read after the join
        while (!go_.load(std::memory_order_acquire)) // pairs with start()'s release
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        w.running.store(true, std::memory_order_relaxed);
        w.preemption.start();
        const Switches before = thread_switches();
        while (workload_.once(w)) {
        }
        const Switches after = thread_switches();
        w.switches = {after.voluntary - before.voluntary, after.involuntary - before.involuntary, w.preemption.times()};
        w.finished.store(true, std::memory_order_relaxed);
    }

    Ops published() const {
        Ops ops;
        for (const Worker &w : workers_)
            ops.push_back(w.published.load(std::memory_order_relaxed));
        return ops;
    }

    bool all_finished() const {
        for (const Worker &w : workers_)
            if (!w.finished.load(std::memory_order_relaxed))
                return false;
        return true;
    }

    void window(Result &result) {
        const double end = now_ns() + options_.duration_s * 1e9;
        const Ops before = published();
        const double opened = now_ns(), cpu = process_cpu_ns(), others = competitors_.cpu_ns();
        const std::uint64_t ticks = lw_ticks_ordered();
        // On a machine so busy that none of the threads ran meanwhile, it stays open until one has: no rate is 0.
        const auto open = [&] {
            return now_ns() < end || (published() == before && now_ns() < end + options_.stall_s * 1e9);
        };
        while (open() && !interrupt_ && !all_finished())
            std::this_thread::sleep_for(std::chrono::duration<double, std::nano>(std::clamp(end - now_ns(), 1e5, 10e6)));
        const std::uint64_t ticks_taken = lw_ticks_ordered() - ticks;
        const double closed = now_ns();
        result.competitors_cpu_ns = competitors_.cpu_ns() - others;
        // The kernel counts the other threads of a process up to their last tick: of a short window less than nothing may be left.
        const double cpu_taken = std::max(0.0, process_cpu_ns() - cpu - result.competitors_cpu_ns);
        const Ops after = published();
        stop_.store(true, std::memory_order_relaxed);
        result.interrupted = interrupt_;
        result.seconds = (closed - opened) / 1e9;
        ns_per_tick_ = ticks_taken ? (closed - opened) / static_cast<double>(ticks_taken) : 0;
        for (unsigned i = 0; i < options_.threads; ++i) {
            result.per_thread.push_back(after[i] - before[i]);
            result.operations += result.per_thread.back();
        }
        result.cpu_ns = result.operations ? cpu_taken / static_cast<double>(result.operations) : 0;
    }

    // Everybody comes out by himself, or the run is given up when nothing has moved for options_.stall_s.
    void finish(Result &result) {
        std::uint64_t seen = 0;
        double moved = now_ns();
        while (!all_finished()) {
            std::uint64_t now = 0;
            for (const Worker &w : workers_)
                now += w.published.load(std::memory_order_relaxed) + w.finished.load(std::memory_order_relaxed);
            if (now != seen) {
                seen = now;
                moved = now_ns();
            } else if (now_ns() - moved > options_.stall_s * 1e9 && !abandoned_) {
                unsigned left = 0;
                for (const Worker &w : workers_)
                    left += !w.finished.load(std::memory_order_relaxed);
                result.failures.push_back(std::to_string(left) + " threads waited in vain at the end");
                abandoned_ = true;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        join();
        if (unpinned_)
            throw std::system_error(EINVAL, std::generic_category(), "a thread could not be pinned");
    }

    void join() {
        for (std::thread &thread : threads_)
            thread.join();
    }

    const Options options_;
    const std::atomic<bool> &interrupt_;
    Patience patience_;
    std::atomic<bool> stop_{false}, abandoned_{false}, go_{false}, unpinned_{false};
    Workload workload_;
    std::deque<Worker> workers_;
    std::vector<std::thread> threads_;
    double ns_per_tick_ = 0;
    Competitors competitors_;
};

template <class Workload> Result run_team(const Options &options, const std::atomic<bool> &interrupt) {
    auto team = std::make_unique<Team<Workload>>(options, interrupt);
    return team->run();
}

} // namespace lw::workload
