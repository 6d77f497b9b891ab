// SPDX-License-Identifier: MIT
// Whole-list cache maintenance against libpmem and against the bare instruction loop, all in one run.
//
// Every round makes the memory dirty before each contestant and runs the contestants in a new random order, so that whatever
// drifts meets all of them; a ratio is taken round by round, and its median and interval are over the rounds.
#include <linewright/cache.h>
#include <linewright/arch/select.h>
#include LW_ARCH_HEADER(cache.h)

#include "../brief.h"

#include <libpmem.h>

#include <sys/mman.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace {

struct Interval {
    double median = 0, low = 0, high = 0;
};

// Median and its order-statistic interval at 95 % (binomial, normal approximation: the samples number dozens).
Interval interval_of(std::vector<double> samples) {
    std::sort(samples.begin(), samples.end());
    const auto n = static_cast<double>(samples.size());
    const double half = 1.96 * std::sqrt(n) / 2;
    const auto at = [&](double rank) { return samples[static_cast<std::size_t>(std::clamp(rank, 0.0, n - 1))]; };
    const double median = (at(std::floor((n - 1) / 2)) + at(std::ceil((n - 1) / 2))) / 2;
    return {median, at(std::floor(n / 2 - half)), at(std::ceil(n / 2 + half) - 1)};
}

struct Contestant {
    std::string name;
    std::function<void()> run;
    std::vector<double> ns;
};

// Runs every contestant once a round in random order; `prepare` runs before each and is not timed.
void compete(std::vector<Contestant> &contestants, int rounds, std::mt19937_64 &random,
             const std::function<void(const Contestant &)> &prepare) {
    std::vector<std::size_t> order(contestants.size());

    for (std::size_t i = 0; i < order.size(); i++)
        order[i] = i;
    for (int round = -2; round < rounds; round++) { // two rounds of warming up
        std::shuffle(order.begin(), order.end(), random);
        for (const auto i : order) {
            prepare(contestants[i]);
            const auto start = std::chrono::steady_clock::now();
            contestants[i].run();
            const auto stop = std::chrono::steady_clock::now();
            if (round >= 0)
                contestants[i].ns.push_back(std::chrono::duration<double, std::nano>(stop - start).count());
        }
    }
}

Interval ratio(const Contestant &a, const Contestant &b) {
    std::vector<double> ratios;

    for (std::size_t i = 0; i < a.ns.size(); i++)
        ratios.push_back(a.ns[i] / b.ns[i]);
    return interval_of(std::move(ratios));
}

class Json { // one flat list of named results is all that is needed
public:
    void add(const std::string &group, const std::string &name, const Interval &v, const char *unit) {
        char line[512];

        std::snprintf(
            line, sizeof(line),
            "%s\n    {\"group\": \"%s\", \"name\": \"%s\", \"unit\": \"%s\", \"median\": %.6g, \"low\": %.6g, \"high\": %.6g}",
            text_.empty() ? "" : ",", group.c_str(), name.c_str(), unit, v.median, v.low, v.high);
        text_ += line;
    }
    bool save(const char *path, const std::string &head) const {
        std::FILE *file = std::fopen(path, "w");

        if (!file)
            return false;
        std::fprintf(file, "{\n%s  \"confidence\": 0.95,\n  \"results\": [%s\n  ]\n}\n", head.c_str(), text_.c_str());
        return std::fclose(file) == 0;
    }

private:
    std::string text_;
};

constexpr std::size_t total_bytes = std::size_t{10} << 20;

struct Memory {
    unsigned char *bytes;
    std::size_t size;
    unsigned char value = 0;

