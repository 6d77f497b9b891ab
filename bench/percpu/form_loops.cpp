// SPDX-License-Identifier: MIT
// The loops of percpu_forms; LW_FORMS names the function that hands them out.
#include "form_loops.hpp"

#include <linewright/percpu.h>

#include <cstdint>
#include <utility>

namespace {

using percpu_bench::Form, percpu_bench::form_placements;

struct Server {
    int port = 0;
    lw_counter requests{};
    lw::counter answers;
    lw_counter unlucky{};
};

lw_counter counter, other_counter;
Server server;
Server *pointer_to_server = &server;
lw::counter object;
LW_DEFINE_STATIC_PERCPU(std::uint64_t, defined);

struct Local_handle {
    struct Place {
        std::uint64_t *handle = counter.words;
    };
    [[gnu::always_inline]] static void add(Place p) { lw_this_cpu_inc(p.handle); }
};
struct Static_counter {
    struct Place {};
    [[gnu::always_inline]] static void add(Place) { lw_counter_inc(&counter); }
};
struct Two_static_counters {
    struct Place {};
    [[gnu::always_inline]] static void add(Place) {
        lw_counter_inc(&counter);
        lw_counter_inc(&other_counter);
    }
};
struct In_a_struct {
    struct Place {
        Server *server = pointer_to_server;
    };
    [[gnu::always_inline]] static void add(Place p) { lw_counter_inc(&p.server->requests); }
};
struct Defined {
    struct Place {};
    [[gnu::always_inline]] static void add(Place) { lw_this_cpu_inc(defined); }
};
struct Object {
    struct Place {};
    [[gnu::always_inline]] static void add(Place) { ++object; }
};
struct Object_in_a_struct {
    struct Place {
        Server *server = pointer_to_server;
    };
    [[gnu::always_inline]] static void add(Place p) { ++p.server->answers; }
};

// A counter whose word has the same place in its page as the CPU's number has in the thread's area: some processors compare
// the low 12 bits of addresses first, and take the next load of the number for one of the counter.
struct Unlucky {
    struct Place {
        Server *server = pointer_to_server;
    };
    [[gnu::always_inline]] static void add(Place p) { lw_counter_inc(&p.server->unlucky); }
    static bool make() {
        const auto number = reinterpret_cast<std::uintptr_t>(lw__thread_pointer() + lw_percpu_rt.offset) & 0xff8;
        for (int i = 0; i < 4096; i++) // more than a chunk of memory has
            if (lw_counter_init(&server.unlucky) ||
                (reinterpret_cast<std::uintptr_t>(server.unlucky.words) & 0xff8) == number)
                break;
        return server.unlucky.words;
    }
};

template <std::size_t offset> [[gnu::always_inline]] inline void place() {
    __asm__ volatile(".balign 64\n\t.skip %c0, 0x90" : : "i"(offset));
}

template <class F, std::size_t offset> [[gnu::noinline]] void loop(std::size_t n) {
    const typename F::Place where;
    place<offset>();
    for (; n; --n)
        F::add(where);
}

template <class F, std::size_t... i> Form form(const char *shape, std::index_sequence<i...>) {
    return {shape, {loop<F, i * 8>...}};
}
template <class F> Form form(const char *shape) { return form<F>(shape, std::make_index_sequence<form_placements>{}); }

long long counted() {
    return lw_counter_sum(&counter) + lw_counter_sum(&other_counter) + lw_counter_sum(&server.requests) +
           lw_counter_sum(&server.unlucky) + server.answers.sum() + object.sum() +
           static_cast<long long>(lw_percpu_sum(defined));
}

} // namespace

percpu_bench::Forms LW_FORMS() {
    static const Form rows[] = {
        form<Local_handle>("handle in a local variable"),
        form<Static_counter>("static struct lw_counter"),
        form<Two_static_counters>("two static counters, both"),
        form<In_a_struct>("struct lw_counter in a struct"),
        form<Defined>("LW_DEFINE_STATIC_PERCPU"),
        form<Object>("static lw::counter"),
        form<Object_in_a_struct>("lw::counter in a struct"),
        form<Unlucky>("... at the thread area's place"),
    };
    if (lw_counter_init(&counter) || lw_counter_init(&other_counter) || lw_counter_init(&server.requests) ||
        !Unlucky::make())
        return {__VERSION__, nullptr, 0, counted};
    return {__VERSION__, rows, sizeof rows / sizeof *rows, counted};
}
