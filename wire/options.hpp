// SPDX-License-Identifier: MIT
// Options of a program behind a header that is quick to compile: wire/options.cpp alone includes CLI11.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lw::wire {

// Every option names a variable, whose value when it is declared is the default. A declaration says what is allowed.
class Options {
public:
    // A command line that is not allowed; the text says why.
    struct Wrong : std::runtime_error {
        using runtime_error::runtime_error;
    };

    Options(const char *about, const char *version);
    ~Options();
    Options(const Options &) = delete;
    Options &operator=(const Options &) = delete;

    // Options of which at most one may be given; valid as long as these are.
    Options one_of(const char *title);

    void flag(const char *name, bool &given, const char *help);
    // A flag that stands for the first of the words, and takes any of them after `=`.
    void flag(const char *name, std::string &word, std::vector<std::string> words, const char *help);
    void text(const char *names, std::string &value, const char *help);
    void word(const char *names, std::string &value, std::vector<std::string> words, const char *help);
    void number(const char *names, int &value, int low, int high, const char *help);
    void number(const char *names, unsigned &value, unsigned low, unsigned high, const char *help);
    void number(const char *names, std::uint64_t &value, std::uint64_t low, std::uint64_t high, const char *help);
    void number(const char *names, double &value, double low, double high, const char *help);
    void number(const char *names, std::optional<unsigned> &value, unsigned low, unsigned high, const char *help);
    void texts(const char *names, std::vector<std::string> &values, const char *help);

    // Words without an option's name: one that must be there, or all that follow the first of them.
    void argument(const char *name, std::string &value, const char *help);
    void rest(const char *name, std::vector<std::string> &values, const char *help);

    // False where --help or --version was asked for and has been printed. Throws Wrong.
    bool parse(int argc, char **argv);

private:
    explicit Options(CLI::App &group);

    std::unique_ptr<CLI::App> whole_; // empty in a group
    CLI::App *app_;
};

} // namespace lw::wire
