"""Results for reading (tables on a terminal or in a pipe) and for programs (CSV, JSON)."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from linewright.errors import one_line
from linewright.schema import Context, Interval
from linewright.units import cpu_text, ns_text

if TYPE_CHECKING:
    from linewright.analysis import Summary

PIPE_COLUMNS = 118
"""Width of a table that goes to no terminal, unless COLUMNS says otherwise: the longest form fits on one line."""
WIDE = 104
"""Columns from which the rates of all threads are shown too."""
NARROW_FORM = 20
"""Columns of a form's name on a narrow terminal."""
MOST_FORMS = 4
"""Forms named in one line below the tables before the rest is only counted."""
FORMATS = ("table", "json", "csv", "published")
_FORMULA = ("=", "+", "-", "@")
"""What makes a spreadsheet run a text field instead of showing it."""
_CONTENDERS = {"none": 0, "placebo": 1, "same_line": 2}


def console_for(stream: TextIO) -> Console:
    """A console that colours terminals only and never wraps a pipe's lines more than it must."""
    width = None
    if not stream.isatty() and not os.environ.get("COLUMNS", "").isdigit():
        width = PIPE_COLUMNS
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def print_result(summaries: Sequence[Summary], contexts: Sequence[Context], console: Console) -> None:
    """Context, one table per operation, what was not available, flags, verdict."""
    from linewright.analysis import cache_fit, reader_cost, verdict
    from linewright.output.cache_table import print_cache
    from linewright.output.counter_table import print_counters
    from linewright.output.reader_table import print_readers

    machines = list(dict.fromkeys(summary.machine_id for summary in summaries))
    marks = _Marks()
    for machine in machines:
        own = [summary for summary in summaries if summary.machine_id == machine]
        known = [context for context in contexts if context.machine_id == machine]
        for line in describe(known):
            console.print(Text(line, style="dim"))
        console.print()
        # Passes over lists and readers have tables of their own: what tells them apart is no column of the common ones.
        common = [s for s in own if not cache_fit.concerns(s.cell) and not reader_cost.concerns(s.cell)]
        _print_tables(common, console, marks)
        print_cache(own, known[0].line_bytes if known else 64, console)
        print_readers(own, console, marks.of)
        print_counters(own, console)
        _print_missing(own, console)
    marks.explain(console)
    console.print()
    for sentence in verdict(summaries, contexts):
        console.print(Text(one_line(sentence)))


def describe(contexts: Sequence[Context]) -> list[str]:
    """What was measured on, in two lines; several launches on one machine share them."""
    if not contexts:
        return ["unknown machine: the records' context is missing"]
    c = contexts[0]
    kind = {"yes": ", virtual machine", "no": "", "unknown": ""}[c.virtualised] + (
        ", EMULATED: times mean nothing" if c.emulated else ""
    )
    launches = len({context.context_id for context in contexts})
    lacking = sorted(
        {context.counters_reason for context in contexts if context.counters_reason not in ("", "not asked for")}
    )
    return [
        one_line(f"{c.cpu_model} ({c.arch}), {len(c.cpus)} CPUs{kind}, {c.kernel}, target {c.target}"),
        one_line(
            f"{c.time_source} tick {ns_text(c.tick_ns)} ns, work iteration {ns_text(c.work_iter_ns)} ns, "
            f"cycle {ns_text(c.cycle_ns)} ns, {launches} launch{'es' if launches > 1 else ''} from {min(context.started_utc for context in contexts)}"
        ),
        *(one_line(f"counters absent: {reason}") for reason in lacking),
    ]


