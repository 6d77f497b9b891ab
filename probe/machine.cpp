// SPDX-License-Identifier: MIT
// Finds out what the probe runs on, without privileges and without libraries.
#include "probe/machine.hpp"

#include "probe/counters.hpp"
#include "probe/rmw_loops.hpp"
#include "probe/stats.hpp"
#include "probe/window.hpp"
#include "wire/forms.hpp"

#include <linewright/arch/cpu.h>
#include <linewright/arch/measure.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#define LW_LIBC_RSEQ 1
#endif
#include <random>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#ifndef LINEWRIGHT_VERSION
#error "LINEWRIGHT_VERSION is set by the build"
#endif

namespace lw::probe {

std::string cpuinfo(std::string_view key) {
    std::ifstream file("/proc/cpuinfo");
    for (std::string text; std::getline(file, text);) {
        auto colon = text.find(':');
        if (colon == std::string::npos || !std::string_view(text).starts_with(key))
            continue;
        auto start = text.find_first_not_of(" \t", colon + 1);
        return start == std::string::npos ? "" : text.substr(start);
    }
    return "";
}

// FNV-1a, 64 bit.
std::string fingerprint(std::string_view text) {
    std::uint64_t value = 0xcbf29ce484222325u;
    for (unsigned char byte : text)
        value = (value ^ byte) * 0x100000001b3u;
    std::array<char, 17> hex{};
    std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(value));
    return hex.data();
}

namespace {

// The words of a command line; quotation marks keep the spaces between them, as the kernel reads it.
std::vector<std::string> words_of(std::string_view command_line) {
    std::vector<std::string> words(1);
    bool quoted = false;
    for (char c : command_line) {
        quoted ^= c == '"';
        if (c == ' ' && !quoted)
            words.emplace_back();
        else
            words.back() += c;
    }
    std::erase(words, "");
    return words;
}

// Names of options; one that ends in a dot stands for all of a module's or subsystem's.
constexpr std::array boot_options{
    // CPUs, ticks and idling
    "isolcpus", "nohz", "nohz_full", "rcu_nocbs", "nosmt", "maxcpus", "nr_cpus", "idle", "intel_idle.", "processor.",
    "intel_pstate", "amd_pstate", "cpufreq.", "cpuidle.", "tsc", "clocksource", "nowatchdog", "nmi_watchdog", "threadirqs",
    // scheduling and RCU
    "preempt", "skew_tick", "rcutree.", "rcupdate.", "srcutree.", "rcu_expedited", "rcu_normal",
    // mitigations
    "mitigations", "spectre_v1", "spectre_v2", "spectre_v2_user", "spectre_bhi", "spec_store_bypass_disable", "ssbd",
    "nospectre_v1", "nospectre_v2", "nospectre_bhb", "retbleed", "l1tf", "mds", "tsx", "tsx_async_abort", "mmio_stale_data",
    "srbds", "gather_data_sampling", "spec_rstack_overflow", "reg_file_data_sampling", "indirect_target_selection", "pti",
    "nopti", "kpti", "ibt",
    // memory and devices
    "transparent_hugepage", "hugepages", "default_hugepagesz", "numa", "numa_balancing", "nokaslr", "swiotlb", "iommu",
    "iommu.", "intel_iommu", "amd_iommu", "slub_debug", "page_poison", "init_on_alloc", "init_on_free", "kasan", "kfence.",
    // instructions and our patches (kernel/)
    "arm64.", "noxsave", "clearcpuid", "lse_prefetch", "percpu_form", "dma_one_wait", "atomic64_first", "atomic64_read"};

// Whether an option is in the list. To the kernel, hyphens and underscores in names are the same.
bool matters(std::string name) {
    std::ranges::replace(name, '-', '_');
    return std::ranges::any_of(boot_options, [&](std::string_view known) {
        return known.ends_with('.') ? name.starts_with(known) : name == known;
    });
}

} // namespace

