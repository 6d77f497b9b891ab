"""`linewright measure`: run a plan, keep its records, show the result."""

from __future__ import annotations

import math
import shlex
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer

from linewright import __version__, plans
from linewright.commands import compare as compare_command
from linewright.commands._options import Every, Only, words_of
from linewright.commands.show import FormatOption, PlainOption
from linewright.errors import BAD_REQUEST, DONE, RunError, UserError
from linewright.output import progress
from linewright.output.console import note
from linewright.output.formats import View, check_format, view_of
from linewright.output.machine import company
from linewright.plans.request import (
    DEFAULT_PLAN,
    LAUNCH,
    OPTIONS,
    Request,
    check_time,
    is_simulated,
    plan_text,
    request_of,
    resolve,
)
from linewright.records import files as records
from linewright.schema import Context, Plan, Record
from linewright.target.estimate import LAUNCH_S, cells_s
from linewright.target.local import Done, LocalTarget, Progress, Target, launch_plans
from linewright.target.probe import digest
from linewright.target.registry import open_target

ORDER = 10


PlanOption = Annotated[str | None, typer.Option(help="Built-in plan or plan file.", show_default=DEFAULT_PLAN)]
OnOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Where to run: local, ssh://USER@HOST:PORT, 'exec:COMMAND', model:NAME; repeatable for several machines.",
        show_default="local",
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
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Keep the records, show no result.")]
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
ResumeOption = Annotated[
    str | None, typer.Option(help="Continue this record file of the same machine; of several machines their folder.")
]
DrawsOption = Annotated[
    int | None,
    typer.Option(
        help="With --on model: draws of the constants that bands come from.", show_default="20, 60 for bounds"
    ),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option(help="With --on model: address of a Dask scheduler that runs the draws (pip: linewright\\[cluster])."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be measured and how long it takes.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing record file.")]
LaunchOption = Annotated[
    int | None,
    typer.Option(
        help="Run only this launch of the plan, from 0; where code is placed and the cells' order follow the number.",
        envvar=LAUNCH, min=0, max=1000,
    ),
]  # fmt: skip
AgainstOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Compare with this record file, measured again in turns where that is possible; exit"
        " 1 if anything differs.",
    ),
]
AgainstProbeOption = Annotated[
    str | None, typer.Option(metavar="PROGRAM", help="The probe that the file of --against was measured with.")
]


def measure(
    plan: PlanOption = None,
    on: OnOption = None,
    out: OutputOption = None,
    budget: BudgetOption = None,
    precision: PrecisionOption = None,
    only: Only = None,
    cpus: CpusOption = None,
    settings: SetOption = None,
    seed: SeedOption = None,
    counters: CountersOption = None,
    draws: DrawsOption = None,
    scheduler: SchedulerOption = None,
    resume: ResumeOption = None,
    printed: FromOption = None,
    dry_run: DryRunOption = False,
    every: Every = False,
    plain: PlainOption = False,
    form: FormatOption = "table",
    quiet: QuietOption = False,
    force: ForceOption = False,
    launch: LaunchOption = None,
    against: AgainstOption = None,
    against_probe: AgainstProbeOption = None,
) -> int:
    """Measure on this machine or others, keep the records, show the result."""
    shape = Shape(form, view_of(check_format(form), every, plain), quiet)
    again = {
        "--plan": plan, "--budget": budget, "--precision": precision, "--only": only, "--cpus": cpus, "--set": settings,
        "--seed": seed, "--counters": counters, "--draws": draws, "--scheduler": scheduler, "--launch": launch,
    }  # fmt: skip
    _check_together(out, resume, force, form, against)
    if printed is not None:
        _only_printed({**again, "--on": on, "--resume": resume, "--against": against, "--dry-run": dry_run or None})
        return _take_printed(printed, out, force, shape)
    if on is not None and len(on) > 1:
        if dry_run or out == "-":
            raise UserError("several machines, one folder", "--on", "name a folder with -o, and no --dry-run")
        return _several(on, out, resume, again, shape)
    named = {"--plan": plan if plan is not None or resume is None else _plan_of(resume)}
    request = request_of(words_of({name: value for name, value in {**again, **named}.items() if name in OPTIONS}))
    with closing(open_target(on[0] if on else "local")) as target:
        _sweep(target, draws, scheduler)
        files = (out, resume, force, dry_run)
        if against is not None and not dry_run:
            return _compared((against, against_probe), request, target, files, shape, again)
        return _on_one(request, target, files, shape, {**again, "--on": on})


