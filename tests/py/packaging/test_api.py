# SPDX-License-Identifier: MIT
"""The API reference: Doxygen makes it of the public headers' comments without a warning, functions
and all."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support import waiting
from support.places import ROOT

HEADERS = ("atomic", "percpu", "srcu", "cache", "policy", "wide")


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    if shutil.which("doxygen") is None:
        pytest.skip("no doxygen: apt install doxygen")
    folder = tmp_path_factory.mktemp("api")
    settings = (
        ROOT / "docs/Doxyfile"
    ).read_text() + f"\nOUTPUT_DIRECTORY = {folder}\nPROJECT_NUMBER = test\n"
    done = waiting.run(["doxygen", "-"], cwd=ROOT, input=settings)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder / "html"


def text_of(page: Path) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page.read_text())))


@pytest.mark.parametrize("name", HEADERS)
def test_every_function_has_its_place_and_its_comment(reference, name: str):
    text = text_of(reference / f"{name}_8h.html")
    source = (ROOT / f"include/linewright/{name}.h").read_text()
    seen = subprocess.run(
        ["gcc", "-E", f"-I{ROOT}/include", "-x", "c", "-"],
        input=f"#include <linewright/{name}.h>\n",
        capture_output=True,
        text=True,
    ).stdout  # what other architectures declare is not in the reference
    declared = set(
        re.findall(
            r"^(?:LW_API|LW_INLINE|LW_ALWAYS_INLINE) [^;(]*?\b(lw_[a-z]\w+)\(", source, re.MULTILINE
        )
    )
    declared &= set(re.findall(r"\b(lw_\w+)\(", seen))
    assert [function for function in sorted(declared) if function not in text] == []
    opening = re.search(r"/\*(?! SPDX-)[\s*]*(.{30})", source)[1]
    assert re.sub(r"\s+", " ", opening) in text


def test_a_comments_text_is_there_as_written(reference):
    text = text_of(reference / "cache_8h.html")
    assert (
        "arm64 `dsb sy`; x86 MFENCE, since SFENCE would let a later load overtake CLFLUSHOPT"
        in text
    )
    assert "* Wait for all maintenance" not in text