    explicit Memory(std::size_t n) : size(n) {
        bytes = static_cast<unsigned char *>(
            mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
        if (bytes == MAP_FAILED) {
            std::perror("cache_bench: mmap");
            std::exit(3);
        }
        madvise(bytes, n, MADV_HUGEPAGE);
    }
    void dirty(std::size_t n) { std::memset(bytes, ++value, n); }
};

// Entries in random order with an unused line between neighbours, so that none adjoin.
std::vector<iovec> entries(const Memory &memory, std::size_t size, std::size_t count, std::mt19937_64 &random) {
    std::vector<iovec> list(count);
    const std::size_t stride = size + lw_cache_granule();

    for (std::size_t i = 0; i < count; i++)
        list[i] = {memory.bytes + i * stride, size};
    if (count * stride > memory.size) {
        std::fprintf(stderr, "cache_bench: entries do not fit\n");
        std::exit(3);
    }
    std::shuffle(list.begin(), list.end(), random);
    return list;
}

#if defined(__x86_64__) || defined(__i386__)
template <void (*Form)(const void *)> void bare_loop(const std::vector<iovec> &list, std::size_t line) {
    for (const auto &piece : list) {
        const auto begin = static_cast<const char *>(piece.iov_base);
        for (const char *at = begin; at < begin + piece.iov_len; at += line)
            Form(at);
    }
    lw_sfence();
}

std::function<void()> bare(const std::string &insn, const std::vector<iovec> &list) {
    const std::size_t line = lw_cache_line_size();

    if (insn == "clwb")
        return [&list, line] { bare_loop<lw_clwb>(list, line); };
    if (insn == "clflushopt")
        return [&list, line] { bare_loop<lw_clflushopt>(list, line); };
    return [&list, line] { bare_loop<lw_clflush>(list, line); };
}
#else
template <void (*Form)(const void *)> void bare_loop(const std::vector<iovec> &list, std::size_t line) {
    for (const auto &piece : list) {
        const auto begin = static_cast<const char *>(piece.iov_base);
        for (const char *at = begin; at < begin + piece.iov_len; at += line)
            Form(at);
    }
    lw_dsb_sy();
}

std::function<void()> bare(const std::string &insn, const std::vector<iovec> &list) {
    const std::size_t line = lw_cache_line_size();

    if (insn == "dc_cvap")
        return [&list, line] { bare_loop<lw_dc_cvap>(list, line); };
    return [&list, line] { bare_loop<lw_dc_cvac>(list, line); };
}
#endif

void row(const char *name, const Contestant &c, const Contestant &reference, std::size_t lines) {
    const auto t = interval_of(c.ns), r = ratio(c, reference);

    std::printf("  %-34s %9.1f us  [%.1f, %.1f]  %6.2f ns/line   %.3f [%.3f, %.3f]\n", name, t.median / 1e3, t.low / 1e3,
                t.high / 1e3, t.median / static_cast<double>(lines), r.median, r.low, r.high);
}

struct Bench {
    Memory memory{2 * total_bytes + (std::size_t{16} << 20)};
    std::mt19937_64 random{20260101};
    Json json;
    std::string insn; // ours, as chosen
    bool opt = false; // a second instruction to hold against libpmem's choice

