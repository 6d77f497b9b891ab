// SPDX-License-Identifier: MIT
// A result for people, and for programs.
#pragma once

#include "workload/workload.hpp"

#include <string>

namespace lw::workload {

std::string as_text(const Options &options, const Result &result, const std::string &policy);
std::string as_json(const Options &options, const Result &result, const std::string &policy);

} // namespace lw::workload
