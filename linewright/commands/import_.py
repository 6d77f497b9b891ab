"""`linewright import`: published data as records, so that `show`, `report` and `compare` take
it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from linewright.errors import DONE
from linewright.records import bounded
from linewright.show.console import note

ORDER = 55


def import_(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A CSV table: form,contender,contender_iters,work_iters,p50_ns,p95_ns,p99_ns; or "
            "what the upstream percpu_bench prints.",
            show_default=False,
        ),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="Record file; - is standard output.",
            show_default="results/NAME.jsonl",
        ),
    ] = None,
) -> int:
    """Make records of published data: percentiles without windows, marked as published."""
    from linewright.records import files as records
    from linewright.records.published_tables import from_text

    contexts, rows = from_text(bounded.read_text(file), Path(file).name)
    with closing(records.create(out or records.new_path(Path(file).stem))) as writer:
        for value in [*contexts, *rows]:
            writer.write(value)
        writer.sync()
    shared = sum("same_cpu" in row.flags for row in rows)
    note(
        f"{len(rows)} rows are in {writer.name}; published percentiles have no intervals, so "
        "nothing is claimed of them"
    )
    if shared:
        note(
            f"{shared} contended rows are exactly 2.00 times the uncontended figure: both "
            "threads shared one CPU"
            " (flag same_cpu), so they are left out of every comparison"
        )
    return DONE
