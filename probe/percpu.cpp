// SPDX-License-Identifier: MIT
// The family of per-CPU counters: every thread adds to its own CPU's copy, by a sequence or by what is used instead.
//
// Parameter `slots` (a power of two, 1 to 64): words, one to a line, that a loop goes round.
#include "probe/families.hpp"

#include "probe/machine.hpp"
#include "wire/forms.hpp"

#include <linewright/arch/forms.h>
#include <linewright/arch/measure.h>
#include <linewright/percpu.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <new>
#include <sched.h>
#include <vector>

namespace lw::probe {
namespace {
inline namespace place0 {

constexpr std::size_t step = 128; // bytes from slot to slot: no two on one line
constexpr unsigned most_slots = 64;

// Words of one thread that its loops may use; on lines of its own.
struct alignas(256) Seat {
    char *handle = nullptr; // per-CPU memory
    char *own = nullptr;    // this CPU's copy of it
    char *shared = nullptr; // one copy for all threads
    char *packed = nullptr; // this thread's word, the next thread's beside it
    char *padded = nullptr; // this thread's word, the next thread's lines away
    std::size_t last = 0;   // slots - 1
};

thread_local std::uint64_t local_words[most_slots * step / 8];

[[gnu::always_inline]] inline char *slot(char *base, std::size_t index) { return base + index * step; }

// Goes round the slots. A single slot has its address in one register throughout, as in a program that counts one thing.
template <class Step> [[gnu::always_inline]] inline void go_round(Loop_args &args, char *base, Step add) {
    const std::size_t last = static_cast<const Seat *>(args.state)->last;
    if (last == 0)
        return repeat(args, [=]() __attribute__((always_inline)) { add(base); });
    with_work(args, [&](auto work) __attribute__((always_inline)) {
        align_loop();
        for (std::size_t left = args.ops; left; --left) {
            add(slot(base, left & last));
            work();
        }
    });
}

template <class T> void run_empty(Loop_args &args) {
    go_round(args, static_cast<Seat *>(args.state)->handle, [](char *p) { __asm__ volatile("" : : "r"(p)); });
}

template <class T> void run_rseq_add(Loop_args &args) {
    go_round(args, static_cast<Seat *>(args.state)->handle, [](char *p) __attribute__((always_inline)) {
        if constexpr (sizeof(T) == 8)
            lw_this_cpu_add_u64(reinterpret_cast<std::uint64_t *>(p), 1);
        else
            lw_this_cpu_add_u32(reinterpret_cast<std::uint32_t *>(p), 1);
    });
}

// A counter kept with the value operations: read, then exchange if unchanged.
template <class T> void run_rseq_cmpxchg(Loop_args &args) {
    go_round(args, static_cast<Seat *>(args.state)->handle, [](char *p) __attribute__((always_inline)) {
        T *word = reinterpret_cast<T *>(p), old, seen;
        if constexpr (sizeof(T) == 8)
            for (old = lw_this_cpu_read_u64(word); (seen = lw_this_cpu_cmpxchg_u64(word, old, old + 1)) != old; old = seen)
                ;
        else
            for (old = lw_this_cpu_read_u32(word); (seen = lw_this_cpu_cmpxchg_u32(word, old, old + 1)) != old; old = seen)
                ;
    });
}

template <class T> [[gnu::always_inline]] inline void plain(char *p) {
    T *word = reinterpret_cast<T *>(p);
    *word += 1;
    __asm__ volatile("" : : : "memory"); // one add each time
}

template <class T> void run_thread_local(Loop_args &args) {
    char *base = reinterpret_cast<char *>(local_words);
    __asm__("" : "+r"(base)); // formed once: position-independent code would ask for it each time
    go_round(args, base, [](char *p) { plain<T>(p); });
}

// One thread's own word, and nothing atomic: what threads that share no word still pay where they share its line.
template <class T> void run_false_sharing(Loop_args &args) {
    go_round(args, static_cast<Seat *>(args.state)->packed, [](char *p) { plain<T>(p); });
}

template <class T> void run_padded(Loop_args &args) {
    go_round(args, static_cast<Seat *>(args.state)->padded, [](char *p) { plain<T>(p); });
}

[[gnu::always_inline]] inline char *copy_of_current(char *handle) {
    return LW__CPU0(handle) + (static_cast<std::size_t>(sched_getcpu()) << LW_PERCPU_SHIFT);
}

// The CPU asked for and then added on, with nothing to keep the two together: right only because threads are pinned here.
template <class T> void run_racy(Loop_args &args) {
    go_round(args, static_cast<Seat *>(args.state)->handle, [](char *p) { plain<T>(copy_of_current(p)); });
}

enum class Where { own, getcpu, shared };

// A single-line form of the table on this thread's copy, on the copy of the CPU asked for, or on the one that all share.
template <class T, auto Form, Where where> void run_form(Loop_args &args) {
    auto *seat = static_cast<Seat *>(args.state);
    char *base = where == Where::own ? seat->own : where == Where::shared ? seat->shared : seat->handle;
    go_round(args, base, [](char *p) {
        T *word = reinterpret_cast<T *>(where == Where::getcpu ? copy_of_current(p) : p);
        if constexpr (std::is_void_v<decltype(Form(word, T{1}))>) {
            Form(word, 1);
        } else {
            T old = Form(word, 1);
            __asm__ volatile("" : : "r"(old)); // the value is wanted, so that the form stays what it is
        }
    });
}

template <class T> [[gnu::always_inline]] inline void c11_add(T *word, T v) {
    __atomic_fetch_add(word, v, __ATOMIC_RELAXED);
}

struct Percpu_loop {
    std::string_view form;
    unsigned bits;
    Batch run;
    bool sequences = false; // needs restartable sequences to be what it says
    bool one_slot = false;  // each thread has one word
};

template <class T, unsigned bits>
constexpr std::array common_loops{
    Percpu_loop{"percpu_empty", bits, run_empty<T>},
    Percpu_loop{"percpu_rseq_add", bits, run_rseq_add<T>, true},
    Percpu_loop{"percpu_rseq_cmpxchg", bits, run_rseq_cmpxchg<T>, true},
    Percpu_loop{"percpu_thread_local_add", bits, run_thread_local<T>},
    Percpu_loop{"percpu_racy_add", bits, run_racy<T>},
    Percpu_loop{"percpu_false_sharing_add", bits, run_false_sharing<T>, false, true},
    Percpu_loop{"percpu_padded_add", bits, run_padded<T>, false, true},
    Percpu_loop{"percpu_own_c11_add", bits, run_form<T, c11_add<T>, Where::own>},
    Percpu_loop{"percpu_getcpu_c11_add", bits, run_form<T, c11_add<T>, Where::getcpu>},
    Percpu_loop{"percpu_shared_c11_add", bits, run_form<T, c11_add<T>, Where::shared>},
};

// This architecture's own; the last one has no name and is never found.
constexpr auto arch_loops = std::to_array<Percpu_loop>({
#define LW_ENTRY(where, form) \
    {"percpu_" #where "_" #form, 8 * sizeof(std::uintptr_t), run_form<std::uintptr_t, LW_WORD_FORM(form), Where::where>},
    LW_PERCPU_COUNTERS(LW_ENTRY)
#undef LW_ENTRY
        {},
});

const Percpu_loop *find_loop(std::string_view form, unsigned bits) {
    auto search = [&](const auto &loops) -> const Percpu_loop * {
        auto found = std::ranges::find_if(loops, [&](const Percpu_loop &l) { return l.form == form && l.bits == bits; });
        return found == loops.end() ? nullptr : &*found;
    };
    if (const Percpu_loop *loop = search(arch_loops))
        return loop;
    return bits == 32 ? search(common_loops<std::uint32_t, 32>) : search(common_loops<std::uint64_t, 64>);
}

// What the cell's lines are made of: per-CPU memory and a shared copy, freed with the cell.
struct Row {
    char *handle;
    std::vector<std::uint64_t> shared_store, packed_store, padded_store;
    char *shared, *packed, *padded;
};

constexpr std::size_t packed_step = 8, padded_step = 256; // bytes from one thread's own word to the next thread's

// Where a vector's memory reaches a boundary of `step` bytes; it does not move with the vector.
char *aligned(std::vector<std::uint64_t> &store) {
    auto raw = reinterpret_cast<std::uintptr_t>(store.data());
    return reinterpret_cast<char *>((raw + step - 1) / step * step);
}

class Percpu final : public Subject {
public:
    Percpu(const wire::Cell &cell, Batch loop, Batch empty, unsigned slots)
        : cell_(cell), loop_(loop), empty_(empty), slots_(slots), seats_(cell.threads) {
        for (unsigned line = 0; line < cell.lines; ++line) {
            void *handle = lw_percpu_alloc(slots * step, step);
            if (!handle)
                throw std::bad_alloc();
            lw_per_cpu_ptr(handle, lw_percpu_nr_cpus() - 1); // the loops count by themselves: sums are to visit every CPU
            auto words = [](std::size_t bytes) { return std::vector<std::uint64_t>((bytes + step) / 8); };
            Row row{static_cast<char *>(handle),
                    words(slots * step),
                    words(cell.threads * packed_step),
                    words(cell.threads * padded_step),
                    nullptr,
                    nullptr,
                    nullptr};
            row.shared = aligned(row.shared_store);
            row.packed = aligned(row.packed_store);
            row.padded = aligned(row.padded_store);
            rows_.push_back(std::move(row));
        }
    }
    Percpu(const Percpu &) = delete;
    Percpu &operator=(const Percpu &) = delete;
    ~Percpu() override {
        for (Row &row : rows_)
            lw_percpu_free(row.handle);
    }

    unsigned lines() const override { return cell_.lines; }
    Batch loop(unsigned thread) const override { return thread > 0 && cell_.contender == "placebo" ? empty_ : loop_; }
    Batch baseline(unsigned) const override { return empty_; }
    std::string baseline_key() const override {
        return "percpu/s" + std::to_string(slots_) + "/" + cell_.work + std::to_string(cell_.work_iters) + "/t" +
               std::to_string(cell_.threads) + "/ci" + std::to_string(cell_.contender_iters) + "/" + cell_.placement + "/u" +
               std::to_string(cell_.width_bits);
    }

    Loop_args arguments(unsigned thread, unsigned line) override {
        lw_percpu_thread_registered(); // where threads register themselves: now, not inside the window
        Seat &seat = seats_[thread];
        seat.handle = rows_[line].handle;
        seat.own = copy_of_current(seat.handle);
        seat.shared = rows_[line].shared;
        seat.packed = rows_[line].packed + thread * packed_step;
        seat.padded = rows_[line].padded + thread * padded_step;
        seat.last = slots_ - 1;
        std::ranges::fill(local_words, 0);
        Loop_args args;
        args.target = seat.handle;
        set_work(args, cell_, thread);
        args.state = &seat;
        return args;
    }

    // Thread-local words end with the thread: they are counted before.
    void leave(unsigned, Loop_args &) override { local_ += sum_of(reinterpret_cast<char *>(local_words)); }

    void account(unsigned, std::span<const Loop_args> args, std::span<const std::uint64_t> ops) override {
        for (std::size_t thread = 0; thread < args.size(); ++thread)
            if (cell_.operation != "percpu_none" && !(thread > 0 && cell_.contender == "placebo"))
                expected_ += ops[thread];
    }

    std::optional<Check> check() override {
        std::uint64_t found = local_;
        for (Row &row : rows_) {
            found += sum_of(row.shared);
            for (unsigned thread = 0; thread < cell_.threads; ++thread)
                found += word_at(row.packed + thread * packed_step) + word_at(row.padded + thread * padded_step);
            for (unsigned index = 0; index < slots_; ++index)
                found += cell_.width_bits == 64
                             ? lw_percpu_sum_u64(reinterpret_cast<std::uint64_t *>(slot(row.handle, index)))
                             : lw_percpu_sum_u32(reinterpret_cast<std::uint32_t *>(slot(row.handle, index)));
        }
        if (cell_.width_bits == 32) // words wrap
            return Check{static_cast<std::uint32_t>(expected_), static_cast<std::uint32_t>(found)};
        return Check{expected_, found};
    }

private:
    std::uint64_t sum_of(char *base) const {
        std::uint64_t sum = 0;
        for (unsigned index = 0; index < slots_; ++index)
            sum += word_at(slot(base, index));
        return sum;
    }

    std::uint64_t word_at(char *at) const {
        return cell_.width_bits == 64 ? *reinterpret_cast<std::uint64_t *>(at) : *reinterpret_cast<std::uint32_t *>(at);
    }

    const wire::Cell cell_;
    const Batch loop_, empty_;
    const unsigned slots_;
    std::vector<Seat> seats_;
    std::vector<Row> rows_;
    std::atomic<std::uint64_t> local_{0}; // relaxed would do: threads are joined before it is read
    std::uint64_t expected_ = 0;
};

unsigned slots_of(const wire::Cell &cell) {
    std::uint64_t slots = 1;
    for (const auto &[key, value] : cell.params) {
        const auto *number = std::get_if<std::uint64_t>(&value);
        if (key != "slots" || !number || *number < 1 || *number > most_slots || !std::has_single_bit(*number))
            throw wire::Invalid(cell.id() + ": parameter " + key + ": allowed is slots, a power of two from 1 to 64");
        slots = *number;
    }
    return static_cast<unsigned>(slots);
}

Made make(const wire::Cell &cell, const Machine &machine) {
    const unsigned slots = slots_of(cell);
    const wire::Form *form = wire::find_form(cell.form, cell.width_bits);
    const Percpu_loop *loop = find_loop(cell.form, cell.width_bits);
    if (!form || !loop || form->operation != cell.operation)
        return {nullptr, "this architecture has no form " + cell.form + " of " + std::to_string(cell.width_bits) +
                             " bits for " + cell.operation};
    if (!machine.has(form->needs))
        return lacking(form->needs, cell);
    if (loop->one_slot && slots != 1)
        throw wire::Invalid(cell.id() + ": " + cell.form + " has one word for each thread: slots=1");
    const char *why = "";
    if (loop->sequences && lw_percpu_mode(&why) == LW_PERCPU_ATOMIC)
        return {nullptr, std::string("no restartable sequences: ") + why};
    lw_percpu_mode(nullptr);
    const Batch empty = find_loop("percpu_empty", cell.width_bits)->run;
    return {std::make_unique<Percpu>(cell, loop->run, empty, slots), ""};
}

} // namespace place0
} // namespace

template <> const Family Families_at<0>::percpu{"percpu", make};

} // namespace lw::probe
