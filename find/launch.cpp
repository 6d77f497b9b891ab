// SPDX-License-Identifier: MIT
// A child waits on a pipe, then executes the program; what exec answers comes back through another pipe.
#include "find/launch.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <sys/prctl.h>
#include <system_error>
#include <sys/wait.h>
#include <unistd.h>

namespace lw::find {

namespace {

std::pair<Handle, Handle> channel() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        throw std::system_error(errno, std::generic_category(), "pipe");
    return {Handle(ends[0]), Handle(ends[1])};
}

} // namespace

Launched::Launched(const std::vector<std::string> &command, const std::vector<Variable> &environment) {
    auto [wait, go] = channel();
    auto [failed, report] = channel();
    pid_ = fork();
    if (pid_ < 0)
        throw std::system_error(errno, std::generic_category(), "fork");
    if (pid_ == 0) {
        go = Handle();
        run(command, environment, wait.get(), report.get());
    }
    go_ = std::move(go);
    failed_ = std::move(failed);
}

void Launched::run(const std::vector<std::string> &command, const std::vector<Variable> &environment, int go, int failed) {
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGTERM); // killed, the sampler cannot end the program itself
    if (read(go, &byte, 1) != 1)      // the sampler gave up
        _exit(127);
    for (int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE})
        std::signal(number, SIG_DFL);
    for (const Variable &variable : environment)
        setenv(variable.name.c_str(), variable.value.c_str(), 1);
    std::vector<char *> arguments;
    for (const std::string &argument : command)
        arguments.push_back(const_cast<char *>(argument.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    int error = errno;
    if (write(failed, &error, sizeof error) < 0) {
        // nothing reads it any more
    }
    _exit(127);
}

int Launched::release() {
    if (write(go_.get(), "g", 1) != 1)
        return errno;
    go_ = Handle();
    int error = 0;
    ssize_t got;
    do
        got = read(failed_.get(), &error, sizeof error);
    while (got < 0 && errno == EINTR);
    return got == sizeof error ? error : 0;
}

bool Launched::ended() {
    if (!ended_ && waitpid(pid_, &status_, WNOHANG) == pid_)
        ended_ = true;
    return ended_;
}

int Launched::exit_code() const { return WIFSIGNALED(status_) ? -WTERMSIG(status_) : WEXITSTATUS(status_); }

void Launched::signal(int number) const {
    if (!ended_)
        kill(pid_, number);
}

} // namespace lw::find
