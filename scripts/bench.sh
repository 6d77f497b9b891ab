#!/usr/bin/env bash
# bench.sh [area…]: builds the runs against peers and runs them one after the other, alone on the machine.
# Every program in build/bench/bench/AREA/ is one side-by-side run.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

all=()
for list in bench/*/CMakeLists.txt; do
    [[ -e $list ]] && all+=("$(basename "$(dirname "$list")")")
done
((${#all[@]})) || stop 2 "nothing to run${1:+ for '$*'}: no bench/AREA in this checkout"
areas=("${@:-${all[@]}}")
for area in "${areas[@]}"; do
    [[ " ${all[*]} " == *" $area "* ]] || stop 2 "no bench area '$area': ${all[*]}"
done

logged configure-bench alone cmake --preset bench
say 'building the runs against peers'
logged build-bench alone cmake --build --preset bench

failed=()
for area in "${areas[@]}"; do
    while read -r program; do
        printf '\n=== %s: %s\n' "$area" "$(basename "$program")"
        "$program" </dev/null || failed+=("$program")
    done < <(find "build/bench/bench/$area" -maxdepth 1 -type f -executable ! -name '*.so*' | sort)
done
((${#failed[@]} == 0)) || stop 1 "failed: ${failed[*]}"
