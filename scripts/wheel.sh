#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# wheel.sh [FOLDER]: the wheel with every architecture's programs for other machines and the manual pages, in dist/ or a folder.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

folder=${1:-dist}
programs=()
for preset in i386 arm64; do
    # The cross compilers are Debian's for x86-64; elsewhere the wheel holds this machine's programs alone.
    [[ $(uname -m) == x86_64 ]] || continue
    list=$(scripts/for_others.sh "$preset")
    logged "wheel-configure-$preset" alone cmake --preset "$preset"
    # shellcheck disable=SC2046
    logged "wheel-build-$preset" alone cmake --build --preset "$preset" --target $(cut -d ' ' -f 1 <<<"$list")
    while read -r _ name path; do
        programs+=("$name=build/$preset/$path")
    done <<<"$list"
done
rm -rf build/wheel
# As deep as build/native and compiled as there, by the same name of the compiler (Python's own would be taken), so that the compiler
# cache knows what was built there.
logged wheel env "CC=${CC-cc}" "CXX=${CXX-c++}" .venv/bin/python -m pip wheel --disable-pip-version-check --no-input --no-deps --wheel-dir build/wheel/plain \
    --config-settings=build-dir=build/pip --config-settings=cmake.define.LINEWRIGHT_ONCE=OFF \
    --config-settings="cmake.define.$(as_native)" .
logged man .venv/bin/python scripts/man.py build/wheel/man
mkdir -p "$folder"
.venv/bin/python scripts/wheel.py build/wheel/plain/*.whl "$folder" --man build/wheel/man "${programs[@]}"
