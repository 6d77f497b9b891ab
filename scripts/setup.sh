#!/usr/bin/env bash
# setup.sh measure|check|test|kernel|bench|fuzz|wheel|deb|package: everything a purpose needs that is not in the checkout; silent when all is there.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# Before anything is installed: a Python that is too old cannot be helped from here.
if command -v "$python" >/dev/null && ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    stop 2 "$(command -v "$python") is $("$python" --version 2>&1); Python 3.11 or newer is needed: make PYTHON=python3.12 …"
fi
alone scripts/packages.sh "$@"
alone scripts/venv.sh "$@"
