#!/bin/sh
# SPDX-License-Identifier: MIT
# until_found.sh TORTURE: runs the torture of a broken lock until one run finds an error, at most a hundred times. One long run would not do: a mistake may
# lead to a release without a mark, after which the lock stays plain and shows nothing, or to a lock that no thread gets any more.
[ "$(nproc)" -gt 1 ] || { echo "one CPU: its threads never do two things at once"; exit 77; }
for _ in $(seq 100); do
    said=$(timeout -s KILL 60 "$1" --seconds 5 --except forks 2>&1)
    case $said in
        *'rwlock_torture: a '*) echo "$said"; exit 1 ;;
    esac
done
echo "a hundred runs found no error"
