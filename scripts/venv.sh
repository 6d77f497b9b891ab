#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# venv.sh measure|check|test|rest|kernel|bench|fuzz|wheel|deb|package: makes .venv with the command in it, straight from this checkout.
# The stamps live inside .venv, so that they go when it goes; they are hashes, so that a git checkout
# that only touches times sets nothing up again.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

purpose=${1:?usage: venv.sh measure|check|test|rest|kernel|bench|fuzz|wheel|deb|package}
case $purpose in
    measure | bench | fuzz | wheel | deb) wanted='.[images]' stamps=(base check test package) ;;
    check) wanted='.[check]' stamps=(check test) ;;
    test | rest | kernel) wanted='.[test]' stamps=(test) ;;
    package) wanted='.[package]' stamps=(package) ;;
    *) stop 2 "venv.sh: no purpose '$purpose': measure, check, test, rest, kernel, bench, fuzz, wheel, deb or package" ;;
esac

# A moved checkout or another interpreter makes the scripts inside .venv point nowhere.
identity=$("$python" -c 'import sys; print(sys.version, sys.executable)'; pwd)
inputs=$(cat pyproject.toml scripts/venv.sh | sha256sum)

for stamp in "${stamps[@]}"; do
    if [[ $(cat ".venv/linewright-$stamp" 2>/dev/null) == "$identity $inputs" && -x .venv/bin/linewright ]]; then
        exit 0
    fi
done

say "setting up .venv: usually 10 s, a minute without uv"
if [[ $(cat .venv/linewright-identity 2>/dev/null) != "$identity" ]]; then
    logged venv "$python" -m venv --clear .venv
fi

# Whether pip has settings for where packages come from that uv does not read and does not get here.
pip_has_sources() {
    grep -E '[.](index-url|extra-index-url|no-index|proxy|client-cert|trusted-host|constraint)=' <<<"$settings" >/dev/null
}

# Editable and without a native build: the command finds the probe that CMake makes in build/native.
# uv needs 4 s of CPU time where pip needs 19. It takes wheels only; where a library has none, pip builds it.
# It trusts the system's certificates, as pip does: among them is that of a network that inspects TLS.
# Neither compiles what may never be imported: that is a third of pip's time, and Python keeps what it compiles.
install_into_venv() { # install_into_venv WHAT
    local pip=(.venv/bin/python -m pip install --disable-pip-version-check --no-input) settings folders
    settings=$(.venv/bin/python -m pip config list)
    read -r -d '' -a folders < <(sed -nE "/[.]find-links=/{s/^[^=]*='(.*)'\$/\1/; s/\\\\n/ /g; p}" <<<"$settings") || true
    if ! pip_has_sources && "${pip[@]}" --retries 1 --only-binary :all: uv; then
        UV_SYSTEM_CERTS=true UV_FIND_LINKS=$(IFS=, && echo "${folders[*]}") .venv/bin/uv pip install --python .venv/bin/python \
            --only-binary :all: --no-binary linewright --reinstall-package linewright \
            --config-setting wheel.cmake=false --config-setting editable.mode=inplace --editable "$1" && return
    fi
    "${pip[@]}" 'pip>=22.1' # the first that takes these settings: Ubuntu 22.04 has an older one
    "${pip[@]}" --prefer-binary --no-compile --config-settings=wheel.cmake=false --config-settings=editable.mode=inplace --editable "$1"
}
# One that is killed meanwhile may leave half a library, which pip takes for a whole one: it has no identity, and is made anew.
: >.venv/linewright-identity
logged pip install_into_venv "$wanted"
printf '%s' "$identity" >.venv/linewright-identity
printf '%s' "$identity $inputs" >".venv/linewright-${stamps[0]}"
