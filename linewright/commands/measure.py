# SPDX-License-Identifier: MIT
"""`linewright measure`: run a plan, keep its records, show the result."""

from __future__ import annotations

import math
import os
import shlex
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import typer

from linewright import plans, wings
from linewright.commands import compare as compare_command
from linewright.commands import show as show_command
from linewright.commands._options import AsJson, Only, plans_named, targets_named, words_of
from linewright.errors import BAD_REQUEST, DONE, RunError, UserError, contradiction
from linewright.plans.estimate import LAUNCH_S, cells_s
from linewright.plans.request import (
    DEFAULT_PLAN,
    LAUNCH,
    OPTIONS,
    Request,
    check_time,
    options_of_run,
    plan_text,
    request_of,
    resolve,
)
from linewright.records import files as records
from linewright.run.launches import launch_plans, measured_together
from linewright.run.place import Quota
from linewright.run.probe_questions import digest
from linewright.run.registry import LocalTarget, ProbeTarget, examples, open_target
from linewright.schema import Context, Plan, Record
from linewright.show import progress
from linewright.show.output import FORMATS, asked_format, note
from linewright.target import Done, Progress, Target

if TYPE_CHECKING:
    from linewright.analysis.looks import Looks

ORDER = 0
TARGETS = wings.targets().values()
SETTINGS_OF_TARGETS = {name: target for target in TARGETS for name in target.settings}
"""What ``--set`` takes on targets of wings, each with the kind that takes it."""
_EXAMPLES = "".join(
    f", on {target.example} {', '.join(target.settings.values())}"
    for target in TARGETS
    if target.settings
)

PlanOption = Annotated[
    str | None,
    typer.Option(
        help="Built-in plan or plan file.", show_default=DEFAULT_PLAN, autocompletion=plans_named
    ),
]
OnOption = Annotated[
    list[str] | None,
    typer.Option(
        help=f"Where to run: {', '.join(examples())}; repeatable for several machines, which "
        "@FILE names one a line.",
        show_default="local",
        autocompletion=targets_named,
    ),
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="Take what a probe printed elsewhere, in place of measuring; - is standard input.",
    ),
]
OutputOption = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        help="Record file; - is standard output.",
        show_default="results/PLAN-TIME.jsonl",
    ),
]
BudgetOption = Annotated[
    str | None,
    typer.Option(help="Time for the whole run: 60s, 2m, 1.5h.", show_default="the plan's"),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Plan parameter, or precision=2%, cpus=0,2-4 (the timed thread's first), seed=1, "
        f"counters=cycles,task-clock, launch=0{_EXAMPLES}; repeatable.",
    ),
]
ResumeOption = Annotated[
    str | None,
    typer.Option(
        help="Continue this record file of the same machine; of several machines their folder."
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be measured and how long it takes.")
]
FormatOption = Annotated[
    str,
    typer.Option("--format", help="table, plain (line by line, for screen readers), csv, or none."),
]
AgainstOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Compare with this record file, measured again in turns where that is possible; exit"
        " 1 if anything differs.",
    ),
]


