// SPDX-License-Identifier: MIT
// Where the cells of a plan run: in this program, or inside the kernel. A back end runs the windows that it is asked for;
// blocks, order, which windows count and when a cell is done are decided in probe/run.cpp, for all of them.
#pragma once

#include "probe/machine.hpp"
#include "probe/subject.hpp"
#include "probe/window.hpp"
#include "wire/forms.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lw::probe {

// One cell, whose memory is there as long as this is.
class Windows {
public:
    Windows() = default;
    virtual ~Windows() = default;
    Windows(const Windows &) = delete;
    Windows &operator=(const Windows &) = delete;

    // Lines (or slots) that windows rotate over, one per window.
    virtual unsigned lines() const = 0;

    // Cells whose baselines are the same loop share its windows; equal keys say so.
    virtual std::string baseline_key() const = 0;

    // Runs one window with its threads on the given CPUs, the timed one's first. Batch means go into `samples` when it is
    // not null. What cannot be run is the result's error.
    virtual Window_result run(const std::vector<unsigned> &cpus, const Window_request &request,
                              wire::Histogram *samples) = 0;

    // What all windows have left behind; no value where there is nothing that adds up.
    virtual std::optional<Check> check() = 0;

    // Operations in a sample of the small-batch percentiles, and what an empty sample measures, ns; 0: there are none.
    virtual unsigned small_batch_ops() const { return 0; }
    virtual double small_batch_overhead_ns(unsigned ops) { return (void)ops, 0; }

    // Whether modes `completed` and `completed_baseline` have a meaning.
    virtual bool completes() const { return false; }

    // Quantities particular to the family, added to the record.
    virtual void metrics(std::map<std::string, double> &values) { (void)values; }
};

// A cell's windows, or the one-sentence reason why they cannot be run here.
struct Opened {
    std::unique_ptr<Windows> windows;
    std::string unavailable;
};

class Back_end {
public:
    Back_end() = default;
    virtual ~Back_end() = default;
    Back_end(const Back_end &) = delete;
    Back_end &operator=(const Back_end &) = delete;

    virtual const Topology &topology() const = 0;

    // Throws wire::Invalid for a cell that makes no sense here; takes no memory for it.
    virtual void check(const wire::Cell &cell) const = 0;

    // Takes the cell's memory.
    virtual Opened open(const wire::Cell &cell) = 0;

    // The events that this program counts for its threads, of those that a plan names.
    virtual std::vector<Counter_event> events(const std::vector<std::string> &wanted) const = 0;
};

// This program: the loops of probe/families.cpp on its own threads.
class User_space final : public Back_end {
public:
    // Starts and ends a second thread: until a process has had one, the C library's locks use no atomic instruction
    // (__libc_single_threaded), and whether another cell came first in this launch must not decide what a lock costs.
    explicit User_space(const Machine &machine);

    const Topology &topology() const override { return machine_.topology; }
    void check(const wire::Cell &cell) const override { make_subject(cell, machine_); }
    Opened open(const wire::Cell &cell) override;
    std::vector<Counter_event> events(const std::vector<std::string> &wanted) const override;

private:
    const Machine &machine_;
};

} // namespace lw::probe
