"""Command lines that pages and messages show, and why the command would refuse one."""

from __future__ import annotations

import re
import shlex

import typer

from linewright.cli import app
from support.places import ROOT

COMMAND = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S* )*(?:\.venv/bin/)?linewright (?=[a-z-])")
COMMANDS = typer.main.get_command(app).commands
OWN = {"--help"} | {
    option for parameter in typer.main.get_command(app).params for option in parameter.opts
}
PASSED_ON = {"workload": "workload/request.cpp", "probe": "probe/main.cpp"}
"""What these take is parsed by a C++ program of ours, whose source names its options."""


def options_of(name: str) -> dict[str, typer.core.TyperOption]:
    """The options of a command by every name that they have."""
    return {
        option: parameter
        for parameter in COMMANDS[name].params
        if parameter.param_type_name == "option"
        for option in (*parameter.opts, *parameter.secondary_opts)
    }


def is_flag(parameter: typer.core.TyperOption) -> bool:
    """Whether an option takes no value; newer versions of Typer know a Python type."""
    return bool(getattr(parameter, "is_flag", False)) or (
        getattr(parameter, "bare_type", None) is bool
    )


def complaint(line: str) -> str:
    """Why the command would refuse a line, empty if it would not. A synopsis (`[…]`, `…`) need only
    name real options."""
    name, _, rest = COMMAND.sub("", line, count=1).partition(" ")
    synopsis = line.endswith(" …") or (re.search(r"…|\.\.\.|\[", rest) and "'" not in rest)
    if name.startswith("-"):
        return "" if name in OWN else f"no option {name}"
    if name not in COMMANDS:
        return f"no command {name}"
    known = {*options_of(name), "--help"}
    if name in PASSED_ON:
        source = (ROOT / PASSED_ON[name]).read_text()
        asked = re.findall(r"(?<!\S)--[a-z][\w-]*", rest)
        return ", ".join(f"no option {o}" for o in asked if o not in known and o not in source)
    if synopsis:
        asked = re.findall(r"--[a-z][a-z-]*", rest.partition(" -- ")[0])
        return ", ".join(f"no option {option}" for option in asked if option not in known)
    try:
        arguments = re.split(r" (?:[12]?>|<|\|) ?", rest)[0] if "'" not in rest else rest
        COMMANDS[name].make_context(name, shlex.split(arguments, comments=True))
    except (typer.Exit, SystemExit):
        return ""
    except Exception as refusal:  # the usage errors of Typer and of the Click that it carries
        if not hasattr(refusal, "format_message"):
            raise
        return refusal.format_message()
    return ""


STOP = ".,;:)]}'\""


def within(text: str) -> list[str]:
    """The command lines inside prose: the name, then options with their values, and words in
    capitals, which stand for arguments."""
    found = []
    for match in re.finditer(r"\blinewright (?=[a-z])", text):
        words = re.findall(r"'[^']*'\S*|\S+", text[match.end() :].partition("`")[0])
        line, value = ["linewright"], False
        for word in words:
            bare = " ".join(word.rstrip(STOP).split()) + "'" * word.startswith("'")
            known = options_of(line[1]) if len(line) > 1 and line[1] in COMMANDS else {}
            if len(line) > 1 and not (value or bare in known or re.fullmatch("[A-Z]+|--", bare)):
                break
            value = not value and bare in known and not is_flag(known[bare])
            line.append(bare)
            if bare != word:
                break
        found.append(" ".join(line))
    return found


def refused(command, text: str) -> dict[str, str]:
    """Of the command lines inside what was printed: those that would be refused, and why. A
    measurement is also planned, unless its records are there already (--from)."""
    found = {}
    for line in sorted(set(within(text))):
        why = complaint(f"{line} …")
        if (
            not why
            and line.startswith("linewright measure")
            and "--from" not in line
            and " FILE" not in line
        ):
            planned = command(*shlex.split(line)[1:], "--dry-run")
            if planned.returncode and "has no operations for" not in planned.stderr:
                why = planned.stderr
        if why:
            found[line] = why
    return found
