// Expands wire/forms.def into data.
#include "wire/forms.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace lw::wire {
namespace {

constexpr auto table = std::to_array<Form>({
#define LW_FORM(arch, name, operation, order, bits, needs) Form{Arch::arch, #name, #operation, #order, bits, #needs},
#include "wire/forms.def"
#undef LW_FORM
});

} // namespace

std::string to_json(std::span<const Listed> forms) {
    auto rows = nlohmann::ordered_json::array();
    for (const auto &[form, reason] : forms)
        rows.push_back({{"name", form->name},
                        {"operation", form->operation},
                        {"order", form->order},
                        {"arch", arch_name(form->arch)},
                        {"width_bits", form->width_bits},
                        {"needs", form->needs},
                        {"atomic", form->atomic()},
                        {"available", reason.empty()},
                        {"reason", reason}});
    return rows.dump(1);
}

std::span<const Form> all_forms() { return table; }

const Form *find_form(std::string_view name, unsigned width_bits, Arch arch) {
    auto found = std::ranges::find_if(table, [&](const Form &form) {
        return form.name == name && form.width_bits == width_bits && belongs_to(form, arch);
    });
    return found == table.end() ? nullptr : &*found;
}

bool known_form(std::string_view name) {
    return std::ranges::any_of(table, [&](const Form &form) { return form.name == name; });
}

} // namespace lw::wire
