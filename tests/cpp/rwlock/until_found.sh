#!/bin/sh
# SPDX-License-Identifier: MIT
# until_found.sh TORTURE: runs the torture of a broken lock until one run finds an error, at most ten times. One long run would not do: a mistake may
# lead to a release without a mark, after which the lock stays plain and shows nothing, or to a lock that no thread gets any more.
for _ in 1 2 3 4 5 6 7 8 9 10; do
    said=$(timeout -s KILL 60 "$1" --seconds 5 --except forks 2>&1)
    case $said in
        *'rwlock_torture: a '*) echo "$said"; exit 1 ;;
    esac
done
echo "ten runs found no error"
