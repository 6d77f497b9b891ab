# SPDX-License-Identifier: MIT
"""Writes the manual pages: one for each command, from its help, and one for each public header,
from its comments.

Usage: man.py FOLDER. The pages go into FOLDER/man1 and FOLDER/man3.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import typer

from linewright import __version__
from linewright.cli import app

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs/reference/commands.md"
HEADERS = ROOT / "include/linewright"
WIDTH = 100
"""Columns of preformatted text. Header comments are wider: their paragraphs are filled again."""
MARKS = r"LW_API|LW_INLINE|LW_ALWAYS_INLINE"
"""What stands before a function of the interface."""
FIRST = ["atomic", "percpu", "srcu", "cache", "policy", "wide"]


def escaped(text: str) -> str:
    """Text as roff prints it unchanged."""
    text = (
        text.replace("\\", "\\e")
        .replace("-", "\\-")
        .replace("`", "\\(ga")
        .replace("^", "\\(ha")
        .replace("~", "\\(ti")
    )
    return "".join(f"\\[u{ord(c):04X}]" if ord(c) > 126 else c for c in text)


def line(text: str) -> str:
    """One line that is no request, whatever it begins with."""
    safe = escaped(text)
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


def plain(text: str) -> str:
    """Markdown of one table cell as text."""
    return (
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "").replace("\\|", "|").strip()
    )


def head(name: str, section: int) -> str:
    return (
        f'.TH "{name.upper()}" "{section}" "" "Linewright {__version__}" "Linewright"\n.nh\n.ad l\n'
    )


def named(name: str, about: str) -> str:
    about = about.rstrip(".")
    return f".SH NAME\n{line(name)} \\- {escaped(about)}\n"


def rows(heading: str) -> Iterator[tuple[str, str]]:
    """The two-column table below a heading of the reference."""
    part = re.split(r"^## ", REFERENCE.read_text(), flags=re.MULTILINE)
    table = next(text for text in part if text.startswith(heading + "\n"))
    for row in re.findall(r"^\| (.*) \|$", table, re.MULTILINE)[2:]:
        left, right = re.split(r"(?<!\\) \| ", row, maxsplit=1)
        yield plain(left), plain(right)


def tagged(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(f".TP\n\\fB{escaped(left)}\\fR\n{line(right)}\n" for left, right in pairs)


def value_of(parameter: typer.core.TyperOption) -> str:
    """What stands behind an option: nothing for a flag. Newer versions of Typer know a Python type,
    older ones Click's."""
    if getattr(parameter, "is_flag", False) or getattr(parameter, "bare_type", None) is bool:
        return ""
    number = getattr(parameter, "min", None) is not None or isinstance(parameter.default, int)
    return f" {parameter.metavar or ('NUMBER' if number else 'TEXT')}"


def parameters(command: typer.core.TyperCommand) -> tuple[list[str], list[tuple[str, str]]]:
    """The synopsis' arguments, and every option with its help."""
    arguments, options = [], []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            arguments.append(parameter.metavar or parameter.name.upper())
            continue
        if getattr(parameter, "hidden", False):
            continue
        names = ", ".join(sorted((*parameter.opts, *parameter.secondary_opts), key=len))
        value = value_of(parameter)
        shown = parameter.show_default if isinstance(parameter.show_default, str) else ""
        text = " ".join((parameter.help or "").split()) or "See the description."
        options.append((names + value, text + (f" Default: {shown}." if shown else "")))
    return arguments, options


def command_page(name: str, command: typer.core.TyperCommand) -> str:
    """The page of one command: ``linewright-measure(1)``."""
    about, _, more = " ".join((command.help or "").split()).partition(". ")
    arguments, options = parameters(command)
    page = head(f"linewright-{name}", 1) + named(f"linewright-{name}", about)
    page += (
        ".SH SYNOPSIS\n.B linewright "
        f"{escaped(name)}\n{line(' '.join(['[OPTIONS]', *arguments]))}\n"
    )
    page += f".SH DESCRIPTION\n{line(about.rstrip('.') + '. ' + more)}\n"
    for inner, sub in sorted(getattr(command, "commands", {}).items()):
        given, inner_options = parameters(sub)
        heading, about = " ".join([inner, *given]), " ".join((sub.help or "").split())
        page += f'.SS "{escaped(heading)}"\n{line(about)}\n'
        page += tagged(inner_options)
    page += ".SH OPTIONS\n" + tagged([*options, ("--help", "Show the options, and exit.")])
    page += ".SH EXIT STATUS\n" + tagged(rows("Exit codes"))
    return page + ".SH SEE ALSO\n.BR linewright (1),\nand docs/ of the source.\n"


