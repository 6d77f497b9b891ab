#!/usr/bin/env bash
# kernel-test.sh [SERIES:ARCH:COMPILER…]: linewright.ko in Debian's kernels, built by both compilers, each in an emulated machine.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

kernels=()
for series in 6.1 6.12; do
    for arch in amd64 arm64; do
        kernels+=("$series:$arch:gcc" "$series:$arch:clang")
    done
done
export LINEWRIGHT_KERNELS="${*:-${kernels[*]}}"
.venv/bin/python -m pytest tests/py/kernel
