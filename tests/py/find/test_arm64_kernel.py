# SPDX-License-Identifier: MIT
"""The sampler under a real arm64 kernel, in an emulated machine: its events, registers, code pages
and watchpoints, decoded here.

Emulation interrupts between blocks of translated code, so where samples fall and what anything
costs says nothing about a core. For the same reason the C library's locks cannot be tried here:
their helpers' atomic instruction stands before a return, where a block ends, and every sample falls
into the caller."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from linewright.find import sources, stream
from linewright.find.line_words import object_text
from linewright.find.results import Result
from support.places import ROOT

sys.path.insert(0, str(ROOT / "tests" / "system"))
import run_arm64

BUILD = ROOT / "build" / "arm64"
SAMPLER = BUILD / "find" / "linewright-find"
PROGRAM = BUILD / "tests" / "cpp" / "find" / "find_planted_static"
THERE = "/t/0/find_planted_static"
KINDS = ("true", "false", "jit", "tls_shared", "private")
NOBODY = BUILD / "tests" / "cpp" / "find" / "find_as_nobody"
REFUSED = "refused"
"""Run as a user without privileges: Debian's kernels refuse perf_event_open to those."""


@pytest.fixture(scope="module")
def streams() -> dict[str, list[bytes]]:
    """What the sampler wrote of each kind, in one boot of a machine with two CPUs."""
    init = next(BUILD.glob("**/lw_system_init"), None)
    if init is None or not all(path.exists() for path in (SAMPLER, PROGRAM, NOBODY)):
        pytest.skip("the arm64 programs are not built")
    try:
        kernel = run_arm64.kernel(init.parent)
        run_arm64.tool("qemu-system-aarch64", "qemu-system-arm")
    except run_arm64.Unavailable as missing:
        pytest.skip(str(missing))
    for seconds in (3, 12, 48):  # on a busy machine the emulated clock runs on without the program
        commands = [[str(PROGRAM), "true", "1", "0"]]
        sampler = [str(SAMPLER), "--period-us=4000", "--", THERE]
        commands += [[*sampler, kind, "2", str(seconds)] for kind in KINDS]
        commands += [[str(NOBODY), "/t/1/linewright-find", "--", THERE, "true", "1", "1"]]
        with tempfile.NamedTemporaryFile(suffix=".cpio") as archive:
            archive.write(run_arm64.initramfs(init, commands))
            archive.flush()
            console = run_arm64.boot(kernel, Path(archive.name), 2, 600, 1800).replace("\r", "")
        assert "@@end" in console, console[-3000:]
        parts = console.split("@@run ")[2:]
        found = {
            kind: [as_here(line) for line in part.splitlines() if line.startswith('{"type"')]
            for kind, part in zip((*KINDS, REFUSED), parts, strict=True)
        }
        if all(sum(b'"sample"' in line for line in found[kind]) > 40 for kind in KINDS):
            return found
    raise AssertionError({kind: len(lines) for kind, lines in found.items()})


def as_here(line: str) -> bytes:
    """A line of the stream, as if the program had been mapped from its file here."""
    said = json.loads(line.replace(THERE, str(PROGRAM)))
    if said["type"] == "map" and said["path"] == str(PROGRAM):
        said["inode"] = PROGRAM.stat().st_ino
    return json.dumps(said).encode() + b"\n"


def result(lines: list[bytes]) -> Result:
    gathered = sources.gather(lines, watch=False)
    assert (
        gathered.start.arch == "arm64" and gathered.start.source == "timer" and not gathered.damaged
    )
    return sources.conclude(sources.findings_of(gathered, "planted"))


@pytest.mark.parametrize(
    ("kind", "name", "wanted"),
    [("true", "true_counter", "true"), ("false", "false_counters", "false"),
     ("jit", "true_counter", "true"),
     ("tls_shared", "own_counter of thread ", "true")],
)  # fmt: skip
def test_shared_lines_are_named_from_arm64_samples(
    streams, kind: str, name: str, wanted: str
) -> None:
    found = result(streams[kind])
    line = next((line for line in found.lines if name in object_text(line.objects[0])), None)
    assert line is not None and line.kind == wanted and line.threads == 2, [
        (object_text(x.objects[0]), x.kind) for x in found.lines
    ]


def test_a_refusal_names_the_setting_and_what_it_should_be(streams) -> None:
    with pytest.raises(
        stream.SamplingRefusal,
        match=r"perf_event_open: .*; kernel.perf_event_paranoid is [34], 2 would do",
    ):
        sources.gather(streams[REFUSED])


def test_the_control_gives_none(streams) -> None:
    found = result(streams["private"])
    assert [line for line in found.lines if line.kind in ("true", "false")] == []


def test_the_sites_are_functions_of_the_program(streams) -> None:
    line = result(streams["true"]).lines[0]
    names = subprocess.run(["nm", "-C", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert line.sites[0].function.split("(")[0] in names and line.sites[0].instruction
