"""The input of a report: record files, sorted into series (a machine, or one of several runs on
it), summarised."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from linewright import wings
from linewright.analysis import summarise
from linewright.analysis.machine_answers import MachineAnswers
from linewright.errors import UserError, nothing_finished, one_line
from linewright.records import files as record_files
from linewright.say.cell_figures import cell_figures
from linewright.say.columns import Column
from linewright.say.document import Document, DrawnCell
from linewright.say.explorer import colour_places
from linewright.say.machine_document import document
from linewright.schema import Context, Record

MOST_BYTES = 64 * 1024 * 1024
"""Different lines of all files together: a page embeds them and draws from memory, and browsers
have to open it."""
LONGEST_LABEL = 48
"""Characters of a machine's name in legends."""


class Series(Struct, frozen=True, kw_only=True):
    """Everything that is drawn with one mark: a machine's records, or one of several runs on a
    machine."""

    label: str
    machine_id: str
    kind: str
    """``measured``, ``simulated``, ``published`` or ``emulated``: where the figures come from."""
    files: list[str]
    records: list[Record]
    answers: MachineAnswers
    document: Document
    """What `linewright show` says of it, with its cells."""

    @property
    def contexts(self) -> Sequence[Context]:
        return self.answers.contexts


class Material(Struct, frozen=True, kw_only=True):
    """All series of a report and the compressed records behind them."""

    series: list[Series]
    archive: bytes
    """The records, gzip-compressed JSON lines; the same input gives the same bytes."""
    warnings: list[str]
    """What was tolerated while reading."""
    colours: dict[str, int] = {}
    """Which of the page's colours each form has, by number."""
    of_wings: list[Any] = []
    """Sections of files that are no records, which wings read."""

    @property
    def several(self) -> bool:
        return len(self.series) > 1

    def cells(self, operations: Collection[str]) -> list[DrawnCell]:
        """What is drawn of every cell of these operations, each with its series' label."""
        every = (found for series in self.series for found in self.cells_of(series.label))
        return [(cell, row) for cell, row in every if cell.operation in operations]

    def cells_of(self, label: str) -> list[DrawnCell]:
        """The same of every cell of one series."""
        series = self.series[self.labels.index(label)]
        return [(cell, row | {"series": label}) for cell, row in series.document.cells]

    def of_series(self, name: str, label: str, title: str, before: str = "") -> dict[str, str]:
        """Id and title of the chart of one series; of the only one `title`."""
        if not self.several:
            return {"id": name, "title": title}
        return {"id": f"{name}-{self.labels.index(label)}", "title": before + label}

    def with_machine(self, columns: Sequence[Column]) -> list[Column]:
        """Columns of rows that stand beside their series: with several, the machine's name stands
        first."""
        own = [Column(c.title, lambda row, c=c: c.value(row[0]), text=c.text) for c in columns]
        machine = Column("machine", lambda row: row[-1].label, text=True)
        return [machine, *own] if self.several else own

    @property
    def labels(self) -> list[str]:
        return [series.label for series in self.series]

    @property
    def plans(self) -> list[str]:
        return list(dict.fromkeys(r.plan for series in self.series for r in series.records))

    @property
    def when(self) -> str:
        """Day of the first launch, and of the last one where that is another."""
        days = sorted(
            {context.started_utc[:10] for series in self.series for context in series.contexts}
        )
        return one_line(days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}")


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

    runs: dict[str, list[list[_Part]]] = {}
    archive = _Archive()
    paths, of_wings, others = list(dict.fromkeys(paths)), [], []
    for section in wings.brought("page_section"):
        taken, made = section(paths)
        others += taken
        of_wings += [made] if made else []
    paths = [path for path in paths if path not in others]
    if not paths:
        raise UserError(
            "a result of find, and no records",
            others[0],
            "add record files: they hold the machine's prices",
        )
    for path in paths:
        for part in _parts(path, archive, tolerate):
            _place(runs.setdefault(part.contexts[0].machine_id, []), part)
    archive_bytes = archive.close()
    series = _series(runs)
    if not any(s.answers.summaries for s in series):
        raise nothing_finished(paths[0], "report")
    return Material(
        series=series,
        archive=archive_bytes,
        warnings=warnings,
        of_wings=of_wings,
        colours=colour_places(cell for one in series for cell in one.document.cells),
    )


class _Archive:
    """Collects lines once each, compressed; time and name stay out, so that the bytes depend on the
    lines alone."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._bytes = io.BytesIO()
        self._size = 0
        self._stream = gzip.GzipFile(fileobj=self._bytes, mode="wb", filename="", mtime=0)

    def add(self, value: Context | Record) -> bool:
        """Whether the line is new; the same file given twice, or twice in one file, counts once."""
        line = msgspec.json.encode(value) + b"\n"
        key = hashlib.sha256(line).digest()
        if key in self._seen:
            return False
        self._seen.add(key)
        self._size += len(line)
        self._stream.write(line)
        return True

    @property
    def too_large(self) -> bool:
        return self._size > MOST_BYTES

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
        fresh = archive.add(value)
        if archive.too_large:
            allowed = (
                f"a page holds at most {MOST_BYTES >> 20} MiB of different records;"
                " `linewright show` and `compare` take far larger files"
            )
            raise UserError("too many records for one page", path, allowed)
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


def _series(runs: dict[str, list[list[_Part]]]) -> list[Series]:
    plain = [
        (
            machine,
            run,
            len(of_machine) > 1,
            summarise(_contexts(run), [r for part in run for r in part.records]),
        )
        for machine, of_machine in runs.items()
        for run in of_machine
    ]
    models = [_model(run) for _, run, _, _ in plain]
    labels: list[str] = []
    for (_machine, run, again, _), model in zip(plain, models, strict=True):
        label = model
        if models.count(model) > 1:
            stem = ", ".join(
                dict.fromkeys(one_line(Path(part.file).stem)[:LONGEST_LABEL] for part in run)
            )
            label = stem if again and len(runs) == 1 else f"{model} ({stem})"
        labels.append(label if label not in labels else f"{label} #{len(labels) + 1}")
    return [
        Series(
            label=label,
            machine_id=machine,
            kind=_kind(_contexts(run)),
            files=[one_line(part.file) for part in run],
            records=[r for part in run for r in part.records],
            answers=answers,
            document=replace(document(answers), cells=cell_figures(summaries))
            if summaries
            else Document(),
        )
        for label, (machine, run, _, summaries) in zip(labels, plain, strict=True)
        for answers in [MachineAnswers(_contexts(run), summaries)]
    ]


def _contexts(run: list[_Part]) -> list[Context]:
    return [context for part in run for context in part.contexts]


def _model(run: list[_Part]) -> str:
    context = run[0].contexts[0]
    name = (
        " ".join(one_line(context.cpu_model).replace("(R)", "").replace("(TM)", "").split())
        or "unnamed machine"
    )
    if len(name) > LONGEST_LABEL:
        name = name[: LONGEST_LABEL - 1].rstrip() + "…"
    return f"{name} {context.arch}" if context.arch in ("i386", "generic") else name


def _kind(contexts: list[Context]) -> str:
    if contexts[0].simulated:
        return "simulated"
    if contexts[0].target == "published":
        return "published"
    return "emulated" if any(c.emulated for c in contexts) else "measured"
