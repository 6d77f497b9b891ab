"""`linewright measure --against FILE`: which side of an earlier measurement can be measured again, in turns with the
new one.

Nothing that a record file names is run: its options are read by this program's own rules, and the probe is this one or
the one that the user names, known by its digest.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from linewright.compare import in_turns
from linewright.errors import UserError
from linewright.plans.request import check_time, request_of, resolve
from linewright.records import files as records
from linewright.schema import Plan, Record
from linewright.target.estimate import LAUNCH_S, cells_s
from linewright.target.local import LocalTarget, Target
from linewright.target.probe import digest


class Side(NamedTuple):
    """What one side of a comparison runs."""

    plan: Plan
    probe: Path


def other_side(path: str, plan: Plan, words: Sequence[str], target: Target, named: str | None) -> Side | str:
    """What the earlier file's side runs, or in words why it cannot be measured again.

    `words` are the options of the new measurement, and `plan` what they give; `named`, where given, is the probe that
    the file was measured with.  UserError where the two have no cell in common.
    """
    reader = records.Reader(path)
    seen = {line.value.id for line in reader if isinstance(line.value, Record)}
    if not seen & {cell.id for cell in plan.cells}:
        raise UserError(
            f"no cell in common with plan {plan.name}", path, "a file of the same plan, or of one that shares cells"
        )
    contexts = list(reader.contexts.values())
    command, program, machine = ({getattr(c, name) for c in contexts} for name in ("command", "program", "machine_id"))
    if not isinstance(target, LocalTarget):
        return f"{target.name} is not this machine"
    if machine != {target.context().machine_id}:
        return f"it is of another machine or kernel ({contexts[0].cpu_model}, {contexts[0].kernel})"
    if len(command) != 1 or "" in program:
        return "it does not say by which one command it was measured"
    known = {digest(Path(name)): Path(name) for name in (named, target.probe_path) if name}
    if len(program) != 1 or not program <= set(known):
        return "it was measured with another build of the probe (--against-probe names that, where it is still there)"
    probe = known[program.pop()]
    try:
        given = shlex.split(command.pop())
        if (probe, given) == (target.probe_path, list(words)):
            return "it was measured by this very command and probe, so that only the machine can have changed"
        return Side(resolve(request_of(given), LocalTarget(probe)), probe)
    except (UserError, ValueError) as error:
        return f"its options are not taken now ({error})"


def measure(old: Side, new_side: Side, folder: Path, note: Callable[[str], None]) -> list[str]:
    """Both sides in turns, each launch with its share of the new side's budget; the names of the two record files."""
    new = new_side.plan
    turns = max(in_turns.FEWEST_LAUNCHES, new.launches)
    commands = []
    for name, side in zip(in_turns.NAMES, (old, new_side), strict=True):
        plan = msgspec.structs.replace(side.plan, launches=1, budget_s=new.budget_s / turns / 2)
        check_time(LAUNCH_S + cells_s(plan, plan.cells), plan)
        file = folder / f"{name}-plan.json"
        file.write_bytes(msgspec.json.encode(plan))
        again = ["linewright", "measure", "--quiet", "--plan", str(file), "--output", in_turns.OUTPUT]
        commands.append(["env", f"LINEWRIGHT_PROBE={os.path.abspath(side.probe)}", sys.executable, "-m", *again])
    return in_turns.measure(commands, folder, turns, note)