std::string boot_parameters(std::string_view command_line) {
    std::string kept;
    for (const std::string &word : words_of(command_line))
        if (matters(word.substr(0, word.find('='))))
            kept += (kept.empty() ? "" : " ") + word;
    return kept;
}

namespace {

double monotonic_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

std::string file_text(const char *path) {
    std::ifstream file(path);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    while (!text.empty() && (text.back() == '\n' || text.back() == '\0'))
        text.pop_back();
    return text;
}

#if defined(__x86_64__) || defined(__i386__)

struct Leaf {
    unsigned a = 0, b = 0, c = 0, d = 0;
};

Leaf cpuid(unsigned leaf, unsigned sub = 0) {
    Leaf regs;
    __get_cpuid_count(leaf, sub, &regs.a, &regs.b, &regs.c, &regs.d);
    return regs;
}

std::set<std::string> read_features() {
    std::set<std::string> features;
    auto add = [&](bool has, const char *name) {
        if (has)
            features.insert(name);
    };
    Leaf basic = cpuid(1), extended = cpuid(0x80000001), structured = cpuid(7);
    add(extended.c >> 8 & 1, "prefetchw"); // 3DNowPrefetch
    add(basic.d >> 26 & 1, "sse2");
    add(basic.d >> 8 & 1, "cx8");
    add(basic.c >> 13 & 1, "cx16");
    add(basic.c >> 28 & 1, "avx");
    add(basic.d >> 19 & 1, "clflush");
    add(structured.b >> 23 & 1, "clflushopt");
    add(structured.b >> 24 & 1, "clwb");
    add(structured.c >> 5 & 1, "waitpkg");
    add(extended.c >> 29 & 1, "monitorx");
    return features;
}

// The brand string of CPUID; the same on every kernel and inside containers.
std::string cpu_model() {
    if (cpuid(0x80000000).a < 0x80000004)
        return cpuinfo("model name");
    std::string brand;
    for (unsigned leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
        Leaf regs = cpuid(leaf);
        for (unsigned reg : {regs.a, regs.b, regs.c, regs.d}) {
            std::array<char, 4> bytes{};
            std::memcpy(bytes.data(), &reg, 4);
            brand.append(bytes.data(), 4);
        }
    }
    brand.resize(std::strlen(brand.c_str()));
    auto start = brand.find_first_not_of(' ');
    auto end = brand.find_last_not_of(' ');
    return start == std::string::npos ? "" : brand.substr(start, end - start + 1);
}

std::vector<std::string> cpu_ids(const Topology &) {
    unsigned signature = cpuid(1).a;
    unsigned family = signature >> 8 & 15, model = signature >> 4 & 15;
    if (family == 15)
        family += signature >> 20 & 255;
    if (family >= 6)
        model += (signature >> 16 & 15) << 4;
    return {std::to_string(family) + "-" + std::to_string(model) + "-" + std::to_string(signature & 15)};
}

std::string virtualised() { return cpuid(1).c >> 31 & 1 ? "yes" : "no"; }

unsigned line_bytes() {
    unsigned clflush = (cpuid(1).b >> 8 & 255) * 8;
    return clflush ? clflush : 64;
}

// Invariant TSC: constant rate in every power state, the same on all cores (Intel SDM vol. 3, 18.17.1).
bool fast_clock() { return cpuid(0x80000000).a >= 0x80000007 && (cpuid(0x80000007).d >> 8 & 1); }
constexpr const char *fast_clock_name = "tsc";

#elif defined(__aarch64__)

std::set<std::string> read_features() {
    std::set<std::string> features;
    const unsigned long caps = getauxval(AT_HWCAP), caps2 = getauxval(AT_HWCAP2);
    const auto add = [&](unsigned long has, const char *name) {
        if (has)
            features.insert(name);
    };
    add(caps & LW_HWCAP_LSE, "lse");
    add(caps & LW_HWCAP_LSE2, "lse2");
    add(caps & LW_HWCAP_DC_CVAP, "dcpop");
    add(caps2 & LW_HWCAP2_DC_CVADP, "dcpodp");
    add(caps & LW_HWCAP_EVTSTRM, "evtstrm");
    add(caps & LW_HWCAP_SB, "sb");
    add(caps2 & LW_HWCAP2_WFXT, "wfxt");
    return features;
}

std::string cpu_model() {
    std::string board = file_text("/proc/device-tree/model");
    std::string implementer = cpuinfo("CPU implementer"), part = cpuinfo("CPU part");
    std::string core = implementer.empty() ? "" : "implementer " + implementer + " part " + part;
    if (!board.empty() && !core.empty())
        return board + ", " + core;
    return board.empty() ? (core.empty() ? "arm64" : core) : board;
}

std::vector<std::string> cpu_ids(const Topology &topology) {
    std::set<std::string> ids;
    for (const wire::Cpu &cpu : topology.cpus)
        if (!cpu.midr.empty())
            ids.insert(cpu.midr);
    return {ids.begin(), ids.end()};
}

std::string virtualised() {
    std::string hypervisor = file_text("/proc/device-tree/hypervisor/compatible");
    std::string vendor = file_text("/sys/class/dmi/id/sys_vendor");
    for (const char *name : {"QEMU", "Amazon EC2", "VMware", "Xen", "Google", "Microsoft"})
        if (vendor.find(name) != std::string::npos)
            return vendor.find("Amazon") != std::string::npos ? "unknown" : "yes";
    return hypervisor.empty() ? "unknown" : "yes";
}

unsigned line_bytes() {
    std::uint64_t ctr;
    __asm__("mrs %0, ctr_el0" : "=r"(ctr));
    return 4u << (ctr >> 16 & 15); // DminLine: log2 of the smallest data line in 4-byte words
}

bool fast_clock() { return true; }
constexpr const char *fast_clock_name = "cntvct";

#else

std::set<std::string> read_features() { return {}; }
std::string cpu_model() { return cpuinfo("model name"); }
std::vector<std::string> cpu_ids(const Topology &) { return {}; }
std::string virtualised() { return "unknown"; }
unsigned line_bytes() {
#ifdef _SC_LEVEL1_DCACHE_LINESIZE
    if (long line = sysconf(_SC_LEVEL1_DCACHE_LINESIZE); line > 0)
        return static_cast<unsigned>(line);
#endif
    return 64;
}
bool fast_clock() { return true; }
constexpr const char *fast_clock_name = "clock_monotonic";

#endif

// qemu-user shows the emulated machine's name in uname but the host's file of CPU details.
bool emulated() {
#if defined(__aarch64__)
    return !cpuinfo("vendor_id").empty() || getauxval(AT_HWCAP) == 0;
#else
    return false;
#endif
}

// Rate from two readings 20 ms apart, each the tightest of several bracketed ones.
double calibrate_tick_ns() {
    auto reading = [] {
        double shortest = 1e18, ns = 0;
        std::uint64_t ticks = 0;
        for (int i = 0; i < 16; ++i) {
            double before = monotonic_ns();
            std::uint64_t now = lw_ticks();
            double after = monotonic_ns();
            if (after - before < shortest) {
                shortest = after - before;
                ns = (before + after) / 2;
                ticks = now;
            }
        }
        return std::pair(ns, ticks);
    };
    auto [ns0, ticks0] = reading();
    timespec wait{0, 20'000'000};
    nanosleep(&wait, nullptr);
    auto [ns1, ticks1] = reading();
    return ticks1 > ticks0 ? (ns1 - ns0) / static_cast<double>(ticks1 - ticks0) : 1.0;
}

template <class Read> double read_cost_ns(double tick_ns, Read read) {
    std::vector<double> costs;
    for (int i = 0; i < 301; ++i) {
        // 16 reads between two: a tick may be forty times longer than a read.
        std::uint64_t start = read();
        for (int j = 0; j < 15; ++j)
            (void)read();
        costs.push_back(static_cast<double>(read() - start) * tick_ns / 16);
    }
    return median(costs);
}

Clock read_clock() {
    Clock clock;
    if (!fast_clock())
        throw wire::Invalid("clock: this CPU's time-stamp counter is not invariant; times would follow the frequency");
    clock.source = fast_clock_name;
    clock.tick_ns = calibrate_tick_ns();
    clock.cost_ns = read_cost_ns(clock.tick_ns, lw_ticks);
    clock.ordered_cost_ns = read_cost_ns(clock.tick_ns, lw_ticks_ordered);
    return clock;
}

// Shortest of several timings: what the core does when it is not disturbed.
template <class Body> double shortest_ns(const Clock &clock, Body body) {
    double best = 1e18;
    for (int i = 0; i < 15; ++i) {
        std::uint64_t start = lw_ticks();
        body();
        best = std::min(best, clock.ns(lw_ticks() - start));
    }
    return best;
}

// One batch of a baseline loop with work, ns per iteration.
double baseline_ns(const Machine &machine, std::size_t work, Work_kind kind, std::size_t ops) {
    constexpr unsigned width = sizeof(void *) * 8;
    const Rmw_loop *empty = find_rmw_loop("empty", width, machine.loop_place);
    std::uint64_t dummy = 0;
    Loop_args args;
    args.target = &dummy;
    args.ops = ops;
    args.work = work;
    args.work_kind = kind;
    const std::uint64_t start = lw_ticks();
    empty->issue(args);
    return machine.clock.ns(lw_ticks() - start) / static_cast<double>(ops);
}

double nop_iter_ns(const Machine &machine) {
    auto loop = [&](std::size_t work) {
        double best = 1e18;
        for (int i = 0; i < 15; ++i)
            best = std::min(best, baseline_ns(machine, work, Work_kind::nop_loop, 100));
        return best;
    };
    return (loop(2000) - loop(1000)) / 1000.0; // by difference: what surrounds the loop cancels
}

// The control of the work around operations: cost of a unit, how far the baseline loop is from proportional to the units,
// and how far repeated windows of one length are apart. Windows of 40 µs; medians, so that an interrupt does not count.
void measure_work(const Machine &machine, wire::Context &context) {
    auto window = [&](std::size_t work) {
        return baseline_ns(machine, work, Work_kind::chain, std::max<std::size_t>(100, 160'000 / work));
    };
    auto windows = [&](std::size_t work, int count) {
        std::vector<double> values;
        for (int i = 0; i < count; ++i)
            values.push_back(window(work));
        std::ranges::sort(values);
        return values;
    };
    Real_time real_time;
    window(500); // warms up
    const std::vector<double> repeated = windows(200, 41);
    const double unit = repeated[20] / 200;
    double farthest = 0;
    for (std::size_t work : {10, 20, 50, 100, 500})
        farthest = std::max(farthest, std::abs(windows(work, 11)[5] / (unit * static_cast<double>(work)) - 1));
    context.work_unit_ns = unit;
    context.work_linearity = farthest;
    context.work_spread = (repeated[36] - repeated[4]) / repeated[20];
}

double cycle_ns(const Clock &clock) {
    auto chain = [&](int links) {
        return shortest_ns(clock, [&] {
            unsigned long x = 1;
            for (int i = 0; i < links; i += 16) {
#define LW_FOUR              \
    lw_dependent_add(&x, 3); \
    lw_dependent_add(&x, 5); \
    lw_dependent_add(&x, 7); \
    lw_dependent_add(&x, 9)
                LW_FOUR;
                LW_FOUR;
                LW_FOUR;
                LW_FOUR;
#undef LW_FOUR
            }
        });
    };
    return (chain(320'000) - chain(160'000)) / 160'000.0;
}

// Whether the C library registered restartable sequences for this thread (glibc 2.35 and later: size 0 when it did not).
std::string rseq_owner() {
#ifdef LW_LIBC_RSEQ
    return __rseq_size > 0 ? "libc" : "none";
#else
    return "none";
#endif
}

std::string utc_now() {
    std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    std::array<char, 32> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text.data();
}

// Locks the memory that there is and will be, so that no window waits for a page. Only where nothing limits how much: under
// RLIMIT_MEMLOCK every later mapping counts as a whole, and the first stack of a thread (8 MiB) would be refused.
bool lock_memory() {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        return false;
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY)
        return true;
    // Asked rather than looked up: a capability in a container's user namespace does not lift the limit. Nothing can be read
    // there, so nothing is populated.
    const auto beyond = static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, SIZE_MAX / 4));
    void *trial = mmap(nullptr, beyond, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (trial == MAP_FAILED) {
        munlockall();
        return false;
    }
    munmap(trial, beyond);
    return true;
}

} // namespace

