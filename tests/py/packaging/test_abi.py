"""The check of the library's binary interface: it refuses a changed public type and a lost function, and nothing
private."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support.places import ROOT

HEADER = (
    "struct box;\nstruct open { long first; int second; };\nint lw_one(struct open *);\nint lw_two(struct box *);\n"
)
SOURCE = (
    '#include "face.h"\nstruct box { int inside; };\n'
    "int lw_one(struct open *o) { return o->second; }\nint lw_two(struct box *b) { return b->inside; }\n"
)


@pytest.fixture
def abi(tmp_path, monkeypatch):
    if shutil.which("abidiff") is None:
        pytest.skip("no abidiff: apt install abigail-tools")
    monkeypatch.syspath_prepend(str(ROOT / "tests/cpp/installed"))
    import abi

    monkeypatch.setattr(abi, "HEADERS", tmp_path)
    return abi


def library(folder: Path, header: str, source: str) -> Path:
    (folder / "face.h").write_text(header)
    (folder / "face.c").write_text(source)
    made = folder / "libface.so"
    subprocess.run(["gcc", "-g", "-shared", "-fPIC", f"-I{folder}", folder / "face.c", "-o", made], check=True)
    return made


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("", "", ""),
        ("int inside;", "long before; int inside;", ""),
        ("long first;", "short first;", "offset changed"),
        ("int second;", "int second; int third;", "data member insertion"),
        ("int lw_two", "long lw_two", "return type changed"),
        ("lw_two", "lw_three", "1 Removed"),
    ],
    ids=["nothing", "private member", "member's type", "new member", "return type", "function"],
)
def test_what_users_see_must_stay(tmp_path, abi, old: str, new: str, says: str):
    stored = tmp_path / "stored.abi"
    abi.write(library(tmp_path, HEADER, SOURCE), stored)
    found = abi.differences(library(tmp_path, HEADER.replace(old, new), SOURCE.replace(old, new)), stored)
    assert says in found and bool(found) == bool(says)


def test_an_interface_is_stored_for_each_architecture():
    minor = (ROOT / "linewright/__init__.py").read_text().split('__version__ = "')[1].split('"')[0].rpartition(".")[0]
    names = {path.name for path in (ROOT / "src/abi").iterdir()}
    assert names == {f"liblinewright.so.{minor}-{arch}.abi" for arch in ("x86_64", "i386", "arm64")}
