"""Text that perf prints, read by its headings: `perf c2c report --stdio`, `perf script` with data
sources, `perf mem report -D`.

perf's columns have moved and changed names between versions, so no column is taken by its place:
the ruler of dots under the headings says where each begins and ends, and the headings say what it
is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from linewright.errors import UserError
from linewright.records import bounded

ALLOWED = (
    "expected the text of `perf c2c report --stdio`, of `perf script -F "
    "comm,pid,tid,time,addr,data_src,ip,sym,dso`, "
    "or of `perf mem report -D`"
)
LARGEST = 1 << 28
"""Bytes of text that are read."""
LONGEST = 4096
"""Characters of a line; perf prints none that long, and what is longer is no access."""
_HEX = re.compile(r"^(?:0x)?[0-9a-fA-F]{1,16}$")


class PerfRow(NamedTuple):
    """One access, or one site's accesses, to one address."""

    line: int
    """Address of the 64-byte line; that of the address for single accesses."""
    offset: int
    pid: int
    tid: int
    """0 where the text does not say."""
    name: str
    ip: int
    symbol: str
    module: str
    source: str
    moved: float
    """Loads that found the line modified in another cache (HITM), or that a peer answered."""
    stores: float
    loads: float
    locked: bool


class PerfTable(NamedTuple):
    """What was read: rows, and which columns there were to read them from."""

    layout: str
    rows: list[PerfRow]
    knows_stores: bool
    knows_threads: bool


def read(path: str) -> PerfTable:
    """Read a file in whichever layout it has. UserError in one line for anything else."""
    raw = bounded.read(path, LARGEST, ALLOWED)
    if raw[:8] == b"PERFILE2":
        raise UserError("a perf.data file, not a report", path, f"{ALLOWED}; perf makes them of it")
    return parse(raw.decode("utf-8", "replace"), path)


def parse(text: str, where: str = "perf's text") -> PerfTable:
    """The same for text."""
    lines = [line[:LONGEST] for line in text.splitlines()]
    for layout, fits in _LAYOUTS:
        if any(fits(line) for line in lines):
            found = layout(lines)
            if not found.rows:
                raise UserError(f"no access in it ({found.layout})", where, ALLOWED)
            return found
    raise UserError("not a text of perf with addresses", where, ALLOWED)


# perf c2c report --stdio


class _TextColumn(NamedTuple):
    begin: int
    end: int
    group: str
    name: str


def _columns(ruler: str, names: str, groups: str) -> list[_TextColumn]:
    """Columns by the ruler's runs of dots, with their heading and the one above it that spans
    several."""
    found = []
    spans = [(m.start(), m.end()) for m in re.finditer(r"\S+", groups.replace("#", " "))]
    for match in re.finditer(r"\.+", ruler):
        begin, end = match.span()
        group = " ".join(
            groups[a:b] for a, b in _joined(spans, groups) if a < end and b > begin
        ).strip("- ")
        found.append(_TextColumn(begin, end, group.lower(), names[begin:end].strip("# ").lower()))
    return found


