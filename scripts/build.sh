#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# build.sh PRESET [target…]: configures a preset with its tests and with warnings as errors, and builds it.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

preset=${1:?usage: build.sh PRESET [target…]}
shift
launcher=()
# Named, not left to the environment: a tree configured before ccache came takes it up too.
if [[ -n ${CMAKE_CXX_COMPILER_LAUNCHER:-} ]]; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER="$CMAKE_C_COMPILER_LAUNCHER"
        -DCMAKE_CXX_COMPILER_LAUNCHER="$CMAKE_CXX_COMPILER_LAUNCHER")
fi
mkdir -p "$logs"
alone cmake --preset "$preset" -DLINEWRIGHT_TESTS=ON -DLINEWRIGHT_WERROR=ON "${launcher[@]}" \
    >"$logs/configure-$preset.log" 2>&1 || { cat "$logs/configure-$preset.log"; exit 1; }
alone cmake --build --preset "$preset" ${1:+--target "$@"}
