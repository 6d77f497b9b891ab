#!/usr/bin/env bash
# deb_test.sh FOLDER: the Debian packages in a folder pass lintian, are installed, used and removed. As root, on an overlay
# of this system that is thrown away: nothing here is changed.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

folder=$(cd "${1:?usage: deb_test.sh FOLDER}" && pwd)
[[ $(id -u) == 0 ]] || stop 2 "deb_test.sh: installing packages asks for root"
lintian --fail-on error,warning "$folder"/*.deb || stop 1 "lintian found something"

inside() { # runs as root of the overlay
    set -e
    dpkg -i /packages/*.deb >/dev/null
    linewright-probe --list-forms | grep -q '"name"'
    cd /tmp
    cc -Wall -Wextra -Werror use.c -o use $(pkg-config --cflags --libs linewright)
    ./use
    readelf -d use | grep -q 'liblinewright\.so\.0\.1'
    cc use.c -o use-static "$(pkg-config --variable=libdir linewright)/liblinewright.a" -pthread
    ./use-static
    test -s /usr/share/man/man3/linewright_percpu.3.gz
    test -s /usr/share/man/man1/linewright-probe.1.gz
    dpkg --purge $(for deb in /packages/*.deb; do dpkg-deb --field "$deb" Package; done) >/dev/null
    if ls /usr/lib/*/liblinewright* /usr/include/linewright /usr/bin/linewright-probe 2>/dev/null; then exit 1; fi
    echo installed, used, removed
}

unshare --mount --propagation private bash -euc '
    mount -t tmpfs none /mnt
    mkdir /mnt/upper /mnt/work /mnt/root
    mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work none /mnt/root
    mkdir -p /mnt/root/packages
    cp "$1"/*.deb /mnt/root/packages/
    cp "$2" /mnt/root/tmp/use.c
    mount --bind /proc /mnt/root/proc
    mount --bind /dev /mnt/root/dev
    mount --bind /sys /mnt/root/sys
    chroot /mnt/root /bin/bash -c "$3; inside"
' bash "$folder" "$root/tests/cpp/installed/use.c" "$(declare -f inside)"
