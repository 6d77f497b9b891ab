# SPDX-License-Identifier: MIT
"""A page in words: record files, sorted into series (a machine, or one of several runs on it), with
all that is said of them."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from linewright import wings
from linewright.analysis import summarise
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.summary import Summary
from linewright.errors import UserError, nothing_finished, one_line
from linewright.forms import CACHE, family_of, made_of
from linewright.records import files as record_files
from linewright.say import cell_rows
from linewright.say.cell_rows import cell_figures, colour_places, rounded
from linewright.say.document import Document, Section, sentence, topics_of, unique
from linewright.say.machine_document import document
from linewright.say.machine_lines import doubts, facts
from linewright.say.page_sections import PageMachine, sections
from linewright.say.words import in_english
from linewright.schema import Cell, Context, Record

MOST_BYTES = 64 * 1024 * 1024
"""Different lines of all files together: a page embeds them and draws from memory, and browsers
have to open it."""
LONGEST_LABEL = 48
"""Characters of a machine's name in legends."""


class Material(Struct, frozen=True, kw_only=True):
    """All that a page shows, in words and figures, and the compressed records behind it."""

    series: list[PageMachine]
    sections: list[Section]
    archive: bytes
    """The records, gzip-compressed JSON lines; the same input gives the same bytes."""
    warnings: list[str]
    """What was tolerated while reading."""
    colours: dict[str, int]
    """Which of the page's colours each form has, by number."""
    code: frozenset[str]
    """Names that sentences set as code."""
    columns: list[dict[str, Any]]
    """Of the table of every cell: name, label, whether it is a number, and its place among those
    that are shown at first, or None."""
    plans: list[str]
    when: str
    """Day of the first launch, and of the last one where that is another."""

    @property
    def several(self) -> bool:
        return len(self.series) > 1

    @property
    def labels(self) -> list[str]:
        return [series.label for series in self.series]


FIRST_COLUMNS = {
    "issue_median_ns": "median ns",
    "issue_low_ns": "low",
    "issue_high_ns": "high",
    "form": "form",
    "situation": "situation",
    "operation": "operation",
    "machine": "machine",
    "exposed_median_ns": "exposed ns",
    "batch_p99_ns": "p99 ns",
    "total_mops": "all Mop/s",
    "width_bits": "bits",
    "params": "parameters",
    "flags": "flags",
}
"""Columns that are shown at first where their values differ, and their headings."""


class _Part(Struct):
    """One machine's share of one file."""

    file: str
    contexts: list[Context]
    records: list[Record]


def gather(paths: Sequence[str], warn: Callable[[str], None]) -> Material:
    """Read every file; UserError for one that is neither a record file nor a result of `linewright
    find`, or when there is no finished cell in any."""
    warnings: list[str] = []

    def tolerate(text: str) -> None:
        warnings.append(one_line(text))
        warn(text)

    of_wings, others = [], []
    for section in wings.brought("page_section"):
        taken, made = section(unique(paths))
        others += taken
        of_wings += [made] if made else []
    paths = [path for path in unique(paths) if path not in others]
    if not paths:
        raise UserError(
            "a result of find, and no records",
            others[0],
            "add record files: they hold the machine's prices",
        )
    archive = _Archive()
    parts = [part for path in paths for part in _parts(path, archive, tolerate)]
    archive_bytes, runs = archive.close(), dict[str, list[list[_Part]]]()
    for part in parts:
        _place(runs.setdefault(part.contexts[0].machine_id, []), part)
    if not parts:
        raise nothing_finished(paths[0], "report")
    series = _machines(runs)
    made = sections(series)
    # What wings bring stands behind the prices.
    place = sum(section.id == "prices" for section in made)
    cells = [cell for machine in series for cell in machine.drawn]
    days = sorted({c.started_utc[:10] for machine in series for c in machine.answers.contexts})
    return Material(
        series=series,
        sections=[*made[:place], *of_wings, *made[place:]],
        archive=archive_bytes,
        warnings=warnings,
        colours=colour_places(cells),
        code=_code_names(cell for cell, _ in cells),
        columns=_columns([row for one in series for row in one.cells]),
        plans=unique(plan for machine in series for plan in machine.plans),
        when=one_line(" to ".join(unique((days[0], days[-1])))),
    )


def _code_names(cells: Iterable[Cell]) -> frozenset[str]:
    """Forms that are no words of a sentence, as `mutex` is: those of instructions, and those with a
    joint or a digit."""
    return frozenset(
        cell.form
        for cell in cells
        if not cell.form.isalpha()
        or made_of(cell.form).instruction
        or family_of(cell.operation) is CACHE
    )


