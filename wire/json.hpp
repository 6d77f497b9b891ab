// SPDX-License-Identifier: MIT
// A JSON value behind a header that is quick to compile: wire/json.cpp alone includes the library that reads and
// writes the text.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lw::wire {

// A template, so that it is complete where Json's own functions need it: not every compiler waits until the class is closed.
template <class Value> struct Member_of {
    std::string key;
    Value value;
};

// Values compare and convert as numbers do: 2, 2u and 2.0 are equal. An object keeps the order in which it was made.
class Json {
public:
    using Member = Member_of<Json>;
    using Array = std::vector<Json>;
    using Object = std::vector<Member>;
    static constexpr unsigned deepest = 64; // objects and arrays within each other that a text may have

    // What a text or a value is not.
    struct Wrong : std::runtime_error {
        using runtime_error::runtime_error;
    };

    Json() = default;
    Json(std::nullptr_t) {}
    Json(std::same_as<bool> auto value) : value_(value) {}
    Json(std::signed_integral auto value) : value_(static_cast<std::int64_t>(value)) {}
    template <std::unsigned_integral T>
        requires(!std::same_as<T, bool>)
    Json(T value) : value_(static_cast<std::uint64_t>(value)) {}
    Json(double value) : value_(value) {}
    Json(std::string value) : value_(std::move(value)) {}
    Json(std::string_view value) : value_(std::string(value)) {}
    Json(const char *value) : value_(std::string(value)) {}
    template <class T> Json(const std::vector<T> &values) : value_(Array(values.begin(), values.end())) {}
    template <class A, class B> Json(const std::pair<A, B> &pair) : value_(Array{Json(pair.first), Json(pair.second)}) {}
    // Pairs of a string and a value are an object, everything else is an array.
    Json(std::initializer_list<Json> values);

    static Json array() { return Json(Array{}); }
    static Json object();
    static Json parse(std::string_view text); // throws Wrong

    bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
    bool is_boolean() const { return std::holds_alternative<bool>(value_); }
    bool is_string() const { return std::holds_alternative<std::string>(value_); }
    bool is_array() const { return std::holds_alternative<Array>(value_); }
    bool is_object() const { return std::holds_alternative<Object>(value_); }
    bool is_number() const { return is_integer() || holds<double>(); }
    bool is_integer() const { return is_unsigned() || holds<std::int64_t>(); }
    // An integer from 0 up, which is how a text's are read.
    bool is_unsigned() const { return holds<std::uint64_t>(); }

    // What the value is; each throws Wrong where it is something else.
    bool boolean() const { return get<bool>("true or false"); }
    const std::string &string() const { return get<std::string>("a string"); }
    std::uint64_t number() const { return get<std::uint64_t>("an integer from 0 up"); }
    std::int64_t integer() const; // of any integer
    double real() const;          // of any number
    std::vector<std::string> strings() const;
    const Array &elements() const { return get<Array>("an array"); }
    const Object &members() const { return get<Object>("an object"); }

    std::size_t size() const; // of an array or an object, else 0
    bool empty() const { return size() == 0; }
    const Json *find(std::string_view key) const; // nothing where it is absent, or this is no object
    bool contains(std::string_view key) const { return find(key) != nullptr; }
    const Json &at(std::string_view key) const; // throws Wrong
    const Json &operator[](std::size_t index) const { return elements().at(index); }

    // A null becomes what it is used as.
    Json &operator[](std::string_view key);
    Json &operator[](std::size_t index) { return array_of().at(index); }
    Json &operator[](const char *key) { return (*this)[std::string_view(key)]; }
    Json &operator[](int index) { return (*this)[static_cast<std::size_t>(index)]; }
    void push_back(Json value) { array_of().push_back(std::move(value)); }
    void erase(std::string_view key);
    void erase(std::size_t index);
    Array::iterator begin() { return array_of().begin(); }
    Array::iterator end() { return array_of().end(); }

    // One line, or with an indentation one line for each value. Bytes that are no UTF-8 become U+FFFD.
    std::string dump(int indentation = -1, bool ascii = false) const;

    friend bool operator==(const Json &a, const Json &b);

private:
    explicit Json(Array values) : value_(std::move(values)) {}
    template <class T> bool holds() const { return std::holds_alternative<T>(value_); }
    template <class T> const T &get(const char *wanted) const {
        if (const T *value = std::get_if<T>(&value_))
            return *value;
        throw Wrong(std::string("not ") + wanted);
    }
    Array &array_of();
    Object &object_of();

    std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value_;
};

} // namespace lw::wire
