// SPDX-License-Identifier: MIT
// The family of cache maintenance: an operation is one pass over a list of entries whose lines are in a stated condition.
//
// Parameters of a cell: `entry_bytes`, `entries`, `wait` (each: a wait behind every entry; once: one at the end), `state`
// (what the lines are before a pass: absent, clean, dirty_l1, dirty_l2, dirty_beyond), `align_bytes` (where in a line
// entries begin). Bringing the lines into that condition is left out of the time. The baseline loop walks the same list and
// leaves out the instructions and the waits.
#include "probe/families.hpp"

#include "probe/machine.hpp"
#include "wire/forms.hpp"

#include <linewright/arch/measure.h>
#include <linewright/cache.h>
#include <linewright/arch/select.h>
#include LW_ARCH_HEADER(cache.h)

#include <algorithm>
#include <array>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace lw::probe {
namespace {

using Byte = unsigned char;

// Memory that all cells use in turn: every pass prepares its own lines, and sixteen cells of 10 MiB each would be too much.
class Arena {
public:
    // False when the system has not so much.
    bool reserve(std::size_t bytes) {
        if (bytes <= size_)
            return true;
        void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (memory == MAP_FAILED)
            return false;
        if (base_)
            munmap(base_, size_);
        base_ = static_cast<Byte *>(memory);
        size_ = bytes;
        return true;
    }
    Byte *base() const { return base_; }

private:
    Byte *base_ = nullptr;
    std::size_t size_ = 0;
};

Arena &arena() {
    static Arena memory;
    return memory;
}

// CPU 0's data cache of a level: the C library knows it, or sysfs does (musl, many arm64 systems), else a common size.
std::size_t cache_bytes(int level, std::size_t fallback) {
#ifdef _SC_LEVEL1_DCACHE_SIZE
    long value = sysconf(level == 1 ? _SC_LEVEL1_DCACHE_SIZE : _SC_LEVEL2_CACHE_SIZE);
    if (value > 0)
        return static_cast<std::size_t>(value);
#endif
    for (int index = 0; index < 16; ++index) {
        std::string dir = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
        int found = 0;
        std::string type;
        std::size_t kib = 0;
        std::ifstream(dir + "/level") >> found;
        std::ifstream(dir + "/type") >> type;
        std::ifstream(dir + "/size") >> kib; // "48K"
        if (found == level && type != "Instruction" && kib > 0)
            return kib << 10;
    }
    return fallback;
}

std::size_t l1_bytes() { return cache_bytes(1, std::size_t{64} << 10); }
std::size_t l2_bytes() { return cache_bytes(2, std::size_t{1} << 20); }

enum class State : unsigned char { absent, clean, dirty_l1, dirty_l2, dirty_beyond };

constexpr std::array state_names{"absent", "clean", "dirty_l1", "dirty_l2", "dirty_beyond"};

// The lines of an entry, as offsets into the arena: the first, and one past the last.
struct Lines {
    std::size_t first, end;
};

// What a thread's loop needs: the entries, and how to prepare them.
struct Pass {
    State state;
    std::size_t line = 64;
    std::vector<Lines> entries;
    std::size_t spare_at = 0, spare_bytes = 0; // memory that is read to push the lines out of nearer caches
    Byte value = 0;
    bool prepared = false;
    std::size_t lines_seen = 0, lines_wrong = 0;

