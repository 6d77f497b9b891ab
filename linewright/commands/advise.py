"""`linewright advise`: from record files to the setting to use, its margins, and what they cannot tell."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from linewright.errors import DONE, UserError
from linewright.output.console import note
from linewright.schema import Context

ORDER = 30


def register(app: typer.Typer) -> None:
    app.command("advise")(advise)


def advise(
    files: Annotated[list[str], typer.Argument(metavar="RECORDS…", help="Record files.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per machine in a list.")] = False,
) -> int:
    """Say which setting the measurement supports, by how much and where, and what it cannot tell."""
    from linewright.advice import advice
    from linewright.analysis import loading

    loaded = loading.load(files, note)
    if not loaded.summaries:
        raise UserError("no finished cell to advise on", files[0], "the run ended before its first block of cells did")
    contexts = list(loaded.contexts.values())
    answers = advice.advise_summaries(contexts, loaded.summaries, loaded.classes)
    if as_json:
        import msgspec

        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(answers), indent=1) + b"\n")
        sys.stdout.flush()
        return DONE
    _print(answers, contexts)
    return DONE


def _print(answers: list, contexts: list[Context]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from linewright.errors import one_line
    from linewright.output.console import console_for
    from linewright.output.machine import describe

    console = console_for(sys.stdout)
    for number, answer in enumerate(answers):
        if number:
            console.print()
        for line in describe([c for c in contexts if c.machine_id == answer.machine_id]):
            console.print(Text(line, style="dim"))
        console.print()
        console.print(Text(one_line(answer.setting.sentence), style="bold"))
        for section in answer.sections:
            console.print()
            console.print(Text(section.title, style="bold"))
            for line in section.lines:
                console.print(Padding(Text(one_line(line)), (0, 0, 0, 2 if not line.startswith("  ") else 4)))
    sys.stdout.flush()
