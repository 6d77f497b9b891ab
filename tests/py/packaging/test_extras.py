# SPDX-License-Identifier: MIT
"""Where a library of an extra is missing, one line names what installs it, and the core works."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from linewright.wings import extras
from support.analysis_samples import published, write
from support.places import ROOT

TABLE = "table.jsonl"
PYPI = {"vl_convert": "vl-convert-python"}
"""Distributions that are not called like their module."""
NEEDED = {
    "images": ("report", TABLE),
    "parquet": ("show", TABLE, "--format", "parquet", "-o", "r.parquet"),
    "fleet": ("measure", "--on", "@hosts.txt"),
    "calibration": ("model", "calibrate", TABLE, "--from", "arm64-server-2025", "-o", "m.toml"),
}
"""A command of each extra; what it is given need not be right, since the refusal comes first."""


@pytest.mark.parametrize(("extra", "module"), [(e, m) for e in extras() for m in extras()[e]])
def test_a_missing_library_is_named_with_its_extra(command, extra, module):
    command.patch.setitem(sys.modules, module, None)
    said = command.refused(*NEEDED[extra])
    assert f"needs {module}, " in said and f"(pip install {PYPI.get(module, module)})" in said


def test_a_command_of_a_group_is_named_as_it_is_typed(command):
    command.patch.setitem(sys.modules, "emcee", None)
    assert command.refused(*NEEDED["calibration"]).startswith("linewright: model calibrate: ")


def test_debians_package_names_the_package_that_has_them(command):
    command.patch.setitem(sys.modules, "altair", None)
    command.patch.setattr("linewright.wings.PACKAGE", Path("/usr/lib/linewright/site/linewright"))
    assert "apt install linewright-extras" in command.refused(*NEEDED["images"])


def test_a_scheduler_needs_the_fleet(command):
    command.patch.setitem(sys.modules, "distributed", None)
    said = command.refused(
        "measure",
        "--on",
        "model:arm64-server-2025",
        "--set",
        "scheduler=tcp://x:1",
        "--format",
        "none",
    )
    assert "pip install distributed" in said


def test_the_package_declares_the_same_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["optional-dependencies"]
    assert set(extras()) == set(declared) - {"check", "test", "package"}
    for extra, modules in extras().items():
        assert len(declared[extra]) == len(modules)


def test_the_core_runs_without_any_of_them(command):
    for modules in extras().values():
        for module in modules:
            command.patch.setitem(sys.modules, module, None)
    write(command.directory / TABLE, *published())
    for name in ("show", "advise"):
        assert command(name, TABLE).returncode == 0
