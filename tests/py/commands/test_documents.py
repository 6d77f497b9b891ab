# SPDX-License-Identifier: MIT
"""The JSON of every command that says something holds the same document beside its data."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from linewright.say.document import Document
from support import find_results, machines
from support.report_samples import write


def files(folder: Path) -> list[str]:
    values = machines.records("x86-vm")
    return [write(folder / f"{name}.jsonl", values) for name in ("a", "b")]


def words(name: str, folder: Path) -> list[str]:
    if name == "find":
        return ["--json", "--", "/bin/true"]
    if name == "inspect":
        return ["--json", sys.executable]
    if name == "trial":
        return ["--json", "--env", "A=1", "--runs", "2", "--", "/bin/true"]
    if name == "compare":
        return [*files(folder), "--json"]
    return [files(folder)[0], "--json"]


def documents(name: str, said: Any) -> list[dict]:
    if name == "advise":
        return said
    return said["documents"] if name == "show" else [said["document"]]


@pytest.mark.parametrize("name", ["show", "advise", "compare", "trial", "inspect", "find"])
def test_the_json_of_a_command_is_its_data_and_the_document(
    command, tmp_path, monkeypatch, name: str
) -> None:
    monkeypatch.setenv("LINEWRIGHT_FIND", str(find_results.sampler(tmp_path)))
    answer = command(name, *words(name, tmp_path))
    assert answer.returncode == 0, answer.stderr
    found = documents(name, json.loads(answer.stdout))
    assert len(found) == 1 and found[0]["linewright_document"] == 3
    assert list(found[0]) == list(Document.__struct_fields__), "one shape, whichever command"
    said = msgspec.convert(found[0], Document)
    headline = said.of("headline")
    assert headline and all(s.cells or s.basis in ("run", "rule") for s in headline)
    assert said.tables