    void each_line(auto visit) const {
        Byte *base = arena().base();
        for (const Lines &entry : entries)
            for (std::size_t at = entry.first; at < entry.end; at += line)
                visit(base + at);
    }
    void prepare();
    void verify();
};

void drop(const Pass &pass) {
    Byte *base = arena().base();
    for (const Lines &entry : pass.entries)
        lw_cache_clean_invalidate_nowait(base + entry.first, entry.end - entry.first);
    lw_cache_arch_wait_all(); // maintenance above before the loads and the timed part below
}

void Pass::prepare() {
    Byte sum = 0;

    if (state != State::absent && state != State::clean) {
        ++value;
        each_line([this](Byte *at) { *static_cast<volatile Byte *>(at) = value; });
    } else {
        drop(*this);
        if (state == State::clean)
            each_line([&sum](Byte *at) { sum = static_cast<Byte>(sum + *static_cast<volatile Byte *>(at)); });
    }
    for (std::size_t at = 0; at < spare_bytes; at += line)
        sum = static_cast<Byte>(sum + *static_cast<volatile Byte *>(arena().base() + spare_at + at));
    __asm__ volatile("" : : "r"(sum));
    prepared = true;
    lw_cache_arch_wait_all(); // the stores above have left the store buffer before the timed part begins
}

// Maintenance changes no byte: each line still holds what the last preparation stored.
void Pass::verify() {
    if (!prepared)
        return;
    const bool dirty = state != State::absent && state != State::clean;
    each_line([&](Byte *at) {
        ++lines_seen;
        lines_wrong += dirty && *static_cast<volatile Byte *>(at) != value;
    });
    prepared = false;
}

// Preparation between two reads of the clock; the baseline reads the clock just as often, so that its cost cancels.
template <bool real> [[gnu::always_inline]] inline Pass &prepared_pass(Loop_args &args) {
    Pass &pass = *static_cast<Pass *>(args.state);
    std::uint64_t start = lw_ticks_ordered();
    if constexpr (real)
        pass.prepare();
    args.excluded_ticks += lw_ticks_ordered() - start;
    return pass;
}

template <bool full> [[gnu::always_inline]] inline void wait() {
    if constexpr (full)
        lw_cache_arch_wait_all();
    else
        lw_cache_arch_wait_stores();
}

// One pass: what the library's list functions execute, without their checks.
template <void (*Form)(const void *), bool each, bool full> void maintain(Loop_args &args) {
    for (std::size_t left = args.ops; left; --left) {
        const Pass &pass = prepared_pass<true>(args);
        const Byte *base = arena().base();
        const std::size_t line = pass.line;
        for (const Lines &entry : pass.entries) {
            for (std::size_t at = entry.first; at != entry.end; at += line)
                Form(base + at);
            if constexpr (each)
                wait<full>();
        }
        if constexpr (!each)
            wait<full>();
    }
}

void walk_only(Loop_args &args) {
    for (std::size_t left = args.ops; left; --left) {
        const Pass &pass = prepared_pass<false>(args);
        const Byte *base = arena().base();
        const std::size_t line = pass.line;
        for (const Lines &entry : pass.entries)
            for (std::size_t at = entry.first; at != entry.end; at += line)
                __asm__ volatile("" : : "r"(base + at));
    }
}

struct Cache_loop {
    std::string_view form;
    Batch each, once;
};

constexpr bool drops(std::string_view form) { return form == "clflushopt" || form == "clflush" || form == "dc_civac"; }

const Cache_loop *find_loop(std::string_view form) {
    static const std::vector<Cache_loop> loops{
#define LW_ROW(id, name, function) {name, maintain<function, true, drops(name)>, maintain<function, false, drops(name)>},
        LW_CACHE_INSNS(LW_ROW)
#undef LW_ROW
    };
    auto found = std::ranges::find(loops, form, &Cache_loop::form);
    return found == loops.end() ? nullptr : &*found;
}

class Cache final : public Subject {
public:
    Cache(const wire::Cell &cell, const Cache_loop &loop, Pass pass) : cell_(cell), loop_(loop), pass_(std::move(pass)) {}

    unsigned lines() const override { return 1; }
    Batch loop(unsigned) const override { return cell_.text("wait", "once") == "each" ? loop_.each : loop_.once; }
    Batch baseline(unsigned) const override { return walk_only; }
    std::string baseline_key() const override {
        return "cache/" + std::to_string(pass_.entries.size()) + "x" + std::to_string(cell_.number("entry_bytes", 4096)) +
               "+" + std::to_string(cell_.number("align_bytes", 0));
    }

    Loop_args arguments(unsigned, unsigned) override {
        Loop_args args;
        args.target = arena().base();
        args.state = &pass_;
        return args;
    }

    void leave(unsigned, Loop_args &) override { pass_.verify(); }
    void account(unsigned, std::span<const Loop_args>, std::span<const std::uint64_t>) override {}

    // Lines that held what was stored into them, after every window.
    std::optional<Check> check() override { return Check{pass_.lines_seen, pass_.lines_seen - pass_.lines_wrong}; }

