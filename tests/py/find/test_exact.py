"""Under the emulator every access is seen: kinds and bytes are exact, controls give none, arm64
programs run here too."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from linewright.errors import UserError
from linewright.find import exact
from support.finding import PLANTED
from support.places import ROOT

SOURCE = ROOT / "tests/cpp/find/planted.cpp"
SECONDS = "2"


@pytest.fixture(scope="module")
def arm64(tmp_path_factory):
    """The planted programs for arm64, with outline helpers as compilers emit them by default, and
    the library that they load."""
    compiler = shutil.which("aarch64-linux-gnu-g++")
    if compiler is None or shutil.which("qemu-aarch64") is None:
        pytest.skip("no arm64 compiler, or no emulator")
    program = tmp_path_factory.mktemp("arm64") / "planted"
    subprocess.run(
        [compiler, "-std=c++20", "-O2", "-g", "-pthread", "-o", program, SOURCE], check=True
    )
    library = [
        "-x",
        "c",
        "-O2",
        "-shared",
        "-fPIC",
        "-o",
        program.with_name("libfind_plugin.so"),
        SOURCE.with_name("plugin.c"),
    ]
    subprocess.run([compiler, *library], check=True)
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


def line_of(result: dict, name: str) -> dict:
    """The line of a variable; not always the first: on a busy machine others, of the C library's,
    were seen to change hands more often."""
    found = next((line for line in result["lines"] if name in line["object"]), None)
    assert found is not None, shared(result)
    return found


def shared(result: dict) -> list[tuple[str, str]]:
    return [
        (line["object"], line["kind"])
        for line in result["lines"]
        if line["kind"] in ("true", "false")
    ]


@pytest.mark.parametrize(("kind", "name", "wanted"), CASES)
def test_planted_lines_of_a_native_program(
    native, found, kind: str, name: str, wanted: str
) -> None:
    assert line_of(found("--exact", "--", native, kind, 2, SECONDS), name)["kind"] == wanted


@pytest.mark.parametrize(("kind", "name", "wanted"), CASES)
def test_planted_lines_of_an_arm64_program(arm64, found, kind: str, name: str, wanted: str) -> None:
    assert line_of(found("--exact", "--", arm64, kind, 2, SECONDS), name)["kind"] == wanted


@pytest.mark.parametrize("kind", ["private", "private_plain", "read_shared", "stack", "tls"])
def test_controls_give_none(native, found, kind: str) -> None:
    assert shared(found("--exact", "--", native, kind, 2, SECONDS)) == []


def test_an_outline_helper_is_told_apart_by_its_caller(arm64, found) -> None:
    sites = line_of(found("--exact", "--", arm64, "true", 2, SECONDS), "true_counter")["sites"]
    assert any(
        s["function"].startswith("__aarch64_ldadd8") and "true_sharing" in s["caller"]
        for s in sites
    )


def test_all_calls_of_outline_helpers_are_listed_by_call_site(arm64, found, tmp_path) -> None:
    """Also those on lines that nothing else touches, and in a program without symbols."""
    calls = found("--exact", "--", arm64, "private", 2, SECONDS)["helpers"]
    assert calls[0]["helper"].startswith("__aarch64_ldadd8") and calls[0]["count"] > 1000
    assert "private_lines" in calls[0]["function"] and "planted.cpp:" in calls[0]["source"]
    bare = tmp_path / "bare"
    subprocess.run(["aarch64-linux-gnu-strip", "-o", bare, arm64], check=True)
    stripped = found("--exact", "--", bare, "private", 2, SECONDS)["helpers"]
    assert (stripped[0]["helper"], stripped[0]["offset"]) == (
        calls[0]["helper"],
        calls[0]["offset"],
    )


def owner(line: dict, variable: str) -> int:
    """The thread whose copy of a variable is on a line."""
    return int(line["object"].split(f"{variable} of thread ")[1].split(",")[0])


def test_thread_local_variables_have_names(native, arm64, found) -> None:
    for program in (native, arm64):
        line = line_of(
            found("--exact", "--", program, "tls_shared", 2, SECONDS), "own_counter of thread "
        )
        assert (
            owner(line, "own_counter") in {touch["thread"] for touch in line["touches"]}
            and line["kind"] == "true"
        )


def test_thread_local_variables_of_libraries_have_names(native, arm64, found) -> None:
    for program in (native, arm64):
        line = line_of(
            found("--exact", "--", program, "tls_library", 2, SECONDS), "plugin_own of thread "
        )
        assert (
            owner(line, "plugin_own") in {touch["thread"] for touch in line["touches"]}
            and line["kind"] == "true"
        )


def test_no_rate_and_no_time_is_claimed(native, found) -> None:
    result = found("--exact", "--", native, "true", 2, SECONDS)
    assert result["overhead"] is None and line_of(result, "true_counter")["share"] is None
    assert any("time" in text for text in result["blind"])


def test_bytes_are_exact_also_within_a_word(native, found) -> None:
    """The mutex: lock, owner and number of users are written, and the count of a recursive one is
    not."""
    touch = line_of(found("--exact", "--", native, "mutex", 2, SECONDS), "planted_mutex")[
        "touches"
    ][0]
    covered = {byte for at, size in touch["bytes"] for byte in range(at, at + size)}
    assert {0, 8, 12} <= covered and 4 not in covered


def test_a_script_is_refused(built, run, tmp_path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    done = run("--exact", "--", script)
    assert done.returncode == 2 and "no 64-bit program" in done.stderr


def test_an_emulator_without_plugins_is_refused(tmp_path, monkeypatch):
    """As the one of Ubuntu 24.04, which does not know the option."""
    emulator = tmp_path / "qemu-x86_64"
    emulator.write_text('#!/bin/sh\n[ "$1" = --help ] && echo usage && exit\nexit 1\n')
    emulator.chmod(0o755)
    monkeypatch.setitem(exact.EMULATORS, "x86_64", str(emulator))
    monkeypatch.setattr(exact, "_arch_of", lambda program: "x86_64")
    with pytest.raises(UserError, match="built without plugins"):
        exact.run(tmp_path / "plugin.so", ["true"])
