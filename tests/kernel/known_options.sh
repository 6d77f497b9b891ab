#!/usr/bin/env bash
# known_options.sh COMPILER [--target=…] OPTION…: the compiler without the options of another compiler that it does not know.
# A distribution's kernel headers carry the options of the gcc that the kernel was built with, and no means to ask again.
set -euo pipefail

compiler=$1
shift
always=()
if [[ ${1-} == --target=* ]]; then
    always=("$1")
    shift
fi

known() { # known OPTION
    "$compiler" "${always[@]}" -Werror "$1" -x c -c /dev/null -o /dev/null 2>/dev/null
}

options=()
for option in "$@"; do
    case $option in
        -Wp,* | -Wl,* | -Wa,*) options+=("$option") ;;
        -m* | -f* | -W* | -pg) if known "$option"; then options+=("$option"); fi ;;
        *) options+=("$option") ;;
    esac
done
exec "$compiler" "${always[@]}" "${options[@]}"