class _Marks:
    """Letters behind flagged figures, explained once below the tables."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}
        self._modes: list[str] = []
        self._doubted = False

    def of(self, summary: Summary) -> str:
        for flag in summary.flags:
            if flag not in self._letters:
                self._letters[flag] = chr(ord("a") + len(self._letters) % 26)
        doubt = "" if summary.status == "ok" else "?"
        self._doubted = self._doubted or bool(doubt)
        return doubt + "".join(self._letters[flag] for flag in summary.flags)

    def note_modes(self, summary: Summary) -> None:
        if len(summary.modes) > 1:
            groups = ", ".join(f"{ns_text(mode.median_ns)} ns ({mode.share:.0%})" for mode in summary.modes)
            self._modes.append(
                f"{summary.cell.form}, work {summary.cell.work_iters}, gap {summary.cell.contender_iters}: {groups}"
            )

    def explain(self, console: Console) -> None:
        from linewright.analysis.plausible import explain

        if self._doubted:
            console.print(
                Text(
                    "?  too many windows were disturbed by other programs: not to be relied on; an idle machine, or root's real-time priority, helps"
                )
            )
        for flag, letter in self._letters.items():
            console.print(Text(f"{letter}  {one_line(flag)}: {one_line(explain(flag))}"))
            if flag == "metastable":
                for line in self._modes:
                    console.print(Text(f"     {one_line(line)}", style="dim"))


def _print_tables(summaries: Sequence[Summary], console: Console, marks: _Marks) -> None:
    for operation in dict.fromkeys(s.cell.operation for s in summaries):
        measured = [s for s in summaries if s.cell.operation == operation and has_figures(s)]
        if measured:
            console.print(_table(operation, measured, console, marks))
            console.print()


def _table(operation: str, summaries: Sequence[Summary], console: Console, marks: _Marks) -> Table:
    """One operation's cells, form by form. In a wide pipe every line stands alone; elsewhere a form is named once."""
    wide = console.width >= WIDE
    widths = sorted({s.cell.width_bits for s in summaries})
    once = "round trip, two handoffs" if operation == "handoff" else "operation"
    title = f"{one_line(operation)}, {'/'.join(map(str, widths))} bit (ns per {once}, work included; p: of batch means)"
    table = Table(title=Text(title), title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("form", overflow="fold", min_width=12)
    for name in ("contender", "gap", "work", "p50 ns", "p95 ns", "p99 ns", "exposed ns", "±"):
        table.add_column(name, justify="left" if name == "contender" else "right", no_wrap=True)
    if wide:
        table.add_column("all Mop/s", justify="right", no_wrap=True)
        table.add_column("fair", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    varied = _varied(summaries)
    previous = ""
    for summary in sorted(summaries, key=_order(summaries)):
        form = summary.cell.form + ("" if len(widths) == 1 else f" u{summary.cell.width_bits}")
        if "policy" in summary.cell.params:  # one form, several rows: what the library was told tells them apart
            form += f" {summary.cell.params['policy']}"
        form += "".join(f" {key}={summary.cell.params[key]}" for key in varied if key in summary.cell.params)
        merged = console.is_terminal or not wide
        shown = "" if merged and form == previous else form if wide else _folded(form)
        previous = form
        table.add_row(*map(Text, [shown, *_figures(summary, wide), marks.of(summary)]), style=_style(summary))
        marks.note_modes(summary)
    return table


def _varied(summaries: Sequence[Summary]) -> list[str]:
    """Parameters with several values in one table: rows that differ in nothing else must not look alike."""
    keys = sorted({key for s in summaries for key in s.cell.params} - {"policy"})
    return [key for key in keys if len({s.cell.params.get(key) for s in summaries}) > 1]


def _folded(form: str) -> str:
    """A long form on several lines, broken where its name has joints."""
    lines = [""]
    for part in form.split("_"):
        joined = f"{lines[-1]}_{part}" if lines[-1] else part
        if len(joined) < NARROW_FORM:
            lines[-1] = joined
        else:
            lines[-1] += "_"
            lines.append(part)
    return "\n".join(lines)


def has_figures(summary: Summary) -> bool:
    """Whether any window was kept; published results have percentiles instead of windows."""
    return summary.issue is not None and (summary.windows > 0 or summary.published)


def _order(summaries: Sequence[Summary]):
    forms = list(dict.fromkeys((s.cell.form, s.cell.width_bits) for s in summaries))

    def key(summary: Summary) -> tuple:
        cell = summary.cell
        rank = _CONTENDERS.get(cell.contender, 9)
        params = [(name, isinstance(value, str), value) for name, value in sorted(cell.params.items())]
        return (
            forms.index((cell.form, cell.width_bits)),
            params,
            rank,
            cell.contender_iters,
            cell.threads,
            cell.work_iters,
            cell.id,
        )

    return key


def _figures(summary: Summary, wide: bool) -> list[str]:
    cell, batch = summary.cell, summary.batch
    together = cell.contender == "same_line"
    figures = [
        cell.contender,
        str(cell.contender_iters) if together else "",
        str(cell.work_iters),
        ns_text(batch.p50_ns if batch else summary.issue.median_ns),
        ns_text(batch.p95_ns if batch else None),
        ns_text(batch.p99_ns if batch else None),
        ns_text(summary.exposed.median_ns) if summary.exposed else "",
        # One window has no width: an interval of no confidence is not printed as one of width zero.
        ns_text(half_width(summary.exposed)) if summary.exposed and summary.exposed.confidence > 0 else "",
    ]
    if wide:
        rated = summary.total_mops > 0
        figures += [
            f"{summary.total_mops:.1f}" if rated else "–",
            f"{summary.fairness:.2f}" if together and rated else "",
        ]
    return figures


def half_width(interval: Interval) -> float:
    """The farther end of an interval from its median: what a plus-minus may promise."""
    return max(interval.high_ns - interval.median_ns, interval.median_ns - interval.low_ns)


def _style(summary: Summary) -> str:
    return "" if summary.status == "ok" else "dim"


def _print_missing(summaries: Sequence[Summary], console: Console) -> None:
    """Cells without figures, and cells not to be relied on: one line for each reason, numbers in it aside."""
    groups: dict[tuple[str, str], list[Summary]] = {}
    for summary in summaries:
        if summary.status != "ok":
            groups.setdefault((summary.status, _NUMBER.sub("N", summary.reason)), []).append(summary)
    for (status, _), members in groups.items():
        which = members[0].id if len(members) == 1 else f"{_forms_text(members)} ({len(members)} cells)"
        text = one_line(f"{status}: {which}: {_with_ranges([member.reason for member in members])}")
        console.print(Text(text, style="dim" if status == "unavailable" else "yellow"))


def _with_ranges(reasons: Sequence[str]) -> str:
    """Reasons that differ in their numbers only, as one: "3 to 5 of 12 windows"."""
    columns = iter(zip(*(map(int, _NUMBER.findall(reason)) for reason in reasons), strict=True))

    def span(first: re.Match[str]) -> str:
        numbers = next(columns)
        return f"{min(numbers)} to {max(numbers)}" if min(numbers) < max(numbers) else first[0]

    return _NUMBER.sub(span, reasons[0])


_NUMBER = re.compile("[0-9]{1,18}")  # of a hostile reason's longer ones, piece by piece


def _forms_text(members: Sequence[Summary]) -> str:
    forms = list(dict.fromkeys(member.cell.form for member in members))
    return (
        ", ".join(forms)
        if len(forms) <= MOST_FORMS
        else f"{', '.join(forms[:MOST_FORMS])} and {len(forms) - MOST_FORMS} other forms"
    )


def rows(summaries: Iterable[Summary]) -> list[dict[str, object]]:
    """One flat row per cell, units in the names; an absent figure is None."""
    return [_row(summary) for summary in summaries]


def _row(s: Summary) -> dict[str, object]:
    c = s.cell
    row: dict[str, object] = {
        "machine_id": s.machine_id, "id": s.id, "operation": c.operation, "form": c.form, "width_bits": c.width_bits,
        "order": c.order, "contender": c.contender, "contender_iters": c.contender_iters, "work_iters": c.work_iters,
        "placement": c.placement, "placement_class": s.placement_class, "lines": c.lines, "threads": c.threads,
        "params": " ".join(f"{key}={c.params[key]}" for key in sorted(c.params)),
        "status": s.status, "reason": s.reason, "launches": s.launches, "looks": s.looks or None, "launch_span_s": s.launch_span_s, "promise": s.promise,
    }  # fmt: skip
    for name in ("issue", "exposed", "completion"):
        interval = getattr(s, name) if has_figures(s) else None
        for end in ("median_ns", "low_ns", "high_ns"):
            row[f"{name}_{end}"] = getattr(interval, end) if interval else None
    for end in ("low_ns", "high_ns"):
        row[f"repeat_{end}"] = getattr(s.repeat, end) if s.repeat and has_figures(s) else None
    for name, part in (("batch", s.batch), ("small_batch", s.small)):
        for figure in ("p50_ns", "p95_ns", "p99_ns", "max_ns"):
            row[f"{name}_{figure}"] = getattr(part, figure) if part else None
    measured = has_figures(s)
    row |= {
        "total_mops": s.total_mops if measured else None,
        "fairness": s.fairness if measured else None,
        "lines_spread": s.lines_spread if measured else None,
        "windows": s.windows, "discarded_windows": s.discarded, "stop": s.stop,
        "cpus": cpu_text(s.cpus),
        "modes_ns": " ".join(f"{mode.median_ns:.6g}:{mode.share:.6g}" for mode in s.modes),
        "thread_ns": " ".join(f"{ns:.6g}" for ns in s.thread_ns),
        "thread_ticks": " ".join(f"{ticks:.6g}" for ticks in s.thread_ticks),
        "metrics": " ".join(f"{name}={value:.6g}" for name, value in s.metrics.items()),
        "flags": " ".join(s.flags),
    }  # fmt: skip
    return row


def as_csv(summaries: Sequence[Summary]) -> str:
    """CSV with a heading line; empty where there is no figure."""
    flat = rows(summaries)
    return csv_text(flat, list(flat[0])) if flat else ""


def csv_text(flat: Iterable[dict[str, object]], names: Sequence[str], heading: bool = True) -> str:
    """Rows as CSV.  Text that a spreadsheet would take for a formula gets an apostrophe before it."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=names, lineterminator="\n")
    if heading:
        writer.writeheader()
    writer.writerows({name: _harmless(value) for name, value in row.items()} for row in flat)
    return out.getvalue()


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def as_json(summaries: Sequence[Summary], contexts: Sequence[Context]) -> bytes:
    """One JSON object: contexts, a row per cell as in the CSV, verdict."""
    from linewright.analysis import verdict

    result = {"contexts": contexts, "cells": rows(summaries), "verdict": verdict(summaries, contexts)}
    return msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n"
