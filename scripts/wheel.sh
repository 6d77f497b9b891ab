#!/usr/bin/env bash
# wheel.sh [FOLDER]: the wheel with the static probes of every architecture and the manual pages, in dist/ or a folder.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

folder=${1:-dist}
probes=()
for preset in i386 arm64; do
    # The cross compilers are Debian's for x86-64; elsewhere the wheel holds this machine's probe alone.
    [[ $(uname -m) == x86_64 ]] || continue
    logged "wheel-configure-$preset" alone cmake --preset "$preset"
    logged "wheel-build-$preset" alone cmake --build --preset "$preset" --target linewright-probe
    probes+=("$preset=build/$preset/probe/linewright-probe")
done
rm -rf build/wheel
logged wheel .venv/bin/python -m pip wheel --disable-pip-version-check --no-input --no-deps --wheel-dir build/wheel/plain .
logged man .venv/bin/python scripts/man.py build/wheel/man
mkdir -p "$folder"
.venv/bin/python scripts/wheel.py build/wheel/plain/*.whl "$folder" --man build/wheel/man "${probes[@]}"
