// SPDX-License-Identifier: MIT
// One program at a time: started, waited for beside the requests, and ended with its descendants where that is asked for.
#define _FILE_OFFSET_BITS 64 // on i386 too, a program may write more than 2 GiB
#include "probe/programs.hpp"

#include "probe/machine.hpp"
#include "wire/json.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <optional>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <vector>

extern char **environ;

namespace lw::probe {
namespace {

using wire::Json;

constexpr int most_rounds = 100;      // in which descendants are looked for and killed: one may start another meanwhile
constexpr off_t errors_bytes = 4096;  // of standard error that are handed back
constexpr std::size_t most_line = 1u << 24;
constexpr double first_look_s = 0.001, longest_look_s = 0.02; // between counts of a program's threads; each twice the last

[[noreturn]] void fail(const char *what) { throw std::system_error(errno, std::generic_category(), what); }

double now_s() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

double seconds(const timeval &time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6; }

bool write_all(const char *data, std::size_t size) {
    while (size > 0) {
        const ssize_t written = write(STDOUT_FILENO, data, size);
        if (written < 0 && errno != EINTR)
            return false;
        const std::size_t more = written > 0 ? static_cast<std::size_t>(written) : 0;
        data += more;
        size -= more;
    }
    return true;
}

bool write_line(const Json &line) {
    const std::string text = line.dump() + "\n";
    return write_all(text.data(), text.size());
}

std::string text_of(const char *path) {
    std::ifstream file(path);
    std::string text;
    std::getline(file, text, '\0');
    while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
        text.pop_back();
    return text;
}

// Those that a program started here may run on: fewer than the machine has in a container or under taskset.
std::int64_t usable_cpus() {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        return CPU_COUNT(&allowed);
    return sysconf(_SC_NPROCESSORS_ONLN); // more CPUs than the set has room for
}

Json machine_line() {
    utsname name{};
    uname(&name);
    return {{"linewright_programs", 1},
            {"arch", name.machine},
            {"cpu_model", cpuinfo("model name")},
            {"cpus", usable_cpus()},
            {"kernel", std::string(name.sysname) + " " + name.release},
            {"boot_id", text_of("/proc/sys/kernel/random/boot_id")},
            {"boot_parameters", text_of("/proc/cmdline")}};
}

// Living descendants of this process, by the parents that /proc names.
std::vector<pid_t> descendants() {
    std::multimap<pid_t, pid_t> children;
    DIR *open = opendir("/proc");
    while (dirent *entry = open ? readdir(open) : nullptr) {
        const auto pid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
        std::ifstream file;
        if (pid > 0)
            file.open("/proc/" + std::string(entry->d_name) + "/stat");
        std::string all;
        std::getline(file, all, '\0'); // nothing of a process that has ended meanwhile
        const std::size_t close = all.rfind(')'); // the name before it may hold anything
        if (close != std::string::npos && close + 4 < all.size() && all[close + 2] != 'Z')
            children.emplace(static_cast<pid_t>(std::strtol(all.c_str() + close + 4, nullptr, 10)), pid);
    }
    if (open)
        closedir(open);
    std::vector<pid_t> found{getpid()};
    for (std::size_t i = 0; i < found.size(); i++)
        for (auto [at, end] = children.equal_range(found[i]); at != end; ++at)
            found.push_back(at->second);
    found.erase(found.begin());
    return found;
}

// Threads of all of them: a directory has a link to itself, one from its parent and one from each directory in it.
std::int64_t threads_of_descendants() {
    std::int64_t threads = 0;
    struct stat about{};
    for (pid_t each : descendants())
        if (stat(("/proc/" + std::to_string(each) + "/task").c_str(), &about) == 0 && about.st_nlink > 2)
            threads += static_cast<std::int64_t>(about.st_nlink) - 2;
    return threads;
}

// A file without a name, open to be written by a program and read back here.
class Kept {
public:
    explicit Kept(const std::string &folder) {
        const char *temporary = std::getenv("TMPDIR");
        for (const std::string &place : {std::string(temporary ? temporary : "/tmp"), folder}) {
            std::string name = place + "/linewright-output-XXXXXX";
            if (fd_ < 0 && (fd_ = mkostemp(name.data(), O_CLOEXEC)) >= 0)
                unlink(name.c_str());
        }
        if (fd_ < 0)
            fail("a file for the program's output");
    }
    ~Kept() { close(fd_); }
    Kept(const Kept &) = delete;
    Kept &operator=(const Kept &) = delete;

