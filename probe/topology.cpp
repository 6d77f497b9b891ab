// SPDX-License-Identifier: MIT
// Reads sysfs; places threads.
#include "probe/topology.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sched.h>
#include <set>

namespace lw::probe {
namespace {

std::string read_text(const std::string &path) {
    std::ifstream file(path);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    while (!text.empty() && (text.back() == '\n' || text.back() == '\0'))
        text.pop_back();
    return text;
}

int read_number(const std::string &path, int fallback = -1) {
    std::string text = read_text(path);
    int value = fallback;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end != text.data() ? value : fallback;
}

// The lowest CPU that shares the last-level (highest-level unified or data) cache; -1 where sysfs lists no cache.
int last_level_cache(const std::string &cpu_dir) {
    int best_level = 0, lowest = -1;
    for (int index = 0; index < 16; ++index) {
        std::string dir = cpu_dir + "/cache/index" + std::to_string(index);
        int level = read_number(dir + "/level");
        if (level < 0)
            break;
        if (level < 3 || level <= best_level || read_text(dir + "/type") == "Instruction")
            continue;
        auto sharers = parse_cpu_list(read_text(dir + "/shared_cpu_list"));
        if (sharers && !sharers->empty()) {
            best_level = level;
            lowest = static_cast<int>(*std::ranges::min_element(*sharers));
        }
    }
    return lowest;
}

int numa_node(const std::string &root, unsigned cpu) {
    auto nodes = parse_cpu_list(read_text(root + "sys/devices/system/node/online"));
    for (unsigned node : nodes.value_or(std::vector<unsigned>{})) {
        auto cpus = parse_cpu_list(read_text(root + "sys/devices/system/node/node" + std::to_string(node) + "/cpulist"));
        if (cpus && std::ranges::find(*cpus, cpu) != cpus->end())
            return static_cast<int>(node);
    }
    return -1;
}

std::string list_text(const std::vector<unsigned> &cpus) {
    std::string text;
    for (unsigned cpu : cpus)
        text += (text.empty() ? "" : ",") + std::to_string(cpu);
    return text;
}

void require_usable(const Topology &topology, const std::vector<unsigned> &cpus, const std::string &where) {
    std::set<unsigned> seen;
    std::vector<unsigned> allowed;
    for (const wire::Cpu &cpu : topology.cpus)
        if (cpu.allowed)
            allowed.push_back(cpu.cpu);
    for (unsigned number : cpus) {
        const wire::Cpu *cpu = topology.find(number);
        if (!cpu)
            throw wire::Invalid(where + ": CPU " + std::to_string(number) + " is absent or offline; allowed are " +
                                list_text(allowed));
        if (!cpu->allowed)
            throw wire::Invalid(where + ": CPU " + std::to_string(number) + " is not allowed to this process; allowed are " +
                                list_text(allowed));
        if (!seen.insert(number).second)
            throw wire::Invalid(where + ": CPU " + std::to_string(number) +
                                " is named twice; two pinned threads on one CPU only take turns");
    }
}

} // namespace

std::string_view distance_name(Distance distance) {
    constexpr std::array names{"same_cpu", "smt_sibling", "same_l3", "other_l3", "other_socket"};
    return names[static_cast<unsigned>(distance)];
}

std::optional<std::vector<unsigned>> parse_cpu_list(std::string_view text) {
    std::vector<unsigned> cpus;
    while (!text.empty()) {
        std::string_view item = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), item.size() + 1));
        unsigned first = 0, last = 0;
        auto [middle, error] = std::from_chars(item.data(), item.data() + item.size(), first);
        if (error != std::errc())
            return std::nullopt;
        last = first;
        if (middle != item.data() + item.size()) {
            if (*middle != '-')
                return std::nullopt;
            auto [end, range_error] = std::from_chars(middle + 1, item.data() + item.size(), last);
            if (range_error != std::errc() || end != item.data() + item.size())
                return std::nullopt;
        }
        if (last < first || last > 65'535)
            return std::nullopt;
        for (unsigned cpu = first; cpu <= last; ++cpu)
            cpus.push_back(cpu);
    }
    return cpus;
}

const wire::Cpu *Topology::find(unsigned cpu) const {
    auto found = std::ranges::find(cpus, cpu, &wire::Cpu::cpu);
    return found == cpus.end() ? nullptr : &*found;
}

Distance Topology::distance(unsigned from, unsigned to) const {
    const wire::Cpu *a = find(from), *b = find(to);
    if (from == to)
        return Distance::same_cpu;
    if (!a || !b || a->socket != b->socket)
        return Distance::other_socket;
    if (a->core >= 0 && a->core == b->core && a->cluster == b->cluster)
        return Distance::smt_sibling;
    bool same_cluster = a->cluster >= 0 && a->cluster == b->cluster;
    // Where sysfs names no last-level cache (many arm64 machines), one socket counts as one.
    return a->l3 == b->l3 || (a->l3 < 0 && same_cluster) ? Distance::same_l3 : Distance::other_l3;
}

