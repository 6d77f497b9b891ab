#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# bench.sh [--build | area…]: builds the runs against peers and runs them one after the other, alone on the machine; --build: builds alone.
# Every program in build/bench/bench/AREA/ is one side-by-side run. With LINEWRIGHT_BENCH_BRIEF=1 a compiled one shows in about a second that it runs.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

all=()
for list in bench/*/CMakeLists.txt; do
    [[ -e $list ]] && all+=("$(basename "$(dirname "$list")")")
done
((${#all[@]})) || stop 2 "nothing to run${1:+ for '$*'}: no bench/AREA in this checkout"
build_only=
if [[ ${1-} == --build ]]; then
    build_only=1
    shift
fi
areas=("${@:-${all[@]}}")
for area in "${areas[@]}"; do
    [[ " ${all[*]} " == *" $area "* ]] || stop 2 "no bench area '$area': ${all[*]}"
done

logged configure-bench alone cmake --preset bench -D"$(as_native)"
say 'building the runs against peers'
logged build-bench alone cmake --build --preset bench
[[ -z $build_only ]] || exit 0

failed=()
for area in "${areas[@]}"; do
    while read -r program; do
        printf '\n=== %s: %s\n' "$area" "$(basename "$program")"
        "$program" </dev/null || failed+=("$program")
    done < <(find "build/bench/bench/$area" -maxdepth 1 -type f -executable ! -name '*.so*' | sort)
done
((${#failed[@]} == 0)) || stop 1 "failed: ${failed[*]}"
