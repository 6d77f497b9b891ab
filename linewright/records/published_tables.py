"""Records of published data: the columns of a published table, and the output of the upstream
benchmark.

They are marked as published: target ``published``, percentiles instead of windows, and a reason
that says what they lack.  A row whose contender sat on the timed thread's CPU takes exactly twice
the uncontended time; it is flagged."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import msgspec

from linewright.errors import UserError
from linewright.forms import listed
from linewright.records.bounded import number, table
from linewright.schema import Cell, Context, Quantiles, Record

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