    int fd() const { return fd_; }
    off_t size() const { return std::max<off_t>(0, lseek(fd_, 0, SEEK_END)); }

    std::string end() const {
        std::array<char, errors_bytes> bytes;
        const ssize_t got = pread(fd_, bytes.data(), bytes.size(), std::max<off_t>(0, size() - errors_bytes));
        return {bytes.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
    }

    // The first bytes, as many as are asked for; where the file has become shorter, zeros, so that the promise holds.
    bool write_out(off_t count) const {
        std::array<char, 65536> bytes;
        for (off_t at = 0; at < count; at += static_cast<off_t>(bytes.size())) {
            const auto part = static_cast<std::size_t>(std::min<off_t>(count - at, static_cast<off_t>(bytes.size())));
            const ssize_t got = pread(fd_, bytes.data(), part, at);
            std::fill(bytes.begin() + std::max<ssize_t>(0, got), bytes.end(), '\0');
            if (!write_all(bytes.data(), part))
                return false;
        }
        return true;
    }

private:
    int fd_ = -1;
};

struct Request {
    std::vector<std::string> command, environment;
    double limit_s;
    off_t output;
    bool count_threads;
};

Request parse(const std::string &line) {
    const Json value = Json::parse(line);
    Request request{value.at("command").strings(),
                    {},
                    value.at("limit_s").real(),
                    static_cast<off_t>(value.at("output").number()),
                    value.at("threads").boolean()};
    if (request.command.empty())
        throw std::runtime_error("a request without a program");
    const Json &changed = value.at("environment");
    for (char **given = environ; *given; given++)
        if (const std::string text = *given; !changed.contains(text.substr(0, text.find('='))))
            request.environment.push_back(text);
    for (const auto &[name, text] : changed.members())
        request.environment.push_back(name + "=" + text.string());
    return request;
}

std::vector<char *> pointers(std::vector<std::string> &words) {
    std::vector<char *> answer;
    answer.reserve(words.size() + 1);
    for (std::string &word : words)
        answer.push_back(word.data());
    answer.push_back(nullptr);
    return answer;
}

// Its signals as a shell would give them, its input empty; an errno where it cannot be started.
int start(Request &request, const Kept &output, const Kept &errors, pid_t *pid) {
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
    sigset_t usual, none;
    sigemptyset(&none);
    sigemptyset(&usual);
    for (int number : {SIGINT, SIGTERM, SIGPIPE, SIGCHLD, SIGHUP})
        sigaddset(&usual, number);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (request.output > 0)
        posix_spawn_file_actions_adddup2(&actions, output.fd(), STDOUT_FILENO);
    else
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, errors.fd(), STDERR_FILENO);
    std::vector<char *> command = pointers(request.command), environment = pointers(request.environment);
    const int error = posix_spawnp(pid, command[0], &actions, &attributes, command.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

class Helper {
public:
    explicit Helper(std::string folder) : folder_(std::move(folder)) {
        sigset_t child;
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        sigprocmask(SIG_BLOCK, &child, &waiting_);
        sigdelset(&waiting_, SIGCHLD); // who started this may have blocked it
        struct sigaction action{};
        action.sa_handler = [](int) {}; // heeded in ppoll alone
        sigaction(SIGCHLD, &action, nullptr);
        std::signal(SIGHUP, SIG_IGN); // a lost connection is the end of the input
        prctl(PR_SET_CHILD_SUBREAPER, 1); // a program's orphans stay descendants, and can be ended with it
    }

    int run() {
        bool writable = write_line(machine_line());
        while (writable) {
            const std::optional<std::string> line = next_line();
            if (!line)
                return 0;
            if (*line != "end" && *line != "kill") // meant for a program that has ended meanwhile
                writable = serve(*line);
        }
        return 3;
    }

    // Everything that was started here, and what it started.
    static void kill_all(int number) {
        for (int round = 0; round < (number == SIGKILL ? most_rounds : 1); round++) {
            const std::vector<pid_t> found = descendants();
            for (pid_t each : found) {
                kill(each, number);
                kill(each, SIGCONT); // one that is stopped would never hear the other
            }
            if (found.empty())
                break;
        }
    }

private:
    // The next line of the input, waited for; nothing at its end.
    std::optional<std::string> next_line() {
        for (;;) {
            if (const std::size_t end = input_.find('\n'); end != std::string::npos) {
                std::string line = input_.substr(0, end);
                input_.erase(0, end + 1);
                return line;
            }
            if (over_ || !wait_for_input(-1) || over_)
                return std::nullopt;
        }
    }

    // Whether something can still come; returns early where a child ends. Nothing is waited for longer than `left_s`.
    bool wait_for_input(double left_s) {
        pollfd input{STDIN_FILENO, POLLIN, 0};
        timespec left{static_cast<time_t>(left_s),
                      static_cast<long>((left_s - static_cast<double>(static_cast<time_t>(left_s))) * 1e9)};
        if (ppoll(&input, over_ ? 0 : 1, left_s < 0 ? nullptr : &left, &waiting_) <= 0)
            return true;
        std::array<char, 65536> bytes;
        const ssize_t got = read(STDIN_FILENO, bytes.data(), bytes.size());
        if (got > 0)
            input_.append(bytes.data(), static_cast<std::size_t>(got));
        over_ = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN) || input_.size() > most_line;
        return !over_;
    }

    bool serve(const std::string &line) {
        Request request = parse(line);
        const Kept output(folder_), errors(folder_);
        pid_t pid = 0;
        const double began_s = now_s();
        if (const int error = start(request, output, errors, &pid))
            return write_line({{"errno", error}});
        int status = 0;
        rusage usage{};
        bool late = false;
        std::int64_t threads = 0;
        double look_s = request.count_threads ? first_look_s : -1;
        while (!reaped(pid, &status, &usage)) {
            const double left_s = request.limit_s - (now_s() - began_s);
            if (request.limit_s > 0 && left_s <= 0) {
                late = true;
                kill_program(pid, SIGKILL);
            }
            obey(pid);
            if (request.count_threads)
                threads = std::max(threads, threads_of_descendants());
            const bool limited = request.limit_s > 0 && !late;
            wait_for_input(limited && look_s > 0 ? std::min(left_s, look_s) : limited ? left_s : look_s);
            look_s = std::min(2 * look_s, longest_look_s);
            if (over_)
                kill_program(pid, SIGKILL);
        }
        const double wall_s = now_s() - began_s;
        const off_t bytes = std::min(request.output, output.size());
        return write_line({{"status", status},
                           {"wall_s", wall_s},
                           {"cpu_s", seconds(usage.ru_utime) + seconds(usage.ru_stime)},
                           {"maxrss_bytes", static_cast<std::uint64_t>(usage.ru_maxrss) * 1024},
                           {"late", late},
                           {"threads", threads},
                           {"errors", errors.end()},
                           {"output_bytes", bytes}}) &&
               output.write_out(bytes);
    }

    // Whether the program has ended; orphans of its that did are taken, too.
    static bool reaped(pid_t pid, int *status, rusage *usage) {
        int some = 0;
        rusage theirs{};
        for (pid_t got; (got = wait4(-1, &some, WNOHANG, &theirs)) > 0;)
            if (got == pid) {
                *status = some;
                *usage = theirs;
                return true;
            }
        return false;
    }

    // Lines that came while the program runs.
    void obey(pid_t pid) {
        for (std::size_t end; (end = input_.find('\n')) != std::string::npos; input_.erase(0, end + 1)) {
            const std::string line = input_.substr(0, end);
            if (line == "end")
                kill_program(pid, SIGTERM);
            else if (line == "kill")
                kill_program(pid, SIGKILL);
            else
                throw std::runtime_error("a request while a program runs");
        }
    }

    static void kill_program(pid_t pid, int number) {
        kill_all(number);
        kill(-pid, number); // where there is no /proc
    }

    std::string folder_, input_;
    bool over_ = false;
    sigset_t waiting_{}; // the mask while waiting: SIGCHLD is let in
};

} // namespace

int run_programs(const std::string &folder) {
    Helper helper(folder);
    try {
        return helper.run();
    } catch (...) { // a program without its helper would go on for ever
        helper.kill_all(SIGKILL);
        throw;
    }
}

} // namespace lw::probe
