// SPDX-License-Identifier: MIT
// Starts linewright-kernel and talks to it: requests end with an empty line, answers with a line "done".
#include "probe/kernel_runner.hpp"

#include "wire/schema.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <spawn.h>
#include <stdexcept>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

extern char **environ;

namespace lw::probe {
namespace {

[[noreturn]] void fail(int error, const char *what) { throw std::system_error(error, std::generic_category(), what); }

struct Pipe {
    std::array<int, 2> ends{};
    Pipe() {
        if (pipe2(ends.data(), O_CLOEXEC) != 0)
            fail(errno, "pipe");
    }
};

} // namespace

Kernel_runner::Kernel_runner(const std::string &command) {
    const Pipe to, from;
    std::string line = "exec " + command;
    std::array<char, 3> sh{"sh"}, option{"-c"};
    const std::array<char *, 4> arguments{sh.data(), option.data(), line.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to.ends[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from.ends[1], STDOUT_FILENO);
    const int error = posix_spawnp(&process_, "sh", &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(to.ends[0]);
    close(from.ends[1]);
    in_ = fdopen(to.ends[1], "w");
    out_ = fdopen(from.ends[0], "r");
    if (error != 0 || !in_ || !out_)
        fail(error ? error : errno, "sh");
    try {
        until("ready");
    } catch (...) {
        end();
        throw;
    }
}

Kernel_runner::~Kernel_runner() { end(); }

int Kernel_runner::end() {
    if (in_)
        std::fclose(in_);
    if (out_)
        std::fclose(out_);
    in_ = out_ = nullptr;
    int status = 0;
    if (process_ > 0)
        while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
        }
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::vector<std::string> Kernel_runner::ask(const std::string &request) {
    if (!in_)
        throw std::runtime_error("linewright-kernel has ended");
    // An empty line ends a request. A runner that has gone is found by the end of its answers.
    const char *const rest = request.ends_with('\n') ? "\n" : "\n\n";
    (void)(std::fprintf(in_, "%s%s", request.c_str(), rest) < 0 || std::fflush(in_) != 0);
    return until("done");
}

std::vector<std::string> Kernel_runner::until(std::string_view last) {
    std::vector<std::string> lines;
    std::string line, refused;
    for (int c; (c = std::fgetc(out_)) != EOF;) {
        if (c != '\n') {
            line += static_cast<char>(c);
            continue;
        }
        if (line.starts_with("error "))
            refused = line.substr(6);
        if (line == last || line == "done") {
            if (!refused.empty())
                throw wire::Invalid("linewright.ko: " + refused);
            return lines;
        }
        lines.push_back(std::exchange(line, ""));
    }
    const int code = end();
    throw std::runtime_error("linewright-kernel ended with exit code " + std::to_string(code) +
                             (lines.empty() ? "" : ": " + lines.back()));
}

std::map<std::string, std::string> words_by_key(std::string_view line) {
    std::map<std::string, std::string> words;
    while (!line.empty()) {
        const std::string_view word = line.substr(0, line.find(' '));
        line.remove_prefix(std::min(line.size(), word.size() + 1));
        if (const auto equals = word.find('='); equals != std::string_view::npos)
            words.emplace(word.substr(0, equals), word.substr(equals + 1));
    }
    return words;
}

} // namespace lw::probe
