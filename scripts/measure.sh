#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# measure.sh [option…]: runs a plan with the probe of build/native and makes a page of its records.
# PLAN names the plan (quick); everything else is for `linewright measure`.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

plan=${PLAN:-quick}

# Earlier results are never overwritten; --resume names the file that is continued.
mkdir -p results
output=results/$(basename "${plan%.*}").jsonl
[[ -e $output ]] && output=${output%.jsonl}-$(date -u +%Y%m%dT%H%M%SZ).jsonl
to=(-o "$output")
for ((i = 1; i <= $#; i++)); do
    next=$((i + 1))
    case ${!i} in
        --resume) to=() output=${!next-} ;;
        --resume=*) to=() output=${!i#*=} ;;
    esac
done

code=0
.venv/bin/linewright measure --plan "$plan" "${to[@]}" "$@" || code=$?
# What was measured is kept whatever becomes of the page. Options may have sent the records elsewhere, or measured nothing.
if [[ -s $output ]]; then
    .venv/bin/linewright report "$output" -o "${output%.jsonl}.html" ||
        say "no report this time; the records are whole: linewright report $output"
fi
exit "$code"
