"""Records of published data: the columns of a published table, and the output of the upstream benchmark.

They are marked as published: target ``published``, percentiles instead of windows, and a reason that says what they
lack.  A row whose contender sat on the timed thread's CPU takes exactly twice the uncontended time; it is flagged.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterable, Sequence

import msgspec

from linewright.errors import UserError
from linewright.schema import Cell, Context, Quantiles, Record

COLUMNS = ("form", "contender", "contender_iters", "work_iters", "p50_ns", "p95_ns", "p99_ns")
REASON = "published percentiles only: no windows, no baseline loop; the maximum was not published, p99 stands in"
OPERATIONS = {
    "add": ("stadd", "llsc_add", "lock_add", "plain_add"),
    "fetch_add": ("ldadd", "ldaddal", "lock_xadd", "llsc_fetch_add"),
    "xchg": ("swp", "xchg", "llsc_swp"),
    "cmpxchg": ("cmpxchg_loop_read_first", "cmpxchg_loop_guess_first", "cas_loop_read_first"),
}
"""Forms by operation, without a prefetch in front."""
MEANS, OPERATIONS_EACH = 100, 10_000_000
"""Means behind the published percentiles, and operations behind each mean."""
ON_ONE_CPU = 0.005
"""Relative distance from 2.00 times the uncontended figure within which two threads must have shared a CPU."""
MOST_ROWS = 100_000


def _operation(form: str) -> str:
    bare = re.sub(r"^(prfm_(keep|strm)|prefetchw)_", "", form)
    return next((operation for operation, forms in OPERATIONS.items() if bare in forms), "add")


def _context(name: str, text: str, arch: str, features: list[str]) -> Context:
    """A context that says what is not known; its ids come from the data, so that the same table gives the same
    records."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Context(
        linewright_context=2, context_id=digest[:16], machine_id=digest[16:32], started_utc="1970-01-01T00:00:00Z",
        target="published", plan="published", launch=0, tool_version="none", compiler="unknown", arch=arch,
        cpu_model=f"published table {name}", cpu_ids=[], features=features, kernel="unknown", virtualised="unknown",
        emulated=False, cpus=[], line_bytes=64, page_bytes=4096, time_source="clock_monotonic", tick_ns=0.0,
        timer_cost_ns=0.0, nop_iter_ns=0.0, cycle_ns=0.0, governor="", smt="unknown", counters="unavailable",
        rseq="unknown", locked_memory=False, realtime=False,
    )  # fmt: skip


def _record(context_id: str, form: str, contender_iters: int | None, work_iters: int, ns: Sequence[float]) -> Record:
    contended = contender_iters is not None
    cell = Cell(
        operation=_operation(form),
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
        of="batch_mean", ops_per_sample=OPERATIONS_EACH, samples=MEANS, p50_ns=p50, p95_ns=p95, p99_ns=p99, max_ns=p99,
        histogram=[],
    )  # fmt: skip
    return Record(
        linewright_record=2, context_id=context_id, id=cell.id, cell=cell, plan="published", status="ok", reason=REASON,
        batch=batch,
    )  # fmt: skip


def _flagged(records: list[Record]) -> list[Record]:
    """The same records; those at exactly twice their uncontended figure say that two threads shared a CPU."""

    def key(r: Record) -> tuple:
        return r.cell.form, r.cell.work_iters, tuple(r.cpus)

    alone = {key(r): r.batch.p50_ns for r in records if r.cell.contender == "none"}
    answers = []
    for r in records:
        base = alone.get(key(r), 0.0)
        doubled = r.cell.contender != "none" and base > 0 and abs(r.batch.p50_ns / base - 2) <= 2 * ON_ONE_CPU
        answers.append(msgspec.structs.replace(r, flags=["same_cpu"]) if doubled else r)
    return answers


def _once(records: Iterable[Record], where: str) -> list[Record]:
    kept: dict[str, Record] = {}
    for r in records:
        if r.id in kept:
            raise UserError(f"two rows of one cell: {r.id}", where, "each form, contender and work once")
        kept[r.id] = r
        if len(kept) > MOST_ROWS:
            raise UserError(f"more than {MOST_ROWS} rows", where, "a published table")
    return _flagged(list(kept.values()))


