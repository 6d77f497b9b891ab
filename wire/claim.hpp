// SPDX-License-Identifier: MIT
// The names by which runs on one machine notice each other: a probe, the helper of a trial and the sampler hold one while they
// run.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace lw::wire {

// More than this many runs at once notice each other only as long as one of the first lasts.
constexpr int run_names = 16;

// Abstract names, which no file system needs to allow: they begin with a zero byte. They reach as far as the network
// namespace, so not into other containers. Every run has one of its own: with a single name, a run that began beside another
// and outlasts it would hold nothing.
struct Run_name {
    sockaddr_un un{};
    socklen_t length;
    explicit Run_name(int number) {
        const std::string name = std::string(1, '\0') + "linewright-probe-" + std::to_string(number);
        un.sun_family = AF_UNIX;
        std::memcpy(un.sun_path, name.data(), name.size());
        length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    }
    const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&un); }
};

// Whether another run holds a name, this process's `own` aside (-1: it has none). False where sockets are refused: then
// nothing is known.
inline bool other_run_here(int own = -1) {
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool there = false;
    for (int number = 0; number != run_names && !there; ++number) {
        const Run_name name(number);
        there = number != own && connect(fd, name.get(), name.length) == 0;
    }
    close(fd);
    return there;
}

// Claims the machine for one run until this process ends, and says whether another run has it already: the kernel gives the
// name back with the process.
inline bool claim_machine() {
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0); // left open: the claim
    for (int number = 0; fd >= 0 && number != run_names; ++number) {
        const Run_name name(number);
        if (bind(fd, name.get(), name.length) == 0)
            return other_run_here(number);
    }
    return other_run_here();
}

} // namespace lw::wire