bool Topology::has_smt() const {
    for (const wire::Cpu &a : cpus)
        for (const wire::Cpu &b : cpus)
            if (a.cpu < b.cpu && distance(a.cpu, b.cpu) == Distance::smt_sibling)
                return true;
    return false;
}

Topology read_topology(const std::string &root_in, const std::vector<unsigned> &allowed) {
    std::string root = root_in.empty() || root_in.back() != '/' ? root_in + "/" : root_in;
    std::string base = root + "sys/devices/system/cpu/";
    Topology topology;
    // No sysfs (some sandboxes): what the scheduler allows is all that is known.
    auto online = parse_cpu_list(read_text(base + "online"));
    if (!online || online->empty())
        online = allowed;
    for (unsigned number : *online) {
        std::string dir = base + "cpu" + std::to_string(number);
        wire::Cpu cpu;
        cpu.cpu = number;
        cpu.core = read_number(dir + "/topology/core_id");
        cpu.cluster = read_number(dir + "/topology/cluster_id");
        if (cpu.cluster == 65'535) // how the kernel prints "no cluster"
            cpu.cluster = -1;
        cpu.socket = read_number(dir + "/topology/physical_package_id");
        cpu.l3 = last_level_cache(dir);
        cpu.node = numa_node(root, number);
        cpu.capacity = read_number(dir + "/cpu_capacity");
        cpu.midr = read_text(dir + "/regs/identification/midr_el1");
        cpu.allowed = std::ranges::find(allowed, number) != allowed.end();
        topology.cpus.push_back(cpu);
    }
    return topology;
}

std::vector<unsigned> allowed_cpus() {
    // The kernel refuses a mask shorter than its own: grow until it fits (machines have thousands of CPUs).
    for (std::size_t count = 1024; count <= 1u << 20; count *= 2) {
        std::size_t bytes = CPU_ALLOC_SIZE(count);
        cpu_set_t *set = CPU_ALLOC(count);
        CPU_ZERO_S(bytes, set);
        std::vector<unsigned> cpus;
        bool fits = sched_getaffinity(0, bytes, set) == 0;
        for (unsigned cpu = 0; fits && cpu < count; ++cpu)
            if (CPU_ISSET_S(cpu, bytes, set))
                cpus.push_back(cpu);
        CPU_FREE(set);
        if (fits)
            return cpus;
    }
    return {};
}

std::vector<unsigned> usable_cpus(const Topology &topology, const std::vector<unsigned> &wanted) {
    if (!wanted.empty()) {
        require_usable(topology, wanted, "plan.cpus");
        return wanted;
    }
    std::vector<unsigned> cpus;
    for (const wire::Cpu &cpu : topology.cpus)
        if (cpu.allowed)
            cpus.push_back(cpu.cpu);
    if (cpus.empty())
        throw wire::Invalid("no CPU may be used");
    return cpus;
}

Placed place(const Topology &topology, const std::vector<unsigned> &usable, const wire::Cell &cell) {
    if (cell.placement.starts_with("cpus:")) {
        auto cpus = parse_cpu_list(std::string_view(cell.placement).substr(5));
        if (!cpus || cpus->size() != cell.threads)
            throw wire::Invalid(cell.id() + ": placement names " + std::to_string(cpus ? cpus->size() : 0) + " CPUs for " +
                                std::to_string(cell.threads) + " threads");
        require_usable(topology, *cpus, cell.id());
        return {*cpus, ""};
    }
    unsigned home = usable.front();
    std::vector<std::pair<Distance, unsigned>> others;
    for (unsigned cpu : usable)
        if (cpu != home)
            others.emplace_back(topology.distance(home, cpu), cpu);
    if (cell.placement == "auto") {
        // Nearest core first, but an SMT sibling last: it shares the core, so its row says something else.
        auto rank = [](Distance distance) { return distance == Distance::smt_sibling ? 100 : static_cast<int>(distance); };
        std::ranges::stable_sort(others, {}, [&](const auto &other) { return rank(other.first); });
    } else {
        std::erase_if(others, [&](const auto &other) { return distance_name(other.first) != cell.placement; });
    }
    if (others.size() + 1 < cell.threads)
        return {{},
                std::to_string(cell.threads) + " pinned threads need " + std::to_string(cell.threads) + " CPUs; placement " +
                    cell.placement + " finds " + std::to_string(others.size() + 1) + " here"};
    Placed placed{{home}, ""};
    for (unsigned i = 0; i + 1 < cell.threads; ++i)
        placed.cpus.push_back(others[i].second);
    return placed;
}

} // namespace lw::probe
