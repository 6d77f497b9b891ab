# SPDX-License-Identifier: MIT
"""A guard for builds: which lines that travel are new against an earlier result, what a command's
exit code says, and results in the shapes that build servers read (JUnit's XML, SARIF 2.1.0).

Addresses, thread numbers and source lines differ from build to build, and what a line's samples
show, its kind among that, from run to run: a line is the same if it is called the same, by its
variables, the function that allocated its block, or a function that uses it."""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from xml.etree import ElementTree

import msgspec

from linewright.analysis.intervals import beta_cdf, beta_quantile, root
from linewright.errors import DIFFERENT, DONE, INCOMPLETE, UserError
from linewright.find import line_words as words
from linewright.find.results import GUARDED, Against, Hot, Result, readable
from linewright.find.shared_lines import FEWEST_ALONE, FEWEST_SAMPLES

SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
UNSEEN = ("no_sample", "refused_all", "went_on", "damaged", "ended_by")
"""Notes of a run that could not have seen what it was to see."""

FALSE_RED = 1e-3
"""Of runs of an unchanged program, the part at most in which chance makes a line new."""
POWER = 0.999
"""Of runs with a new line of the stated share, the part that name it."""
LONGER = 8
"""Times that a baseline's run is as long as the others, where it was too short."""
DOUBLED = [1 << n for n in range(8, 21)]
"""Numbers of samples that are tried: the sampler takes the last of them in four minutes or more."""


def travelling(result: Result) -> list[Hot]:
    """Lines of 64 bytes that may move between CPUs."""
    return [h for h in result.lines if h.verdict.travels]


def new_lines(now: Result, before: Result | None) -> list[Hot]:
    """Lines that the earlier run has not, however seldom it met them, and that chance did not keep
    out of it; without an earlier run all that may travel."""
    if before is None:
        return travelling(now)
    known, fewest = set(before.seldom), fewest_samples(now, before)
    known = known.union(*(h.identity for h in before.lines))
    return [
        h
        for h in travelling(now)
        if known.isdisjoint(h.identity)
        and (h.share is None or round(h.share.value * now.samples) >= fewest)
    ]


def fewest_samples(now: Result, before: Result | None, more: int = 0) -> int:
    """Samples from which a line that the earlier run never met is new; 0 where every access is
    seen.

    If nothing changed, each of a line's samples is of this run with the chance p that its part of
    all samples of both runs is, and all n of them are with p^n: exact, whatever the line's share.
    All lines together, and as many `more`, may make an unchanged program red with the chance
    FALSE_RED (Bonferroni)."""
    if "exact" in (now.source, before and before.source):
        return 0
    lines = len(travelling(now)) + more
    return _fewest(now.samples, before.samples, lines) if before else FEWEST_SAMPLES


def _fewest(samples: int, earlier: int, lines: int) -> int:
    samples = max(1, samples)
    wanted = math.log(FALSE_RED / max(1, lines))
    return max(FEWEST_SAMPLES, math.ceil(wanted / math.log(samples / (samples + earlier))))


def against(now: Result, before: Result | None, path: str = "") -> Against:
    """How a run compares with the earlier one in a file, or without one with none."""
    fewest, new = fewest_samples(now, before, more=1), new_lines(now, before)
    turns = _turns(now, before)
    unsure, wanted = _unsure(now, before, turns), (0, 0)
    least = _least(fewest, now.samples, turns) if fewest else 0.0
    if least > GUARDED:
        wanted = _wanted(len(travelling(now)) + 1, before and before.samples, turns)
    elif unsure:
        wanted = (2 * now.samples, 0)
    return Against(
        baseline=readable(path),
        new=[number for number, hot in enumerate(now.lines) if hot in new],
        least=least,
        unsure=unsure,
        samples_wanted=wanted[0] if wanted[0] > now.samples else 0,
        baseline_wanted=wanted[1],
        turns=turns,
    )


def _turns(now: Result, before: Result | None) -> float:
    """How often threads took turns, by samples, over how often they did in the earlier run, at most
    1: of those that get hardly a CPU few samples lie among each other, as if few were taken. Of
    one thread that waits for another by nature it is so in both runs."""
    if before is None or not before.turns or not now.samples:
        return 1.0
    least = 1 / now.samples
    return min(1.0, max(least, now.turns / now.samples * before.samples / before.turns))


def _met(share: float, turns: float) -> float:
    """The chance that a turn has a sample of a line with that share, where one sample is so much of
    a turn."""
    return 1 - (1 - share) ** (1 / turns)


def _unsure(now: Result, before: Result | None, turns: float) -> list[int]:
    """Places of lines that may be shared, may take GUARDED of the time, and that the earlier run
    never met, though chance does not explain that; none where it does not say what it met."""
    if before is None or before.met is None or not now.samples:
        return []
    lasting = now.samples * turns
    some = [
        (at, line)
        for at, line in enumerate(now.unsure)
        if not line.atomics
        or round(lasting * _met(line.samples / now.samples, turns), 6) < FEWEST_ALONE
    ]
    known, fewest = set(before.met), fewest_samples(now, before, len(some))
    return [
        at
        for at, line in some
        if line.samples >= fewest
        and known.isdisjoint(line.identity)
        and beta_quantile(line.samples + 1, max(1, now.samples - line.samples), POWER) >= GUARDED
    ]


