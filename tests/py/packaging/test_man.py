# SPDX-License-Identifier: MIT
"""Manual pages: one for each command and public header, complete, and clean for groff."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from linewright.cli import app
from support.places import ROOT

COMMANDS = typer.main.get_command(app).commands
HEADERS = ("atomic", "percpu", "srcu", "cache", "policy", "wide")


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    program = [sys.executable, ROOT / "scripts/man.py", folder]
    subprocess.run(
        program,
        check=True,
        capture_output=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    return folder


def shown(page: Path) -> str:
    """The page as a terminal shows it, lines joined, without what groff did to hyphens."""
    if shutil.which("groff") is None:
        pytest.skip("no groff: apt install groff-base")
    done = subprocess.run(
        ["groff", "-ww", "-man", "-Tutf8", "-P-c", "-rLL=2000n", page],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "", done.stderr
    return (
        re.sub(r"\s+", " ", re.sub(".\x08", "", done.stdout))
        .replace("\u2010", "-")
        .replace("\u2212", "-")
    )


def test_there_is_a_page_for_each_command_and_header(pages):
    assert {path.name for path in (pages / "man1").iterdir()} == {
        "linewright.1",
        *(f"linewright-{name}.1" for name in COMMANDS),
    }
    assert {f"linewright_{name}.3" for name in HEADERS} <= {
        path.name for path in (pages / "man3").iterdir()
    }


def test_pages_are_clean_for_mandoc(pages):
    """But for the date: a page's version is what tells it from others."""
    if shutil.which("mandoc") is None:
        pytest.skip("no mandoc: apt install mandoc")
    files = [*pages.glob("man?/*"), ROOT / "debian/linewright-probe.1"]
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", *files], capture_output=True, text=True
    )
    said = (done.stdout + done.stderr).splitlines()
    assert [line for line in said if "WARNING: missing date" not in line] == []


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_commands_page_has_every_option(pages, name: str):
    text = shown(pages / f"man1/linewright-{name}.1")
    for parameter in COMMANDS[name].params:
        if parameter.param_type_name == "option":
            assert max(parameter.opts, key=len) in text
            assert " ".join((parameter.help or "").split())[:60] in text


def test_the_main_page_has_commands_exit_codes_and_environment(pages):
    text = shown(pages / "man1/linewright.1")
    assert all(f" {name} " in text for name in COMMANDS)
    assert (
        "EXIT STATUS" in text and "records so far are kept" in text and "LINEWRIGHT_ATOMICS" in text
    )


@pytest.mark.parametrize("name", HEADERS)
def test_a_headers_page_has_its_functions(pages, name: str):
    text = shown(pages / f"man3/linewright_{name}.3")
    assert f"#include <linewright/{name}.h>" in text and "SPDX-" not in text
    source = (ROOT / f"include/linewright/{name}.h").read_text()
    documented = re.findall(
        r"\*/\n(?:LW_API|LW_INLINE|LW_ALWAYS_INLINE) [^;(]*?\b(lw_\w+)\(", source
    )
    assert [function for function in documented if f"{function}(" not in text] == []


@pytest.mark.parametrize(
    "line", [".starts like a request", "'so does this", "a \\ and a - and é", "`x` ^ ~"]
)
def test_text_is_no_request(tmp_path, line: str):
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import man
    finally:
        sys.path.pop(0)
    page = tmp_path / "x.3"
    page.write_text(
        man.head("x", 3) + man.named("x", "y") + ".SH DESCRIPTION\n" + man.line(line) + "\n"
    )
    assert line in shown(page)
