#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# for_others.sh ARCH: what the command sends to other machines of an architecture: per line the CMake target, the name that
# linewright/run/programs.py looks for beside the Python code, and the path in a build folder.
set -euo pipefail

arch=${1:?usage: for_others.sh ARCH}
paths=(probe/linewright-probe workload/linewright-workload find/linewright-find find/liblinewright_find_{timer,heap}.so src/liblinewright-rwlock.so)
[[ $arch != arm64 ]] || paths+=(src/outline/liblinewright_audit.so)
for path in "${paths[@]}"; do
    file=${path##*/}
    case $file in
        lib*.so) target=${file#lib} target=${target%.so} target=${target//-/_} name=${file%.so}-$arch.so ;;
        *) target=$file name=$file-$arch ;;
    esac
    echo "$target $name $path"
done
