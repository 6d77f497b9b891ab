"""`linewright measure`: run a plan, keep its records, show the result."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from typing import Annotated

import typer

from linewright import plans, units
from linewright.commands._options import Every, Only
from linewright.commands.show import FormatOption, PlainOption
from linewright.errors import BAD_REQUEST, DONE, RunError, UserError
from linewright.output import progress
from linewright.output.console import note
from linewright.output.formats import View, check_format, view_of
from linewright.plans.request import Request, check_time, is_simulated, plan_text, resolve
from linewright.records import files as records
from linewright.schema import Context, Plan, Record
from linewright.target.estimate import LAUNCH_S, cells_s
from linewright.target.local import Done, Progress, Target, launch_plan
from linewright.target.registry import open_target

ORDER = 10
DEFAULT_PLAN = "quick"


def register(app: typer.Typer) -> None:
    app.command("measure")(measure)


PlanOption = Annotated[str | None, typer.Option(help="Built-in plan or plan file.", show_default=DEFAULT_PLAN)]
OnOption = Annotated[str, typer.Option(help="Where to run.")]
OutputOption = Annotated[
    str | None,
    typer.Option("--output", "-o", help="Record file; - is standard output.", show_default="results/PLAN-TIME.jsonl"),
]
BudgetOption = Annotated[
    str | None, typer.Option(help="Time for the whole run: 60s, 2m, 1.5h.", show_default="the plan's")
]
PrecisionOption = Annotated[
    str | None, typer.Option(help="Wanted half-width of each median's interval.", show_default="2%")
]
CpusOption = Annotated[
    str | None, typer.Option(help="CPUs to use, the timed thread's first: 0,2-4.", show_default="all allowed")
]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="Plan parameter, key=value; repeatable.")]
SeedOption = Annotated[
    int | None, typer.Option(help="Seed of the cells' order.", min=0, max=2**53 - 2000, show_default="1")
]
CountersOption = Annotated[
    str | None,
    typer.Option(
        help="Events to count, as perf names them: cycles,task-clock; or none.",
        show_default="cycles, instructions, snoops where the CPU names them",
    ),
]
ResumeOption = Annotated[str | None, typer.Option(help="Continue this record file of the same machine.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be measured and how long it takes.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing record file.")]


def measure(
    plan: PlanOption = None,
    on: OnOption = "local",
    out: OutputOption = None,
    budget: BudgetOption = None,
    precision: PrecisionOption = None,
    only: Only = None,
    cpus: CpusOption = None,
    settings: SetOption = None,
    seed: SeedOption = None,
    counters: CountersOption = None,
    resume: ResumeOption = None,
    dry_run: DryRunOption = False,
    every: Every = False,
    plain: PlainOption = False,
    form: FormatOption = "table",
    force: ForceOption = False,
) -> int:
    """Measure on this machine, keep the records, show the result."""
    view = view_of(check_format(form), every, plain)
    _check_together(out, resume, force, form)
    request = Request(
        plan=plan if plan is not None else _plan_of(resume) if resume is not None else DEFAULT_PLAN,
        budget_s=units.duration_s(budget, "--budget") if budget is not None else None,
        precision=units.fraction(precision, "--precision") if precision is not None else None,
        only=only or (),
        cpus=units.cpu_list(cpus, "--cpus") if cpus is not None else (),
        settings=settings or (),
        seed=seed,
        counters=units.event_list(counters, "--counters") if counters is not None else (),
    )
    target = open_target(on)
    chosen = resolve(request, target)
    again = {
        "--plan": plan,
        "--budget": budget,
        "--precision": precision,
        "--only": only,
        "--cpus": cpus,
        "--set": settings,
        "--seed": seed,
        "--counters": counters,
    }
    with ExitStack() as stack:
        kept = _reopen(resume, target, write=not dry_run) if resume is not None else records.Unfinished([], [], None)
        if kept.writer:
            stack.callback(kept.writer.close)
        done = {(record.id, record.launch) for record in kept.records if record.status == "ok"}
        launches = _left(chosen, done)
        if not is_simulated(on):
            check_time(sum(LAUNCH_S + cells_s(launch, launch.cells) for launch in launches), chosen)
        if dry_run:
            return _describe(chosen, launches, done, on)
        if not launches:
            note(f"{resume} is complete: nothing left to measure")
            _show(kept.contexts, kept.records, form, view)
            return DONE
        if kept.writer is None:
            kept = kept._replace(
                writer=records.create(
                    out if out is not None else records.new_path(f"{chosen.name}-{records.moment()}"), force
                )
            )
            stack.callback(kept.writer.close)
        return _run(chosen, launches, done, kept, target, (form, view), again)


def _check_together(out: str | None, resume: str | None, force: bool, form: str) -> None:
    """Options that contradict each other."""
    if resume is not None and out is not None:
        raise UserError("--resume and --output contradict each other", "measure", "--resume FILE appends to FILE")
    if resume is not None and force:
        raise UserError(
            "--resume and --force contradict each other", "measure", "one continues the file, the other replaces it"
        )
    if out == "-" and form != "table":
        raise UserError(
            f"--output - and --format {form} contradict each other", "measure", "standard output takes one of them"
        )


def _plan_of(path: str) -> str:
    """Name of the built-in plan that a record file was begun with."""
    reader = records.Reader(path)
    first = next(iter(reader)).value
    name = first.plan
    if name not in plans.built_in():
        raise UserError(
            f"{path} was begun with plan {name!r}, which is not built in", "--resume", "name its file with --plan"
        )
    return name


def _left(plan: Plan, done: Done) -> list[Plan]:
    """The launches that still have something to run."""
    parts = [launch_plan(plan, number, done) for number in range(plan.launches)]
    return [part for part in parts if part is not None]


def _reopen(path: str, target: Target, write: bool) -> records.Unfinished:
    """The record file to be continued, once it is known to be this machine's."""
    return records.reopen(path, lambda contexts: _check_machine(contexts, path, target), note, write)


