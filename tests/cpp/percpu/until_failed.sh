#!/bin/sh
# SPDX-License-Identifier: MIT
# until_failed.sh PROGRAM…: succeeds when a run of a program with a mistake fails, crashes or uses CPU time for ever, of at most a hundred runs: beside a load
# two threads may not meet in one. Without a mistake a run needs 0.4 s.
[ "$(nproc)" -gt 1 ] || { echo "one CPU: its threads never do two things at once"; exit 77; }
ulimit -t 5
for _ in $(seq 100); do
    timeout 600 "$@" || exit 0
done
exit 1
