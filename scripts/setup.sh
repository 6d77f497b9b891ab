#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# setup.sh measure|check|test|rest|kernel|bench|fuzz|wheel|deb|package [COMMAND…]: everything a purpose needs that is not in the checkout; silent when all is there.
# COMMAND needs the system packages alone: it runs while .venv is made.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# Before anything is installed: what cannot be helped from here.
case $(uname -s) in
    Linux) ;;
    *) stop 2 "$(uname -s) is not supported: Linewright runs on Linux alone" ;;
esac
# A Python that is too old cannot be helped from here.
if command -v "$python" >/dev/null && ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    stop 2 "$(command -v "$python") is $("$python" --version 2>&1); Python 3.11 or newer is needed: make PYTHON=python3.12 …"
fi

lock=build/setup.lock # its own: neither .venv nor a build waits for the other
# Only root installs; a refusal to others changes nothing.
if [[ $(id -u) == 0 ]]; then alone scripts/packages.sh "$1"; else scripts/packages.sh "$1"; fi
# Older distributions have an older one.
if command -v cmake >/dev/null && version=$(cmake --version | sed -n 's/^cmake version //p') && [[ -n $version ]] &&
    [[ $(printf '%s\n' 3.25 "$version" | sort -V | head -n 1) != 3.25 ]]; then
    stop 2 "$(command -v cmake) is CMake $version; 3.25 or newer is needed: \`pip install cmake\` brings one"
fi
if (($# < 2)); then
    alone scripts/venv.sh "$@"
    exit
fi

beside alone scripts/venv.sh "$1"
beside "${@:2}"
for _ in "${companions[@]}"; do
    code=0
    wait -n || code=$?
    ((code)) || continue
    end_companions 2>/dev/null
    # 2 and 3 have said why; whatever else ended one, such as a signal, has not.
    [[ $code == [23] ]] || say "making .venv or ${*:2} ended with exit code $code"
    exit "$code"
done
