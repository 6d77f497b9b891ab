// SPDX-License-Identifier: MIT
// Options by CLI11, which no other file includes: each that did took seconds to compile.
#include "wire/options.hpp"

#include <CLI/CLI.hpp>

namespace lw::wire {
namespace {

template <class T, class Bound>
void add(CLI::App &app, const char *names, T &value, Bound low, Bound high, const char *help) {
    app.add_option(names, value, help)->check(CLI::Range(low, high));
}

} // namespace

Options::Options(const char *about, const char *version) : whole_(std::make_unique<CLI::App>(about)), app_(whole_.get()) {
    app_->set_version_flag("--version", version);
}

Options::Options(CLI::App &group) : app_(&group) {}
Options::~Options() = default;

Options Options::one_of(const char *title) {
    CLI::App *group = app_->add_option_group(title);
    group->require_option(0, 1);
    return Options(*group);
}

void Options::flag(const char *name, bool &given, const char *help) { app_->add_flag(name, given, help); }

void Options::flag(const char *name, std::string &word, std::vector<std::string> words, const char *help) {
    app_->add_flag(std::string(name) + "{" + words.front() + "}", word, help)->check(CLI::IsMember(words));
}

void Options::text(const char *names, std::string &value, const char *help) { app_->add_option(names, value, help); }

void Options::word(const char *names, std::string &value, std::vector<std::string> words, const char *help) {
    app_->add_option(names, value, help)->check(CLI::IsMember(words));
}

void Options::number(const char *names, int &value, int low, int high, const char *help) {
    add(*app_, names, value, low, high, help);
}

void Options::number(const char *names, unsigned &value, unsigned low, unsigned high, const char *help) {
    add(*app_, names, value, low, high, help);
}

void Options::number(const char *names, std::uint64_t &value, std::uint64_t low, std::uint64_t high, const char *help) {
    add(*app_, names, value, low, high, help);
}

void Options::number(const char *names, double &value, double low, double high, const char *help) {
    add(*app_, names, value, low, high, help);
}

void Options::number(const char *names, std::optional<unsigned> &value, unsigned low, unsigned high, const char *help) {
    add(*app_, names, value, low, high, help);
}

void Options::texts(const char *names, std::vector<std::string> &values, const char *help) {
    app_->add_option(names, values, help);
}

void Options::argument(const char *name, std::string &value, const char *help) {
    app_->add_option(name, value, help)->required();
}

void Options::rest(const char *name, std::vector<std::string> &values, const char *help) {
    app_->add_option(name, values, help);
    app_->positionals_at_end();
}

bool Options::parse(int argc, char **argv) {
    try {
        app_->parse(argc, argv);
        return true;
    } catch (const CLI::ParseError &error) {
        if (error.get_exit_code() != 0)
            throw Wrong(error.what());
        app_->exit(error); // prints what was asked for
        return false;
    }
}

} // namespace lw::wire
