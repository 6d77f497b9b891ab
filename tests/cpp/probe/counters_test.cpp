// SPDX-License-Identifier: MIT
// Counters by name: resolved from event files, refused by the kernel, counted where software events are allowed.
#include "probe/counters.hpp"
#include "wire/schema.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <linux/perf_event.h>
#include <unistd.h>

namespace lw::probe {
namespace {

namespace fs = std::filesystem;

// A tree of event files as a kernel shows it, in a directory of its own.
class Sysfs {
public:
    Sysfs() {
        std::string pattern = fs::temp_directory_path() / "lw-counters-XXXXXX";
        root_ = mkdtemp(pattern.data());
        put("armv8_pmuv3_0/type", "8");
        put("armv8_pmuv3_0/format/event", "config:0-15");
        put("armv8_pmuv3_0/format/long", "config1:0");
        put("armv8_pmuv3_0/format/split", "config:0-3,32-35");
        put("armv8_pmuv3_0/events/strex_fail_spec", "event=0x6e");
        put("armv8_pmuv3_0/events/remote_access", "event=0x31,long=1");
        put("armv8_pmuv3_0/events/odd", "event=0x31,unknown=1");
        put("armv8_pmuv3_0/events/wide", "event=0x12345");
        put("armv8_pmuv3_0/events/halves", "split=0xab");
        put("uncore_0/type", "9");
        put("uncore_0/format/event", "config:0-7");
        put("uncore_0/events/snoop_all", "event=0x1");
        put("uncore_0/events/snoop_all.scale", "2");
    }
    ~Sysfs() { fs::remove_all(root_); }
    const std::string &root() const { return root_; }

    void put(const std::string &name, const std::string &text) {
        fs::path path = fs::path(root_) / "sys/bus/event_source/devices" / name;
        fs::create_directories(path.parent_path());
        std::ofstream(path) << text << '\n';
    }

private:
    std::string root_;
};

Counter_calls refusing(int error) {
    return {[error](perf_event_attr &, int) { return -error; }};
}

TEST(Counters, EventFilesAreResolvedByTheirFormats) {
    Sysfs sysfs;
    auto event = named_event(sysfs.root(), "remote_access");
    ASSERT_TRUE(event);
    EXPECT_EQ(event->type, 8u);
    EXPECT_EQ(event->config, 0x31u);
    EXPECT_EQ(event->config1, 1u);
    EXPECT_EQ(event->name, "remote_access");
    EXPECT_EQ(named_event(sysfs.root(), "armv8_pmuv3_0/halves")->config, 0xa0000000bu);
    EXPECT_FALSE(named_event(sysfs.root(), "odd")) << "a term without a format";
    EXPECT_FALSE(named_event(sysfs.root(), "wide")) << "a value wider than its bits";
    EXPECT_FALSE(named_event(sysfs.root(), "other_pmu/remote_access"));
    EXPECT_FALSE(named_event(sysfs.root(), "absent"));
    EXPECT_FALSE(named_event(sysfs.root(), "../type")) << "a name is no path";
    EXPECT_FALSE(named_event("/absent", "remote_access"));
}

TEST(Counters, OnlyWhatTheCpuNamesIsTakenForCoherence) {
    Sysfs sysfs;
    EXPECT_EQ(coherence_events(sysfs.root()), std::vector<std::string>{"armv8_pmuv3_0/strex_fail_spec"})
        << "not the rest of the chip's, which count no thread";
    EXPECT_TRUE(coherence_events("/absent").empty());
    sysfs.put("cpu/events/hitm.unit", "x");
    EXPECT_EQ(coherence_events(sysfs.root()).size(), 1u) << "a unit is no event";
}

TEST(Counters, PerfsSpellingAndOursAreOne) {
    EXPECT_EQ(common_event("task-clock")->name, "task_clock");
    EXPECT_EQ(common_event("task_clock")->type, std::uint32_t{PERF_TYPE_SOFTWARE});
    EXPECT_EQ(common_event("cycles")->type, std::uint32_t{PERF_TYPE_HARDWARE});
    EXPECT_FALSE(common_event("snoops"));
}

TEST(Counters, WhatTheKernelRefusesIsAbsentWithItsReason) {
    Sysfs sysfs;
    Counter_choice choice = choose_counters({}, sysfs.root(), refusing(EACCES));
    EXPECT_TRUE(choice.events.empty());
    EXPECT_EQ(choice.reason,
              "cycles, instructions, strex_fail_spec: not permitted (kernel.perf_event_paranoid, or a container's rules)");
    EXPECT_EQ(choose_counters({"cycles"}, sysfs.root(), refusing(ENOENT)).reason,
              "cycles: no such counter on this CPU or in this virtual machine");
    EXPECT_EQ(choose_counters({"cycles"}, sysfs.root(), refusing(ENOSYS)).reason, "cycles: this kernel has no perf_event");
    EXPECT_EQ(choose_counters({"none"}, sysfs.root(), refusing(EACCES)).reason, "not asked for");
    EXPECT_FALSE(Counters(std::vector{*common_event("cycles")}, refusing(EACCES)).active());
}

TEST(Counters, SomeRefusedLeavesTheOthers) {
    Counter_calls calls{
        [](perf_event_attr &attr, int) { return attr.type == PERF_TYPE_SOFTWARE ? open("/dev/null", O_RDONLY) : -ENOENT; }};
    Counter_choice choice = choose_counters({"cycles", "task-clock"}, "/absent", calls);
    ASSERT_EQ(choice.events.size(), 1u);
    EXPECT_EQ(choice.events[0].name, "task_clock");
    EXPECT_EQ(choice.reason, "cycles: no such counter on this CPU or in this virtual machine");
}

TEST(Counters, ANameThatNobodyHasIsRefused) {
    EXPECT_THROW(choose_counters({"snoops"}, "/absent", refusing(ENOENT)), wire::Invalid);
    EXPECT_THROW(choose_counters(std::vector<std::string>(7, "cycles"), "/absent", refusing(ENOENT)), wire::Invalid);
}

TEST(Counters, NothingIsReadFromACounterThatIsNone) {
    Counter_calls calls{[](perf_event_attr &, int) { return open("/dev/null", O_RDONLY); }};
    Counters counters({*common_event("task-clock")}, calls);
    counters.start();
    EXPECT_FALSE(counters.stop().any());
    EXPECT_FALSE(Counters().stop().any());
}

TEST(Counters, SoftwareEventsOfThisThreadAreCounted) {
    Counter_choice choice = choose_counters({"task-clock", "page-faults"}, "/", Counter_calls::of_kernel());
    if (choice.events.size() < 2)
        GTEST_SKIP() << choice.reason;
    Counters counters(choice.events, Counter_calls::of_kernel());
    ASSERT_TRUE(counters.active());
    counters.start();
    [[maybe_unused]] volatile unsigned sink;
    for (unsigned i = 0; i < 1'000'000; ++i)
        sink = i;
    Counted counted = counters.stop();
    ASSERT_TRUE(counted.any());
    EXPECT_GT(counted.value.at("task_clock"), 0);
    EXPECT_GE(counted.value.at("page_faults"), 0);
    EXPECT_LE(counted.running_ns, counted.enabled_ns);
    Counters moved = std::move(counters);
    EXPECT_TRUE(moved.active());
    EXPECT_FALSE(counters.active());
    Counted sum = counted;
    sum.add(counted);
    EXPECT_EQ(sum.value.at("task_clock"), 2 * counted.value.at("task_clock"));
    EXPECT_EQ(sum.running_ns, 2 * counted.running_ns);
}

} // namespace
} // namespace lw::probe