def _check_machine(contexts: list[Context], path: str, target: Target) -> None:
    here = target.context().machine_id
    for context in contexts:
        if context.machine_id != here:
            raise UserError(
                f"{path} was measured on another machine, kernel or probe: "
                f"{context.machine_id} ({context.cpu_model}, {context.kernel})",
                "--resume",
                f"this is {here}",
            )


def _describe(plan: Plan, launches: list[Plan], done: Done, on: str) -> int:
    for line in plan_text(plan, on):
        print(line)
    if done:
        print(f"already measured: {len(done)} cell runs; left: {sum(len(launch.cells) for launch in launches)}")
    for cell in plan.cells:
        print(cell.id)
    return DONE


def _run(
    plan: Plan,
    launches: list[Plan],
    done: Done,
    kept: records.Unfinished,
    target: Target,
    shape: tuple[str, View],
    again: dict[str, object],
) -> int:
    """Run, keep every record as it comes, and show what there is, also when the run stops early."""
    for line in plan_text(plan, target.name):
        note(line)
    contexts, rows = list(kept.contexts), list(kept.records)
    failure: RunError | UserError | None = None
    with progress.display(launches, plan.budget_s) as shown:
        try:
            for event in target.run(plan, done):
                _take(event, contexts, rows, kept.writer, shown)
        except (RunError, UserError) as error:
            failure = error
    kept.writer.sync()
    new = len(rows) - len(kept.records)
    if kept.writer.name != "standard output" and rows:
        if shape[0] == "table" or failure is None:
            _show(contexts, rows, *shape)
        if new:
            note(f"records are in {kept.writer.name}; linewright show --all FILE shows every cell")
    if failure is None:
        return DONE
    if failure.exit_code == BAD_REQUEST and not new:
        raise failure
    raise _with_what_is_kept(failure, new, launches, kept.writer.name, again)


def _show(contexts: list[Context], rows: list[Record], form: str, view: View) -> None:
    from linewright.output import result  # imports SciPy, which takes longer than a refusal or the help may

    result.show_records(contexts, rows, form, view)


def _take(
    event: Context | Record | Progress,
    contexts: list[Context],
    rows: list[Record],
    writer: records.Writer,
    shown: progress.Lines | progress.Drawn,
) -> None:
    if isinstance(event, Progress):
        writer.sync()
        shown.show(event)
        return
    writer.write(event)
    (contexts if isinstance(event, Context) else rows).append(event)


def _with_what_is_kept(
    failure: RunError | UserError, new: int, launches: list[Plan], name: str, again: dict[str, object]
) -> RunError:
    """The failure, with what is finished and how to go on: the options that made the plan belong to it."""
    total = sum(len(launch.cells) for launch in launches)
    given = [
        (option, one)
        for option, value in again.items()
        for one in (value if isinstance(value, (list, tuple)) else [value])
        if one is not None
    ]
    options = shlex.join(["--resume", name, *(str(word) for pair in given for word in pair)])
    go_on = f"; continue with {options}" if name != "standard output" and new else ""
    return RunError(f"{failure}; {new} of {total} cell runs are kept{go_on}")
