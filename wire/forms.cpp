// Expands wire/forms.def into data.
#include "wire/forms.hpp"

#include "wire/json.hpp"

#include <algorithm>
#include <array>

namespace lw::wire {
namespace {

constexpr auto table = std::to_array<Form>({
#define LW_FORM(arch, name, operation, order, bits, needs, ...) \
    Form{Arch::arch, #name, #operation, #order, bits, #needs, #__VA_ARGS__},
#include "wire/forms.def"
#undef LW_FORM
});

// A single instruction of the LSE is performed wherever the implementation likes; other atomic ones in the CPU's own cache.
std::string_view reach_of(const Form &row) {
    if (row.needs == "lse")
        return "near_or_far";
    return row.made.empty() || row.made == "retries" || row.made == "racy" || row.arch == Arch::generic ? "" : "near";
}

} // namespace

Made_of made_of(std::string_view name) {
    const auto row = std::ranges::find(table, name, &Form::name);
    if (row == table.end())
        return {.base = name};
    const std::size_t open = row->made.find('(');
    const std::string_view kind = row->made.substr(0, open);
    std::string_view of = open == row->made.npos ? "" : row->made.substr(open + 1, row->made.size() - open - 2);
    if (kind == "prefetchw" || kind == "prfm_keep" || kind == "prfm_strm") {
        Made_of made = made_of(of);
        made.prefetch = kind;
        return made;
    }
    if (kind == "own" || kind == "shared") {
        const std::size_t comma = std::min(of.find(", "), of.size());
        Made_of made = made_of(of.substr(0, comma));
        if (comma < of.size())
            made.instruction = of.substr(comma + 2);
        made.base = row->name;
        made.word = of.substr(0, comma);
        made.whose = kind;
        return made;
    }
    const bool exclusive = kind == "llsc" || kind == "llsc_read_first";
    return {.base = row->name,
            .loop = kind == "llsc_read_first"                       ? "read_first"
                    : kind == "read_first" || kind == "guess_first" ? kind
                                                                    : "",
            .instruction = kind == "one" ? of : "",
            .reach = reach_of(*row),
            .exclusive = exclusive,
            .returns_old = row->operation == "fetch_add" || row->operation == "cmpxchg" || row->operation == "xchg" ||
                           row->operation == "read",
            .retries = kind == "retries"};
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

const Form *find_form(std::string_view name, unsigned width_bits, Arch arch) {
    auto found = std::ranges::find_if(table, [&](const Form &form) {
        return form.name == name && form.width_bits == width_bits && belongs_to(form, arch);
    });
    return found == table.end() ? nullptr : &*found;
}

} // namespace lw::wire
