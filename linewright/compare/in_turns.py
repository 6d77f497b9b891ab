# SPDX-License-Identifier: MIT
"""Two commands that write records, run in turns: launch by launch A then B, or B then A, so that
drift falls on both.

Each command is run once per launch and writes to the file that ``{output}`` in it stands for.  The
number of the turn is in its environment, for `linewright measure --launch`: turns differ in it, so
that the placement of code is in the interval, and the two sides of a turn do not.  The launches of
each side are joined into one record file."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec

from linewright.errors import RunError, UserError
from linewright.plans.request import LAUNCH
from linewright.records import files as records

OUTPUT = "{output}"
MOST_LAUNCHES = 100
NAMES = ("a.jsonl", "b.jsonl")


def checked(command: str) -> list[str]:
    """A command's words; UserError where it names no place for the file."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserError(
            f"cannot be read: {error}",
            "--measure",
            "a command as a shell takes it, in quotation marks",
        ) from None
    if not any(OUTPUT in word for word in words):
        raise UserError(
            f"{OUTPUT} does not occur in {command!r}",
            "--measure",
            f"the command writes its records to {OUTPUT}, such as 'linewright measure --set "
            f"launches=1 --output {OUTPUT}'",
        )
    return words


def new_folder(directory: str) -> Path:
    """The folder for the records, made where it is missing; UserError where it cannot be or holds
    records already."""
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot make {directory}: {error.strerror}",
            "--output",
            "a folder that can be written",
        ) from None
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
        done = subprocess.run(
            words,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=environment,
        )
    except OSError as error:
        raise RunError(f"cannot run {words[0]}: {error.strerror}") from None
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [""]
        raise RunError(f"{shlex.join(words)} ended with {done.returncode}: {last[0]}")
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
                raise RunError(
                    f"{part} holds more than one launch: run the command with --set launches=1"
                )
            stream.write(
                msgspec.json.encode(msgspec.structs.replace(line.value, launch=turn)) + b"\n"
            )
