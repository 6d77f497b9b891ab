#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# install.sh [remove]: the module's runner where `linewright measure --on kernel` looks for it beside a module of DKMS, which calls this.
set -e
folder=${DESTDIR-}/usr/local/libexec/linewright
if [ "$1" = remove ]; then
    rm -f "$folder/linewright-kernel"
    rmdir "$folder" 2>/dev/null || true
    exit 0
fi
mkdir -p "$folder"
cc -std=gnu11 -O2 -Wall -Wextra -o "$folder/linewright-kernel" "$(dirname "$0")/runner.c"
