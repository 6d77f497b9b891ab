"""A result on one page: the lines that travel, what they cost, what to do, and what this source is blind to."""

from __future__ import annotations

from collections import defaultdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from linewright.errors import one_line
from linewright.find.schema import Ceiling, Hot, Result, Site, Touch
from linewright.schema import Estimate

SHOWN = 5
"""Lines on the page; ``--json`` has all."""
_KINDS = {
    "true": "true sharing",
    "false": "false sharing",
    "alone": "alone",
    "read": "read by several",
    "unknown": "shared, bytes unknown",
}


def percent(interval: Estimate | None) -> str:
    """A share with its interval: ``41 % (38-44)``."""
    if interval is None:
        return "–"
    return f"{number_text(interval.value)} % ({number_text(interval.low)}-{number_text(interval.high)})"


def number_text(share: float) -> str:
    """A share in percent: whole percents, below ten with one digit."""
    return f"{100 * share:.0f}" if share >= 0.0995 or share == 0 else f"{100 * share:.1f}"


def kind_text(hot: Hot) -> str:
    """The kind, and what 128 bytes change about it."""
    said = _KINDS[hot.kind]
    if hot.kind not in ("true", "false") and hot.kind_128 in ("true", "false"):
        return f"{_KINDS[hot.kind_128]} on 128-byte lines only"
    return said


def bytes_text(touches: list[Touch], threads: int) -> list[str]:
    """Which threads touch which bytes: one line for each set of bytes."""
    groups: dict[tuple[tuple[int, int], ...], list[Touch]] = defaultdict(list)
    for touch in touches:
        groups[tuple(touch.bytes)].append(touch)
    said = []
    for where, some in sorted(groups.items()):
        spans = ", ".join(f"{at}-{at + size - 1}" if size > 1 else f"{at}" for at, size in where)
        names = " ".join(str(t.thread) for t in some[:4]) + (f" and {len(some) - 4} more" if len(some) > 4 else "")
        verb = "write" if any(t.writes for t in some) else "read"
        verb += "s" if len(some) == 1 else ""
        said.append(f"bytes {spans}: thread{'s' if len(some) > 1 else ''} {names} {verb}")
    if threads > len(touches):
        said.append(f"and {threads - len(touches)} threads more")
    return said


def site_text(site: Site) -> str:
    """Instruction, function and source line, and for a library's site who called it."""
    place = site.function or f"{site.module}+{site.offset:#x}"
    if site.source:
        place += f" ({_tail(site.source)})"
    called = f", called from {site.caller}" if site.caller else ""
    return f"{site.instruction or site.access} in {place}{called}"


def _tail(source: str) -> str:
    """The last two parts of a path with its line."""
    return "/".join(source.split("/")[-2:])


def ceiling_text(ceiling: Ceiling) -> str:
    gain, alone, contended = ceiling.gain, ceiling.alone_ns, ceiling.contended_ns
    plain = "; plain accesses in full" if ceiling.plain >= 0.005 else ""
    return (
        f"at most {number_text(gain.high)} % of CPU time to gain{_slowed(ceiling)} "
        f"({ceiling.form}: alone {alone.median_ns:.1f} ns, "
        f"contended {contended.low_ns:.1f}-{contended.high_ns:.1f}{plain})"
    )


def _slowed(ceiling: Ceiling) -> str:
    """The thread for which it could be clearly more."""
    if ceiling.most_slowed < 1.1 * ceiling.gain.high + 0.01:
        return ""
    return f", {number_text(ceiling.most_slowed)} % of thread {ceiling.slowed_thread}'s"


def show(result: Result, console: Console) -> None:
    """The page."""
    _line(console, headline(result), style="bold")
    if result.lines:
        console.print()
        console.print(_table(result.lines[:SHOWN]))
        for number, hot in enumerate(result.lines[:SHOWN], 1):
            _details(console, number, hot)
        if len(result.lines) > SHOWN:
            _line(console, f"{len(result.lines) - SHOWN} more lines: --json lists them.")
    if result.alone:
        console.print()
        _line(console, "Atomics that one thread alone pays for:")
        for hot in result.alone[:3]:
            site = site_text(hot.sites[0]) if hot.sites else ""
            _line(console, f"  {percent(hot.share)}  {hot.object}: {site}")
    _helpers(console, result)
    console.print()
    for text in result.notes:
        _line(console, text)
    _line(console, f"blind to: {'; '.join(result.blind)}")


def _helpers(console: Console, result: Result) -> None:
    """Where outline helpers are called from, the most frequent first."""
    if not result.helpers:
        return
    console.print()
    _line(console, "Outline helpers by call site, on whatever line:")
    for call in result.helpers[:SHOWN]:
        place = (
            f"{call.function} ({_tail(call.source)})"
            if call.source
            else f"{call.function}, {call.module}+{call.offset:#x}"
        )
        _line(console, f"  {call.count}  {call.helper} from {place}")
    if len(result.helpers) > SHOWN:
        _line(console, f"  {len(result.helpers) - SHOWN} more call sites: --json lists them.")


def headline(result: Result) -> str:
    """What was found, from how much, at what cost."""
    wide = sum(hot.line_bytes == 128 for hot in result.lines)
    count = len(result.lines) - wide
    found = "No line travels" if not count else "1 line travels" if count == 1 else f"{count} lines travel"
    found += f", {wide} more on 128-byte lines only," if wide else ""
    timed = f"{result.samples} samples of {result.threads} threads in {result.seconds:.1f} s"
    cost = f", finding took about {100 * result.overhead:.1f} %" if result.overhead is not None else ""
    if result.source == "exact":
        timed = f"{result.samples} accesses of {result.threads} threads, emulated"
    elif result.source not in ("timer", "signal"):
        timed = f"{result.samples} records, {result.threads} threads"
    return f"{found} in {result.program} ({timed}{cost})"


def _table(lines: list[Hot]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("")
    table.add_column("time" if lines[0].share is not None else "accesses", justify="right", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("threads", justify="right")
    table.add_column("what", overflow="fold")
    for number, hot in enumerate(lines, 1):
        cost = percent(hot.share) if hot.share is not None else str(hot.accesses)
        if hot.at_most:
            cost = "<= " + cost
        table.add_row(*map(Text, (str(number), cost, kind_text(hot), str(hot.threads), one_line(hot.object))))
    return table


def _details(console: Console, number: int, hot: Hot) -> None:
    console.print()
    _line(console, f"{number}  {hot.object} at {hot.address:#x}: {kind_text(hot)}, {hot.certainty}")
    for text in bytes_text(hot.touches, hot.threads)[:4]:
        _line(console, f"   {text}")
    for site in hot.sites[:3]:
        share = f"{number_text(site.share)} %  " if hot.share is not None else ""
        _line(console, f"   {share}{site_text(site)}")
    if hot.ceiling:
        _line(console, f"   {ceiling_text(hot.ceiling)}")
    if hot.remedy:
        _line(console, f"   {hot.remedy}")
    if hot.next_command:
        _line(console, f"   next: {hot.next_command}")


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text(one_line(text) if not text.startswith(" ") else "   " + one_line(text), style=style))
