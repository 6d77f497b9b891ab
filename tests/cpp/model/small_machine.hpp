// SPDX-License-Identifier: MIT
// A small described machine for the tests, which each test bends.
#pragma once

#include "wire/json.hpp"

namespace lw::model::test {

using wire::Json;

inline Json square(unsigned rows, unsigned columns, unsigned apart) {
    Json matrix = Json::array();
    for (unsigned row = 0; row < rows; ++row) {
        Json line = Json::array();
        for (unsigned column = 0; column < columns; ++column)
            line.push_back(row == column ? 0 : apart);
        matrix.push_back(line);
    }
    return matrix;
}

inline Json constants_json() {
    return {{"unit_ps", 300},
            {"nop_iter_ps", 300},
            {"nop_exit_ps", 6000},
            {"nop_exit_from", 150},
            {"loop_ps", 1000},
            {"window", 200},
            {"store_buffer", 40},
            {"near_load_ps", 4000},
            {"near_store_ps", 4000},
            {"near_swap_ps", 4000},
            {"near_compare_ps", 4000},
            {"exclusive_load_ps", 2000},
            {"exclusive_store_ps", 3000},
            {"plain_load_ps", 1000},
            {"plain_store_ps", 500},
            {"prefetch_ps", 300},
            {"fence_ps", 5000},
            {"retry_ps", 5000},
            {"poll_ps", 1000},
            {"request_ps", 4000},
            {"home_ps", 8000},
            {"snoop_ps", 10000},
            {"data_ps", 16000},
            {"memory_ps", 60000},
            {"acknowledge_ps", 20000},
            {"far_ps", 40000},
            {"far_busy_ps", 50000},
            {"far_outstanding", 4},
            {"prefetch_dropped_ps", 5000},
            {"jitter", 50},
            {"maintain_issue_ps", 2000},
            {"maintain_busy_ps", 100000},
            {"maintain_drain_ps", 130000},
            {"maintain_outstanding", 64}};
}

// Nanoseconds that are easy to add up; `store` is the policy of store-form atomics.
inline Json machine_json(unsigned cores = 4, const char *store = "far") {
    const Json near{"near", "near", "near", "near"};
    Json groups = Json::array(), numbers = Json::array();
    for (unsigned core = 0; core < cores; ++core)
        groups.push_back(0);
    return {{"linewright_machine", 1},
            {"name", "small"},
            {"arch", "arm64"},
            {"cores", cores},
            {"homes", cores},
            {"central_homes", 0},
            {"core_home", square(cores, cores, 5000)},
            {"core_core", square(cores, cores, 5000)},
            {"l3", groups},
            {"socket", groups},
            {"policy", {{"load", near}, {"store", {store, store, "near", "near"}}, {"swap", near}, {"compare", near}}},
            {"options",
             {{"prefetch_dropped_while_far", true},
              {"locked_drains", false},
              {"upgrade_at_once", false},
              {"upgrade_behind_load", false}}},
            {"constants", constants_json()}};
}

} // namespace lw::model::test
