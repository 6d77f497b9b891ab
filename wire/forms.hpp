// SPDX-License-Identifier: MIT
// The table of forms as data: which exist, for which architecture, and what they need of the CPU.
#pragma once

#include "include/linewright/arch/select.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

namespace lw::wire {

class Json;

// The library's list of architectures; a form of `any` belongs to all of them.
enum class Arch : unsigned char {
    any,
#define LW_ENTRY(name) name,
    LW_ARCHITECTURES(LW_ENTRY)
#undef LW_ENTRY
};

constexpr std::string_view arch_names[] = {"any",
#define LW_ENTRY(name) #name,
                                           LW_ARCHITECTURES(LW_ENTRY)
#undef LW_ENTRY
};

constexpr std::string_view arch_name(Arch arch) { return arch_names[static_cast<unsigned>(arch)]; }

// The architecture of a name that is in the list.
constexpr Arch arch_named(std::string_view name) {
    return static_cast<Arch>(std::ranges::find(arch_names, name) - std::begin(arch_names));
}

// What a form is made of: the last columns of its row, and what those leave out from the row that they name.
struct Made_of {
    std::string_view base = {}; // the same form without its prefetch; itself where it has none
    std::string_view prefetch = {}; // prefetchw, prfm_keep, prfm_strm, or none
    std::string_view loop = {}; // of a compare-and-swap loop what it does first: read_first or guess_first
    std::string_view instruction = {}; // as people write it; empty where the form is no single one
    std::string_view word = {}; // the one-line form that it performs, where `whose` is not empty
    std::string_view whose = {}; // own or shared: the word of the current CPU, or one for all
    std::string_view reach =
        {}; // near: in the CPU's own cache; near_or_far: the implementation chooses; empty: neither is known
    bool exclusive = false; // load- and store-exclusive
    bool returns_old = false; // the value that was in memory
    bool retries = false; // the probe counts its failed rounds
    bool racy = false; // not atomic: the floor of a comparison; contended, it loses counts
    std::string_view stands_for = {}; // beginnings of instructions in programs; asked by `linewright find`
};

struct Form {
    Arch arch;
    std::string_view name;
    std::string_view operation;
    std::string_view order;
    unsigned width_bits;
    std::string_view needs;
    Made_of made = {}; // the row's own columns alone; made_of() has the rest
    std::string_view family = {}; // of loops that run it: the name of its table

    constexpr bool atomic() const { return !made.racy; }
};

constexpr Arch this_arch = arch_named(LW_ARCH_NAME);
static_assert(static_cast<unsigned>(this_arch) < std::size(arch_names),
              "select.h names an architecture that is not in its list");

// Every row of wire/forms.def, all architectures.
std::span<const Form> all_forms();

// The row for a form at a width on an architecture; null when there is none.
const Form *find_form(std::string_view name, unsigned width_bits, Arch arch = this_arch);

// The family of loops that a form belongs to; empty for a name that no row has.
std::string_view family_of(std::string_view form);

// Of a form with everything that rows say of it; of a name that no row has, the name alone.
Made_of made_of(std::string_view name);

Json to_json(const Made_of &made);

// A form of a list, and why it cannot be run; without a reason it can.
struct Listed {
    const Form *form;
    std::string reason;
    bool racy = false; // besides those whose names say so
};

// What `--list-forms` prints of forms: a JSON array.
std::string to_json(std::span<const Listed> forms);

constexpr bool belongs_to(const Form &form, Arch arch) {
    if (form.arch == Arch::generic && arch == Arch::i386 && form.width_bits > 32)
        return false; // a compiler builtin of 8 bytes is a library call there, not a form
    return form.arch == arch || form.arch == Arch::any || form.arch == Arch::generic;
}

} // namespace lw::wire