def measure(
    plan: PlanOption = None,
    on: OnOption = None,
    out: OutputOption = None,
    budget: BudgetOption = None,
    only: Only = None,
    settings: SetOption = None,
    resume: ResumeOption = None,
    printed: FromOption = None,
    dry_run: DryRunOption = False,
    form: FormatOption = "table",
    as_json: AsJson = False,
    against: AgainstOption = None,
) -> int:
    """Measure on this machine or others, keep the records, show the result."""
    form = asked_format(form, as_json, "measure", (*FORMATS, "none"))
    settings = _with_launch(settings or [])
    again = {"--plan": plan, "--budget": budget, "--only": only, "--set": settings or None}
    _check_together(out, resume, form, against)
    if printed is not None:
        others = {**again, "--on": on, "--resume": resume, "--against": against}
        if given := words_of({**others, "--dry-run": dry_run or None}):
            raise contradiction("--from", given[0], "measure", "--from takes records as they are")
        return _take_printed(printed, out, form)
    if on is not None and (len(on) > 1 or on[0].startswith("@")):
        if dry_run or against is not None or out == "-":
            allowed = "name a folder with -o; no --dry-run and no --against"
            raise UserError("several machines, one folder", "--on", allowed)
        several = wings.brought("several_machines")
        if not several:
            raise UserError("this installation cannot measure several machines at once", "--on")
        return several[0](on, out, resume, again, form)
    if resume is not None and plan is None:
        again |= _as_begun(resume, again)
    of_target = [pair for pair in again["--set"] or () if _name(pair) in SETTINGS_OF_TARGETS]
    of_plan = [pair for pair in again["--set"] or () if pair not in of_target]
    request = request_of(words_of({**_of_plan(again), "--set": of_plan}))
    with closing(open_target(on[0] if on else "local")) as target:
        if of_target:
            _set(target, of_target)
        asked = Asked(out, resume, dry_run, form, {**again, "--on": on})
        if against is not None and not dry_run:
            return _compared(against, request, target, asked)
        return _on_one(request, target, asked)


def _name(setting: str) -> str:
    return setting.partition("=")[0]


def _with_launch(settings: list[str]) -> list[str]:
    """The settings, with the launch that the environment names where they name none."""
    number = os.environ.get(LAUNCH)
    if number is None or any(_name(text) == "launch" for text in settings):
        return settings
    return [*settings, f"launch={number}"]


def _set(target: Target, asked: list[str]) -> None:
    """Settings that only one kind of target has."""
    if not hasattr(target, "take_settings"):
        name = _name(asked[0])
        allowed = f"allowed with --on {SETTINGS_OF_TARGETS[name].example}"
        raise UserError(f"{target.name} has no {name}", f"--set {name}", allowed)
    target.take_settings(asked)


class Asked(NamedTuple):
    """What is asked for beside a plan: where to write, what to resume, whether only to describe,
    how to show it, and the options with which a run goes on."""

    out: str | None
    resume: str | None
    dry_run: bool
    form: str
    again: dict[str, object]


def _on_one(request: Request, target: Target, asked: Asked) -> int:
    """Measure on one target."""
    out, resume, dry_run, form, again = asked
    chosen = resolve(request, target)
    with ExitStack() as stack:
        kept = records.PartialFile([], [], None)
        if resume is not None:
            check = lambda known: _check_machine(known, resume, target)
            kept = records.reopen(resume, check, note, not dry_run)
        if kept.writer:
            stack.callback(kept.writer.close)
        looks = None
        if chosen.looks and not target.simulates:  # which takes its own time
            from linewright.analysis.looks import Looks  # NumPy takes longer than a refusal

            looks = Looks(chosen, set())
        if looks is not None and kept.records:
            looks.take(kept.contexts, kept.records)
        done = looks.done if looks is not None else set()
        done |= measured_together(chosen, kept.records, done)
        launches = launch_plans(chosen, done)
        if not target.simulates:
            check_time(sum(LAUNCH_S + cells_s(launch, launch.cells) for launch in launches), chosen)
        if dry_run:
            return _describe(chosen, launches, done, target)
        if not launches:
            note(f"{resume} is complete: nothing left to measure")
            _show(kept.contexts, kept.records, form)
            return DONE
        if kept.writer is None:
            path = _path(out, chosen.name)
            words = words_of({"--resume": path, "--on": again["--on"]})
            command = shlex.join(["linewright", "measure", *words])
            writer = records.create(path, otherwise=f"; {command} continues it")
            kept = kept._replace(writer=writer)
            stack.callback(kept.writer.close)
        return _run(chosen, launches, (done, looks), kept, target, form, again)


