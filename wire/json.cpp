// SPDX-License-Identifier: MIT
// JSON text in and out by nlohmann's library, which no other file includes: each that did took seconds to compile.
#include "wire/json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace lw::wire {
namespace {

using Library = nlohmann::ordered_json;

// Builds a value while the library reads the text.
class Builder : public nlohmann::json_sax<Library> {
public:
    Json result;

    bool null() override { return put({}); }
    bool boolean(bool value) override { return put(value); }
    bool number_integer(std::int64_t value) override { return put(value); }
    bool number_unsigned(std::uint64_t value) override { return put(value); }
    bool number_float(double value, const std::string &) override { return put(value); }
    bool string(std::string &value) override { return put(std::move(value)); }
    bool binary(Library::binary_t &) override { return false; }
    bool start_object(std::size_t) override { return open(Json::object()); }
    bool start_array(std::size_t) override { return open(Json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }

    bool key(std::string &name) override {
        member_ = &(*open_.back())[std::string_view(name)];
        return true;
    }

    bool parse_error(std::size_t at, const std::string &, const nlohmann::detail::exception &error) override {
        // 406: a number that no double can hold.
        throw Json::Wrong(error.id == 406 ? "not JSON: a number is out of range" : "not JSON at byte " + std::to_string(at));
    }

private:
    // Of a key that comes twice the last value counts.
    bool put(Json value) {
        place() = std::move(value);
        return true;
    }

    // The innermost value stays where it is until it is closed: what holds it grows only after that.
    bool open(Json empty) {
        if (open_.size() == Json::deepest)
            throw Json::Wrong("nested deeper than " + std::to_string(Json::deepest));
        Json &here = place();
        here = std::move(empty);
        open_.push_back(&here);
        return true;
    }

    bool close() {
        open_.pop_back();
        return true;
    }

    Json &place() {
        if (open_.empty())
            return result;
        Json &parent = *open_.back();
        if (parent.is_object())
            return *member_;
        parent.push_back({});
        return parent[parent.size() - 1];
    }

    std::vector<Json *> open_;
    Json *member_ = nullptr;
};

Library of(const Json &value) {
    if (value.is_object()) {
        Library object = Library::object();
        for (const Json::Member &member : value.members())
            object[member.key] = of(member.value);
        return object;
    }
    if (value.is_array()) {
        Library array = Library::array();
        for (const Json &element : value.elements())
            array.push_back(of(element));
        return array;
    }
    if (value.is_string())
        return value.string();
    if (value.is_boolean())
        return value.boolean();
    if (value.is_unsigned())
        return value.number();
    return value.is_null() ? Library() : value.is_integer() ? Library(value.integer()) : Library(value.real());
}

} // namespace

Json::Json(std::initializer_list<Json> values) {
    const auto pair = [](const Json &value) { return value.is_array() && value.size() == 2 && value[0].is_string(); };
    if (!std::ranges::all_of(values, pair)) {
        value_ = Array(values);
        return;
    }
    Object &members = value_.emplace<Object>();
    for (const Json &value : values)
        members.push_back({value[0].string(), value[1]});
}

Json Json::object() {
    Json empty;
    empty.value_.emplace<Object>();
    return empty;
}

Json Json::parse(std::string_view text) {
    Builder builder;
    Library::sax_parse(text.begin(), text.end(), &builder);
    return std::move(builder.result);
}

std::int64_t Json::integer() const {
    return is_unsigned() ? static_cast<std::int64_t>(number()) : get<std::int64_t>("an integer");
}

double Json::real() const {
    if (is_unsigned())
        return static_cast<double>(number());
    return is_integer() ? static_cast<double>(integer()) : get<double>("a number");
}

std::vector<std::string> Json::strings() const {
    std::vector<std::string> out;
    for (const Json &element : elements())
        out.push_back(element.string());
    return out;
}

std::size_t Json::size() const { return is_array() ? elements().size() : is_object() ? members().size() : 0; }

const Json *Json::find(std::string_view key) const {
    const auto *members = std::get_if<Object>(&value_);
    if (!members)
        return nullptr;
    const auto found = std::ranges::find(*members, key, &Member::key);
    return found == members->end() ? nullptr : &found->value;
}

const Json &Json::at(std::string_view key) const {
    if (const Json *value = find(key))
        return *value;
    throw Wrong("no member " + std::string(key));
}

Json &Json::operator[](std::string_view key) {
    Object &members = object_of();
    const auto found = std::ranges::find(members, key, &Member::key);
    return found == members.end() ? members.emplace_back(Member{std::string(key), Json()}).value : found->value;
}

void Json::erase(std::string_view key) {
    std::erase_if(object_of(), [&](const Member &member) { return member.key == key; });
}
void Json::erase(std::size_t index) { array_of().erase(array_of().begin() + static_cast<std::ptrdiff_t>(index)); }

std::string Json::dump(int indentation, bool ascii) const {
    return of(*this).dump(indentation, ' ', ascii, Library::error_handler_t::replace);
}

bool operator==(const Json &a, const Json &b) { return of(a) == of(b); }

Json::Array &Json::array_of() {
    if (is_null())
        value_.emplace<Array>();
    elements(); // throws where this is something else
    return std::get<Array>(value_);
}

Json::Object &Json::object_of() {
    if (is_null())
        value_.emplace<Object>();
    members(); // throws where this is something else
    return std::get<Object>(value_);
}

} // namespace lw::wire
