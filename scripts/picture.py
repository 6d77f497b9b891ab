#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws what `linewright show RECORDS` prints for README: picture.py RECORDS [FOLDER] writes SVG,
light and dark, and text.

The text is for readers without pictures: the front page of the package (scripts/front_page.py)
shows it.

The window's title says what was run, on which machine and when, so that the picture cannot pass for
another machine's."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, SVG_EXPORT_THEME, TerminalTheme

from linewright.analysis import loading
from linewright.errors import LinewrightError
from linewright.say.machine_document import documents
from linewright.show.output import WIDEST, note
from linewright.show.terminal import print_documents

THEMES = {"light": DEFAULT_TERMINAL_THEME, "dark": SVG_EXPORT_THEME}
FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)
"""Rich's picture fetches its font; the picture must fetch nothing, and every line's length is fixed
without it."""


def recorded(records: str) -> tuple[Console, str]:
    """A console that holds the screen of a record file, and the picture's title."""
    loaded = loading.load([records], note)
    contexts = list(loaded.contexts.values())
    console = Console(
        file=io.StringIO(),
        record=True,
        width=WIDEST,
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
        markup=False,
        emoji=False,
    )
    made = documents(loaded.summaries, contexts)
    print_documents(made, console)
    day = min(context.started_utc for context in contexts)[:10]
    return console, f"linewright measure · {made[0].title} · {day}"


def drawn(console: Console, title: str, theme: TerminalTheme) -> str:
    """What a console holds as one SVG document."""
    picture = console.export_svg(title=title, theme=theme, unique_id="linewright", clear=False)
    return FONTS.sub("", picture).replace("Fira Code", "ui-monospace, Menlo, Consolas")


def main(arguments: list[str]) -> int:
    if not 1 <= len(arguments) <= 2:
        print("picture.py: expected RECORDS [FOLDER]", file=sys.stderr)
        return 2
    folder = Path(arguments[1] if len(arguments) > 1 else "docs/images")
    try:
        console, title = recorded(arguments[0])
    except LinewrightError as error:
        note(str(error))
        return error.exit_code
    folder.mkdir(parents=True, exist_ok=True)
    files = {f"screen-{name}.svg": drawn(console, title, theme) for name, theme in THEMES.items()}
    files["screen.txt"] = "".join(
        f"{line.rstrip()}\n" for line in console.export_text(clear=False).splitlines()
    )
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
        print(folder / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
