// SPDX-License-Identifier: MIT
// Topology from made-up sysfs trees: SMT, several caches, sparse numbers, mixed cores, none at all.
#include "probe/machine.hpp"
#include "probe/topology.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

namespace {

using namespace lw::probe;
namespace fs = std::filesystem;

class Tree {
public:
    Tree() {
        // Thousands of small files: in memory where there is such a place.
        const fs::path memory = "/dev/shm", parent = fs::exists(memory) ? memory : fs::temp_directory_path();
        std::string pattern = (parent / "linewright-sysfs-XXXXXX").string();
        root_ = mkdtemp(pattern.data());
    }
    ~Tree() { fs::remove_all(root_); }

    void write(const std::string &path, const std::string &text) {
        fs::path full = root_ / path;
        fs::create_directories(full.parent_path());
        std::ofstream(full) << text << '\n';
    }

    void cpu(unsigned number, int core, int socket, const std::string &l3 = "") {
        std::string dir = "sys/devices/system/cpu/cpu" + std::to_string(number);
        write(dir + "/topology/core_id", std::to_string(core));
        write(dir + "/topology/physical_package_id", std::to_string(socket));
        write(dir + "/topology/cluster_id", "65535");
        write(dir + "/cache/index0/level", "1");
        write(dir + "/cache/index0/type", "Data");
        write(dir + "/cache/index0/shared_cpu_list", std::to_string(number));
        if (!l3.empty()) {
            write(dir + "/cache/index1/level", "3");
            write(dir + "/cache/index1/type", "Unified");
            write(dir + "/cache/index1/shared_cpu_list", l3);
        }
    }