def _columns(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    first = [n for n in FIRST_COLUMNS if len({row.get(n) for row in rows}) > 1]
    return [
        {
            "name": name,
            "label": FIRST_COLUMNS.get(name, in_english(name)),
            "number": any(isinstance(row.get(name), (int, float)) for row in rows),
            "first": first.index(name) if name in first else None,
        }
        for name in unique(name for row in rows for name in row)
    ]


def _cell_rows(label: str, summaries: Sequence[Summary]) -> list[dict[str, Any]]:
    """The rows of the CSV, and what it leaves out: the situation in words, each launch's median,
    each thread's operations, where a form is performed."""
    return [
        {"machine": label}
        | {name: rounded(v) if isinstance(v, float) else v for name, v in row.items()}
        | {
            "situation": s.cell.situation.words(),
            "unit": s.unit,
            "unit_medians_ns": " ".join(f"{value:.5g}" for value in s.unit_ns),
            "thread_ops": " ".join(str(value) for value in s.thread_ops),
            "nearness": s.nearness,
        }
        for s, row in zip(summaries, cell_rows.of_cells(summaries), strict=True)
    ]


class _Archive:
    """Collects lines once each, compressed; time and name stay out, so that the bytes depend on the
    lines alone."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._bytes = io.BytesIO()
        self._size = 0
        self._stream = gzip.GzipFile(fileobj=self._bytes, mode="wb", filename="", mtime=0)

    def add(self, value: Context | Record, path: str) -> bool:
        """Whether a file's line is new; the same file given twice, or twice in one file, counts
        once. UserError where a page would hold too many."""
        line = msgspec.json.encode(value) + b"\n"
        key = hashlib.sha256(line).digest()
        if key in self._seen:
            return False
        self._seen.add(key)
        self._size += len(line)
        self._stream.write(line)
        if self._size > MOST_BYTES:
            allowed = (
                f"a page holds at most {MOST_BYTES >> 20} MiB of different records;"
                " `linewright show` and `compare` take far larger files"
            )
            raise UserError("too many records for one page", path, allowed)
        return True

    def close(self) -> bytes:
        self._stream.close()
        return self._bytes.getvalue()


def _parts(path: str, archive: _Archive, warn: Callable[[str], None]) -> list[_Part]:
    """A file's machines, each with its contexts and those records that were not read before."""
    reader = record_files.Reader(path)
    parts: dict[str, _Part] = {}
    for line in reader:
        value = line.value
        context = value if isinstance(value, Context) else reader.contexts[value.context_id]
        fresh = archive.add(value, path)
        part = parts.setdefault(context.machine_id, _Part(path, [], []))
        if isinstance(value, Record):
            if fresh:
                part.records.append(value)
        elif value not in part.contexts:
            part.contexts.append(value)
    for warning in reader.warnings:
        warn(warning)
    return [part for part in parts.values() if part.records]


def _place(runs: list[list[_Part]], part: _Part) -> None:
    """Files of different plans on one machine complete each other; the same plan again is another
    run."""
    plans = {record.plan for record in part.records}
    for run in runs:
        if plans.isdisjoint(record.plan for other in run for record in other.records):
            run.append(part)
            return
    runs.append([part])


def _machines(runs: dict[str, list[list[_Part]]]) -> list[PageMachine]:
    plain = [(run, len(of_machine) > 1) for of_machine in runs.values() for run in of_machine]
    models = [_model(run) for run, _ in plain]
    made: list[PageMachine] = []
    for (run, again), model in zip(plain, models, strict=True):
        label, labels = model, [machine.label for machine in made]
        if models.count(model) > 1:
            stem = ", ".join(unique(one_line(Path(part.file).stem)[:LONGEST_LABEL] for part in run))
            label = stem if again and len(runs) == 1 else f"{model} ({stem})"
        label = label if label not in labels else f"{label} #{len(labels) + 1}"
        records = [record for part in run for record in part.records]
        contexts = [context for part in run for context in part.contexts]
        answers = MachineAnswers(contexts, summarise(contexts, records))
        made.append(
            PageMachine(
                label=label,
                kind=_kind(contexts),
                answers=answers,
                document=_document(answers, run, records),
                drawn=[(c, row | {"series": label}) for c, row in cell_figures(answers.summaries)],
                cells=_cell_rows(label, answers.summaries),
                plans=unique(record.plan for record in records),
            )
        )
    return made


def _document(m: MachineAnswers, run: Sequence[_Part], records: Sequence[Record]) -> Document:
    """The machine's document for the page, with what only the files and their records tell."""
    made = document(m, "page")
    named = [*facts(m.contexts), ("Files", ", ".join(one_line(part.file) for part in run))]
    context = [sentence(value, basis="run", lead=name) for name, value in named]
    said = {"doubts": doubts(m, made, records), "context": context}
    return replace(made, blocks=[*made.blocks, *topics_of(said, "page")])


def _model(run: list[_Part]) -> str:
    context = run[0].contexts[0]
    model = one_line(context.cpu_model).replace("(R)", "").replace("(TM)", "")
    name = " ".join(model.split()) or "unnamed machine"
    if len(name) > LONGEST_LABEL:
        name = name[: LONGEST_LABEL - 1].rstrip() + "…"
    return f"{name} {context.arch}" if context.arch in ("i386", "generic") else name


def _kind(contexts: Sequence[Context]) -> str:
    if contexts[0].simulated:
        return "simulated"
    if contexts[0].target == "published":
        return "published"
    return "emulated" if any(c.emulated for c in contexts) else "measured"
