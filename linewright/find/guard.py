# SPDX-License-Identifier: MIT
"""A guard for builds: which lines that travel are new against an earlier result, what a command's
exit code says, and results in the shapes that build servers read (JUnit's XML, SARIF 2.1.0).

Addresses, thread numbers and source lines differ from build to build, and what a line's samples
show, its kind among that, from run to run: a line is the same if it is called the same, by its
variables, the function that allocated its block, or a function that uses it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec

from linewright.analysis.intervals import beta_cdf, root
from linewright.errors import DIFFERENT, DONE, INCOMPLETE, UserError
from linewright.find.line_words import (
    advice,
    amount_text,
    kind_text,
    line_text,
    name_text,
    site_text,
)
from linewright.find.results import Against, Hot, Result, readable
from linewright.find.shared_lines import FEWEST_SAMPLES

SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
UNSEEN = ("no_sample", "refused_all", "went_on")
"""Notes of a run that could not have seen what it was to see."""

FALSE_RED = 1e-3
"""Of runs of an unchanged program, the part at most in which chance makes a line new."""
POWER = 0.95


def travelling(result: Result) -> list[Hot]:
    """Lines of 64 bytes that may move between CPUs."""
    return [h for h in result.lines if h.verdict.travels]


def new_lines(now: Result, before: Result) -> list[Hot]:
    """Lines that the earlier run has not, however seldom it met them, and that chance did not keep
    out of it."""
    known, fewest = set(before.seldom), fewest_samples(now, before)
    known = known.union(*(h.identity for h in before.lines))
    return [
        h
        for h in travelling(now)
        if known.isdisjoint(h.identity)
        and (h.share is None or round(h.share.value * now.samples) >= fewest)
    ]


def fewest_samples(now: Result, before: Result, more: int = 0) -> int:
    """Samples from which a line that the earlier run never met is new; 0 where every access is
    seen.

    If nothing changed, each of a line's samples is of this run with the chance p that its part of
    all samples of both runs is, and all n of them are with p^n: exact, whatever the line's share.
    All lines together, and as many `more`, may make an unchanged program red with the chance
    FALSE_RED (Bonferroni)."""
    if "exact" in (now.source, before.source):
        return 0
    samples = max(1, now.samples)
    part = samples / (samples + before.samples)
    wanted = math.log(FALSE_RED / max(1, len(travelling(now)) + more))
    return max(FEWEST_SAMPLES, math.ceil(wanted / math.log(part)))


def against(now: Result, before: Result, path: str) -> Against:
    """How a run compares with the earlier one in a file."""
    fewest, new = fewest_samples(now, before, more=1), new_lines(now, before)
    return Against(
        baseline=readable(path),
        new=[number for number, hot in enumerate(now.lines) if hot in new],
        least=_least(fewest, now.samples) if fewest else 0.0,
    )


def _least(fewest: int, samples: int) -> float:
    """The share of the time from which a line that two threads use alike is new with the chance
    POWER, if its samples fall at random times; 1 where no share is enough.

    It needs `fewest` of the `samples`, and samples of both threads that lie among each other: n
    samples lie one thread after the other with the chance 2 n / 2^n. That chance, over the
    binomial n, is a binomial sum again, with one sample less and of `halved`."""

    def chance(share: float) -> float:
        halved = share / (2 - share)
        over = samples - fewest + 1
        apart = samples * share * (1 - share / 2) ** (samples - 1)
        return beta_cdf(fewest, over, share) - apart * beta_cdf(fewest - 1, over, halved)

    if fewest > samples or chance(1.0) < POWER:
        return 1.0
    return root(lambda share: chance(share) - POWER, 0.0, 1.0)


def refuse(before: Result, path: str, program: str, exact: bool) -> None:
    """UserError for a result that nothing can be held against; `program` is empty where a process
    is joined."""
    name = readable(Path(program).name)
    why = (
        f"the result is of {before.program}, not of {name}"
        if name and before.program != name
        else "that run was sampled, and met only what took time"
        if exact and before.source != "exact"
        else "that run has no sample"
        if not before.samples
        else ""
    )
    if why:
        same = "the result of the same program" + ", with --exact" * exact
        raise UserError(why, f"--baseline {readable(path)}", f"expected {same}")


def exit_code(result: Result, new: Sequence[Hot], guarding: bool) -> int:
    """1 of new lines; 3 where nothing can be said: the program failed, or nothing of it was
    seen."""
    if guarding and new:
        return DIFFERENT
    told = not result.exit_code and not (guarding and any(n.kind in UNSEEN for n in result.notes))
    return DONE if told else INCOMPLETE


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
    places = [(_place(h), f"{name_text(h)}: {kind_text(h)}") for h in new]
    return [f"::error file={file},line={line}::{text}" for (file, line), text in places if file]


def _place(hot: Hot) -> tuple[str, int]:
    source = next((s.source for s in hot.sites if ":" in s.source), ":0")
    file, _, line = source.rpartition(":")
    file = file and os.path.relpath(file)
    return file, int(line) if line.isdigit() else 1


def _message(hot: Hot) -> str:
    return "\n".join(
        [f"{amount_text(hot)}, {line_text(hot)}", *map(site_text, hot.sites), advice(hot)]
    )


def _junit(result: Result, new: Sequence[Hot]) -> bytes:
    lines = travelling(result)
    attributes = {"name": "linewright find", "tests": str(max(1, len(lines)))}
    suite = ElementTree.Element("testsuite", attributes | {"failures": str(len(new))})
    for hot in lines:
        case = ElementTree.SubElement(
            suite, "testcase", name=name_text(hot), classname=result.program
        )
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
            "message": {"text": f"{name_text(hot)}: {_message(hot)}"},
            "partialFingerprints": {"line/v2": " ".join(hot.identity)},
            "locations": [{"physicalLocation": where}] if file else [],
        }

    rules = [{"id": f"{kind}-sharing"} for kind in ("true", "false")]
    tool = {"driver": {"name": "linewright find", "rules": rules}}
    runs = [{"tool": tool, "results": [one(h) for h in travelling(result)]}]
    return msgspec.json.encode({"$schema": SARIF, "version": "2.1.0", "runs": runs})
