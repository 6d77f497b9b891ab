# SPDX-License-Identifier: MIT
"""Lookups of the module that leave out a check: the verifying cells have to find that they return
other objects."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/kernel"))

import machine  # noqa: E402
from small import or_skipped  # noqa: E402

from support.planted import planted  # noqa: E402

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="builds of the module start on x86-64"
)
TRIES = 10
MUTANTS = {
    "the object is not compared": (
        "\treturn READ_ONCE(object->slot) == slot;\n",
        "\treturn true;\n",
        {"typesafe_ref", "typesafe_lock", "typesafe_seqlock"},
    ),
    "the sequence is not compared": (
        "\treturn !read_seqretry(&object->sequence, token);\n",
        "\treturn true;\n",
        {"typesafe_seqlock"},
    ),
}
"""What stands in kmod/lookups.c, what stands there instead, and the forms that have to be found
wrong."""


def wrong_lookups(booted: machine.Machine, form: str) -> int:
    """How often a reader beside an updater was given another object; no further tries once it
    was."""
    asked = {"operation": "readers_lookup", "form": form, "width": 8, "instances": 4, "delay": 100}
    beside = machine.BESIDE | {"updater": "replace", "verify": 1, "window_us": 50_000}
    for _ in range(TRIES):
        total = machine.sum_of(booted.ask(machine.cell(**asked, **beside)))
        if total["wrong"] != "0":
            return int(total["wrong"])
    return 0


@pytest.mark.parametrize("name", MUTANTS)
def test_a_check_that_is_left_out_is_found(tmp_path, name):
    there, instead, forms = MUTANTS[name]
    subprocess.run(
        ["make", "-s", "-C", f"{ROOT}/kmod", "tree", f"DEST={tmp_path}/module"], check=True
    )
    source = tmp_path / "module/lookups.c"
    text = source.read_text()
    # Newer than the original, so the build leaves it as it is.
    source.write_text(planted(text, there, instead))
    with or_skipped():
        booted = machine.boot("6.1", "amd64", tmp_path)
    try:
        assert source.read_text() != text
        found = {
            form: wrong_lookups(booted, form)
            for form in ("typesafe_ref", "typesafe_lock", "typesafe_seqlock")
        }
    finally:
        booted.close()
    assert {form for form, count in found.items() if count} == forms, found
