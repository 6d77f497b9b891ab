#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# packages.sh measure|check|test|rest|kernel|bench|fuzz|wheel|deb|package: sees to it that the system packages of a purpose are there.
# A package counts as installed when the file or program that it is needed for exists.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

purpose=${1:?usage: packages.sh measure|check|test|rest|kernel|bench|fuzz|wheel|deb|package}
case $purpose in
    measure | check) lists=(scripts/packages/measure.txt) ;;
    test | bench | fuzz | wheel | deb | package) lists=(scripts/packages/measure.txt "scripts/packages/$purpose.txt") ;;
    rest) lists=(scripts/packages/{measure,test,bench,rest}.txt) ;;
    kernel) lists=(scripts/packages/{measure,test,rest,kernel}.txt) ;;
    *) stop 2 "packages.sh: no purpose '$purpose': measure, check, test, rest, kernel, bench, fuzz, wheel, deb or package" ;;
esac

header_there() {
    local prefix prefixes
    IFS=: read -r -a prefixes <<<"${CMAKE_PREFIX_PATH:-}:/usr/local:/usr"
    for prefix in "${prefixes[@]}"; do
        [[ -n $prefix ]] || continue
        [[ -e $prefix/include/$1 || -e $prefix/include/$(uname -m)-linux-gnu/$1 ]] && return 0
    done
    return 1
}

there() { # there WITNESS
    local what=${1#*:}
    case $1 in
        command:*) command -v "$what" >/dev/null ;;
        header:*) header_there "$what" ;;
        file:*) [[ -e $what ]] ;;
        python:*) "$python" -c "import $what" 2>/dev/null ;;
        *) stop 3 "scripts/packages: '$1' is neither command:, header:, file: nor python:" ;;
    esac
}

# Fills `packages` and `witnesses` with what is not there.
look() {
    local package witness only
    packages=() witnesses=()
    while read -r package witness only; do
        [[ -z $package || $package == \#* ]] && continue
        [[ -n $only && $only != "$arch" ]] && continue
        there "$witness" && continue
        [[ " ${lacking[*]} " != *" $package "* ]] || continue
        packages+=("$package")
        witnesses+=("${witness#*:}")
    done < <(cat "${lists[@]}")
}

dpkg_arch() {
    case $(uname -m) in
        x86_64) echo amd64 ;;
        aarch64) echo arm64 ;;
        *) uname -m ;;
    esac
}

lists_there() { compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null; }

# Tests name compilers of Debian 12 that another distribution may not have: those are left out, and the tests of them skip or fail.
leave_out_what_is_lacking() {
    local package
    [[ $purpose == test || $purpose == rest || $purpose == kernel ]] && command -v apt-cache >/dev/null || return 0
    lists_there || [[ $(id -u) != 0 ]] || logged apt-update apt-get -o DPkg::Lock::Timeout=300 update
    lists_there || return 0
    for package in "${packages[@]}"; do
        # Of a name that only others provide it shows nothing, and succeeds.
        [[ -z $(apt-cache show "$package" 2>/dev/null) ]] || continue
        # A name that another package provides, such as libelf1; one that only asks for a snap brings nothing.
        apt-cache showpkg "$package" 2>/dev/null | sed '1,/^Reverse Provides/d' | grep -qv '[0-9]snap[0-9]' || lacking+=("$package")
    done
    ((${#lacking[@]} == 0)) || say "this distribution has no ${lacking[*]}: what needs them is left out"
    look
}

lacking=()
arch=$(dpkg_arch)
look
((${#packages[@]})) && leave_out_what_is_lacking
((${#packages[@]})) || exit 0

if ! command -v apt-get >/dev/null; then
    stop 2 "missing, and there is no apt-get to install it: ${witnesses[*]} (Debian calls the packages ${packages[*]})"
fi
if [[ $(id -u) != 0 ]]; then
    # An image whose package lists were never fetched needs them first.
    update=
    lists_there || update='apt-get update && '
    stop 2 "not root, and something is missing; this helps: sudo sh -c '${update}apt-get install --no-install-recommends ${packages[*]}'"
fi

export DEBIAN_FRONTEND=noninteractive
# In one log: apt calls an update without a network a success, and its reason stands only there.
apt_update_and_install() {
    apt-get -o DPkg::Lock::Timeout=300 update &&
        apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@"
}

say "installing ${packages[*]}"
logged apt apt_update_and_install "${packages[@]}"
look
((${#packages[@]} == 0)) || stop 3 "installed, but still not found: ${witnesses[*]} (packages ${packages[*]})"
