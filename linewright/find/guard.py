"""A guard for builds: which lines that travel are new against an earlier result, and results in the
shapes that build servers read (JUnit's XML, SARIF 2.1.0).

Addresses, thread numbers and source lines differ from build to build, so a line is the same by its
kind and what it is called: the variable, the function that allocated the block, or the functions
that use it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec

from linewright import numbers
from linewright.errors import UserError
from linewright.find.result_document import cost_text, kind_text, site_text
from linewright.find.results import Hot, Result

SEEN = 6.296
"""Samples that a line has on average if 95 in 100 runs see the three that make a finding
(shared_lines.FEWEST_SAMPLES; Poisson: half the 95 % quantile of chi-squared with 6 degrees)."""
_OF_A_RUN = re.compile(r" of thread \d+| \+ (?:0x)?[0-9a-f]+|, \d+ [KM]iB mapped.*| \(.*?\)")
SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


def travelling(result: Result) -> list[Hot]:
    """Lines of 64 bytes that may move between CPUs."""
    return [h for h in result.lines if h.verdict.travels]


def name(hot: Hot) -> str:
    """What a line is called in every build."""
    if hot.allocated_in:
        return f"heap block of {hot.allocated_in}"
    if hot.object_kind in ("static", "thread_local"):
        return _OF_A_RUN.sub("", hot.object.split(",")[0])
    functions = sorted({_OF_A_RUN.sub("", s.function or s.module) for s in hot.sites})
    return f"{hot.object_kind} used by {', '.join(functions[:1])}"


def new_lines(now: Result, before: Result) -> list[Hot]:
    """Lines that the earlier run has not, and would have seen if it had them."""
    known = {(h.kind, name(h)) for h in before.lines}
    least = least_share(before)
    return [
        h
        for h in travelling(now)
        if (h.kind, name(h)) not in known and (h.share is None or h.share.high >= least)
    ]


def least_share(result: Result) -> float:
    """Share of time from which 95 of 100 such runs see a line; 0 where every access is seen."""
    return 0.0 if result.source == "exact" else min(1.0, SEEN / max(1, result.samples))


def verdict(new: Sequence[Hot], now: Result, path: str) -> str:
    """What is new, and what this run could have seen."""
    said = [f"{name(h)} ({kind_text(h)}, {_cost(h)})" for h in new]
    found = f"new against {path}: {'; '.join(said)}" if new else f"nothing is new against {path}"
    least = least_share(now)
    if not least:
        return f"Guard: {found}. Every access of this run was seen."
    power = f"a line with {numbers.percent(least, False)} of the time or more"
    return f"Guard: {found}. Of {now.samples} samples, 95 in 100 such runs see {power}."


def write(path: str, result: Result, new: Sequence[Hot]) -> None:
    """The result by the file's ending: JUnit's XML, SARIF, else JSON. The first two fail the `new`
    lines."""
    texts = {".xml": _junit, ".sarif": _sarif}
    make = texts.get(Path(path).suffix, lambda result, _: msgspec.json.encode(result))
    try:
        Path(path).write_bytes(make(result, new))
    except OSError as error:
        raise UserError(str(error.strerror), path, "expected a file that can be written") from None


def annotations(new: Sequence[Hot]) -> list[str]:
    """Commands by which GitHub's runner marks source lines."""
    places = [(_place(h), f"{name(h)}: {kind_text(h)}") for h in new]
    return [f"::error file={file},line={line}::{text}" for (file, line), text in places if file]


def _place(hot: Hot) -> tuple[str, int]:
    source = next((s.source for s in hot.sites if ":" in s.source), ":0")
    file, _, line = source.rpartition(":")
    file = file and os.path.relpath(file)
    return file, int(line) if line.isdigit() else 1


def _cost(hot: Hot) -> str:
    return cost_text(hot) + (" accesses" if hot.share is None else " of the time")


def _message(hot: Hot) -> str:
    return "\n".join([f"{_cost(hot)}, {hot.object}", *map(site_text, hot.sites), hot.remedy])


def _junit(result: Result, new: Sequence[Hot]) -> bytes:
    lines = travelling(result)
    attributes = {"name": "linewright find", "tests": str(max(1, len(lines)))}
    suite = ElementTree.Element("testsuite", attributes | {"failures": str(len(new))})
    for hot in lines:
        case = ElementTree.SubElement(suite, "testcase", name=name(hot), classname=result.program)
        if hot in new:
            ElementTree.SubElement(case, "failure", message=kind_text(hot)).text = _message(hot)
    if not lines:
        ElementTree.SubElement(suite, "testcase", name="no line", classname=result.program)
    return ElementTree.tostring(suite, "utf-8", xml_declaration=True)


def _sarif(result: Result, new: Sequence[Hot]) -> bytes:
    def one(hot: Hot) -> dict:
        file, line = _place(hot)
        where = {"artifactLocation": {"uri": file}, "region": {"startLine": max(1, line)}}
        return {
            "ruleId": f"{hot.kind}-sharing",
            "level": "error" if hot in new else "note",
            "baselineState": "new" if hot in new else "unchanged",
            "message": {"text": f"{name(hot)}: {_message(hot)}"},
            "partialFingerprints": {"line/v1": f"{hot.kind} {name(hot)}"},
            "locations": [{"physicalLocation": where}] if file else [],
        }

    rules = [{"id": f"{kind}-sharing"} for kind in ("true", "false")]
    tool = {"driver": {"name": "linewright find", "rules": rules}}
    runs = [{"tool": tool, "results": [one(h) for h in travelling(result)]}]
    return msgspec.json.encode({"$schema": SARIF, "version": "2.1.0", "runs": runs})
