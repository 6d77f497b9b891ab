#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The layouts of published tables: their figures as records, our records in their columns.

    published.py records TABLE > table.jsonl    # for linewright show, report and compare
    published.py rows RECORDS                   # in the columns of the table
    published.py futex TABLE                    # the kernel's prefetch option, with its changes

TABLE of `records` is a CSV table, form,contender,contender_iters,work_iters,p50_ns,p95_ns,p99_ns,
or what the upstream percpu_bench prints.  Its records are marked as published: target
``published``, percentiles instead of windows, and a reason that says what they lack.  A row whose
contender sat on the timed thread's CPU takes exactly twice the uncontended time; it is flagged."""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = next(path for path in Path(__file__).resolve().parents if (path / "pyproject.toml").exists())
VENV = ROOT / ".venv" / "bin" / "python"
if __name__ == "__main__" and sys.prefix == sys.base_prefix and VENV.exists():
    os.execv(VENV, [str(VENV), *sys.argv])
sys.path.insert(0, str(ROOT))

import msgspec  # noqa: E402
import numpy as np  # noqa: E402

from linewright.errors import LinewrightError, UserError  # noqa: E402
from linewright.forms import listed  # noqa: E402
from linewright.records import files  # noqa: E402
from linewright.records.bounded import read_text, table  # noqa: E402
from linewright.schema import Cell, Context, Quantiles, Record  # noqa: E402
from linewright.show.output import csv_text  # noqa: E402

COLUMNS = ("form", "contender", "contender_iters", "work_iters", "p50_ns", "p95_ns", "p99_ns")
REASON = (
    "published percentiles only: no windows, no baseline loop; the maximum was not "
    "published, p99 stands in"
)
MEANS, OPERATIONS_EACH = 100, 10_000_000
"""Means behind the published percentiles, and operations behind each mean."""
ON_ONE_CPU = 0.005
"""Relative distance from 2.00 times the uncontended figure within which two threads must have
shared a CPU."""
MOST_ROWS = 100_000


