#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# probe.sh: builds the probe for this machine in build/native.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

say 'building the probe: the first time usually a minute on two CPUs'
[[ -e build/native/build.ninja ]] || logged configure alone cmake --preset native
logged build alone cmake --build --preset native --target linewright-probe
