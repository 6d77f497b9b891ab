# SPDX-License-Identifier: MIT
# Shared by the scripts: stands in the checkout, says things on standard error, stops with a code.
# Exit codes are the command's: 2 the request cannot be met as it is, 3 something failed on the way.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

python=${PYTHON:-python3}
logs=build/setup
lock=build/lock

say() {
    printf 'linewright: %s\n' "$*" >&2
}

stop() { # stop CODE MESSAGE…
    local code=$1
    shift
    say "$@"
    exit "$code"
}

# Two runs at once in one checkout take turns where they install or build.
alone() { # alone COMMAND…
    { mkdir -p build && : >>"$lock"; } 2>/dev/null ||
        stop 2 "$root/build cannot be written, and everything is built there: use a checkout of your own"
    if command -v flock >/dev/null; then flock -o "$lock" "$@"; else "$@"; fi
}

# Why a log ends in failure, where it is something outside the checkout; empty when it is not.
outside_reason() { # outside_reason LOG
    grep -m 1 -oE "No space left on device|Temporary failure (in name resolution|resolving '[^']*')|\
Name or service not known|Network is unreachable|Connection (refused|timed out)|Read timed out|\
Couldn't download [^ ]*|Failed getting release file [^ ]*" "$1" || true
}

# Runs a command with its output in a log; on failure shows the log's end and stops.
logged() { # logged NAME COMMAND…
    local log=$logs/$1.log reason code=0
    shift
    mkdir -p "$logs"
    "$@" >"$log" 2>&1 </dev/null || code=$?
    if ((code)); then
        reason=$(outside_reason "$log")
        tail -n 15 "$log" >&2
        stop 3 "failed with exit code $code: $*${reason:+: $reason} (the whole output is in $log)"
    fi
}

# What runs beside this script. Each is a process group of its own, and a whole group can be ended: by Ctrl-C, or because another failed.
companions=()
end_companions() {
    local group
    for group in "${companions[@]}"; do kill -TERM -- "-$group" 2>/dev/null || true; done
    wait
}
beside() { # beside COMMAND…; its process is $!
    trap 'end_companions 2>/dev/null; exit 129' HUP
    trap 'end_companions 2>/dev/null; exit 130' INT
    trap 'end_companions 2>/dev/null; exit 143' TERM
    set -m
    "$@" </dev/null &
    companions+=($!)
    set +m
}

# Bytecode is kept, whatever the user's settings: the command is started hundreds of times, and would be compiled each time.
unset PYTHONDONTWRITEBYTECODE

# In a network namespace of its own, which has no network.
without_network() { # without_network COMMAND…
    local user=(--map-current-user)
    [[ $(id -u) != 0 ]] || user=()
    unshare "${user[@]}" --net "$@"
}

# What makes other builds' commands those of build/native, whose objects the compiler cache then has: the tests' build has warnings as errors.
as_native() { # as_native [FOLDER of build/]
    local value=OFF
    ! grep -qs '^LINEWRIGHT_WERROR:[A-Z]*=ON' "$root/build/${1:-native}/CMakeCache.txt" || value=ON
    echo "LINEWRIGHT_WERROR=$value"
}

# ccache where there is one: CMake reads these when it configures, also below pip.
# The build folder's name stays out of the key, so that what pip builds in passing is taken from the native build.
if command -v ccache >/dev/null; then
    writable() { # writable FOLDER: whether it can be made or written; nothing is made yet
        local at=$1
        while [[ ! -e $at ]]; do at=$(dirname "$at"); done
        [[ -d $at && -w $at ]]
    }
    # A cache that cannot be written (a service account's home, a read-only one) would fail every compilation.
    if cache=$(ccache --get-config cache_dir 2>/dev/null) && ! writable "$cache/tmp"; then
        export CCACHE_DIR=$root/build/ccache
    fi
    export CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR-1}
    # A clone elsewhere compiles the same: paths below the checkout count as relative ones.
    export CCACHE_BASEDIR=${CCACHE_BASEDIR-$PWD}
    # What a file includes is taken from the compiler's own list: it is preprocessed once, not twice.
    export CCACHE_DEPEND=${CCACHE_DEPEND-1}
    # Files with a precompiled header are kept as well.
    export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS-pch_defines,time_macros}
    export CMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER-ccache}
    export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}
fi
