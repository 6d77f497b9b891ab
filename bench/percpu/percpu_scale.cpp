// SPDX-License-Identifier: MIT
// What allocating and summing counters costs by the number of counters and of possible CPUs. The per-CPU part of the library
// is built into this program with a list of possible CPUs that the environment names; the program starts itself anew for
// each list.
#include "timing.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

constexpr const char *list_name = "LW_BENCH_POSSIBLE_CPUS";
const int rounds = lw_bench_times(9, 2);

template <class F> double fastest_ns(F f) {
    double best = 1e18;
    for (int i = 0; i < rounds; i++) {
        const double start = percpu_bench::now_ns();
        f();
        best = std::min(best, percpu_bench::now_ns() - start);
    }
    return best;
}

// ns each of the last thousand allocations, of many.
double allocation_ns(std::size_t counters) {
    std::vector<std::uint64_t *> all;
    double ns = 0;
    for (std::size_t i = 0; i < counters; i++) {
        const double start = percpu_bench::now_ns();
        all.push_back(static_cast<std::uint64_t *>(lw_percpu_alloc(8, 8)));
        if (i + 1000 >= counters)
            ns += percpu_bench::now_ns() - start;
    }
    for (auto *p : all)
        lw_percpu_free(p);
    return ns / 1000;
}

void row(std::size_t counters) {
    std::vector<lw_counter> all(counters);
    for (auto &counter : all) {
        if (lw_counter_init(&counter))
            std::exit(3);
        lw_counter_inc(&counter);
    }
    std::vector<std::int64_t> sums(counters);
    const double each = fastest_ns([&] {
        for (std::size_t i = 0; i < counters; i++)
            sums[i] = lw_counter_sum(&all[i]);
    });
    const double many = fastest_ns([&] { lw_counter_sum_many(all.data(), counters, sums.data()); });
    if (std::count(sums.begin(), sums.end(), 1) != static_cast<long>(counters))
        std::exit(1);
    for (auto &counter : all)
        lw_counter_destroy(&counter);
    const auto n = static_cast<double>(counters);
    std::printf("%10u %10zu %10.1f %10.1f %10.1f\n", lw_percpu_nr_cpus(), counters, each / n, many / n,
                allocation_ns(std::max<std::size_t>(counters, 1000)));
}

int rows_for(const char *program, unsigned possible) {
    char path[] = "/tmp/linewright-possible-XXXXXX";
    const int fd = mkstemp(path);
    const std::string list = "0-" + std::to_string(possible - 1) + "\n";
    if (fd < 0 || write(fd, list.data(), list.size()) < 0)
        return 3;
    close(fd);
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        setenv(list_name, path, 1);
        execl("/proc/self/exe", program, nullptr);
        _exit(3);
    }
    int status = -1;
    waitpid(child, &status, 0);
    unlink(path);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

} // namespace

int main(int, char **argv) {
    if (std::getenv(list_name)) {
        for (const std::size_t counters : {10, 1'000, 20'000})
            row(counters);
        return 0;
    }
    std::printf(
        "counters by possible CPUs; ns each, fastest of %d rounds; allocation: mean of the last 1000\n\n%10s %10s %10s %10s %10s\n",
        rounds, "possible", "counters", "sum", "sum_many", "alloc");
    for (const unsigned possible : {2u, 128u, 256u, 512u})
        if (const int code = rows_for(argv[0], possible))
            return code;
    return 0;
}
