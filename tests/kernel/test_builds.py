# SPDX-License-Identifier: MIT
"""Small kernels with and without our patches: no warning of the compiler, none of checkpatch about
the change.

Builds whole kernels: `make kernel-test`. LINEWRIGHT_SMALL_KERNELS names the series (default 6.12).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/kernel"), str(ROOT / "kernel")]

import small  # noqa: E402
from lwkernel import patches, sources  # noqa: E402
from lwkernel.errors import Missing  # noqa: E402
from small import or_skipped  # noqa: E402

SERIES = os.environ.get("LINEWRIGHT_SMALL_KERNELS", "6.12").split()
PATCHES = [patches.load(name) for name in patches.names()]
IGNORED = (
    # A diff is no mail.
    *("COMMIT_MESSAGE", "MISSING_SIGN_OFF"),
    # The help of an option is two lines; the page head of its patch has the rest.
    "CONFIG_DESCRIPTION",
    # Macros that hold instructions, and arguments that a form has no use for.
    *("COMPLEX_MACRO", "MACRO_ARG_UNUSED"),
)


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("patch", PATCHES, ids=[patch.name for patch in PATCHES])
def test_checkpatch_finds_nothing(patch, series, tmp_path):
    if series not in patch.kernels:
        pytest.skip(f"{patch.name} is not for {series}")
    try:
        tree, _ = sources.fetch(series)
    except Missing as missing:
        pytest.skip(str(missing))
    for arch in patch.kernels[series]:
        command = [str(ROOT / "kernel/build"), series, arch, "--diff", "--patch", patch.name]
        diff = tmp_path / f"{arch}.diff"
        diff.write_text(subprocess.run(command, text=True, capture_output=True, check=True).stdout)
        words = ["--no-tree", "--terse", "--no-summary", "--max-line-length=130", "--show-types"]
        check = [
            "perl",
            str(tree / "scripts/checkpatch.pl"),
            *words,
            "--ignore",
            ",".join(IGNORED),
            str(diff),
        ]
        done = subprocess.run(check, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


KERNELS = sorted(
    {
        (series, arch)
        for patch in PATCHES
        for series in SERIES
        for arch in patch.kernels.get(series, ())
    }
)


@pytest.mark.parametrize("series, arch", KERNELS)
@pytest.mark.parametrize("words", [(), ("--patch", "all")], ids=["unpatched", "patched"])
def test_the_compiler_warns_of_nothing(series, arch, words):
    with or_skipped():
        folder = small.built(series, arch, *words)
    log = (folder / "log").read_text()
    assert "vmlinux" in log
    assert not re.findall(r"^.*\bwarning:.*$", log, re.MULTILINE | re.IGNORECASE)