    void headline();
    void walk();
    void curve();
};

// 2560 entries of 4 KiB, dirty: the published layout.
void Bench::headline() {
    constexpr std::size_t size = 4096, count = 2560, lines = size / 64 * count;
    const auto list = entries(memory, size, count, random);
    std::vector<Contestant> c;
    const auto both = [&](const std::string &name) {
        c.push_back({"ours, one wait (" + name + ")",
                     [&list, name] { lw_cache_list(list.data(), list.size(), LW_CACHE_PERSIST); },
                     {}});
        c.push_back({"bare loop (" + name + ")", bare(name, list), {}});
        c.push_back({"ours, wait per entry (" + name + ")",
                     [&list] {
                         for (const auto &piece : list)
                             lw_cache_persist(piece.iov_base, piece.iov_len);
                     },
                     {}});
    };

    c.push_back({"libpmem flush each, drain once",
                 [&list] {
                     for (const auto &piece : list)
                         pmem_flush(piece.iov_base, piece.iov_len);
                     pmem_drain();
                 },
                 {}});
    c.push_back({"libpmem persist each",
                 [&list] {
                     for (const auto &piece : list)
                         pmem_persist(piece.iov_base, piece.iov_len);
                 },
                 {}});
    both(insn);
    if (opt)
        both("clflushopt");
    compete(c, lw_bench_times(61, 3), random, [&](const Contestant &next) {
        // the library's instruction is process-wide: choose it outside the timed part
        lw_cache_configure(next.name.find("(clflushopt)") != std::string::npos ? "persist=clflushopt" : "default");
        memory.dirty(count * (size + lw_cache_granule()));
    });
    lw_cache_configure("default");
    std::printf("2560 dirty entries of 4 KiB, one run of %d rounds; the ratio is to libpmem's flush each, drain once\n",
                lw_bench_times(61, 3));
    for (const auto &one : c) {
        row(one.name.c_str(), one, c[0], lines);
        json.add("headline", one.name, interval_of(one.ns), "ns");
        json.add("headline", one.name + " / " + c[0].name, ratio(one, c[0]), "ratio");
    }
    for (std::size_t i = 2; i + 2 < c.size(); i += 3) {
        const auto r = ratio(c[i], c[i + 1]);
        std::printf("  %s / %s: %.3f [%.3f, %.3f]\n", c[i].name.c_str(), c[i + 1].name.c_str(), r.median, r.low, r.high);
        json.add("headline", c[i].name + " / " + c[i + 1].name, r, "ratio");
    }
    const auto r = ratio(c[1], c[0]);
    std::printf("  libpmem persist each / flush each, drain once: %.2f [%.2f, %.2f]\n\n", r.median, r.low, r.high);
}

// What the list itself costs: entries of no bytes, then entries of one line against the same instructions bare.
void Bench::walk() {
    constexpr std::size_t count = 2560, repeat = 20;
    const auto one_line = entries(memory, lw_cache_line_size(), count, random);
    std::vector<iovec> empty = one_line;
    std::vector<Contestant> c;

    for (auto &piece : empty)
        piece.iov_len = 0;
    const auto times = [](auto run) {
        return [run] {
            for (std::size_t i = 0; i < repeat; i++)
                run();
        };
    };
    const auto bare_run = bare(insn, one_line);
    c.push_back({"empty entries", times([&] { lw_cache_list(empty.data(), count, LW_CACHE_PERSIST); }), {}});
    c.push_back({"one-line entries", times([&] { lw_cache_list(one_line.data(), count, LW_CACHE_PERSIST); }), {}});
    c.push_back({"the same lines, bare loop", times([&] { bare_run(); }), {}});
    compete(c, lw_bench_times(61, 3), random, [](const Contestant &) {});
    std::vector<double> difference, none;
    for (std::size_t i = 0; i < c[0].ns.size(); i++) {
        none.push_back(c[0].ns[i] / (count * repeat));
        difference.push_back((c[1].ns[i] - c[2].ns[i]) / (count * repeat));
    }
    const auto d = interval_of(difference), e = interval_of(none);
    std::printf("list walk, per entry (%zu entries)\n", count);
    std::printf("  entries of no bytes: checked and walked  %6.2f ns [%.2f, %.2f]\n", e.median, e.low, e.high);
    std::printf("  entries of one clean line, minus bare    %6.2f ns [%.2f, %.2f]\n", d.median, d.low, d.high);
    json.add("walk", "entries of no bytes", e, "ns per entry");
    json.add("walk", "entries of one clean line minus bare loop", d, "ns per entry");
    ::lw_cache_configure("coherent");
    std::vector<Contestant> free_of_cost{{"coherent",
                                          [&] {
                                              for (int i = 0; i < 1000; i++)
                                                  lw_sync_for_device(one_line.data(), count, LW_DMA_TO_DEVICE);
                                          },
                                          {}}};
    compete(free_of_cost, lw_bench_times(31, 3), random, [](const Contestant &) {});
    ::lw_cache_configure("default");
    for (auto &ns : free_of_cost[0].ns)
        ns /= 1000;
    const auto f = interval_of(free_of_cost[0].ns);
    std::printf("  coherent mode, the whole call            %6.2f ns [%.2f, %.2f]\n\n", f.median, f.low, f.high);
    json.add("walk", "coherent mode, whole call", f, "ns");
}

// Saving of one wait over entry size, and where it vanishes.
void Bench::curve() {
    std::printf("one wait against a wait per entry, 10 MiB dirty in all (at most 8192 entries)\n");
    std::printf("  %9s %7s %12s %12s  %-26s %-24s\n", "entry", "count", "one wait us", "per entry us", "saved",
                "ours / libpmem flush+drain");
    double vanishes = 0;
    for (std::size_t size = 64; size <= std::size_t{2} << 20; size *= 2) {
        const std::size_t count = std::min<std::size_t>(total_bytes / size, 8192);
        const auto list = entries(memory, size, count, random);
        std::vector<Contestant> c;
        c.push_back({"one wait", [&] { lw_cache_list(list.data(), list.size(), LW_CACHE_PERSIST); }, {}});
        c.push_back({"wait per entry",
                     [&] {
                         for (const auto &piece : list)
                             lw_cache_persist(piece.iov_base, piece.iov_len);
                     },
                     {}});
        c.push_back({"libpmem flush each, drain once",
                     [&] {
                         for (const auto &piece : list)
                             pmem_flush(piece.iov_base, piece.iov_len);
                         pmem_drain();
                     },
                     {}});
        c.push_back({"libpmem persist each",
                     [&] {
                         for (const auto &piece : list)
                             pmem_persist(piece.iov_base, piece.iov_len);
                     },
                     {}});
        compete(c, lw_bench_times(31, 3), random,
                [&](const Contestant &) { memory.dirty(count * (size + lw_cache_granule())); });
        auto saved = ratio(c[0], c[1]);
        const auto one = interval_of(c[0].ns), each = interval_of(c[1].ns), peer = ratio(c[0], c[2]);
        saved = {100 * (1 - saved.median), 100 * (1 - saved.high), 100 * (1 - saved.low)};
        std::printf("  %9zu %7zu %12.1f %12.1f  %5.1f %% [%5.1f, %5.1f]      %.3f [%.3f, %.3f]\n", size, count,
                    one.median / 1e3, each.median / 1e3, saved.median, saved.low, saved.high, peer.median, peer.low,
                    peer.high);
        const auto name = std::to_string(size);
        for (const auto &contestant : c)
            json.add("curve", name + " " + contestant.name, interval_of(contestant.ns), "ns");
        json.add("curve", name + " saved", saved, "percent");
        if (saved.low > 2)
            vanishes = 0;
        else if (vanishes == 0)
            vanishes = static_cast<double>(size);
    }
    if (vanishes != 0)
        std::printf("  the advantage is within noise or below 2 %% from entries of %.0f bytes\n", vanishes);
    else
        std::printf("  the advantage has not vanished at 2 MiB\n");
}

} // namespace

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : CACHE_BENCH_JSON;
    lw_cache_description d;
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(sched_getcpu()), &set);
    sched_setaffinity(0, sizeof(set), &set);
    lw_cache_describe(&d);
    if (std::string(d.persist) == "none" || lw_cache_line_size() != 64) {
        std::fprintf(stderr, "cache_bench: needs persistence and 64-byte lines, this machine has persist %s, line %zu\n",
                     d.persist, d.line_bytes);
        return 3;
    }
    Bench bench;
    bench.insn = d.persist;
    bench.opt = bench.insn != "clflushopt" && lw_cache_configure("persist=clflushopt") == 0;
    lw_cache_configure("default");
    std::printf("cache: ours %s + %s, line %zu\n\n", d.persist, d.wait_stores, d.line_bytes);
    bench.headline();
    bench.walk();
    bench.curve();
    const std::string head = "  \"benchmark\": \"cache\",\n  \"instruction\": \"" + bench.insn + "\",\n";
    if (!bench.json.save(path, head)) {
        std::fprintf(stderr, "cache_bench: cannot write %s\n", path);
        return 3;
    }
    std::printf("\nsaved %s\n", path);
    return 0;
}