Machine read_machine() {
    Machine machine;
    machine.topology = read_topology("/", allowed_cpus());
    machine.features = read_features();
    machine.clock = read_clock();
    return machine;
}

wire::Context describe(const Machine &machine, const std::string &plan, unsigned launch,
                       const std::vector<std::string> &counted) {
    wire::Context context;
    utsname system{};
    uname(&system);
    context.started_utc = utc_now();
    context.plan = plan;
    context.launch = launch;
    context.tool_version = LINEWRIGHT_VERSION;
#if defined(__clang__)
    context.compiler = "clang " __clang_version__;
#else
    context.compiler = "gcc " __VERSION__;
#endif
    context.arch = wire::arch_name(wire::this_arch);
    context.cpu_model = cpu_model();
    context.cpu_ids = cpu_ids(machine.topology);
    context.features.assign(machine.features.begin(), machine.features.end());
    context.kernel = std::string(system.sysname) + " " + system.release + " " + system.machine;
    context.virtualised = virtualised();
    context.emulated = emulated();
    context.cpus = machine.topology.cpus;
    context.line_bytes = line_bytes();
    context.page_bytes = static_cast<unsigned>(sysconf(_SC_PAGESIZE));
    context.time_source = machine.clock.source;
    context.tick_ns = machine.clock.tick_ns;
    context.timer_cost_ns = machine.clock.cost_ns;
    context.nop_iter_ns = nop_iter_ns(machine);
    measure_work(machine, context);
    context.loop_offset_bytes = loop_offset_bytes(machine.loop_place);
    context.cycle_ns = cycle_ns(machine.clock);
    int here = sched_getcpu();
    context.governor =
        file_text(("/sys/devices/system/cpu/cpu" + std::to_string(std::max(here, 0)) + "/cpufreq/scaling_governor").c_str());
    context.smt = machine.topology.has_smt() ? "on" : "off";
    Counter_choice counters = choose_counters(counted, "/", Counter_calls::of_kernel());
    context.counters = counters.events.empty() ? "unavailable" : "available";
    context.counters_reason = counters.reason;
    context.rseq = rseq_owner();
    context.locked_memory = lock_memory();
    context.realtime = Real_time().active();
    context.boot_parameters = boot_parameters(file_text("/proc/cmdline"));
    context.other_probe = machine.other_probe;
    context.other_load = machine.load.others();

    std::string machine_text = file_text("/etc/machine-id") + context.cpu_model + context.kernel + context.arch +
                               std::to_string(context.cpus.size());
    for (const std::string &id : context.cpu_ids)
        machine_text += id;
    context.machine_id = fingerprint(machine_text);
    std::random_device random;
    context.context_id = fingerprint(context.machine_id + context.started_utc + std::to_string(getpid()) +
                                     std::to_string(random()) + std::to_string(random()) + std::to_string(launch));
    return context;
}

} // namespace lw::probe