@lru_cache
def _wanted(lines: int, earlier: int | None, turns: float) -> tuple[int, int]:
    """Samples of the shortest run that names a line of GUARDED with the chance POWER, against so
    many `earlier` ones, if any; and of a baseline that allows it where this one does not, else
    0."""

    def enough(samples: int, against: int | None) -> bool:
        fewest = FEWEST_SAMPLES if against is None else _fewest(samples, against, lines)
        return fewest <= samples and _chance(fewest, samples, GUARDED, turns) >= POWER

    def shortest(against: Callable[[int], int | None]) -> int:
        upper = next((n for n in DOUBLED if enough(n, against(n))), 0)
        return bisect_left(range(upper), True, upper // 2, key=lambda n: enough(n, against(n)))

    kept = shortest(lambda _: earlier)
    if kept:
        return kept, 0
    both = shortest(lambda samples: LONGER * samples)
    return both, LONGER * both


@lru_cache
def _least(fewest: int, samples: int, turns: float) -> float:
    """The share of the time from which a line is new with the chance POWER; 1 where no share is
    enough."""
    if fewest > samples or _chance(fewest, samples, 1.0, turns) < POWER:
        return 1.0
    return root(lambda share: _chance(fewest, samples, share, turns) - POWER, 0.0, 1.0)


def _chance(fewest: int, samples: int, share: float, turns: float) -> float:
    """That a line that two threads use alike for this share of the time is new, at least, if its
    samples fall at random times.

    It needs `fewest` of the `samples`, and turns of both threads with samples there that lie among
    each other: n such turns lie one thread after the other with the chance 2 n / 2^n, which over
    the binomial n comes to `apart`."""
    lasting, met = samples * turns, _met(share, turns)
    apart = lasting * met * (1 - met / 2) ** (lasting - 1)
    return beta_cdf(fewest, samples - fewest + 1, share) - apart


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
    """1 of new lines; 3 where nothing can be said: the program failed, nothing of it was seen, or
    too little to have seen a new line."""
    if guarding and new:
        return DIFFERENT
    unseen = any(n.kind in UNSEEN for n in result.notes)
    return INCOMPLETE if result.exit_code or (guarding and (unseen or _short(result))) else DONE


def _short(result: Result) -> bool:
    """Whether the run could have missed a new line."""
    return result.against is not None and not result.against.tells


def why_not(result: Result) -> str:
    """Why nothing can be said of a run."""
    said = [words.note_text(n) for n in result.notes if n.kind in (*UNSEEN, "failed")]
    if _short(result):
        said.append(words.guard_text(result))
    return " ".join(said)


def write(path: str, result: Result, new: Sequence[Hot], why: str = "") -> None:
    """The result by the file's ending: JUnit's XML, SARIF, else JSON. The first two fail the `new`
    lines, and say `why` nothing can be said."""
    texts = {".xml": _junit, ".sarif": _sarif}
    make = texts.get(Path(path).suffix, lambda result, *_: msgspec.json.encode(result))
    try:
        Path(path).write_bytes(make(result, new, why))
    except OSError as error:
        raise UserError(str(error.strerror), path, "expected a file that can be written") from None


def annotations(new: Sequence[Hot], why: str = "") -> list[str]:
    """Commands by which GitHub's runner marks source lines, and says `why` nothing can be said."""
    places = [(_place(h), f"{words.name_text(h)}: {words.kind_text(h)}") for h in new]
    found = [f"::error file={file},line={line}::{text}" for (file, line), text in places if file]
    return found + [f"::error::{why}"] * bool(why)


def _place(hot: Hot) -> tuple[str, int]:
    source = next((s.source for s in hot.sites if ":" in s.source), ":0")
    file, _, line = source.rpartition(":")
    file = file and os.path.relpath(file)
    return file, int(line) if line.isdigit() else 1


def _message(hot: Hot) -> str:
    what = f"{words.amount_text(hot)}, {words.line_text(hot)}"
    return "\n".join([what, *map(words.site_text, hot.sites), words.advice(hot)])


def _junit(result: Result, new: Sequence[Hot], why: str) -> bytes:
    lines = travelling(result)
    counts = {"tests": len(lines) + bool(why) or 1, "failures": len(new), "errors": int(bool(why))}
    attributes = {"name": "linewright find"} | {key: str(number) for key, number in counts.items()}
    suite, add = ElementTree.Element("testsuite", attributes), ElementTree.SubElement

    def case(name: str) -> ElementTree.Element:
        return add(suite, "testcase", name=name, classname=result.program)

    for hot in lines:
        one = case(words.name_text(hot))
        if hot in new:
            add(one, "failure", message=words.kind_text(hot)).text = _message(hot)
    if why:
        add(case("the guard can tell"), "error", message=why)
    elif not lines:
        case("no line")
    return ElementTree.tostring(suite, "utf-8", xml_declaration=True)


def _sarif(result: Result, new: Sequence[Hot], why: str) -> bytes:
    def one(hot: Hot) -> dict:
        file, line = _place(hot)
        where = {"artifactLocation": {"uri": file}, "region": {"startLine": max(1, line)}}
        return {
            "ruleId": f"{hot.kind}-sharing",
            "level": "error" if hot in new else "note",
            "baselineState": "new" if hot in new else "unchanged",
            "message": {"text": f"{words.name_text(hot)}: {_message(hot)}"},
            "partialFingerprints": {"line/v2": " ".join(hot.identity)},
            "locations": [{"physicalLocation": where}] if file else [],
        }

    rules = [{"id": f"{kind}-sharing"} for kind in ("true", "false")]
    tool = {"driver": {"name": "linewright find", "rules": rules}}
    said = [{"level": "error", "message": {"text": why}}] if why else []
    ended = {"executionSuccessful": not why, "toolExecutionNotifications": said}
    lines = [one(h) for h in travelling(result)]
    runs = [{"tool": tool, "results": lines, "invocations": [ended]}]
    return msgspec.json.encode({"$schema": SARIF, "version": "2.1.0", "runs": runs})
