#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# deb.sh [FOLDER]: Debian packages of the library, its development files, the probe and the command, in dist/ or a folder.
# Fetching the command's Python packages needs a network; building has none.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

folder=$(mkdir -p "${1:-dist}" && cd "${1:-dist}" && pwd)
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' linewright/__init__.py)
source=build/deb/linewright-$version
rm -rf build/deb
mkdir -p "$source"
git ls-files -z | tar --null --files-from=- --create | tar --extract --directory "$source"
# Debian's own Python, whichever comes first here: the package is for that one.
scripts/wheelhouse.sh "$source/debian/wheels" /usr/bin/python3
# debhelper gives the build an empty home: the compiler cache is named.
if command -v ccache >/dev/null; then
    CCACHE_DIR=$(ccache --get-config cache_dir) CCACHE_BASEDIR=$root/$source
    export CCACHE_DIR CCACHE_BASEDIR
fi
cd "$source"
mkdir -p "$logs"
logged deb without_network dpkg-buildpackage --build=binary --no-sign --no-pre-clean
mv ../*.deb "$folder"
printf '%s\n' "$folder"/*linewright*_"$version"_*.deb
