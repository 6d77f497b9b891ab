# SPDX-License-Identifier: MIT
"""sparse has no remark on the module for 7.x, and has one on each mistake that is planted."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import waiting
from support.places import ROOT

sys.path.insert(0, str(ROOT / "tests/kernel"))

import kernels
from small import or_skipped

SERIES, ARCH = "7", "amd64"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernel is one for x86-64"),
]
PLANTED = """
int lwk_planted(const int __user *from);
int lwk_planted(const int __user *from)
{
	return *from;
}
"""
"""A look at a user's memory past the kernel's functions for it."""


def sparse(out: Path) -> subprocess.CompletedProcess[str]:
    with or_skipped():
        tree = kernels.fetch(SERIES, ARCH, ROOT / "build")
        words = kernels.builder(SERIES, ARCH, "gcc")
    release = (tree / "release").read_text().strip()
    headers = tree / f"usr/src/linux-headers-{release}"
    made = ["make", "-C", str(ROOT / "kmod"), "sparse", f"OUT={out}", f"KDIR={headers}"]
    return waiting.run([*made, *words])


def test_sparse_has_no_remark_and_finds_what_is_planted(tmp_path) -> None:
    """Planted behind the module's parameters, whose macros once kept sparse from saying more."""
    whole = sparse(tmp_path)
    assert whole.returncode == 0, whole.stdout + whole.stderr
    sources = [tmp_path / name for name in ("main.c", "counters.c", "dma.c")]
    for source in sources:
        mistake = PLANTED.replace("lwk_planted", f"lwk_planted_{source.stem}")
        source.write_text(source.read_text() + mistake)
    found = sparse(tmp_path)
    assert found.returncode == 2
    for source in sources:
        assert re.search(rf"\b{source.name}:.*noderef", found.stderr), found.stderr
