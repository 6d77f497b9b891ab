# SPDX-License-Identifier: MIT
"""The whole table of forms, as the probe built here lists it: `linewright-probe
--list-forms=all`."""

from __future__ import annotations

import subprocess
from functools import cache

import msgspec
import pytest

from linewright.forms import Form
from support.places import ROOT

PROBE = ROOT / "build" / "native" / "probe" / "linewright-probe"


@cache
def every_form() -> tuple[Form, ...]:
    """Forms of every architecture, each as if the CPU had what it needs; skips where no probe is
    built."""
    if not PROBE.exists():
        pytest.skip("no probe built here", allow_module_level=True)
    answer = subprocess.run([PROBE, "--list-forms=all"], capture_output=True)
    if answer.returncode != 0:
        pytest.skip("the probe built here is older than these tests", allow_module_level=True)
    listed = msgspec.json.decode(answer.stdout, type=tuple[Form, ...])
    return tuple(msgspec.structs.replace(form, available=True, reason="") for form in listed)


def forms_of(arch: str) -> list[Form]:
    """Forms that a probe of this architecture lists: its own, and those of any."""
    wide_builtins = ("generic",) if arch != "i386" else ()
    return [
        form
        for form in every_form()
        if form.arch in (arch, "any", *wide_builtins)
        or (form.arch == "generic" and form.width_bits <= 32)
    ]
