# SPDX-License-Identifier: MIT
"""Command lines that pages and messages show, and why the command would refuse one."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import typer

from linewright.cli import app
from support.places import ROOT


def named_commands(group: typer.core.TyperGroup) -> Iterator[tuple[str, typer.core.TyperCommand]]:
    """Every command, one of a group with the group's name before its own."""
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            yield from ((f"{name} {inner}", one) for inner, one in named_commands(command))
        else:
            yield name, command


COMMAND = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S* )*(?:\.venv/bin/)?linewright (?=[a-z-])")
COMMANDS = dict(named_commands(typer.main.get_command(app)))
"""By what is typed: one word, or two where a group has it."""
OWN = {"--help"} | {
    option for parameter in typer.main.get_command(app).params for option in parameter.opts
}
PASSED_ON = {"workload": "workload/main.cpp", "probe": "probe/main.cpp"}
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


def name_and_rest(line: str) -> tuple[str, str]:
    """The command that a line calls, and what it is given."""
    first, _, rest = COMMAND.sub("", line, count=1).partition(" ")
    second, _, more = rest.partition(" ")
    return (f"{first} {second}", more) if f"{first} {second}" in COMMANDS else (first, rest)


def complaint(line: str) -> str:
    """Why the command would refuse a line, empty if it would not. A synopsis (`[…]`, `…`) need only
    name real options."""
    name, rest = name_and_rest(line)
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
        asked = re.findall(r"--[a-z][a-z-]*", re.split(r"(?:^| )-- ", rest)[0])
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


STOP = ".,;:)]}'\"…"


def within(text: str) -> list[str]:
    """The command lines inside prose: the name, then options with their values, and words in
    capitals, which stand for arguments."""
    found = []
    for match in re.finditer(r"\blinewright (?=[a-z])", text):
        words = re.findall(r"'[^']*'\S*|\S+", text[match.end() :].partition("`")[0])
        line, value = ["linewright"], False
        if " ".join(words[:2]).rstrip(STOP) in COMMANDS:
            words[:2] = [" ".join(words[:2])]
        for word in words:
            bare = " ".join(word.rstrip(STOP).split()) + "'" * word.startswith("'")
            known = options_of(line[1]) if len(line) > 1 and line[1] in COMMANDS else {}
            if len(line) > 1 and not (
                value or bare in known or re.fullmatch("[A-Z]+|--|--versus", bare)
            ):
                break
            value = not value and bare in known and not is_flag(known[bare])
            line.append(bare)
            if bare != word:
                break
        found.append(" ".join(line))
    return found


MENTIONED = re.compile(
    r"linewright (\w+|model \w+|compare --measure|find --json|run --locks|probe --)"
)
"""A line that only names a command or what it does, and leaves out what it works on; of a name
alone, those that want nothing more are typed as they stand."""
COMPLETE = {"linewright measure", "linewright list"}
STAND_INS = {
    "FILE": "r.jsonl",
    "BASELINE": "r.jsonl",
    "PROGRAM": "true",
    "OTHER": "/bin/true",
    "A": "true",
    "B": "/bin/true",
    "NAME": "arm64-server-2025",
    "KIND": "ticket --duration 10ms",
}
"""What a reader of these tests has in place of words in capitals."""
TAKES_ITS_PLACE = ("run", "workload", "probe")
"""Commands that a program of ours or of the user's takes the place of."""


class Followed(NamedTuple):
    """A command line that was executed: what it answered, and where its records are if it made
    any."""

    answer: subprocess.CompletedProcess[str]
    records: Path


def follow(command, text: str, holding: str = "") -> dict[str, Followed]:
    """Every command line inside what was printed, or those that hold some words, executed where
    that was printed; a trial with two rounds."""
    done = {}
    for line in dict.fromkeys(within(text)):
        if holding not in line or (MENTIONED.fullmatch(line) and line not in COMPLETE):
            continue
        typed = line.replace("--output FILE", "--output t.jsonl").split()[1:]
        typed = " ".join(STAND_INS.get(word, word) for word in typed)
        if re.match("trial (?!--resume)", typed):
            typed = typed.replace("trial", "trial --runs 2 --set warmup=0", 1)
        words = shlex.split(typed)
        made = command.directory / f"followed-{len(done)}.jsonl"
        if words[0] == "measure" and not {"--resume", "--from"} & {*words}:
            words += ["-o", made.name]
        run = command.apart if words[0] in TAKES_ITS_PLACE else command
        done[line] = Followed(run(*words), made)
    return done


def go_on(said: str | bytes) -> list[str]:
    """The words of the command that a run that was stopped ends with."""
    text = said.decode() if isinstance(said, bytes) else said
    return shlex.split(text.splitlines()[-1].rpartition("continue with linewright ")[2])


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
