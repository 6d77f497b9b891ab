# SPDX-License-Identifier: MIT
"""Lines and results of `find` as its judgement makes them, for tests of what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from linewright.find import line_words, sources
from linewright.find.results import Hot, Object, Result
from linewright.find.stream import AnyLine, Code, End, Map, Sample, Start
from linewright.schema import Estimate


def line(
    kind: str = "true",
    *,
    object: str = "x",
    object_kind: str = "static",
    allocated_in: str = "",
    **more: object,
) -> Hot:
    """A static variable that two threads share, with half of the samples."""
    what = Object(object_kind, symbol=object, site=allocated_in)
    about = {
        "address": 64,
        "kind_128": kind,
        "certainty": "sampled",
        "objects": [what],
        "identity": [f"{object_kind} {allocated_in or object}"],
        "share": Estimate(value=0.5, low=0.4, high=0.6),
        "touches": [],
        "threads": 2,
        "sites": [],
    }
    return Hot(pid=1, line_bytes=64, kind=kind, **(about | more))


def said_of(
    hot: Hot, command: Sequence[str] = (), apart: int | None = None, **more: object
) -> tuple[str, str]:
    """What to do about a line, and the command that follows."""
    whole = result(hot, command=list(command), bytes_apart=apart, **more)
    return line_words.advice(hot, apart), line_words.next_command(hot, whole)


def priced(*lines: Hot, **advice: object) -> Result:
    """A result with these lines, as the command completes it."""
    return sources.conclude(result(*lines), **advice)


def worded(printed: str | bytes) -> dict:
    """A result's JSON, with what the page calls its lines and says of it in place of the data."""
    found = msgspec.json.decode(printed, type=Result)
    said = msgspec.to_builtins(found)
    for part in ("lines", "alone"):
        for hot, one in zip(getattr(found, part), said[part], strict=True):
            one |= {
                "object": line_words.line_text(hot),
                "object_kind": hot.objects[0].kind,
                "allocated_in": hot.objects[0].site,
                "next_command": line_words.next_command(hot, found),
            }
    for part in ("notes", "blind"):
        said[part] = [line_words.note_text(one) for one in getattr(found, part)]
    return said


def result(*lines: Hot, **more: object) -> Result:
    """One second of a program with two threads."""
    about = {
        "source": "timer",
        "program": "p",
        "arch": "x86_64",
        "seconds": 1.0,
        "samples": 100,
        "lost": 0,
        "threads": 2,
        "alone": [],
        "overhead": 0.01,
        "blind": [],
    }
    return Result(lines=list(lines), **(about | more))


def sampler(folder: Path) -> Path:
    """A stand-in for the sampler: two threads add to one word of memory without a file."""
    start = Start(
        linewright_find=1, source="timer", arch="x86_64", scope="program", pid=1, period_ns=1000,
        kernel=True, cpus=2, left_out=0, command=["p"], time_ns=0)  # fmt: skip
    code, data = (
        Map(time_ns=0, pid=1, start=at, length=4096, offset=0, device=0, inode=0, path="",
            executable=executable, writable=not executable, shared=False)
        for at, executable in ((0x10000, True), (0x20000, False))
    )  # fmt: skip
    add = Code(pid=1, address=0x10000, bytes=bytes.fromhex("f048830701").ljust(4096, b"\x90").hex())
    registers = [0x20000 if at == 5 else 0 for at in range(18)]  # lock addq $1, (%rdi)
    samples = [
        Sample(time_ns=n * 1000, pid=1, tid=1 + n % 2, cpu=n % 2, ip=0x10005, bits=64,
               registers=registers)
        for n in range(100)
    ]  # fmt: skip
    lines: list[AnyLine] = [start, code, data, add, *samples, End(samples=100, ending="exit")]
    stream, stub = folder / "sampled.jsonl", folder / "linewright-find"
    stream.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    stub.write_text(f'#!/bin/sh\nexec cat "{stream}" >/dev/fd/"$2"\n')
    stub.chmod(0o755)
    return stub
