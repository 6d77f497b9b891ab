# SPDX-License-Identifier: MIT
"""Small arm64 programs for the tests of inspect and run, made by the cross compilers where they are
installed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support import waiting
from support.places import ROOT

SOURCES = ROOT / "tests" / "cpp" / "outline" / "programs"
TRIPLET = "aarch64-linux-gnu"
GCC = f"{TRIPLET}-gcc"

needs_cross_compiler = pytest.mark.skipif(
    shutil.which(GCC) is None, reason=f"{GCC} is not installed"
)


def build(output: Path, *arguments: str | Path, compiler: tuple[str, ...] = (GCC,)) -> Path:
    done = waiting.run([*compiler, "-O2", "-pthread", "-o", output, *map(str, arguments)])
    assert done.returncode == 0, done.stderr
    return output


def strip(program: Path) -> Path:
    out = program.with_name(program.name + ".stripped")
    waiting.run([f"{TRIPLET}-strip", "-s", "-o", out, program], check=True, text=False)
    return out


def nm_helpers(program: Path) -> set[str]:
    from linewright.elf.inspection import _HELPER

    listed = waiting.run([f"{TRIPLET}-nm", program], check=True).stdout
    return {
        line.split()[-1]
        for line in listed.splitlines()
        if _HELPER.match(line.split()[-1]) and line.split()[-2] in "tT"
    }
