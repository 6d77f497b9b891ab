"""Under the emulator every access is seen: kinds and bytes are exact, controls give none, arm64 programs run here
too."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from support.finding import PLANTED
from support.places import ROOT

SOURCE = ROOT / "tests/cpp/find/planted.cpp"
SECONDS = "2"


@pytest.fixture(scope="module")
def arm64(tmp_path_factory):
    """The planted programs for arm64, with outline helpers as compilers emit them by default."""
    compiler = shutil.which("aarch64-linux-gnu-g++")
    if compiler is None or shutil.which("qemu-aarch64") is None:
        pytest.skip("no arm64 compiler, or no emulator")
    program = tmp_path_factory.mktemp("arm64") / "planted"
    subprocess.run([compiler, "-std=c++20", "-O2", "-g", "-pthread", "-o", program, SOURCE], check=True)
    return program


@pytest.fixture
def native(built):
    if shutil.which("qemu-x86_64") is None:
        pytest.skip("no emulator")
    return PLANTED


CASES = [
    ("true", "true_counter", "true"),
    ("false", "false_counters", "false"),
    ("false_plain", "plain_counters", "false"),
    ("reader_writer", "flag_line", "true"),
    ("mutex", "planted_mutex", "true"),
    ("fork", "shared mapping", "true"),
]


def shared(result: dict) -> list[tuple[str, str]]:
    return [(line["object"], line["kind"]) for line in result["lines"] if line["kind"] in ("true", "false")]


@pytest.mark.parametrize(("kind", "name", "wanted"), CASES)
def test_planted_lines_of_a_native_program(native, found, kind: str, name: str, wanted: str) -> None:
    lines = shared(found("--exact", "--", native, kind, 2, SECONDS))
    assert name in lines[0][0] and lines[0][1] == wanted


@pytest.mark.parametrize(("kind", "name", "wanted"), CASES)
def test_planted_lines_of_an_arm64_program(arm64, found, kind: str, name: str, wanted: str) -> None:
    lines = shared(found("--exact", "--", arm64, kind, 2, SECONDS))
    assert name in lines[0][0] and lines[0][1] == wanted


@pytest.mark.parametrize("kind", ["private", "private_plain", "read_shared", "stack", "tls"])
def test_controls_give_none(native, found, kind: str) -> None:
    assert shared(found("--exact", "--", native, kind, 2, SECONDS)) == []


def test_an_outline_helper_is_told_apart_by_its_caller(arm64, found) -> None:
    sites = found("--exact", "--", arm64, "true", 2, SECONDS)["lines"][0]["sites"]
    assert any(s["function"].startswith("__aarch64_ldadd8") and "true_sharing" in s["caller"] for s in sites)


def test_no_rate_and_no_time_is_claimed(native, found) -> None:
    result = found("--exact", "--", native, "true", 2, SECONDS)
    assert result["overhead"] is None and result["lines"][0]["share"] is None
    assert any("time" in text for text in result["blind"])


def test_bytes_are_exact_also_within_a_word(native, found) -> None:
    """The mutex: lock, owner and number of users are written, and the count of a recursive one is not."""
    touch = found("--exact", "--", native, "mutex", 2, SECONDS)["lines"][0]["touches"][0]
    covered = {byte for at, size in touch["bytes"] for byte in range(at, at + size)}
    assert {0, 8, 12} <= covered and 4 not in covered


def test_a_script_is_refused(built, run, tmp_path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    done = run("--exact", "--", script)
    assert done.returncode == 2 and "no 64-bit program" in done.stderr
