# SPDX-License-Identifier: MIT
"""Two commands that write records, run in turns: launch by launch A then B, or B then A, so that
drift falls on both.

Each command is run once per launch and writes to the file that ``{output}`` in it stands for.  The
number of the turn is in its environment, for `linewright measure --launch`: turns differ in it, so
that the placement of code is in the interval, and the two sides of a turn do not.  The launches of
each side are joined into one record file.

`linewright measure --against FILE` measures the other side again.  Nothing that a record file names
is run: its options are read by this program's own rules, and its probe must be this one, by its
digest."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from linewright import plans, units
from linewright.analysis.comparison import FEWEST_LAUNCHES
from linewright.errors import RunError, UserError
from linewright.plans.estimate import LAUNCH_S, cells_s
from linewright.plans.request import LAUNCH, check_time, request_of, resolve
from linewright.records import files as records
from linewright.run.probe_questions import digest
from linewright.run.registry import LocalTarget
from linewright.run.transport import last_line
from linewright.schema import Plan, Record
from linewright.target import Target

OUTPUT = "{output}"
MOST_LAUNCHES = 100
NAMES = ("a.jsonl", "b.jsonl")


def checked(command: str) -> list[str]:
    """A command's words; UserError where it names no place for the file."""
    allowed = "a command as a shell takes it, in quotation marks"
    words = units.shell_words(command, "--measure", allowed)
    if not any(OUTPUT in word for word in words):
        example = f"'linewright measure --set launches=1 --output {OUTPUT}'"
        allowed = f"the command writes its records to {OUTPUT}, such as {example}"
        raise UserError(f"{OUTPUT} does not occur in {command!r}", "--measure", allowed)
    return words


def new_folder(directory: str) -> Path:
    """The folder for the records, made where it is missing; UserError where it cannot be or holds
    records already."""
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"cannot make {directory}: {error.strerror}"
        raise UserError(what, "--output", "a folder that can be written") from None
    for path in (folder / name for name in NAMES):
        if path.exists():
            raise UserError(f"{path} exists", "--output", f"a folder without {' and '.join(NAMES)}")
    return folder


def measure(
    commands: list[list[str]], folder: Path, launches: int, note: Callable[[str], None]
) -> list[str]:
    """Run both commands in turns and join each one's records; the names of the two files, in the
    order of the commands.

    Every second turn begins with the second command.  RunError where a command fails or writes no
    record file; what was written so far is kept."""
    joined = [folder / name for name in NAMES]
    for turn in range(launches):
        note(f"turn {turn + 1} of {launches}")
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            part = folder / f"{NAMES[side][0]}-{turn}.jsonl"
            _run([word.replace(OUTPUT, str(part)) for word in commands[side]], part, turn)
            _append(part, joined[side], turn)
            os.unlink(part)
    note(f"records are in {joined[0]} and {joined[1]}")
    return [str(path) for path in joined]


def _run(words: list[str], part: Path, turn: int) -> None:
    environment = os.environ | {LAUNCH: str(turn)}
    try:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        done = subprocess.run(words, text=True, env=environment, **quiet)
    except OSError as error:
        raise RunError(f"cannot run {words[0]}: {error.strerror}") from None
    if done.returncode != 0:
        said = last_line(done.stderr)
        raise RunError(f"{shlex.join(words)} ended with {done.returncode}: {said}")
    if not part.exists():
        raise RunError(f"{shlex.join(words)} wrote no {part}")


def _append(part: Path, whole: Path, turn: int) -> None:
    """Add one launch's records to its side; a program that takes no number of a launch has them
    numbered here."""
    numbers = set()
    with open(whole, "ab") as stream:
        for line in records.Reader(str(part)):
            numbers.add(line.value.launch)
            if len(numbers) > 1:
                advice = "run the command with --set launches=1"
                raise RunError(f"{part} holds more than one launch: {advice}")
            numbered = msgspec.structs.replace(line.value, launch=turn)
            stream.write(msgspec.json.encode(numbered) + b"\n")


class NotAgain(NamedTuple):
    """Why an earlier file cannot be measured again."""

    kind: Literal[
        "elsewhere",
        "other_machine",
        "no_command",
        "other_probe",
        "other_plan",
        "same_command",
        "options",
    ]
    what: str = ""
    """The target, the file's machine, or what is wrong with its options."""


def other_side(path: str, plan: Plan, words: Sequence[str], target: Target) -> Plan | NotAgain:
    """What the earlier file's side runs, or why it cannot be measured again.

    `words` are the options of the new measurement, and `plan` what they give.  UserError where the
    two have no cell in common.
    """
    reader = records.Reader(path)
    seen = {line.value.id for line in reader if isinstance(line.value, Record)}
    if not seen & {cell.id for cell in plan.cells}:
        allowed = "a file of the same plan, or of one that shares cells"
        raise UserError(f"no cell in common with plan {plan.name}", path, allowed)
    contexts = list(reader.contexts.values())
    command, program, machine, plan_digest = (
        {getattr(c, name) for c in contexts}
        for name in ("command", "program", "machine_id", "plan_digest")
    )
    if not isinstance(target, LocalTarget):
        return NotAgain("elsewhere", target.name)
    if machine != {target.context().machine_id}:
        return NotAgain("other_machine", f"{contexts[0].cpu_model}, {contexts[0].kernel}")
    if len(command) != 1 or "" in program:
        return NotAgain("no_command")
    if program != {digest(target.probe_path)}:
        return NotAgain("other_probe")
    try:
        given = shlex.split(command.pop())
        again = resolve(request_of(given), target)
    except (UserError, ValueError) as error:
        return NotAgain("options", str(error))
    if plan_digest != {plans.digest(again)}:
        return NotAgain("other_plan")
    return NotAgain("same_command") if given == list(words) else again


def measure_other_side(
    old: Plan, new: Plan, probe: Path, folder: Path, note: Callable[[str], None]
) -> list[str]:
    """Both plans in turns, each launch with its share of the new one's budget; the names of the two
    record files."""
    turns = max(FEWEST_LAUNCHES, new.launches)
    start = ["env", f"LINEWRIGHT_PROBE={os.path.abspath(probe)}", sys.executable, "-m"]
    commands = []
    for name, side in zip(NAMES, (old, new), strict=True):
        plan = msgspec.structs.replace(side, launches=1, budget_s=new.budget_s / turns / 2)
        needed_s = 2 * turns * (LAUNCH_S + cells_s(plan, plan.cells))
        check_time(needed_s, msgspec.structs.replace(plan, budget_s=new.budget_s))
        file = folder / f"{name}-plan.json"
        file.write_bytes(msgspec.json.encode(plan))
        again = ["linewright", "measure", "--format", "none", "--plan", str(file)]
        commands.append([*start, *again, "--output", OUTPUT])
    return measure(commands, folder, turns, note)
