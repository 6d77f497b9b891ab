"""perf's rows into the same result as our own sources give, with what perf cannot see said."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from linewright.find.evidence import Thread, byte_mask, runs, sharing_kind
from linewright.find.notes import BLIND, note
from linewright.find.perf_text import PerfRow, PerfTable
from linewright.find.sharing_result import MOST_LISTED, MOST_SITES, MOST_TOUCHES
from linewright.find.sharing_schema import Hot, Result, SharingKind, Site, Touch


def result_of(table: PerfTable, path: str) -> Result:
    """Lines of an imported file, those with most transfers first."""
    lines: dict[int, list[PerfRow]] = defaultdict(list)
    for row in table.rows:
        lines[row.line].append(row)
    hot = [_hot(line, rows, table) for line, rows in lines.items()]
    travelling = [h for h in hot if h.kind in ("true", "false", "unknown")]
    travelling.sort(key=lambda h: -h.accesses)
    blind = [
        *BLIND["perf"],
        *([] if _stores(table) else [note("no_stores")]),
        *([] if table.knows_threads else [note("no_threads")]),
    ]
    return Result(
        linewright_find_result=2,
        source=table.layout,
        program=path,
        arch="unknown",
        seconds=0.0,
        samples=round(sum(r.loads + r.stores for r in table.rows)),
        lost=0,
        threads=len({r.tid for r in table.rows if r.tid}),
        lines=travelling[:MOST_LISTED],
        alone=[],
        overhead=None,
        blind=blind,
    )


def _stores(table: PerfTable) -> bool:
    """Whether stores were seen at all: several layouts have the columns and never fill them."""
    return table.knows_stores and any(row.stores for row in table.rows)


def _hot(line: int, rows: list[PerfRow], table: PerfTable) -> Hot:
    threads = _threads(rows)
    moved = sum(row.moved for row in rows)
    kind = sharing_kind(threads.values()) if table.knows_threads and len(threads) > 1 else "alone"
    if moved and kind not in ("true", "false"):
        kind = _by_offsets(rows, _stores(table))
    touches = [
        Touch(
            thread=tid,
            name=next((r.name for r in rows if r.tid == tid), ""),
            bytes=runs(t.touched),
            writes=bool(t.written),
            reads=bool(t.read),
        )
        for tid, t in sorted(threads.items())
    ]
    return Hot(
        address=line,
        pid=rows[0].pid,
        line_bytes=64,
        kind=kind,
        kind_128=kind,
        certainty="imported",
        object=f"line at {line:#x}",
        object_kind="unknown",
        share=None,
        touches=touches[:MOST_TOUCHES],
        threads=len(threads),
        sites=_sites(rows),
        accesses=round(moved),
    )


def _by_offsets(rows: list[PerfRow], stores_known: bool) -> SharingKind:
    """Without threads: bytes that are stored and also loaded from elsewhere are shared truly; other
    bytes falsely."""
    loaded = {row.offset for row in rows if row.moved}
    stored = {row.offset for row in rows if row.stores}
    if len(loaded | stored) == 1:
        return "true"
    if not stores_known or not stored:
        return "unknown"
    return "true" if loaded & stored else "false"


def _threads(rows: Iterable[PerfRow]) -> dict[int, Thread]:
    """Masks by thread, each access one byte wide: perf says where it begins only."""
    found: dict[int, Thread] = {}
    for row in rows:
        thread = found.setdefault(row.tid, Thread(first_ns=0, last_ns=0))
        mask = byte_mask(row.offset, 1)
        if row.stores or row.locked:
            thread.written |= mask
        if row.loads or row.moved:
            thread.read |= mask
    return found


def _sites(rows: list[PerfRow]) -> list[Site]:
    counts: Counter[tuple] = Counter()
    examples = {}
    for row in rows:
        access = "atomic" if row.locked else "write" if row.stores > row.moved else "read"
        key = (row.ip, access)
        counts[key] += max(1, round(row.moved + row.stores))
        examples[key] = row
    return [
        Site(
            instruction="",
            module=row.module,
            function=row.symbol,
            offset=ip,
            source=row.source,
            access=access,
            share=0.0,
            accesses=number,
        )
        for (ip, access), number in counts.most_common(MOST_SITES)
        for row in [examples[ip, access]]
    ]