def _made(
    name: str, text: str, rows: Iterable[tuple[str, int | None, int, Sequence[float]]]
) -> tuple[list[Context], list[Record]]:
    kept = list(rows)
    arm = any(re.search(r"stadd|ldadd|llsc|swp", form) for form, *_ in kept)
    context = _context(name, text, "arm64" if arm else "x86_64", ["lse"] if arm else [])
    return [context], _once((_record(context.context_id, *row) for row in kept), name)


def from_table(text: str, where: str) -> tuple[list[Context], list[Record]]:
    """Records of a table with the published columns; UserError names the line that is not one of its rows."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines or tuple(lines[0].strip().split(",")) != COLUMNS:
        raise UserError("not a published table", where, f"first line: {','.join(COLUMNS)}")
    return _made(where, text, [_row(line, number, where) for number, line in enumerate(lines[1:], 2)])


def _row(line: str, number: int, where: str) -> tuple[str, int | None, int, Sequence[float]]:
    fields = next(csv.reader([line]))
    try:
        form, contender, spacing, work, *ns = fields
        values = [float(x) for x in ns]
        known = contender in ("none", "same_line") and re.fullmatch(r"[a-z0-9_]{1,64}", form)
        if not known or len(values) != 3 or not all(0 <= v < 1e12 for v in values):
            raise ValueError
        return form, None if contender == "none" else int(spacing), int(work), values
    except ValueError:
        raise UserError(
            f"row {number} is not one of a published table: {line[:80]}", where, ",".join(COLUMNS)
        ) from None


_CPU = re.compile(r"CPU:\s*([0-9]{1,5})\b")
_UPSTREAM = re.compile(
    r"^\s*(?P<name>[A-Za-z_/+ ]{2,24}?)\s*(?:\((?P<what>[a-z]+)\))?\s*"
    r"(?:\(c\s*(?P<c>[0-9]{1,9}),\s*d\s*(?P<d>[0-9]{1,9})\))?\s*:"
    r"\s*p50:\s*(?P<p50>[0-9.]{1,20}) ns\s*p95:\s*(?P<p95>[0-9.]{1,20}) ns\s*p99:\s*(?P<p99>[0-9.]{1,20}) ns\s*$"
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
"""The upstream tool's names of its variants (two spellings of PRFM), and the forms that they are.  On x86 it keeps the
names; its prefetches there are loads, which no form of ours is."""


def from_percpu_bench(text: str, where: str) -> tuple[list[Context], list[Record]]:
    """Records of the text that percpu_bench prints; UserError where no line of it is a result."""
    arch = "x86_64" if "x86_64 Per-CPU Atomic Add" in text else "arm64"
    context = _context(where, text, arch, ["lse"] if arch == "arm64" else [])
    cpu, records = 0, []
    for line in text.splitlines():
        if heading := _CPU.search(line):
            cpu = int(heading[1])
        elif (found := _UPSTREAM.match(line)) and found["name"].strip() in UPSTREAM_FORMS[arch]:
            records.append(_upstream(context.context_id, UPSTREAM_FORMS[arch][found["name"].strip()], found, cpu))
    if not records:
        raise UserError(
            "no line of percpu_bench's output",
            where,
            "lines such as: LSE (stadd) (c 0, d 0): p50: … ns p95: … ns p99: … ns",
        )
    return [context], _once(records, where)


def _upstream(context_id: str, form: str, found: re.Match[str], cpu: int) -> Record:
    """One line.  Its contention of 0 means no contender; its contender is on CPU 32 for CPU 0 and on CPU 0 for
    others."""
    spacing = int(found["c"] or 0)
    try:
        ns = [float(found[name]) for name in ("p50", "p95", "p99")]
    except ValueError:
        raise UserError(f"not a time: {found[0].strip()[:80]}", "percpu_bench", "p50: 5.69 ns") from None
    record = _record(context_id, form, spacing or None, int(found["d"] or 0), ns)
    place = f"cpus:{cpu}" + (f",{32 if cpu == 0 else 0}" if spacing else "")
    cell = msgspec.structs.replace(record.cell, placement=place)
    return msgspec.structs.replace(record, cell=cell, id=cell.id, cpus=[cpu])
