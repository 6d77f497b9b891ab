#!/usr/bin/env bash
# rooms.sh FOLDER [area…]: runs FOLDER/AREA/run for every area, or the ones named, and sums up.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

folder=${1:?usage: rooms.sh FOLDER [area…]}
shift
all=()
for program in "$folder"/*/run; do
    [[ -x $program ]] && all+=("$(basename "$(dirname "$program")")")
done
((${#all[@]})) || stop 2 "nothing to run${1:+ for '$*'}: no $folder/AREA/run in this checkout"
areas=("${@:-${all[@]}}")
for area in "${areas[@]}"; do
    [[ " ${all[*]} " == *" $area "* ]] || stop 2 "no area '$area' in $folder: ${all[*]}"
done

passed=() failed=()
for area in "${areas[@]}"; do
    printf '\n=== %s: %s\n' "$folder" "$area"
    if "$folder/$area/run" </dev/null; then passed+=("$area"); else failed+=("$area"); fi
done
((${#failed[@]} == 0)) || printf '\nfailed: %s\n' "${failed[*]}"
printf '%s: %d passed, %d failed\n' "$(basename "$folder")" "${#passed[@]}" "${#failed[@]}"
((${#failed[@]} == 0))