def _sweep(target: Target, draws: int | None, scheduler: str | None) -> None:
    """Options that only a simulated machine has."""
    if draws is None and scheduler is None:
        return
    if not hasattr(target, "sweep"):
        named = "--draws" if draws is not None else "--scheduler"
        raise UserError(f"{target.name} has no constants to draw", named, "allowed with --on model:NAME")
    target.sweep(draws, scheduler)


class Shape(NamedTuple):
    """How the result is shown."""

    form: str
    view: View
    quiet: bool


def _on_one(
    request: Request,
    target: Target,
    files: tuple[str | None, str | None, bool, bool],
    shape: Shape,
    again: dict[str, object],
) -> int:
    """Measure on one target; `files` is where to write, what to resume, whether to replace, whether only to
    describe."""
    out, resume, force, dry_run = files
    chosen = resolve(request, target)
    with ExitStack() as stack:
        kept = _reopen(resume, target, write=not dry_run) if resume is not None else records.Unfinished([], [], None)
        if kept.writer:
            stack.callback(kept.writer.close)
        done = {(record.id, record.launch) for record in kept.records if record.status == "ok"}
        launches = launch_plans(chosen, done)
        if not is_simulated(target.name):
            check_time(sum(LAUNCH_S + cells_s(launch, launch.cells) for launch in launches), chosen)
        if dry_run:
            return _describe(chosen, launches, done, target.name)
        if not launches:
            note(f"{resume} is complete: nothing left to measure")
            _show(kept.contexts, kept.records, shape)
            return DONE
        if kept.writer is None:
            kept = kept._replace(writer=records.create(_path(out, chosen.name), force))
            stack.callback(kept.writer.close)
        return _run(chosen, launches, done, kept, target, shape, again)


def _compared(
    earlier: tuple[str, str | None],
    request: Request,
    target: Target,
    files: tuple[str | None, str | None, bool, bool],
    shape: Shape,
    again: dict[str, object],
) -> int:
    """Measure and compare with an earlier file: in turns where that side can be measured again, else as of two
    times."""
    from linewright.compare import against, in_turns  # imports NumPy, which takes longer than a refusal may

    chosen = resolve(request, target)
    path = _path(files[0], chosen.name)
    other = against.other_side(earlier[0], chosen, _command(again), target, earlier[1])
    if isinstance(other, str):
        note(f"{earlier[0]} cannot be measured again: {other}; the two are compared as of two times")
        _on_one(request, target, (path, *files[1:]), shape._replace(quiet=True), again)
        return compare_command.answer([earlier[0], path], shape.form)
    folder = in_turns.new_folder(str(Path(path).with_suffix("")))
    note(f"the side of {earlier[0]} is measured again, in turns with the new one; that file itself is not compared")
    made = against.measure(other, against.Side(chosen, target.probe_path), folder, note)
    return compare_command.answer(made, shape.form)


def _command(again: dict[str, object]) -> list[str]:
    """The options that say what is measured, as contexts keep them."""
    return words_of({name: value for name, value in again.items() if name in OPTIONS and name != "--launch"})


def _several(on: list[str], out: str | None, resume: str | None, again: dict[str, object], shape: Shape) -> int:
    """One `measure` for each machine at the same time, a file each, one result and one report."""
    from linewright.commands.report import report
    from linewright.commands.show import show
    from linewright.fleet import crew, several

    plan = again["--plan"] or DEFAULT_PLAN
    folder = Path(
        resume or out or records.new_path(f"{Path(str(plan)).stem}-{records.moment()}").removesuffix(".jsonl")
    )
    team = several.measure(on, folder, words_of(again), resume is not None, str(plan), again["--budget"])
    files = [str(path) for path in team.files]
    if files and not shape.quiet:
        show(files, every=shape.view == View.ALL, plain=shape.view == View.PLAIN, form=shape.form)
        report(files, out=str(folder / "report.html"))
    if team.failed:
        raise crew.incomplete(team.failed, len(on), f"continue with --resume {shlex.quote(str(folder))}")
    note(f"records are in {folder}, one file for each machine")
    return DONE


