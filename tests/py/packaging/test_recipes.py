# SPDX-License-Identifier: MIT
"""What CONTRIBUTING says of the number of places that an addition takes is counted here."""

from __future__ import annotations

import re

from linewright import forms
from linewright.schema import ARCHITECTURE_NAMES
from support.places import ROOT

LISTS = (
    "wire/CMakeLists.txt",
    "wire/forms.cpp",
    "wire/forms.def",
    "probe/CMakeLists.txt",
    "probe/families.cpp",
    "probe/families.hpp",
)
"""Where a list of families would stand."""


def code_of(path: str) -> str:
    """A file without comments, includes, messages, and what another program adds."""
    text = (ROOT / path).read_text().partition("#ifdef LW_MORE_FORMS")[0]
    text = re.sub(r'"([^"\n]*)"', lambda m: "" if " " in m[1] else m[0], text)
    return re.sub(r"(//|#include| # |^# ).*", "", text, flags=re.MULTILINE)


def test_a_family_is_its_table_its_loops_and_its_record():
    """And no list beside them names it."""
    tables = {path.stem for path in (ROOT / "wire" / "forms").glob("*.def")}
    assert len(tables) >= 7
    for family in tables:
        assert (ROOT / "probe" / f"{family}.cpp").exists()
        named = [path for path in LISTS if re.search(rf"\b{family}\b", code_of(path))]
        assert not named, family


def test_every_operation_of_the_tables_has_a_record():
    """An operation that no record names would be taken for one on one line."""
    known = {name for f in forms.FAMILIES for name in (*f.operations, f.baseline_loop)}
    rows = [
        match[1]
        for path in (ROOT / "wire" / "forms").glob("*.def")
        for match in re.finditer(r"^LW_FORM\(\w+, +\w+, +(\w+),", path.read_text(), re.MULTILINE)
    ]
    assert len(rows) > 100 and set(rows) <= known


def test_an_architecture_is_its_folder_and_two_lists():
    """The library's folders, its list in C and the one in Python name the same architectures."""
    folders = {path.name for path in (ROOT / "include/linewright/arch").iterdir() if path.is_dir()}
    listed = re.search(
        r"#define LW_ARCHITECTURES\(entry\)(.*(?:\\\n.*)*)",
        (ROOT / "include/linewright/arch/select.h").read_text(),
    )
    in_c = set(re.findall(r"entry\((\w+)\)", listed[1]))
    assert in_c == set(ARCHITECTURE_NAMES)
    own = {"x86" if name in ("x86_64", "i386") else name for name in in_c}
    assert own <= folders
