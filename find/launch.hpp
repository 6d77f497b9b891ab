// SPDX-License-Identifier: MIT
// Starts the program to be sampled, held back until the events are open.
#pragma once

#include "find/perf.hpp"

#include <string>
#include <vector>

namespace lw::find {

struct Variable {
    std::string name, value;
};

class Launched {
public:
    // Forks a child that waits; `environment` is added to ours in it.
    Launched(const std::vector<std::string> &command, const std::vector<Variable> &environment);
    pid_t pid() const { return pid_; }
    // Lets the child run the program. 0, or the errno of exec.
    int release();
    // Whether it has ended; its status is then known.
    bool ended();
    // Exit code, or minus the signal that ended it.
    int exit_code() const;
    void signal(int number) const;

private:
    [[noreturn]] static void run(const std::vector<std::string> &command, const std::vector<Variable> &environment, int go,
                                 int failed);
    pid_t pid_ = -1;
    Handle go_, failed_;
    bool ended_ = false;
    int status_ = 0;
};

} // namespace lw::find