    std::string root() const { return root_.string(); }

private:
    fs::path root_;
};

lw::wire::Cell cell(const std::string &placement, unsigned threads) {
    lw::wire::Cell made;
    made.operation = "add";
    made.form = "x";
    made.contender = threads > 1 ? "same_line" : "none";
    made.placement = placement;
    made.threads = threads;
    return made;
}

// Two sockets, two L3 each on socket 0, SMT, numbers with a hole: 0,1,2,3 and 8,9 as siblings of 0,1; socket 1 is 16.
struct Big : ::testing::Test {
    Tree tree;
    Topology topology;
    Big() {
        tree.write("sys/devices/system/cpu/online", "0-3,8-9,16");
        for (unsigned number : {0u, 1u, 8u, 9u})
            tree.cpu(number, static_cast<int>(number % 8), 0, "0-1,8-9");
        tree.cpu(2, 2, 0, "2-3");
        tree.cpu(3, 3, 0, "2-3");
        tree.cpu(16, 0, 1, "16");
        topology = read_topology(tree.root(), {0, 1, 2, 8, 9, 16});
    }
};

TEST(CpuList, ReadsWhatSysfsWrites) {
    EXPECT_EQ(*parse_cpu_list("0-2,5"), (std::vector<unsigned>{0, 1, 2, 5}));
    EXPECT_TRUE(parse_cpu_list("")->empty());
    for (const char *bad : {"a", "1-", "-1", "2-1", "1,,2", "0-99999999", "1 2"})
        EXPECT_FALSE(parse_cpu_list(bad)) << bad;
}

TEST_F(Big, TellsDistances) {
    EXPECT_EQ(topology.cpus.size(), 7u);
    EXPECT_EQ(topology.distance(0, 0), Distance::same_cpu);
    EXPECT_EQ(topology.distance(0, 8), Distance::smt_sibling);
    EXPECT_EQ(topology.distance(0, 1), Distance::same_l3);
    EXPECT_EQ(topology.distance(0, 2), Distance::other_l3);
    EXPECT_EQ(topology.distance(0, 16), Distance::other_socket);
    EXPECT_TRUE(topology.has_smt());
    EXPECT_FALSE(topology.find(3)->allowed);
    EXPECT_EQ(topology.find(4), nullptr);
}

TEST_F(Big, PlacesByClassNearestFirst) {
    std::vector<unsigned> usable = usable_cpus(topology, {});
    EXPECT_EQ(usable, (std::vector<unsigned>{0, 1, 2, 8, 9, 16}));
    EXPECT_EQ(place(topology, usable, cell("auto", 3)).cpus, (std::vector<unsigned>{0, 1, 9}));
    EXPECT_EQ(place(topology, usable, cell("auto", 6)).cpus.back(), 8u) << "the timed core's own sibling comes last";
    EXPECT_EQ(place(topology, usable, cell("smt_sibling", 2)).cpus, (std::vector<unsigned>{0, 8}));
    EXPECT_EQ(place(topology, usable, cell("other_l3", 2)).cpus, (std::vector<unsigned>{0, 2}));
    EXPECT_EQ(place(topology, usable, cell("other_socket", 2)).cpus, (std::vector<unsigned>{0, 16}));
    EXPECT_FALSE(place(topology, usable, cell("other_socket", 3)).unavailable.empty());
    EXPECT_FALSE(place(topology, usable, cell("auto", 7)).unavailable.empty());
    EXPECT_EQ(place(topology, usable, cell("cpus:9,2", 2)).cpus, (std::vector<unsigned>{9, 2}));
}

TEST_F(Big, RefusesCpusThatCannotBeUsed) {
    auto refuses = [&](auto call, const char *what) {
        try {
            call();
            ADD_FAILURE() << "accepted: " << what;
        } catch (const lw::wire::Invalid &error) {
            EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
        }
    };
    refuses([&] { usable_cpus(topology, {0, 4}); }, "CPU 4 is absent or offline");
    refuses([&] { usable_cpus(topology, {3}); }, "CPU 3 is not allowed");
    refuses([&] { usable_cpus(topology, {1, 1}); }, "named twice");
    refuses([&] { usable_cpus(Topology{}, {}); }, "no CPU may be used");
    refuses([&] { place(topology, {0, 1}, cell("cpus:0,0", 2)); }, "named twice");
    refuses([&] { place(topology, {0, 1}, cell("cpus:0", 2)); }, "names 1 CPUs for 2 threads");
}

TEST(Topology, WithoutSysfsIsWhatTheSchedulerAllows) {
    Tree empty;
    Topology topology = read_topology(empty.root(), {4, 7});
    ASSERT_EQ(topology.cpus.size(), 2u);
    EXPECT_EQ(topology.cpus[1].cpu, 7u);
    EXPECT_FALSE(topology.has_smt());
    EXPECT_EQ(place(topology, usable_cpus(topology, {}), cell("auto", 2)).cpus, (std::vector<unsigned>{4, 7}));
}

// Eight sockets of 64 cores with two threads each, a NUMA node for each socket: sibling of n is n + 512.
TEST(Topology, AThousandCpus) {
    Tree tree;
    std::vector<unsigned> allowed;
    std::string nodes;
    tree.write("sys/devices/system/cpu/online", "0-1023");
    for (unsigned number = 0; number < 1024; ++number) {
        const unsigned core = number % 512, socket = core / 64;
        const std::string l3 = std::to_string(core / 8 * 8) + "-" + std::to_string(core / 8 * 8 + 7) + "," +
                               std::to_string(core / 8 * 8 + 512) + "-" + std::to_string(core / 8 * 8 + 519);
        tree.cpu(number, static_cast<int>(core % 64), static_cast<int>(socket), l3);
        allowed.push_back(number);
    }
    tree.write("sys/devices/system/node/online", "0-7");
    for (unsigned node = 0; node < 8; ++node)
        tree.write("sys/devices/system/node/node" + std::to_string(node) + "/cpulist",
                   std::to_string(node * 64) + "-" + std::to_string(node * 64 + 63) + "," + std::to_string(node * 64 + 512) +
                       "-" + std::to_string(node * 64 + 575));
    const Topology topology = read_topology(tree.root(), allowed);
    ASSERT_EQ(topology.cpus.size(), 1024u);
    EXPECT_TRUE(topology.has_smt());
    EXPECT_EQ(topology.cpus[1000].node, 7);
    EXPECT_EQ(topology.distance(3, 515), Distance::smt_sibling);
    EXPECT_EQ(topology.distance(3, 4), Distance::same_l3);
    EXPECT_EQ(topology.distance(3, 8), Distance::other_l3);
    EXPECT_EQ(topology.distance(3, 1023), Distance::other_socket);
    std::map<Distance, unsigned> pairs;
    for (unsigned a = 0; a < 1024; ++a)
        for (unsigned b = a + 1; b < 1024; ++b)
            ++pairs[topology.distance(a, b)];
    EXPECT_EQ(pairs[Distance::smt_sibling], 512u);
    EXPECT_EQ(pairs[Distance::same_l3], 64u * (16 * 15 / 2) - 512);
    const Placed all = place(topology, usable_cpus(topology, {}), cell("auto", 1024));
    ASSERT_EQ(all.cpus.size(), 1024u);
    EXPECT_EQ(all.cpus.back(), 512u) << "the sibling comes last";
}

TEST(Topology, AllowedCpusAreThisProcess) {
    auto cpus = allowed_cpus();
    EXPECT_FALSE(cpus.empty());
}

TEST(BootParameters, AreWordsNotParts) {
    EXPECT_EQ(boot_parameters("quiet mitigations=off preempt=full root=/dev/sda1"), "mitigations=off preempt=full");
    EXPECT_EQ(boot_parameters("spectre_v2=off percpu_form=load dma_one_wait=1 arm64.nobti"),
              "spectre_v2=off percpu_form=load dma_one_wait=1 arm64.nobti");
    // Names inside other names, inside values and inside quotation marks.
    EXPECT_EQ(boot_parameters("luks.name=idle resume=/dev/lse false=1 hostname=atomic video=midle"), "");
    EXPECT_EQ(boot_parameters("init=\"/bin/sh -c idle=poll\" nosmt"), "nosmt");
    EXPECT_EQ(boot_parameters("rcutree.use_softirq=0 transparent-hugepage=never"),
              "rcutree.use_softirq=0 transparent-hugepage=never");
    EXPECT_EQ(boot_parameters(""), "");
}

} // namespace
