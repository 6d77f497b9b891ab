#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# known_options.sh COMPILER [--target=…] OPTION…: the compiler without the options of another compiler, or of a later one, that it does not know.
# A distribution's kernel headers carry the options of the gcc that the kernel was built with, and no means to ask again. Answers are kept
# beside the fetched kernels: asking for each of some sixty options at every file costs more than compiling it.
set -euo pipefail

compiler=$1
shift
always=()
if [[ ${1-} == --target=* ]]; then
    always=("$1")
    shift
fi

path=$(command -v "$compiler")
kept=${XDG_CACHE_HOME:-$HOME/.cache}/linewright/known-options
mkdir -p "$kept"
kept+=/$(basename "$compiler")$(stat -L -c -%Y "$path")${always[0]-}
declare -A answers
if [[ -f $kept ]]; then
    while read -r answer option; do answers[$option]=$answer; done <"$kept"
fi

# An option that means nothing without others (-mcmodel=kernel without -fno-pie) is refused alone, but not as unknown.
known() { # known OPTION
    if [[ -z ${answers[$1]-} ]]; then
        answers[$1]=yes
        said=$(LC_ALL=C "$compiler" "${always[@]}" -Werror "$1" -x c -c /dev/null -o /dev/null 2>&1) || true
        if [[ $said =~ unrecognized|unknown|unsupported|'not supported'|'ignored' ]]; then answers[$1]=no; fi
        echo "${answers[$1]} $1" >>"$kept"
    fi
    [[ ${answers[$1]} == yes ]]
}

options=()
for option in "$@"; do
    case $option in
        -Wp,* | -Wl,* | -Wa,*) options+=("$option") ;;
        -m* | -f* | -W* | -pg)
            if known "$option"; then
                options+=("$option")
            elif [[ $option == -fmin-function-alignment=* ]]; then
                options+=("-falign-functions=${option#*=}") # gcc before 14
            fi
            ;;
        */include/linux/kconfig.h)
            options+=("$option")
            if ((${#always[@]})); then options+=(-include "${BASH_SOURCE%/*}/clang_config.h"); fi
            ;;
        *) options+=("$option") ;;
    esac
done
exec "$compiler" "${always[@]}" "${options[@]}"
