# SPDX-License-Identifier: MIT
"""`linewright measure --against FILE`: which side of an earlier measurement can be measured again,
in turns with the new one.

Nothing that a record file names is run: its options are read by this program's own rules, and its
probe must be this one, by its digest."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from linewright.analysis.comparison import FEWEST_LAUNCHES
from linewright.compare import in_turns
from linewright.errors import UserError
from linewright.plans.estimate import LAUNCH_S, cells_s
from linewright.plans.request import check_time, request_of, resolve
from linewright.records import files as records
from linewright.run.probe_questions import digest
from linewright.run.registry import LocalTarget
from linewright.schema import Plan, Record
from linewright.target import Target


class NotAgain(NamedTuple):
    """Why an earlier file cannot be measured again."""

    kind: Literal[
        "elsewhere", "other_machine", "no_command", "other_probe", "same_command", "options"
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
        raise UserError(
            f"no cell in common with plan {plan.name}",
            path,
            "a file of the same plan, or of one that shares cells",
        )
    contexts = list(reader.contexts.values())
    command, program, machine = (
        {getattr(c, name) for c in contexts} for name in ("command", "program", "machine_id")
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
        if given == list(words):
            return NotAgain("same_command")
        return resolve(request_of(given), target)
    except (UserError, ValueError) as error:
        return NotAgain("options", str(error))


def measure(
    old: Plan, new: Plan, probe: Path, folder: Path, note: Callable[[str], None]
) -> list[str]:
    """Both plans in turns, each launch with its share of the new one's budget; the names of the two
    record files."""
    turns = max(FEWEST_LAUNCHES, new.launches)
    start = ["env", f"LINEWRIGHT_PROBE={os.path.abspath(probe)}", sys.executable, "-m"]
    commands = []
    for name, side in zip(in_turns.NAMES, (old, new), strict=True):
        plan = msgspec.structs.replace(side, launches=1, budget_s=new.budget_s / turns / 2)
        needed_s = 2 * turns * (LAUNCH_S + cells_s(plan, plan.cells))
        check_time(needed_s, msgspec.structs.replace(plan, budget_s=new.budget_s))
        file = folder / f"{name}-plan.json"
        file.write_bytes(msgspec.json.encode(plan))
        again = ["linewright", "measure", "--format", "none", "--plan", str(file)]
        commands.append([*start, *again, "--output", in_turns.OUTPUT])
    return in_turns.measure(commands, folder, turns, note)
