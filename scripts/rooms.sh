#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# rooms.sh FOLDER [area…]: runs FOLDER/AREA/run for every area, or the ones named, and sums up. An area's exit code 77 says that a program
# it needs is missing, and so does this script's, where no area fails.
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

passed=() failed=() unchecked=()
for area in "${areas[@]}"; do
    printf '\n=== %s: %s\n' "$folder" "$area"
    "$folder/$area/run" </dev/null && code=0 || code=$?
    case $code in
        0) passed+=("$area") ;;
        77) unchecked+=("$area") ;;
        *) failed+=("$area") ;;
    esac
done
((${#failed[@]} == 0)) || printf '\nfailed: %s\n' "${failed[*]}"
printf '%s: %d passed, %d failed%s\n' "$(basename "$folder")" "${#passed[@]}" "${#failed[@]}" \
    "${unchecked:+, not checked for want of a program: ${unchecked[*]}}"
((${#failed[@]} == 0)) || exit 1
((${#unchecked[@]} == 0)) || exit 77
