#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# wheelhouse.sh FOLDER PYTHON: the command's dependencies and its build backend as wheels for a Python, in a folder, so that
# what is built from them needs no network. The only step of packaging that has one.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

folder=${1:?usage: wheelhouse.sh FOLDER PYTHON}
interpreter=${2:?usage: wheelhouse.sh FOLDER PYTHON}
mkdir -p "$folder"
"$interpreter" - "$folder" <<'PYTHON'
import sys
import tomllib
from pathlib import Path

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
# What is packaged without pip beside it carries the extras, too, but for clusters and Parquet.
extras = project["optional-dependencies"]
for name, libraries in {"core": project["dependencies"], "extras": extras["images"] + extras["calibration"]}.items():
    Path(sys.argv[1], f"{name}.txt").write_text("\n".join(libraries) + "\n")
PYTHON
logged wheelhouse "$interpreter" -m pip download --disable-pip-version-check --no-input --only-binary :all: \
    --dest "$folder" --requirement "$folder/core.txt" --requirement "$folder/extras.txt"
