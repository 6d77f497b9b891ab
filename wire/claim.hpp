// SPDX-License-Identifier: MIT
// The name by which runs on one machine notice each other: a probe, the helper of a trial and the sampler hold it while they
// run.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace lw::wire {

// An abstract name, which no file system needs to allow: it begins with a zero byte. It reaches as far as the network
// namespace, so not into other containers.
struct Run_name {
    sockaddr_un un{};
    socklen_t length;
    Run_name() {
        constexpr std::string_view name{"\0linewright-probe", 17};
        un.sun_family = AF_UNIX;
        std::memcpy(un.sun_path, name.data(), name.size());
        length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    }
    const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&un); }
};

// Claims the machine for one run until this process ends, and says whether another run had it already: the kernel gives the
// name back with the process. False where sockets are refused: then nothing is known.
inline bool claim_machine() {
    const Run_name name;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    return bind(fd, name.get(), name.length) != 0 && errno == EADDRINUSE; // left open: the claim
}

// The same question without a claim.
inline bool other_run_here() {
    const Run_name name;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    const bool there = connect(fd, name.get(), name.length) == 0;
    close(fd);
    return there;
}

} // namespace lw::wire