def _context(name: str, text: str, arch: str, features: list[str]) -> Context:
    """A context that says what is not known; its ids come from the data, so that the same table
    gives the same records."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Context(
        linewright_context=2,
        context_id=digest[:16],
        machine_id=digest[16:32],
        started_utc="1970-01-01T00:00:00Z",
        target="published",
        plan="published",
        launch=0,
        tool_version="none",
        arch=arch,
        cpu_model=f"published table {name}",
        features=features,
        line_bytes=64,
        page_bytes=4096,
        time_source="clock_monotonic",
        counters="unavailable",
        **_NOT_KNOWN,
    )


_NOT_KNOWN = {
    **dict.fromkeys(("compiler", "kernel", "virtualised", "smt", "rseq"), "unknown"),
    **dict.fromkeys(("tick_ns", "timer_cost_ns", "nop_iter_ns", "cycle_ns"), 0.0),
    **dict.fromkeys(("emulated", "locked_memory", "realtime"), False),
    "cpu_ids": [],
    "cpus": [],
    "governor": "",
}
"""What a published table does not say of its machine."""


def _record(
    context_id: str, form: str, contender_iters: int | None, work_iters: int, ns: Sequence[float]
) -> Record:
    contended, known = contender_iters is not None, listed(form)
    cell = Cell(
        operation=known.operation if known else "add",
        form=form,
        contender="same_line" if contended else "none",
        contender_iters=contender_iters or 0,
        work_iters=work_iters,
        work="nop_loop" if work_iters else "chain",
        lines=1,
        threads=2 if contended else 1,
    )
    p50, p95, p99 = ns
    batch = Quantiles(
        of="batch_mean",
        ops_per_sample=OPERATIONS_EACH,
        samples=MEANS,
        p50_ns=p50,
        p95_ns=p95,
        p99_ns=p99,
        max_ns=p99,
        histogram=[],
    )
    return Record(
        linewright_record=2,
        context_id=context_id,
        id=cell.id,
        cell=cell,
        plan="published",
        status="ok",
        reason=REASON,
        batch=batch,
    )


def _flagged(records: list[Record]) -> list[Record]:
    """The same records; those at exactly twice their uncontended figure say that two threads shared
    a CPU."""

    def key(r: Record) -> tuple:
        return r.cell.form, r.cell.work_iters, tuple(r.cpus)

    alone = {key(r): r.batch.p50_ns for r in records if r.cell.contender == "none"}

    def doubled(r: Record) -> bool:
        base = alone.get(key(r), 0.0) if r.cell.contender != "none" else 0.0
        return base > 0 and abs(r.batch.p50_ns / base - 2) <= 2 * ON_ONE_CPU

    return [msgspec.structs.replace(r, flags=["same_cpu"]) if doubled(r) else r for r in records]


def _of_cells(records: Sequence[Record], where: str) -> list[Record]:
    """The records, of which each cell has one."""
    if len(records) > MOST_ROWS:
        raise UserError(f"more than {MOST_ROWS} rows", where, "a published table")
    cells = {r.id: r for r in records}
    if len(cells) < len(records):
        twice = next(r.id for r in records if cells[r.id] is not r)
        raise UserError(f"two rows of one cell: {twice}", where, "each form, contender, work once")
    return _flagged(list(records))


def from_text(text: str, where: str) -> tuple[list[Context], list[Record]]:
    """Records of a published table, which its first line tells, or of what percpu_bench printed."""
    is_table = f",{COLUMNS[1]}," in text.lstrip().partition("\n")[0] or text.startswith("#")
    return (from_table if is_table else from_percpu_bench)(text, where)


def from_table(text: str, where: str) -> tuple[list[Context], list[Record]]:
    """Records of a table with the published columns; UserError names the line that is not one of
    its rows."""
    rows = table(text, COLUMNS, where, "a published table", _row)
    arm = any((known := listed(form)) and known.arch == "arm64" for form, *_ in rows)
    context = _context(where, text, "arm64" if arm else "x86_64", ["lse"] if arm else [])
    return [context], _of_cells([_record(context.context_id, *row) for row in rows], where)


def _row(
    form: str, contender: str, spacing: str, work: str, *ns: str
) -> tuple[str, int | None, int, list[float]]:
    if not re.fullmatch(r"[a-z0-9_]{1,64}", form):
        raise ValueError(f"no form {form[:80]!r}")
    if contender not in ("none", "same_line"):
        raise ValueError(f"contender {contender[:20]!r}, allowed: none, same_line")
    between = None if contender == "none" else number(spacing, 0, 1e8, int)
    return form, between, number(work, 0, 1e8, int), [number(x, 0, 1e12) for x in ns]


def number(text: str, least: float, most: float, kind: type = float) -> float:
    """A number of a table; ValueError outside of its bounds, or where it is none of its kind."""
    value = kind(text)
    if not least <= value <= most:
        raise ValueError(f"{text[:20]!r} is not from {least:g} to {most:g}")
    return value


_CPU = re.compile(r"CPU:\s*([0-9]{1,5})\b")
_UPSTREAM = re.compile(
    r"^\s*(?P<name>[A-Za-z_/+ ]{2,24}?)\s*(?:\((?P<what>[a-z]+)\))?\s*"
    r"(?:\(c\s*(?P<c>[0-9]{1,9}),\s*d\s*(?P<d>[0-9]{1,9})\))?\s*:"
    r"\s*p50:\s*(?P<p50>[0-9.]{1,20}) ns\s*p95:\s*(?P<p95>[0-9.]{1,20}) "
    r"ns\s*p99:\s*(?P<p99>[0-9.]{1,20}) ns\s*$"
)
UPSTREAM_FORMS = {
    "arm64": {
        "LSE": "stadd",
        "LL/SC": "llsc_add",
        "LDADD": "ldadd",
        "PFRM_KEEP+STADD": "prfm_keep_stadd",
        "PRFM_KEEP+STADD": "prfm_keep_stadd",
        "PFRM_STRM+STADD": "prfm_strm_stadd",
        "PRFM_STRM+STADD": "prfm_strm_stadd",
    },
    "x86_64": {"LSE": "lock_add", "LL/SC": "cmpxchg_loop_read_first", "LDADD": "lock_xadd"},
}
"""The upstream tool's names of its variants (two spellings of PRFM), and the forms that they are.
On x86 it keeps the names; its prefetches there are loads, which no form of ours is."""


def from_percpu_bench(text: str, where: str) -> tuple[list[Context], list[Record]]:
    """Records of the text that percpu_bench prints; UserError where no line of it is a result."""
    arch = "x86_64" if "x86_64 Per-CPU Atomic Add" in text else "arm64"
    context = _context(where, text, arch, ["lse"] if arch == "arm64" else [])
    cpu, records = 0, []
    for line in text.splitlines():
        if heading := _CPU.search(line):
            cpu = int(heading[1])
        elif (found := _UPSTREAM.match(line)) and found["name"].strip() in UPSTREAM_FORMS[arch]:
            form = UPSTREAM_FORMS[arch][found["name"].strip()]
            records.append(_upstream(context.context_id, form, found, cpu))
    if not records:
        raise UserError(
            "neither a published table nor a line of percpu_bench's output",
            where,
            f"first line {','.join(COLUMNS)}, or lines such as: LSE (stadd) (c 0, d 0): p50: … ns "
            "p95: … ns p99: … ns",
        )
    return [context], _of_cells(records, where)


def _upstream(context_id: str, form: str, found: re.Match[str], cpu: int) -> Record:
    """One line.  Its contention of 0 means no contender; its contender is on CPU 32 for CPU 0 and
    on CPU 0 for others."""
    spacing = int(found["c"] or 0)
    try:
        ns = [float(found[name]) for name in ("p50", "p95", "p99")]
    except ValueError:
        raise UserError(
            f"not a time: {found[0].strip()[:80]}", "percpu_bench", "p50: 5.69 ns"
        ) from None
    record = _record(context_id, form, spacing or None, int(found["d"] or 0), ns)
    place = f"cpus:{cpu}" + (f",{32 if cpu == 0 else 0}" if spacing else "")
    cell = msgspec.structs.replace(record.cell, placement=place)
    return msgspec.structs.replace(record, cell=cell, id=cell.id, cpus=[cpu])


def as_csv(records: Iterable[Record]) -> str:
    """CSV with the published columns: percentiles of window means, work included, over all launches
    of a cell.

    The published percentiles are of 100 means of 10,000,000 operations; a window of plan
    `published` is about as long. ``contender_iters`` is empty without a contender, as in the table.
    Placebo cells and cells without windows are left out: the published experiment had none."""
    windows: dict[tuple, list[float]] = {}
    for record in records:
        cell = record.cell
        if cell.contender == "placebo" or not record.window_ns:
            continue
        spacing = "" if cell.contender == "none" else cell.contender_iters
        windows.setdefault((cell.form, cell.contender, spacing, cell.work_iters), []).extend(
            record.window_ns
        )
    rows = (
        (*row, *(f"{ns:.2f}" for ns in np.percentile(v, [50, 95, 99])))
        for row, v in windows.items()
    )
    return csv_text((dict(zip(COLUMNS, row, strict=True)) for row in rows), COLUMNS)


WIDE_COLUMNS = ("form", "threads", "reads_each", "cycles_per_read")


def wide_as_csv(contexts: Iterable[Context], records: Iterable[Record]) -> str:
    """CSV in the layout of the 2009 experiment: N threads read one location; mean ticks of the time
    source per read.

    A thread's mean is over its kept windows; on x86 a tick is a cycle of the time-stamp counter,
    not of the core. Records from before ticks were counted give them as nanoseconds over the length
    of a tick. It has only cells without writes, one row for each form and number of threads over
    all launches; `reads_each` is the smallest number of reads of any thread in any launch."""
    tick_ns = {context.context_id: context.tick_ns for context in contexts}
    rows: dict[tuple[str, int], tuple[list[int], list[float]]] = {}
    for record in records:
        if record.cell.params != {"write_percent": 0} or not any(record.thread_ops):
            continue
        reads, cycles = rows.setdefault((record.cell.form, record.cell.threads), ([], []))
        reads.append(min(record.thread_ops))
        ticks = record.thread_ticks or [ns / tick_ns[record.context_id] for ns in record.thread_ns]
        cycles.append(float(np.mean(ticks)))
    flat = ((*row, min(reads), f"{np.median(cycles):.1f}") for row, (reads, cycles) in rows.items())
    return csv_text((dict(zip(WIDE_COLUMNS, row, strict=True)) for row in flat), WIDE_COLUMNS)


FUTEX_COLUMNS = ("program", "threads", "unit", "off", "on")
UNITS = {"ms": False, "operations/s": True}
"""Units of a table, and whether more is better."""
PROGRAMS = ("futex-hash", "futex-wake", "futex-wake-parallel", "futex-requeue", "futex-lock-pi")


class FutexRow(NamedTuple):
    """One line of the table; `threads` is None where the number was not published."""

    program: str
    threads: int | None
    unit: str
    off: float
    on: float

    @property
    def change(self) -> float:
        """Of the figure, as a share: what the option adds to it."""
        return self.on / self.off - 1


def futex_from_table(text: str, where: str) -> dict[tuple[str, int | None], FutexRow]:
    """Rows by program and threads; UserError names the line that is none."""
    rows: dict[tuple[str, int | None], FutexRow] = {}
    for row in table(text, FUTEX_COLUMNS, where, "a table of the option", _futex_row):
        if rows.setdefault((row.program, row.threads), row) is not row:
            raise UserError(f"{row.program} at these threads twice", where, "each once")
    return rows


def _futex_row(program: str, threads: str, unit: str, off: str, on: str) -> FutexRow:
    if program not in PROGRAMS or unit not in UNITS:
        allowed = f"programs {', '.join(PROGRAMS)}; units {', '.join(UNITS)}"
        raise ValueError(f"{program!r} in {unit!r} is unknown ({allowed})")
    count = number(threads, 1, 1e6, int) if threads else None
    return FutexRow(program, count, unit, number(off, 1e-300, 1e15), number(on, 1e-300, 1e15))


def main() -> int:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = asked.add_subparsers(dest="kind", required=True)
    for kind, what in (("records", "a table as records"), ("rows", "records as a table"),
                       ("futex", "the option's table with its changes")):  # fmt: skip
        kinds.add_parser(kind, help=what).add_argument("file")
    given = asked.parse_args()
    try:
        sys.stdout.write(_answer(given))
    except LinewrightError as error:
        print(f"published: {error}", file=sys.stderr)
        return 2
    return 0


def _answer(given: argparse.Namespace) -> str:
    if given.kind == "records":
        contexts, records = from_text(read_text(given.file), Path(given.file).name)
        return "".join(msgspec.json.encode(v).decode() + "\n" for v in (*contexts, *records))
    if given.kind == "rows":
        contexts, records = files.read(given.file, lambda text: print(text, file=sys.stderr))
        wide = all(record.plan == "wide" for record in records)
        return wide_as_csv(contexts, records) if wide else as_csv(records)
    rows = futex_from_table(read_text(given.file), given.file).values()
    columns = (*FUTEX_COLUMNS, "change_percent")
    flat = (dict(zip(columns, (*row, round(100 * row.change, 1)), strict=True)) for row in rows)
    return csv_text(flat, columns)


if __name__ == "__main__":
    sys.exit(main())
