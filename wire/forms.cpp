// SPDX-License-Identifier: MIT
// Expands wire/forms.def into data.
#include "wire/forms.hpp"

#include "wire/json.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

namespace lw::wire {
namespace {

constexpr auto table = std::to_array<Form>({
#define LW_FORM(arch, name, operation, order, bits, needs, ...) \
    Form{Arch::arch, #name, #operation, #order, bits, #needs, {__VA_ARGS__}, LW_FAMILY},
#include "wire/forms.def"
#undef LW_FORM
});

} // namespace

Made_of made_of(std::string_view name) {
    const auto row = std::ranges::find(table, name, &Form::name);
    if (row == table.end())
        return {.base = name};
    const Made_of &own = row->made;
    const std::string_view named = own.word.empty() ? own.base : own.word;
    Made_of made = named.empty() ? Made_of{} : made_of(named);
    const auto take = [&](auto Made_of::*attribute) {
        if (own.*attribute != std::remove_cvref_t<decltype(own.*attribute)>{})
            made.*attribute = own.*attribute;
    };
    made.base = name;
    for (const auto text : {&Made_of::base, &Made_of::prefetch, &Made_of::loop, &Made_of::instruction, &Made_of::word,
                            &Made_of::whose, &Made_of::reach})
        take(text);
    for (const auto flag : {&Made_of::exclusive, &Made_of::returns_old, &Made_of::retries})
        take(flag);
    return made;
}

Json to_json(const Made_of &made) {
    return {{"base", made.base},
            {"prefetch", made.prefetch},
            {"loop", made.loop},
            {"exclusive", made.exclusive},
            {"instruction", made.instruction},
            {"returns_old", made.returns_old},
            {"reach", made.reach},
            {"word", made.word},
            {"whose", made.whose},
            {"retries", made.retries}};
}

std::string to_json(std::span<const Listed> forms) {
    Json rows = Json::array();
    for (const auto &[form, reason, racy] : forms)
        rows.push_back({{"name", form->name},
                        {"operation", form->operation},
                        {"order", form->order},
                        {"arch", arch_name(form->arch)},
                        {"width_bits", form->width_bits},
                        {"needs", form->needs},
                        {"atomic", form->atomic() && !racy},
                        {"available", reason.empty()},
                        {"reason", reason},
                        {"made_of", to_json(made_of(form->name))}});
    return rows.dump(1);
}

std::span<const Form> all_forms() { return table; }

std::string_view family_of(std::string_view form) {
    const auto row = std::ranges::find(table, form, &Form::name);
    return row == table.end() ? std::string_view{} : row->family;
}

const Form *find_form(std::string_view name, unsigned width_bits, Arch arch) {
    auto found = std::ranges::find_if(table, [&](const Form &form) {
        return form.name == name && form.width_bits == width_bits && belongs_to(form, arch);
    });
    return found == table.end() ? nullptr : &*found;
}

} // namespace lw::wire
