// The table of forms as data: which exist, for which architecture, and what they need of the CPU.
#pragma once

#include <span>
#include <string_view>

namespace lw::wire {

enum class Arch : unsigned char { any, x86_64, i386, arm64, generic };

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

constexpr Arch this_arch =
#if defined(__x86_64__)
    Arch::x86_64;
#elif defined(__i386__)
    Arch::i386;
#elif defined(__aarch64__)
    Arch::arm64;
#else
    Arch::generic;
#endif

std::string_view arch_name(Arch arch);

// Every row of wire/forms.def, all architectures.
std::span<const Form> all_forms();

// The row for a form at a width on an architecture; null when there is none.
const Form *find_form(std::string_view name, unsigned width_bits, Arch arch = this_arch);

// The form with the same machine code on an architecture; empty where there is none.
std::string_view identical_form(std::string_view name, Arch arch = this_arch);

// True when any architecture has a form of that name.
bool known_form(std::string_view name);

constexpr bool belongs_to(const Form &form, Arch arch) {
    if (form.arch == Arch::generic && arch == Arch::i386 && form.width_bits > 32)
        return false; // a compiler builtin of 8 bytes is a library call there, not a form
    return form.arch == arch || form.arch == Arch::any || form.arch == Arch::generic;
}

} // namespace lw::wire
