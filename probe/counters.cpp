// SPDX-License-Identifier: MIT
// Counts events of a thread through perf_event, by the names that the kernel and the CPU's own event files give them.
#include "probe/counters.hpp"

#include "wire/schema.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lw::probe {
namespace {

namespace fs = std::filesystem;

struct Common {
    std::string_view name;
    std::uint32_t type;
    std::uint64_t config;
};

constexpr std::array common_events{
    Common{"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    Common{"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    Common{"cache_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    Common{"task_clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
    Common{"page_faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
    Common{"context_switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
    Common{"cpu_migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
};

constexpr std::size_t most_events = 6; // as many as common PMUs count at once beside the fixed ones

// perf's spelling has dashes; names in records have none.
std::string plain(std::string_view name) {
    std::string text(name);
    for (char &c : text)
        c = c >= 'A' && c <= 'Z'                               ? static_cast<char>(c - 'A' + 'a')
            : (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c
                                                               : '_';
    return text;
}

std::string first_line(const fs::path &path) {
    std::ifstream file(path);
    std::string text;
    std::getline(file, text);
    return text;
}

std::optional<std::uint64_t> number(std::string_view text) {
    int base = 10;
    if (text.starts_with("0x"))
        text.remove_prefix(2), base = 16;
    std::uint64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size())
        return std::nullopt;
    return value;
}

std::vector<std::string_view> split(std::string_view text, char at) {
    std::vector<std::string_view> parts;
    while (true) {
        std::size_t end = text.find(at);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos)
            return parts;
        text.remove_prefix(end + 1);
    }
}

// Puts a value into the bits that a format file names: "config:0-7,32-35".
bool place(Counter_event &event, std::string_view format, std::uint64_t value) {
    std::size_t colon = format.find(':');
    if (colon == std::string_view::npos)
        return false;
    std::string_view where = format.substr(0, colon);
    std::uint64_t *word = where == "config"    ? &event.config
                          : where == "config1" ? &event.config1
                          : where == "config2" ? &event.config2
                                               : nullptr;
    if (!word)
        return false;
    for (std::string_view range : split(format.substr(colon + 1), ',')) {
        std::size_t dash = range.find('-');
        auto low = number(range.substr(0, dash));
        auto high = dash == std::string_view::npos ? low : number(range.substr(dash + 1));
        if (!low || !high || *low > *high || *high > 63)
            return false;
        std::uint64_t bits = *high - *low + 1;
        std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
        *word |= (value & mask) << *low;
        value = bits == 64 ? 0 : value >> bits;
    }
    return value == 0;
}

std::vector<fs::path> pmus(const std::string &root) {
    std::vector<fs::path> found;
    std::error_code error;
    for (const auto &entry : fs::directory_iterator(fs::path(root) / "sys/bus/event_source/devices", error)) {
        // PMUs of CPUs only: "cpu", "cpu_core", "armv8_pmuv3_0" … Those of the rest of the chip count no thread.
        std::string name = entry.path().filename();
        if (name.starts_with("cpu") || name.starts_with("armv8"))
            found.push_back(entry.path());
    }
    std::ranges::sort(found);
    return found;
}

std::string why(int error) {
    switch (error) {
    case EACCES:
    case EPERM: return "not permitted (kernel.perf_event_paranoid, or a container's rules)";
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP: return "no such counter on this CPU or in this virtual machine";
    case ENOSYS: return "this kernel has no perf_event";
    case ENOSPC:
    case EINVAL: return "does not fit into one group with the others";
    default: return std::strerror(error);
    }
}

perf_event_attr attributes(const Counter_event &event, bool leader) {
    perf_event_attr attr{};
    attr.type = event.type;
    attr.size = sizeof attr;
    attr.config = event.config;
    attr.config1 = event.config1;
    attr.config2 = event.config2;
    attr.disabled = leader;
    // Software events are the kernel's own doing; of everything else only the loop counts.
    attr.exclude_kernel = event.type != PERF_TYPE_SOFTWARE;
    attr.exclude_hv = attr.exclude_kernel;
    attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    return attr;
}

} // namespace

Counter_calls Counter_calls::of_kernel() {
    return {[](perf_event_attr &attr, int group) {
        long fd = syscall(SYS_perf_event_open, &attr, 0, -1, group, PERF_FLAG_FD_CLOEXEC);
        return fd < 0 ? -errno : static_cast<int>(fd);
    }};
}

void Counted::add(const Counted &other) {
    for (const auto &[name, count] : other.value)
        value[name] += count;
    enabled_ns += other.enabled_ns;
    running_ns += other.running_ns;
}

std::optional<Counter_event> common_event(std::string_view name) {
    std::string wanted = plain(name);
    for (const Common &event : common_events)
        if (event.name == wanted)
            return Counter_event{wanted, event.type, event.config, 0, 0};
    return std::nullopt;
}

std::optional<Counter_event> named_event(const std::string &root, const std::string &name) {
    std::size_t slash = name.find('/');
    std::string pmu_name = slash == std::string::npos ? "" : name.substr(0, slash);
    std::string own = slash == std::string::npos ? name : name.substr(slash + 1);
    if (own.empty() || own.find('/') != std::string::npos || own.find("..") != std::string::npos)
        return std::nullopt;
    for (const fs::path &pmu : pmus(root)) {
        if (!pmu_name.empty() && pmu.filename() != pmu_name)
            continue;
        std::string terms = first_line(pmu / "events" / own);
        auto type = number(first_line(pmu / "type"));
        if (terms.empty() || !type)
            continue;
        Counter_event event{plain(own), static_cast<std::uint32_t>(*type), 0, 0, 0};
        bool whole = true;
        for (std::string_view term : split(terms, ',')) {
            std::size_t equals = term.find('=');
            std::string key(term.substr(0, equals));
            auto value =
                equals == std::string_view::npos ? std::optional<std::uint64_t>(1) : number(term.substr(equals + 1));
            std::string format = first_line(pmu / "format" / key);
            whole = whole && value && !format.empty() && place(event, format, *value);
        }
        if (whole)
            return event;
    }
    return std::nullopt;
}

std::vector<std::string> coherence_events(const std::string &root) {
    constexpr std::array parts{"snoop", "hitm", "strex", "stxr", "excl_fail", "ex_fail", "exclusive"};
    std::vector<std::string> found;
    for (const fs::path &pmu : pmus(root)) {
        std::error_code error;
        std::vector<std::string> own;
        for (const auto &entry : fs::directory_iterator(pmu / "events", error)) {
            std::string name = entry.path().filename();
            bool fits =
                std::ranges::any_of(parts, [&](const char *part) { return plain(name).find(part) != std::string::npos; });
            if (fits && name.find('.') == std::string::npos) // NAME.scale and NAME.unit belong to NAME
                own.push_back(pmu.filename().string() + "/" + name);
        }
        std::ranges::sort(own);
        found.insert(found.end(), own.begin(), own.end());
    }
    return found;
}

Counter_choice choose_counters(const std::vector<std::string> &wanted, const std::string &root, const Counter_calls &calls) {
    Counter_choice choice;
    if (wanted.size() == 1 && wanted[0] == "none") {
        choice.reason = "not asked for";
        return choice;
    }
    std::vector<std::string> names = wanted;
    if (names.empty()) {
        names = {"cycles", "instructions"};
        for (const std::string &name : coherence_events(root))
            if (names.size() < most_events)
                names.push_back(name);
    }
    if (names.size() > most_events)
        throw wire::Invalid("plan.counters: more than " + std::to_string(most_events) + " events");
    std::vector<int> opened;
    std::map<std::string, std::string> refused; // reason: names
    for (const std::string &name : names) {
        auto event = common_event(name);
        if (!event)
            event = named_event(root, name);
        if (!event)
            throw wire::Invalid("plan.counters: \"" + name +
                                "\" is no event of the kernel or of this CPU; allowed: cycles, instructions, "
                                "cache-misses, task-clock, page-faults, context-switches, cpu-migrations, and the names in "
                                "/sys/bus/event_source/devices/*/events");
        perf_event_attr attr = attributes(*event, opened.empty());
        int fd = calls.open(attr, opened.empty() ? -1 : opened[0]);
        if (fd < 0) {
            std::string &list = refused[why(-fd)];
            list += (list.empty() ? "" : ", ") + event->name;
            continue;
        }
        opened.push_back(fd);
        choice.events.push_back(*event);
    }
    for (int fd : opened)
        close(fd);
    for (const auto &[reason, list] : refused)
        choice.reason += (choice.reason.empty() ? "" : "; ") + list + ": " + reason;
    return choice;
}

Counters::Counters(const std::vector<Counter_event> &events, const Counter_calls &calls) {
    for (const Counter_event &event : events) {
        perf_event_attr attr = attributes(event, descriptors_.empty());
        int fd = calls.open(attr, descriptors_.empty() ? -1 : descriptors_[0]);
        if (fd < 0)
            continue;
        descriptors_.push_back(fd);
        names_.push_back(event.name);
    }
    if (active())
        ioctl(descriptors_[0], PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
}

Counters::~Counters() {
    // The leader last: its members go with it otherwise and are counted alone for a moment.
    for (std::size_t i = descriptors_.size(); i-- > 0;)
        close(descriptors_[i]);
}

Counters::Counters(Counters &&other) noexcept
    : descriptors_(std::exchange(other.descriptors_, {})), names_(std::move(other.names_)),
      before_(std::move(other.before_)) {}

Counters &Counters::operator=(Counters &&other) noexcept {
    std::swap(descriptors_, other.descriptors_);
    std::swap(names_, other.names_);
    std::swap(before_, other.before_);
    return *this;
}

Counters::Reading Counters::read() const {
    Reading reading;
    if (!active())
        return reading;
    // PERF_FORMAT_GROUP: number of values, time enabled, time running, then the values in the order of opening.
    std::vector<std::uint64_t> words(3 + descriptors_.size());
    ssize_t bytes = ::read(descriptors_[0], words.data(), words.size() * sizeof words[0]);
    if (bytes != static_cast<ssize_t>(words.size() * sizeof words[0]) || words[0] != descriptors_.size())
        return reading;
    reading.valid = true;
    reading.enabled = words[1];
    reading.running = words[2];
    reading.values.assign(words.begin() + 3, words.end());
    return reading;
}

Counted Counters::stop() const {
    Reading after = read();
    Counted counted;
    if (!after.valid || !before_.valid)
        return counted;
    counted.enabled_ns = static_cast<double>(after.enabled - before_.enabled);
    counted.running_ns = static_cast<double>(after.running - before_.running);
    for (std::size_t i = 0; i < names_.size(); ++i)
        counted.value[names_[i]] += static_cast<double>(after.values[i] - before_.values[i]);
    return counted;
}

} // namespace lw::probe
