#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# kernel-test.sh [SERIES:ARCH:COMPILER…] [patches[:SERIES…]]: linewright.ko in Debian's kernels, built by both compilers, and our patches in
# small kernels, each in an emulated machine. Without words: everything. `patches:6.1` is the patches for one series alone.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

kernels=() small=()
for word in "$@"; do
    case $word in
        patches) small+=(6.1 6.12 7.3) ;;
        patches:*) small+=("${word#*:}") ;;
        *:*:*) kernels+=("$word") ;;
        *) stop 2 "kernel-test.sh: '$word' is neither SERIES:ARCH:COMPILER nor patches[:SERIES]" ;;
    esac
done
if (($# == 0)); then
    for series in 6.1 6.12 7; do
        for arch in amd64 arm64; do
            kernels+=("$series:$arch:gcc" "$series:$arch:clang")
        done
    done
    kernels+=(6.1:i386:gcc 6.1-rt:amd64:gcc)
    small=(6.1 6.12 7.3)
fi

failed=()
if ((${#kernels[@]})); then
    LINEWRIGHT_KERNELS="${kernels[*]}" LINEWRIGHT_KERNEL_REQUESTS=${LINEWRIGHT_KERNEL_REQUESTS-10000} .venv/bin/python -m pytest tests/py/kernel || failed+=(module)
fi
# The workload is run in the patched kernels. Builds of several minutes each: not among the tests that `make test` collects.
if ((${#small[@]})); then
    for arch in arm64 i386; do
        logged "workload-configure-$arch" cmake --preset "$arch"
        logged "workload-build-$arch" cmake --build --preset "$arch" --target linewright-workload
    done
    LINEWRIGHT_SMALL_KERNELS="${small[*]}" .venv/bin/python -m pytest tests/kernel || failed+=(patches)
fi
((${#failed[@]} == 0)) || stop 1 "kernel-test: failed: ${failed[*]}"
