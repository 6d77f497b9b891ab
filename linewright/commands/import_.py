"""`linewright import`: published data as records, so that `show`, `report` and `compare` take it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from linewright.errors import DONE, UserError
from linewright.output.console import note
from linewright.records import bounded
from linewright.schema import Context, Record

ORDER = 55
MOST_BYTES = 64 * 1024 * 1024
"""Of an imported text: a published table has kilobytes."""

Text = Annotated[str, typer.Argument(metavar="FILE", help="The published data.", show_default=False)]
Output = Annotated[
    str | None,
    typer.Option("--output", "-o", help="Record file; - is standard output.", show_default="results/NAME.jsonl"),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing record file.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Make records of published data: percentiles without windows, marked as published.")
    group.command("published")(published)
    group.command("percpu-bench")(percpu_bench)
    app.add_typer(group, name="import")


def published(file: Text, out: Output = None, force: Force = False) -> int:
    """A CSV table: form,contender,contender_iters,work_iters,p50_ns,p95_ns,p99_ns."""
    from linewright.records.imported import from_table

    return _import(from_table, file, out, force)


def percpu_bench(file: Text, out: Output = None, force: Force = False) -> int:
    """What the upstream percpu_bench prints: one line for each variant, contention and duty, CPU by CPU."""
    from linewright.records.imported import from_percpu_bench

    return _import(from_percpu_bench, file, out, force)


def _import(
    read: Callable[[str, str], tuple[list[Context], list[Record]]], file: str, out: str | None, force: bool
) -> int:
    from linewright.records import files as records

    contexts, rows = read(_text(file), Path(file).name)
    writer = records.create(out if out is not None else records.new_path(Path(file).stem), force)
    try:
        for value in [*contexts, *rows]:
            writer.write(value)
        writer.sync()
    finally:
        writer.close()
    shared = sum("same_cpu" in row.flags for row in rows)
    note(
        f"{len(rows)} rows are in {writer.name}; published percentiles have no intervals, so nothing is claimed of them"
    )
    if shared:
        note(
            f"{shared} contended rows are exactly 2.00 times the uncontended figure: both threads shared one CPU"
            " (flag same_cpu), so they are left out of every comparison"
        )
    return DONE


def _text(file: str) -> str:
    try:
        return bounded.read(file, MOST_BYTES, "expected a text file").decode("utf-8")
    except UnicodeDecodeError:
        raise UserError("is no UTF-8 text", file, "expected a text file") from None
