#!/usr/bin/env bash
# rooms.sh FOLDER [area…]: runs FOLDER/AREA/run for every area, or the ones named, and sums up.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

folder=${1:?usage: rooms.sh FOLDER [area…]}
shift
areas=("$@")
if ((${#areas[@]} == 0)); then
    for run in "$folder"/*/run; do
        [[ -x $run ]] && areas+=("$(basename "$(dirname "$run")")")
    done
fi
((${#areas[@]})) || stop 2 "nothing to run: no $folder/AREA/run in this checkout"
passed=() failed=()
for area in "${areas[@]}"; do
    [[ -x $folder/$area/run ]] || stop 2 "no $folder/$area/run: $(cd "$folder" && echo */run)"
    printf '\n=== %s: %s\n' "$folder" "$area"
    if "$folder/$area/run" </dev/null; then passed+=("$area"); else failed+=("$area"); fi
done
((${#failed[@]} == 0)) || printf '\nfailed: %s\n' "${failed[*]}"
printf '%s: %d passed, %d failed\n' "$(basename "$folder")" "${#passed[@]}" "${#failed[@]}"
((${#failed[@]} == 0))