def _only_printed(others: dict[str, object]) -> None:
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise UserError(f"--from and {given[0]} contradict each other", "measure", "--from takes records as they are")


def _take_printed(path: str, out: str | None, force: bool, shape: Shape) -> int:
    """Check what a probe printed, keep it as a record file of its own, and show it."""
    contexts, rows = records.read("/dev/stdin" if path == "-" else path, note)
    if not rows:
        raise UserError("no record in it", path, "a probe prints its context and then a record for each cell")
    for text in _doubts(contexts):
        note(f"{path}: {text}")
    writer = records.create(_path(out, contexts[0].plan), force)
    with closing(writer):
        for context in contexts:
            writer.write(context)
            for record in rows:
                if record.context_id == context.context_id:
                    writer.write(record)
    if writer.name != "standard output":
        _show(contexts, rows, shape)
        note(f"records are in {writer.name}; linewright show --all FILE shows every cell")
    return DONE


def _doubts(contexts: list[Context]) -> list[str]:
    """What a reader should know of a file that was made elsewhere: another version's probe, launches that are
    missing."""
    lines = []
    versions = {context.tool_version for context in contexts} - {__version__}
    if versions:
        lines.append(f"printed by version {', '.join(sorted(versions))} of the probe, this is {__version__}")
    wanted = max(context.launches for context in contexts)
    missing = sorted(set(range(wanted)) - {context.launch for context in contexts})
    if missing:
        lines.append(
            f"launches {', '.join(map(str, missing))} of {wanted} are not in it: run the probe with --launch N"
        )
    return lines


def _check_together(out: str | None, resume: str | None, force: bool, form: str, against: str | None) -> None:
    """Options that contradict each other."""
    if against is not None and (resume is not None or out == "-"):
        raise UserError(
            f"--against and {'--resume' if resume else '--output -'} contradict each other", "measure",
            "a comparison needs a whole new measurement, in a file",
        )  # fmt: skip
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


def _path(out: str | None, plan: str) -> str:
    return out if out is not None else records.new_path(f"{plan}-{records.moment()}")


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
    shape: Shape,
    again: dict[str, object],
) -> int:
    """Run, keep every record as it comes, and show what there is, also when the run stops early."""
    for line in plan_text(plan, target.name):
        note(line)
    contexts, rows = list(kept.contexts), list(kept.records)
    failure: RunError | UserError | None = None
    local = isinstance(target, LocalTarget)
    made_by = {"command": shlex.join(_command(again)), "program": digest(target.probe_path)} if local else {}
    budget_s = math.inf if is_simulated(target.name) else plan.budget_s  # a simulation takes what it takes
    with progress.display(launches, budget_s) as shown:
        try:
            for event in target.run(plan, done):
                if isinstance(event, Context):
                    event = msgspec.structs.replace(event, **made_by)
                _take(event, contexts, rows, kept.writer, shown)
        except (RunError, UserError) as error:
            failure = error
    kept.writer.sync()
    new = len(rows) - len(kept.records)
    for line in company(contexts[len(kept.contexts) :]):
        note(line)
    if kept.writer.name != "standard output" and rows:
        if shape.form == "table" or failure is None:
            _show(contexts, rows, shape)
        if new:
            note(f"records are in {kept.writer.name}; linewright show --all FILE shows every cell")
    if failure is None:
        return DONE
    if failure.exit_code == BAD_REQUEST and not new:
        raise failure
    raise _with_what_is_kept(failure, new, launches, kept.writer.name, again)


def _show(contexts: list[Context], rows: list[Record], shape: Shape) -> None:
    if shape.quiet:
        return
    from linewright.output import result  # imports SciPy, which takes longer than a refusal or the help may

    result.show_records(contexts, rows, shape.form, shape.view)


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
    options = shlex.join(["--resume", name, *words_of(again)])
    go_on = f"; continue with {options}" if name != "standard output" and new else ""
    return RunError(f"{failure}; {new} of {total} cell runs are kept{go_on}")