    void metrics(std::map<std::string, double> &values) override {
        std::size_t lines = 0;
        for (const Lines &entry : pass_.entries)
            lines += (entry.end - entry.first) / pass_.line;
        values["lines_per_pass"] = static_cast<double>(lines);
        values["waits_per_pass"] = cell_.text("wait", "once") == "each" ? static_cast<double>(pass_.entries.size()) : 1;
        values["line_bytes"] = static_cast<double>(pass_.line);
    }

private:
    const wire::Cell cell_;
    const Cache_loop &loop_;
    Pass pass_;
};

State state_of(const wire::Cell &cell) {
    const std::string name = cell.text("state", "dirty_beyond");
    auto found = std::ranges::find(state_names, name);
    if (found == state_names.end())
        throw wire::Invalid(cell.id() + ": no state " + name + "; allowed: absent, clean, dirty_l1, dirty_l2, dirty_beyond");
    return static_cast<State>(found - state_names.begin());
}

void check_cell(const wire::Cell &cell) {
    for (const auto &[key, value] : cell.params)
        if (key != "entry_bytes" && key != "entries" && key != "wait" && key != "state" && key != "align_bytes")
            throw wire::Invalid(cell.id() + ": no parameter " + key +
                                "; allowed: entry_bytes, entries, wait, state, align_bytes");
    const std::string wait = cell.text("wait", "once");
    if (wait != "each" && wait != "once")
        throw wire::Invalid(cell.id() + ": no wait " + wait + "; allowed: each, once");
    const auto bytes = cell.number("entry_bytes", 4096), entries = cell.number("entries", 2560);
    if (bytes < 1 || bytes > (1u << 26) || entries < 1 || entries > 1'000'000 || bytes * entries > (1u << 29))
        throw wire::Invalid(cell.id() +
                            ": entry_bytes from 1 to 64 MiB, entries from 1 to 1000000, together at most 512 MiB");
    if (cell.number("align_bytes", 0) > 2047)
        throw wire::Invalid(cell.id() + ": align_bytes from 0 to 2047");
    if (cell.contender != "none" || cell.lines != 1 || cell.work_iters != 0)
        throw wire::Invalid(cell.id() + ": cache maintenance takes no contender, no work, and lines 1");
}

// Entries with two untouched lines between neighbours, in an order that no prefetcher follows (the same in every run).
Pass lay_out(const wire::Cell &cell, State state) {
    Pass pass;
    pass.state = state;
    pass.line = lw_cache_line_size();
    const std::size_t line = pass.line, bytes = cell.number("entry_bytes", 4096),
                      align = cell.number("align_bytes", 0) % line;
    const std::size_t span = (align + bytes + line - 1) / line * line, stride = span + 2 * line;
    std::vector<std::size_t> order(cell.number("entries", 2560));
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::shuffle(order, std::mt19937_64(1));
    for (std::size_t index : order)
        pass.entries.push_back({index * stride, index * stride + span});
    pass.spare_at = (order.size() * stride + 4095) / 4096 * 4096;
    pass.spare_bytes = state == State::dirty_l2 ? 2 * l1_bytes() : state == State::dirty_beyond ? 2 * l2_bytes() : 0;
    return pass;
}

Made make(const wire::Cell &cell, const Machine &machine) {
    check_cell(cell);
    const State state = state_of(cell);
    const wire::Form *form = wire::find_form(cell.form, cell.width_bits);
    const Cache_loop *loop = find_loop(cell.form);
    if (!form || !loop)
        return {nullptr, "this probe has no loop over " + cell.form};
    if (!machine.has(form->needs))
        return lacking(form->needs, cell);
    lw_cache_description chosen;
    lw_cache_describe(&chosen);
    if (chosen.clean == std::string_view("none"))
        return {nullptr, "this system refuses cache maintenance to user programs"};
    if ((cell.form == "dc_cvap" && chosen.persist != std::string_view("dc_cvap")) ||
        (cell.form == "dc_cvadp" && chosen.persist_deep != std::string_view("dc_cvadp")))
        return {nullptr, "this system advertises " + cell.form + " and refused it when it was tried"};
    Pass pass = lay_out(cell, state);
    std::size_t held = 0;
    for (const Lines &entry : pass.entries)
        held += entry.end - entry.first;
    if (state == State::dirty_l1 && held > l1_bytes() / 2)
        return {nullptr, "the list is larger than half of the first-level cache, " + std::to_string(l1_bytes()) + " bytes"};
    if (state == State::dirty_l2 && held > l2_bytes() / 2)
        return {nullptr, "the list is larger than half of the second-level cache, " + std::to_string(l2_bytes()) + " bytes"};
    if (!arena().reserve(pass.spare_at + pass.spare_bytes))
        return {nullptr, "not enough memory for the list"};
    return {std::make_unique<Cache>(cell, *loop, std::move(pass)), ""};
}

} // namespace

const Family cache_family{"cache", make};

} // namespace lw::probe