def _compared(earlier: str, request: Request, target: Target, asked: Asked) -> int:
    """Measure and compare with an earlier file: in turns where that side can be measured again,
    else as of two times."""
    # These import NumPy, which takes longer than a refusal may.
    from linewright.compare import in_turns
    from linewright.say.comparison_document import not_again_text

    chosen = resolve(request, target)
    path = _path(asked.out, chosen.name)
    other = in_turns.other_side(earlier, chosen, _command(asked.again), target)
    if isinstance(other, in_turns.NotAgain):
        note(not_again_text(earlier, other))
        _on_one(request, target, asked._replace(out=path, form="none"))
        return compare_command.answer([earlier, path], asked.form)
    folder = in_turns.new_folder(str(Path(path).with_suffix("")))
    note(
        f"the side of {earlier} is measured again, in turns with the new one; that file "
        "itself is not compared"
    )
    made = in_turns.measure_other_side(other, chosen, target.probe_path, folder, note)
    return compare_command.answer(made, asked.form)


def _of_plan(again: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in again.items() if name in OPTIONS}


def _command(again: dict[str, object]) -> list[str]:
    """The options that say what is measured, as contexts keep them."""
    settings = [pair for pair in again["--set"] or () if _name(pair) != "launch"]
    return words_of({**_of_plan(again), "--set": settings})


def _take_printed(path: str, out: str | None, form: str) -> int:
    """Check what a probe printed, keep it as a record file of its own, and show it."""
    contexts, rows = records.read("/dev/stdin" if path == "-" else path, note)
    if not rows:
        allowed = "a probe prints its context and then a record for each cell"
        raise UserError("no record in it", path, allowed)
    from linewright.say.machine_lines import doubts_of_printed  # imports NumPy

    for text in doubts_of_printed(contexts):
        note(f"{path}: {text}")
    writer = records.create(_path(out, contexts[0].plan))
    with closing(writer):
        for context in contexts:
            writer.write(context)
            for record in rows:
                if record.context_id == context.context_id:
                    writer.write(record)
    if writer.name != "standard output":
        _show(contexts, rows, form)
        note(f"records are in {writer.name}; linewright show --all FILE shows every cell")
    return DONE


def _check_together(out: str | None, resume: str | None, form: str, against: str | None) -> None:
    """Options that contradict each other."""
    if against is not None and (resume is not None or out == "-"):
        other = "--resume" if resume else "--output -"
        allowed = "a comparison needs a whole new measurement, in a file"
        raise contradiction("--against", other, "measure", allowed)
    if resume is not None and out is not None:
        raise contradiction("--resume", "--output", "measure", "--resume FILE appends to FILE")
    if out == "-" and form not in ("table", "none"):
        allowed = "standard output takes one of them"
        other = "--json" if form == "json" else f"--format {form}"
        raise contradiction("--output -", other, "measure", allowed)


def _as_begun(path: str, again: dict[str, object]) -> dict[str, object]:
    """The options that a record file was begun with, and in their place those that are given."""
    first = next(iter(records.Reader(path))).value
    options = options_of_run(first.command)
    if first.command and not options:
        what = f"{path} was begun with what are no options of measure: {first.command}"
        raise UserError(what, "--resume", "name its plan with --plan")
    begun: dict[str, list[str]] = {}
    for option, value in options:
        begun.setdefault(option, []).append(value)
    if "--plan" not in begun and first.plan not in plans.built_in():
        what = f"{path} was begun with plan {first.plan!r}, which is not built in"
        raise UserError(what, "--resume", "name its file with --plan")
    given = {_name(pair) for pair in again["--set"] or ()}
    kept = [pair for pair in begun.get("--set", ()) if _name(pair) not in given]
    return {
        "--plan": begun.get("--plan") or (first.plan if first.plan != DEFAULT_PLAN else None),
        "--budget": again["--budget"] or begun.get("--budget"),
        "--only": again["--only"] or begun.get("--only"),
        "--set": [*kept, *(again["--set"] or ())] or None,
    }


