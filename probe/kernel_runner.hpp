// SPDX-License-Identifier: MIT
// The conversation with linewright-kernel, the program that hands requests to the kernel module (kmod/user/runner.c).
#pragma once

#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace lw::probe {

class Kernel_runner {
public:
    // Starts the shell command, such as "sudo linewright-kernel --module linewright.ko". Throws wire::Invalid with the
    // module's reason where it cannot be used, std::runtime_error where the command ends without one.
    explicit Kernel_runner(const std::string &command);
    ~Kernel_runner(); // the end of its input: it gives back every cell and unloads the module
    Kernel_runner(const Kernel_runner &) = delete;
    Kernel_runner &operator=(const Kernel_runner &) = delete;

    // The lines of an answer. Throws wire::Invalid with the reason of what the module refuses, std::runtime_error when the
    // runner has ended.
    std::vector<std::string> ask(const std::string &request);

private:
    std::vector<std::string> until(std::string_view last);
    int end();

    pid_t process_ = -1;
    std::FILE *in_ = nullptr, *out_ = nullptr; // its standard input and output
};

// The words behind a line's first one, by key: "thread ops=7 cpu=1".
std::map<std::string, std::string> words_by_key(std::string_view line);

} // namespace lw::probe
