// SPDX-License-Identifier: MIT
// Cells on this program's own threads.
#include "probe/back_end.hpp"

#include <thread>

namespace lw::probe {
namespace {

class Own_windows final : public Windows {
public:
    Own_windows(std::unique_ptr<Subject> subject, const Machine &machine)
        : subject_(std::move(subject)), machine_(machine) {}

    unsigned lines() const override { return subject_->lines(); }
    std::string baseline_key() const override { return subject_->baseline_key(); }
    Window_result run(const std::vector<unsigned> &cpus, const Window_request &request, wire::Histogram *samples) override {
        return run_window(*subject_, machine_, cpus, request, samples);
    }
    std::optional<Check> check() override { return subject_->check(); }
    unsigned small_batch_ops() const override { return subject_->small_batch_ops(); }
    double small_batch_overhead_ns(unsigned ops) override {
        return probe::small_batch_overhead_ns(*subject_, machine_, ops);
    }
    bool completes() const override { return subject_->completed() != nullptr; }
    void metrics(std::map<std::string, double> &values) override { subject_->metrics(values); }

private:
    std::unique_ptr<Subject> subject_;
    const Machine &machine_;
};

} // namespace

User_space::User_space(const Machine &machine) : machine_(machine) {
    std::thread([] {}).join();
}

Opened User_space::open(const wire::Cell &cell) {
    Made made = make_subject(cell, machine_);
    if (!made.subject)
        return {nullptr, made.unavailable};
    return {std::make_unique<Own_windows>(std::move(made.subject), machine_), ""};
}

std::vector<Counter_event> User_space::events(const std::vector<std::string> &wanted) const {
    return choose_counters(wanted, "/", Counter_calls::of_kernel()).events;
}

} // namespace lw::probe