def main_page(commands: dict[str, typer.core.TyperCommand]) -> str:
    """``linewright(1)``: every command, exit codes, environment."""
    page = head("linewright", 1) + named("linewright", app.info.help or "")
    page += (
        ".SH SYNOPSIS\n.B linewright\nCOMMAND [OPTIONS] [ARGUMENTS]\n.SH DESCRIPTION\n"
        + line(app.info.help or "")
        + "\n"
    )
    page += ".SH COMMANDS\n" + tagged(
        (name, " ".join((c.help or "").split(". ")[0].split())) for name, c in commands.items()
    )
    page += ".SH OPTIONS\n" + tagged(
        [("--version", "Print the version."), ("--help", "Show the commands, and exit.")]
    )
    page += (
        ".SH EXIT STATUS\n"
        + tagged(rows("Exit codes"))
        + ".SH ENVIRONMENT\n"
        + tagged(rows("Environment"))
    )
    also = ",\n".join(f".BR linewright\\-{escaped(name)} (1)" for name in commands)
    return page + f".SH SEE ALSO\n{also}\n"


COMMENT = re.compile(r"^/\*(.*?)\*/[ \t]*\n((?:(?!/\*|#|\n)[^\n]*\n)*)", re.MULTILINE | re.DOTALL)


def comment_lines(text: str) -> list[str]:
    """The lines of a block comment without its stars."""
    return [
        re.sub(r"^ ?\*(?: |$)", "", piece).rstrip()
        for piece in f" * {text.strip().removeprefix('*').strip()}".split("\n")
    ]


def prose(lines: list[str]) -> str:
    """Paragraphs filled; tables, code and lists, which are indented or hold runs of spaces, as they
    are."""
    page = ""
    for block in "\n".join(lines).split("\n\n"):
        inner = [piece for piece in block.split("\n") if piece.strip()]
        if not inner:
            continue
        if any(piece.startswith("  ") or re.search(r"\S {3,}\S", piece) for piece in inner):
            page += ".PP\n.EX\n" + "".join(line(piece) + "\n" for piece in inner) + ".EE\n"
        else:
            page += ".PP\n" + "".join(line(piece.strip()) + "\n" for piece in inner)
    return page


def declarations(text: str) -> list[str]:
    """What stands directly below a comment, up to a body, each on one line."""
    found = []
    for statement in re.findall(rf"((?:{MARKS})[^;{{]*)[;{{]", text):
        found.append(" ".join(re.sub(MARKS, "", statement).split()) + ";")
    return found


def first_sentence(lines: list[str]) -> str:
    whole = " ".join(lines)
    return re.split(r"(?<=[.:])\s", whole.strip(), maxsplit=1)[0].rstrip(".:")


def header_page(path: Path) -> str:
    """The page of one public header: ``linewright_cache(3)``."""
    text = path.read_text()
    opening, *others = (one for one in COMMENT.finditer(text) if "SPDX-" not in one[1])
    lines = comment_lines(opening[1])
    name = f"linewright_{path.stem}"
    page = head(name, 3) + named(name, first_sentence(lines))
    page += (
        ".SH LIBRARY\nLinewright (liblinewright, \\-llinewright)\n.SH SYNOPSIS\n.nf\n.B #include"
        f" <linewright/{escaped(path.name)}>\n.fi\n"
    )
    page += ".SH DESCRIPTION\n" + prose(lines).removeprefix(".PP\n")
    functions = ""
    for match in others:
        declared = declarations(match[2])
        if declared:
            functions += (
                ".PP\n.nf\n" + "".join(f"\\fB{escaped(one)}\\fR\n" for one in declared) + ".fi\n"
            )
            functions += ".RS\n" + prose(comment_lines(match[1])) + ".RE\n"
    page += ".SH FUNCTIONS\n" + functions.removeprefix(".PP\n") if functions else ""
    also = [stem for stem in FIRST if stem != path.stem]
    return (
        page + ".SH SEE ALSO\n" + ",\n".join(f".BR linewright_{stem} (3)" for stem in also) + "\n"
    )


def main(folder: str) -> int:
    commands = dict(sorted(typer.main.get_command(app).commands.items()))
    pages = {
        f"man1/linewright-{name}.1": command_page(name, command)
        for name, command in commands.items()
    }
    pages["man1/linewright.1"] = main_page(commands)
    for path in sorted(HEADERS.glob("*.h")):
        opening = COMMENT.search(path.read_text())
        if opening and not re.search(r"part of \w+\.h|Included by", opening[1]):
            pages[f"man3/linewright_{path.stem}.3"] = header_page(path)
    for name, page in pages.items():
        place = Path(folder, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(page)
    print(f"{len(pages)} pages in {folder}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: man.py FOLDER")
    sys.exit(main(sys.argv[1]))
