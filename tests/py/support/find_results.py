"""Lines and results of `find` as its judgement makes them, for tests of what follows from them."""

from __future__ import annotations

from linewright.find.sharing_schema import Hot, Result
from linewright.schema import Estimate


def line(kind: str = "true", **more: object) -> Hot:
    """A static variable that two threads share, with half of the samples."""
    about = {
        "kind_128": kind,
        "certainty": "sampled",
        "object": "x",
        "object_kind": "static",
        "share": Estimate(value=0.5, low=0.4, high=0.6),
        "touches": [],
        "threads": 2,
        "sites": [],
    }
    return Hot(address=64, pid=1, line_bytes=64, kind=kind, **(about | more))


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
    return Result(linewright_find_result=2, lines=list(lines), **(about | more))