def _joined(spans: list[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    """Words that one space parts belong to one heading; dashes draw its width."""
    found: list[tuple[int, int]] = []
    for begin, end in spans:
        if (
            found
            and begin - found[-1][1] == 1
            and not (text[found[-1][1] - 1] == "-" and text[begin] == "-")
        ):
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found


def _cells(columns: list[_TextColumn], line: str) -> list[str]:
    """A row's cells.  A value wider than its column pushes the rest to the right: each cell grows
    to the next space."""
    cells, shift = [], 0
    for number, column in enumerate(columns):
        begin, end = column.begin + shift, column.end + shift
        if number == len(columns) - 1:
            end = len(line)
        while end < len(line) and line[end - 1] != " " and line[end] != " ":
            end += 1
            shift += 1
        cells.append(line[begin:end].strip())
    return cells


_MOVED = re.compile(r"^(rmt|lcl)?\s*(hitm|peer)?$")


def _role(column: _TextColumn) -> str:
    """What a column of the distribution table is to us, by its headings; empty for one that is not
    needed."""
    name, group = column.name, column.group
    if name in ("num", "offset", "pid", "tid", "code address", "symbol", "object", "source:line"):
        return name
    if "cycles" in group:
        return ""
    if name in ("l1 hit", "l1 miss", "n/a", "any lvl", "l1hit", "l1miss"):
        return "store"
    if (
        name
        and _MOVED.match(name)
        and name != ""
        and ("hitm" in name + group or "peer" in name + group or "snoop" in group)
    ):
        return "moved"
    if name == "records":
        return "records"
    return ""


def _c2c(lines: list[str]) -> PerfTable:
    """The distribution table: for each line a row of totals between rules, then a row for each site
    and offset."""
    start = next(
        (n for n, line in enumerate(lines) if "Shared Cache Line Distribution Pareto" in line), None
    )
    if start is None:
        return PerfTable("perf c2c", [], False, False)
    near = range(start, min(start + 12, len(lines)))
    ruler = next((n for n in near if re.match(r"^\s*#\s*\.{3,}", lines[n])), 0)
    if ruler < 2:
        raise UserError(
            "the table has no headings",
            "perf c2c",
            "the whole text of perf c2c report --stdio, headings included",
        )
    columns = _columns(lines[ruler], lines[ruler - 1], lines[ruler - 2])
    roles = [_role(column) for column in columns]
    for wanted in ("offset", "code address", "moved"):
        if wanted not in roles:
            raise UserError(f"the table has no column for {wanted}", "perf c2c", ALLOWED)
    peer = any("peer" in c.name + c.group or "snoop" in c.group for c in columns)
    old = any(c.name in ("rmt", "lcl") and "hitm" in c.group for c in columns)
    layout = f"perf c2c ({'peer snoop' if peer else 'HITM, up to 5.x' if old else 'HITM, 6.x'})"
    rows = list(_pareto(lines[ruler + 1 :], columns, roles))
    return PerfTable(layout, rows, "store" in roles, "tid" in roles)


def _pareto(lines: list[str], columns: list[_TextColumn], roles: list[str]) -> Iterator[PerfRow]:
    totals: list[float] = []
    address = 0
    ruled = False
    for line in lines:
        if re.match(r"^\s*-{8,}\s*$", line):
            ruled = True
            continue
        if line.startswith("===") or (line.startswith("#") and not totals):
            continue
        cells = _cells(columns, line)
        if ruled and cells and cells[0].isdigit():
            words = line.split()
            totals = [_number(cell) for cell in cells]
            address = _hex(words[-1]) if words else 0
        elif totals and len(cells) == len(columns):
            row = _pareto_row(cells, roles, totals, address)
            if row is not None:
                yield row
        ruled = False


def _pareto_row(
    cells: list[str], roles: list[str], totals: list[float], address: int
) -> PerfRow | None:
    by_role = {role: cell for role, cell in zip(roles, cells, strict=True) if role}
    if not _HEX.match(by_role.get("offset", "")) or not _HEX.match(by_role.get("code address", "")):
        return None

    def summed(wanted: str) -> float:
        parts = zip(roles, cells, totals, strict=True)
        return sum(_number(cell) / 100 * total for role, cell, total in parts if role == wanted)

    tid, _, name = by_role.get("tid", "").partition(":")
    moved, stores, records = summed("moved"), summed("store"), _number(by_role.get("records", ""))
    return PerfRow(
        line=address,
        offset=_hex(by_role["offset"]) % 64,
        pid=int(_number(by_role.get("pid", ""))),
        tid=int(_number(tid)),
        name=name,
        ip=_hex(by_role["code address"]),
        symbol=by_role.get("symbol", "").removeprefix("[.] ").removeprefix("[k] "),
        module=by_role.get("object", ""),
        source=_source(by_role.get("source:line", "")),
        moved=moved,
        stores=stores,
        loads=max(0.0, records - stores),
        locked=False,
    )


def _source(cell: str) -> str:
    """The source line, without the node that stands behind it."""
    words = cell.split()
    return words[0] if words and ":" in words[0] else ""


def _number(cell: str) -> float:
    """A count or a percentage; 0 for anything else, whatever its length."""
    text = cell.strip().rstrip("%")
    return float(text) if re.fullmatch(r"\d{1,15}(\.\d{1,6})?", text) else 0.0


def _hex(cell: str) -> int:
    return int(cell, 16) if _HEX.match(cell) else 0


# perf script


_SCRIPT_HEAD = re.compile(r"^\s*(?P<name>\S.*?)\s+(?:(?P<pid>\d{1,10})/)?\s*(?P<tid>\d{1,10})\s")
_SITE = re.compile(
    r"\b(?P<ip>[0-9a-f]{5,16})\s+(?P<symbol>[^\s(]\S*(?:\s?[^(]*\S)?)?"
    r"\s*(?:\((?P<module>[^()]*)\))?\s*$"
)


def _script(lines: list[str]) -> PerfTable:
    rows = [row for row in map(_script_row, lines) if row is not None]
    return PerfTable("perf script", rows, True, True)


def _script_row(line: str) -> PerfRow | None:
    head, bar, tail = line.partition("|OP ")
    about = _SCRIPT_HEAD.match(head) if bar else None
    if about is None:
        return None
    words = head.split()
    if re.search(r"\s(0x)?[0-9a-f]{6,16}\s+[0-9a-f]{6,16}\s*$", head, re.IGNORECASE):
        words.pop()  # the data source as a number stands before its words
    address = _hex(words[-1]) if words else 0
    fields = tail.split("|")
    operation, rest = fields[0].strip().upper(), fields[1:]
    said = " ".join(rest).upper()
    site = _SITE.search(fields[-1])
    if not address or not site:
        return None
    symbol, _, _ = (site["symbol"] or "").partition("+0x")
    store = "STORE" in operation
    moved = "SNP HITM" in said or "PEER" in said
    return PerfRow(
        line=address & ~63,
        offset=address & 63,
        pid=int(about["pid"] or about["tid"]),
        tid=int(about["tid"]),
        name=about["name"],
        ip=int(site["ip"], 16),
        symbol=symbol,
        module=(site["module"] or "").rpartition("/")[2],
        source="",
        moved=float(moved and not store),
        stores=float(store),
        loads=float(not store),
        locked="LCK YES" in said,
    )


# perf mem report -D

_OP_STORE, _SNOOP_HITM, _LOCKED, _PEER = 4, 0x10 << 19, 2 << 24, 2 << 38
"""Bits of a data source: include/uapi/linux/perf_event.h."""


def _mem(lines: list[str]) -> PerfTable:
    """Rows of numbers under one line of headings, in its order."""
    headings: list[str] = []
    rows = []
    for line in lines:
        if _is_mem(line):
            headings = [word.strip().lower() for word in line.lstrip("# ").split(",")]
        elif headings and line.strip() and not line.lstrip().startswith("#"):
            row = _mem_row(dict(zip(headings, line.split(None, len(headings) - 1), strict=False)))
            if row is not None:
                rows.append(row)
    return PerfTable("perf mem", rows, True, True)


def _mem_row(cells: dict[str, str]) -> PerfRow | None:
    address, source = _hex(cells.get("addr", "")), _hex(cells.get("dsrc", ""))
    if not address or not source:
        return None
    store = bool(source & _OP_STORE)
    module, _, symbol = cells.get("symbol", "").strip().rpartition(":")
    return PerfRow(
        line=address & ~63,
        offset=address & 63,
        pid=int(_number(cells.get("pid", ""))),
        tid=int(_number(cells.get("tid", ""))),
        name="",
        ip=_hex(cells.get("ip", "")),
        symbol=symbol,
        module=module.rpartition("/")[2],
        source="",
        moved=float(bool(source & (_SNOOP_HITM | _PEER)) and not store),
        stores=float(store),
        loads=float(not store),
        locked=bool(source & _LOCKED),
    )


def _is_mem(line: str) -> bool:
    return line.startswith("#") and "ADDR" in line and "DSRC" in line and "," in line


_LAYOUTS: tuple[tuple[Callable[[list[str]], PerfTable], Callable[[str], bool]], ...] = (
    (_c2c, lambda line: "Shared Cache Line Distribution Pareto" in line),
    (_mem, _is_mem),
    (_script, lambda line: "|OP " in line),
)