def _path(out: str | None, plan: str) -> str:
    return out if out is not None else records.new_path(f"{plan}-{records.moment()}")


def _check_machine(contexts: list[Context], path: str, target: Target) -> None:
    here = target.context().machine_id
    for context in contexts:
        if context.machine_id != here:
            other = f"{context.machine_id} ({context.cpu_model}, {context.kernel})"
            what = f"{path} was measured on another machine, kernel or probe: {other}"
            raise UserError(what, "--resume", f"this is {here}")


def _describe(plan: Plan, launches: list[Plan], done: Done, on: Target) -> int:
    for line in plan_text(plan, on):
        print(line)
    if done:
        print(
            f"already measured: {len(done)} cell runs; left: "
            f"{sum(len(launch.cells) for launch in launches)}"
        )
    for cell in plan.cells:
        print(cell.id)
    return DONE


def _run(
    plan: Plan,
    launches: list[Plan],
    beyond: tuple[Done, Looks | None],
    kept: records.PartialFile,
    target: Target,
    form: str,
    again: dict[str, object],
) -> int:
    """Run, keep every record as it comes, and show what there is, also when the run stops early."""
    for line in plan_text(plan, target):
        note(line)
    contexts, rows = list(kept.contexts), list(kept.records)
    failure: RunError | UserError | None = None
    made_by = {"command": shlex.join(_command(again)), "plan_digest": plans.digest(plan)}
    if isinstance(target, LocalTarget):
        made_by["program"] = digest(target.probe_path)
    # A simulation takes what it takes.
    budget_s = math.inf if target.simulates else plan.budget_s
    done, looks = beyond
    quota = target.quota if isinstance(target, ProbeTarget) else Quota
    held_s, began_s = quota().held_back_s, time.monotonic()
    with progress.fitting(progress.PlanMeter(launches, budget_s)) as shown:
        try:
            for event in target.run(plan, done):
                if isinstance(event, Progress):
                    kept.writer.sync()
                    shown.show(event)
                    continue
                if isinstance(event, Context):
                    event = msgspec.structs.replace(event, **made_by)
                kept.writer.write(event)
                (contexts if isinstance(event, Context) else rows).append(event)
                if looks is not None and isinstance(event, Record):
                    looks.take(contexts, rows)
        except (RunError, UserError) as error:
            failure = error
    kept.writer.sync()
    new = len(rows) - len(kept.records)
    from linewright.say.machine_lines import held_back_remarks, other_load_remarks  # imports NumPy

    held_s, ran_s = quota().held_back_s - held_s, time.monotonic() - began_s
    loads = other_load_remarks(contexts[len(kept.contexts) :])
    for line in (*loads, *held_back_remarks(held_s, ran_s)):
        note(line)
    if kept.writer.name != "standard output" and rows:
        if form in ("table", "plain") or failure is None:
            _show(contexts, rows, form)
        if new:
            note(f"records are in {kept.writer.name}; linewright show --all FILE shows every cell")
    if failure is None:
        return DONE
    if failure.exit_code == BAD_REQUEST and not new:
        raise failure
    raise _with_what_is_kept(failure, new, launches, kept.writer.name, again)


def _show(contexts: list[Context], rows: list[Record], form: str) -> None:
    if form == "none":
        return
    # Imports NumPy, which takes longer than a refusal or the help may.
    from linewright.analysis import summarise

    show_command.show_summaries(summarise(contexts, rows), contexts, form)


def _with_what_is_kept(
    failure: RunError | UserError,
    new: int,
    launches: list[Plan],
    name: str,
    again: dict[str, object],
) -> RunError:
    """The failure, with what is finished and how to go on: the options that made the plan belong to
    it."""
    total = sum(len(launch.cells) for launch in launches)
    command = shlex.join(["linewright", "measure", "--resume", name, *words_of(again)])
    go_on = f"; continue with {command}" if name != "standard output" and new else ""
    return RunError(f"{failure}; {new} of {total} cell runs are kept{go_on}")
