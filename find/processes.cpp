// SPDX-License-Identifier: MIT
// Reads /proc; a process that ends meanwhile is no error anywhere here.
#include "find/processes.hpp"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fstream>
#include <map>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace lw::find {

namespace {

std::string path(pid_t pid, const char *file) { return "/proc/" + std::to_string(pid) + "/" + file; }

std::vector<pid_t> numbers_in(const std::string &folder) {
    std::vector<pid_t> found;
    if (DIR *open = opendir(folder.c_str())) {
        while (dirent *entry = readdir(open))
            if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
                found.push_back(static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10)));
        closedir(open);
    }
    return found;
}

// Fields of a stat file behind the name, which may hold anything.
std::vector<std::string> stat_of(const std::string &name) {
    std::ifstream file(name);
    std::string all;
    std::getline(file, all, '\0'); // an iterator would throw where the process ends between opening and reading
    std::size_t close = all.rfind(')');
    std::vector<std::string> fields;
    if (close == std::string::npos)
        return fields;
    std::istringstream rest(all.substr(close + 1));
    for (std::string field; rest >> field;)
        fields.push_back(field);
    return fields;
}

} // namespace

bool exists(pid_t pid) { return owner(pid) >= 0; }

long owner(pid_t pid) {
    struct stat about;
    return stat(("/proc/" + std::to_string(pid)).c_str(), &about) == 0 ? static_cast<long>(about.st_uid) : -1;
}

std::vector<pid_t> threads_of(pid_t pid) { return numbers_in(path(pid, "task")); }

pid_t parent_of(pid_t pid) {
    auto fields = stat_of(path(pid, "stat"));
    return fields.size() > 1 ? static_cast<pid_t>(std::strtol(fields[1].c_str(), nullptr, 10)) : 0;
}

unsigned long long cpu_time(pid_t tid) {
    // /proc/TID/stat sums up the whole process; only the entry below task/ is the thread's own.
    auto fields = stat_of(path(tid, ("task/" + std::to_string(tid) + "/stat").c_str()));
    return fields.size() > 12
               ? std::strtoull(fields[11].c_str(), nullptr, 10) + std::strtoull(fields[12].c_str(), nullptr, 10)
               : 0;
}

bool wants_cpu(pid_t tid) {
    auto fields = stat_of(path(tid, "stat"));
    return !fields.empty() && fields[0] == "R";
}

// Of the numbers in schedstat (ns run, ns waited, times that it was given a CPU) the one at a place.
static std::uint64_t schedstat(pid_t tid, int place) {
    std::ifstream file(path(tid, "schedstat"));
    std::uint64_t number = 0;
    for (int at = 0; at <= place; at++)
        file >> number;
    return file ? number : 0;
}

std::uint64_t ran_ns(pid_t tid) { return schedstat(tid, 0); }

std::uint64_t slices_of(pid_t tid) { return schedstat(tid, 2); }

std::uint64_t switches_of(pid_t tid) {
    std::uint64_t sum = 0;
    std::ifstream file(path(tid, "status"));
    for (std::string line; std::getline(file, line);)
        if (std::size_t at = line.find("ctxt_switches:"); at != std::string::npos)
            sum += std::strtoull(line.c_str() + at + sizeof "ctxt_switches:" - 1, nullptr, 10);
    return sum;
}

std::uint64_t switches_of(const std::vector<pid_t> &family) {
    std::uint64_t sum = 0;
    for (pid_t pid : family)
        for (pid_t tid : threads_of(pid))
            sum += switches_of(tid);
    return sum;
}

std::string name_of(pid_t tid) {
    std::ifstream file(path(tid, "comm"));
    std::string name;
    std::getline(file, name);
    return name;
}

std::string program_of(pid_t pid) {
    char to[PATH_MAX];
    ssize_t length = readlink(path(pid, "exe").c_str(), to, sizeof to);
    return length < 0 ? std::string() : std::string(to, static_cast<std::size_t>(length));
}

std::vector<pid_t> family_of(pid_t pid) {
    std::multimap<pid_t, pid_t> children;
    for (pid_t other : numbers_in("/proc"))
        children.emplace(parent_of(other), other);
    std::vector<pid_t> family{pid};
    for (std::size_t i = 0; i < family.size(); i++)
        for (auto [at, end] = children.equal_range(family[i]); at != end; ++at)
            family.push_back(at->second);
    return family;
}

std::vector<Mapping> mappings_of(pid_t pid) {
    std::vector<Mapping> found;
    std::ifstream file(path(pid, "maps"));
    for (std::string line; std::getline(file, line);) {
        unsigned long long start, end, offset, inode;
        unsigned major, minor;
        char mode[5] = {};
        int name = 0;
        if (std::sscanf(line.c_str(), "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, mode, &offset, &major, &minor,
                        &inode, &name) < 7)
            continue;
        found.push_back({start, end, offset, static_cast<std::uint64_t>(major) << 32 | minor, inode, mode[2] == 'x',
                         mode[1] == 'w', mode[3] == 's',
                         static_cast<std::size_t>(name) < line.size() ? line.substr(static_cast<std::size_t>(name)) : ""});
    }
    return found;
}

void describe_mappings(Output &output, pid_t pid, std::uint64_t time_ns) {
    for (const Mapping &mapping : mappings_of(pid))
        Line(output, "map")
            .number("time_ns", time_ns)
            .number("pid", static_cast<std::uint64_t>(pid))
            .number("start", mapping.start)
            .number("length", mapping.end - mapping.start)
            .number("offset", mapping.offset)
            .number("device", mapping.device)
            .number("inode", mapping.inode)
            .text("path", mapping.path)
            .flag("executable", mapping.executable)
            .flag("writable", mapping.writable)
            .flag("shared", mapping.shared);
}

void describe_tasks(Output &output, pid_t pid, const std::vector<pid_t> &threads, std::uint64_t time_ns) {
    auto parent = static_cast<std::uint64_t>(parent_of(pid));
    for (pid_t tid : threads)
        Line(output, "task")
            .number("time_ns", time_ns)
            .text("event", "found")
            .number("pid", static_cast<std::uint64_t>(pid))
            .number("tid", static_cast<std::uint64_t>(tid))
            .number("parent", parent)
            .text("name", name_of(tid));
}

} // namespace lw::find
