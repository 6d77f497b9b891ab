// SPDX-License-Identifier: MIT
// The inside of a kernel as a back end: the kernel module runs the windows (kmod/), this program decides which.
#pragma once

#include "probe/back_end.hpp"
#include "probe/kernel_runner.hpp"

#include <deque>
#include <set>
#include <span>

namespace lw::probe {

// One form as the module lists it.
struct Kernel_form {
    std::string name, operation, order, family;
    unsigned width_bits = 0;
    bool racy = false;   // loses counts between threads
    bool sleeps = false; // leaves the CPU on purpose
    std::string missing; // why it cannot run there; empty when it can
};

class Kernel final : public Back_end {
public:
    // `command` starts the module's runner. Its kernel may be another machine's than this one, which `machine` describes.
    Kernel(const std::string &command, const Machine &machine);

    const Topology &topology() const override { return topology_; }
    void check(const wire::Cell &cell) const override;
    Opened open(const wire::Cell &cell) override;
    std::vector<Counter_event> events(const std::vector<std::string> &) const override { return {}; }

    wire::Arch arch() const { return arch_; }
    std::span<const wire::Form> forms() const { return forms_; }
    std::vector<wire::Listed> listed() const;

    // The context of this machine with what is different inside the kernel. The machine's id is one of its own: a form in
    // user space and the same form in the kernel are not one cell.
    wire::Context describe(const std::string &plan, unsigned launch) const;

private:
    const Kernel_form &form_of(const wire::Cell &cell) const;
    void describe_elsewhere(wire::Context &context) const;

    const Machine &machine_;
    Kernel_runner runner_;
    std::map<std::string, std::string> said_; // what the module says of its kernel
    std::deque<Kernel_form> rows_;            // forms_ holds views of these
    std::vector<wire::Form> forms_;
    Topology topology_;
    wire::Arch arch_ = wire::this_arch;
    bool elsewhere_ = false;
    std::string boot_parameters_;
    std::set<unsigned> used_; // numbers of prepared cells
};

} // namespace lw::probe
