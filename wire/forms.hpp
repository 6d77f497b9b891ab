// The table of forms as data: which exist, for which architecture, and what they need of the CPU.
#pragma once

#include "include/linewright/arch/select.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

namespace lw::wire {

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

struct Form {
    Arch arch;
    std::string_view name;
    std::string_view operation;
    std::string_view order;
    unsigned width_bits;
    std::string_view needs;

    // A form without atomicity (plain_…) is the floor of a comparison; contended, it loses counts.
    constexpr bool atomic() const { return !name.starts_with("plain_"); }
};

constexpr Arch this_arch = arch_named(LW_ARCH_NAME);
static_assert(static_cast<unsigned>(this_arch) < std::size(arch_names),
              "select.h names an architecture that is not in its list");

// Every row of wire/forms.def, all architectures.
std::span<const Form> all_forms();

// The row for a form at a width on an architecture; null when there is none.
const Form *find_form(std::string_view name, unsigned width_bits, Arch arch = this_arch);

// True when any architecture has a form of that name.
bool known_form(std::string_view name);

// A form of a list, and why it cannot be run; without a reason it can.
struct Listed {
    const Form *form;
    std::string reason;
};

// What `--list-forms` prints of forms: a JSON array.
std::string to_json(std::span<const Listed> forms);

constexpr bool belongs_to(const Form &form, Arch arch) {
    if (form.arch == Arch::generic && arch == Arch::i386 && form.width_bits > 32)
        return false; // a compiler builtin of 8 bytes is a library call there, not a form
    return form.arch == arch || form.arch == Arch::any || form.arch == Arch::generic;
}

} // namespace lw::wire
