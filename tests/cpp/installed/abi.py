#!/usr/bin/env python3
"""The shared library's binary interface is the one that is stored for its version: a program linked before still runs.

Usage: abi.py BUILD ARCH [--write]. The stored interface (src/abi/NAME-ARCH.abi, as libabigail's abidw writes it)
belongs to the library's name, which changes with the minor version. Within one name a change of it is a mistake; before
the first release of that name it may be meant: then --write stores it, and CHANGELOG.md says what changed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from installed import HERE, run

ROOT = HERE.parents[2]
HEADERS = ROOT / "include"


def stored_for(library: Path, arch: str) -> Path:
    soname = re.search(r"\(SONAME\).*\[(.+)\]", run("readelf", "-d", library))[1]
    return ROOT / "src/abi" / f"{soname}-{arch}.abi"


def write(library: Path, file: Path) -> None:
    """The interface: what is exported, with the types that the public headers define."""
    file.parent.mkdir(exist_ok=True)
    run(
        "abidw",
        "--exported-interfaces-only",
        "--drop-private-types",
        "--headers-dir",
        HEADERS,
        "--no-show-locs",
        "--no-corpus-path",
        "--no-comp-dir-path",
        "--no-elf-needed",
        "--type-id-style",
        "hash",
        "--out-file",
        file,
        library,
    )


def differences(library: Path, stored: Path) -> str:
    """What abidiff says; empty where the interface is the same. Its exit status is a set of bits, 4 for any change."""
    with tempfile.TemporaryDirectory() as folder:
        # Both described in the same way: without the headers, or with them for one alone, changes of types go unseen.
        now = Path(folder, "now.abi")
        write(library, now)
        done = subprocess.run(["abidiff", stored, now], text=True, capture_output=True)
    return "" if done.returncode == 0 else f"abidiff: status {done.returncode}\n{done.stdout}{done.stderr}"


def main(build: str, arch: str, *options: str) -> int:
    if not shutil.which("abidiff"):
        print("missing abidiff: nothing was checked")
        return 77
    library = Path(build, "src/liblinewright.so").resolve()
    stored = stored_for(library, arch)
    if options == ("--write",):
        write(library, stored)
        return 0
    if not stored.exists():
        sys.exit(f"no interface is stored for {stored.name}: {Path(__file__).name} {build} {arch} --write")
    found = differences(library, stored)
    if found:
        sys.exit(f"{found}\nthe interface is not that of {stored.name}")
    print(f"the interface of {stored.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
