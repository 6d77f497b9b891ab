# SPDX-License-Identifier: MIT
"""`linewright trial`: a program of the user's under several settings, in random interleaved
order."""

from __future__ import annotations

import datetime
import os
import secrets
import shlex
import sys
import time
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from linewright import __version__, units
from linewright.commands._options import AsJson, Elsewhere, ProgramArgument, limit_of, set_option
from linewright.errors import DIFFERENT, DONE, RunError, UserError, check_range
from linewright.plans.definition import Parameter, values_of, word
from linewright.say.words import problem_text
from linewright.show.output import answer_beside, console_for, note, print_json
from linewright.trial.trial_place import TrialPlace

if TYPE_CHECKING:
    from linewright.trial.scaling import Scaling

ORDER = 11
CONTEXT = {"ignore_unknown_options": False, "allow_interspersed_args": False}
PARAMETERS = (
    Parameter(
        "precision",
        "fraction",
        "1%",
        "the trial may end when every interval is no wider than twice that",
    ),
    Parameter("warmup", "count", 1, "rounds that are not counted", 0, 1000),
    Parameter("limit", "duration", None, "after which a run is ended and has failed"),
    word(
        "work", "job thread", "of --threads: the same whole job at each number, or for each thread"
    ),
    Parameter("seed", "count", None, "of the order of the runs", 0, 10**12 - 1),
)
"""What ``--set`` takes."""


SettingsOption = Annotated[
    str | None,
    typer.Option(
        help="Settings of LINEWRIGHT_ATOMICS, separated by /; the first is the baseline.",
        show_default="default/prefetch/load on arm64",
    ),
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        help="A setting made of assignments, 'A=1 B=2'; repeatable, the first is the baseline."
        " A single one is compared with the unchanged environment.",
    ),
]
RunsOption = Annotated[
    int, typer.Option(help="Rounds planned: runs of each setting.", show_default=True)
]
MetricOption = Annotated[
    str,
    typer.Option(
        help="wall, cpu, maxrss, or a regular expression whose first group is a number in the "
        "program's output."
    ),
]
HigherOption = Annotated[
    bool, typer.Option("--higher-is-better", help="The metric is a rate: more is better.")
]
TrialFileOption = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        help="Trial file; an existing one of the same program gets another session.",
        show_default="results/trial-TIME.jsonl",
    ),
]
ResumeTrialOption = Annotated[
    str | None, typer.Option(help="Continue this trial file's last session.")
]

PadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--pad",
        help="Heap blocks that this function allocates get lines of their own; repeatable. "
        "linewright find names it.",
    ),
]
LocksOption = Annotated[
    bool,
    typer.Option(
        "--locks",
        help="The program as it is against its readers-writer locks replaced, as by linewright "
        "run --locks.",
    ),
]
ThreadsOption = Annotated[
    str | None,
    typer.Option(
        metavar="N,N,…",
        help="Throughput at each of these numbers of threads over that at the first; {threads} in "
        "PROGRAM's arguments or --env stands for the number.",
    ),
]
FailBelowOption = Annotated[
    str | None,
    typer.Option(
        metavar="RATIO",
        help="Exit 1 if the last number of threads is shown to have less than this times the "
        "throughput of the first: 3.2x; with 3.2x,undecided also if it is not shown to have more.",
    ),
]

TrialSetOption = set_option(PARAMETERS)


def trial(
    context: typer.Context,
    command: ProgramArgument = None,
    settings: SettingsOption = None,
    env: EnvOption = None,
    pad: PadOption = None,
    locks: LocksOption = False,
    threads: ThreadsOption = None,
    fail_below: FailBelowOption = None,
    runs: RunsOption = 20,
    metric: MetricOption = "wall",
    higher_is_better: HigherOption = False,
    on: Elsewhere = None,
    output: TrialFileOption = None,
    more: TrialSetOption = None,
    resume: ResumeTrialOption = None,
    as_json: AsJson = False,
) -> int:
    """Run your own program under each setting and say what differs, with an interval.

    Two commands or builds: linewright trial -- A --versus -- B."""
    if resume is not None:
        _only_alone(context)
        limit = [p for p in PARAMETERS if p.name == "limit"]
        return _resume(resume, values_of(limit, more or (), "--resume")["limit"], as_json)
    if not command:
        allowed = "linewright trial [OPTIONS] -- PROGRAM [ARGS…]"
        raise UserError("no program named", "trial", allowed)
    check_range(runs, 2, 100_000, "--runs")
    asked_for = values_of(PARAMETERS, more or (), "trial")
    from linewright.say.trial_document import too_few
    from linewright.trial import named_settings, runner

    runner.compile_metric(metric)
    words, (command, *others) = command, named_settings.commands(command)
    scaled, other = threads is not None, settings is not None
    named_settings.check_one_kind(pad, locks, bool(others), scaled, other, env and not scaled)
    for text in (*words, *(env or [])):
        named_settings.check_storable(text)
    asked = {"metric": metric, "higher_is_better": higher_is_better, "planned_rounds": runs}
    asked |= _scaling(threads, fail_below, metric, higher_is_better, asked_for["work"])
    with closing(TrialPlace(on, lambda problem: note(problem_text(problem)))) as there:
        if pad or locks:
            named = named_settings.alone(pad, command[0], there)
        elif others:
            named = named_settings.of_commands([command, *others])
        elif scaled:
            named = named_settings.of_threads(threads, command, env)
        else:
            named = named_settings.named(settings, env, command[0], output is not None, there)
        there.check(named)
        session = _session(command, named, there, asked_for, **asked)
        writer = _file(output, session, there)
        if text := too_few(runs, len(named), "--runs "):
            note(text)
        with there.watched() if pad else nullcontext() as unseen:
            code = _run(session, [], there, writer, asked_for["limit"], as_json)
            for name in unseen(named[1:]) if pad else ():
                note(f"{name}: no heap block came from there, so nothing was padded")
        return code


def _scaling(
    threads: str | None, fail_below: str | None, metric: str, rate: bool, work: str
) -> dict[str, object]:
    """The fields of a session that go with --threads."""
    if threads is None:
        for option, is_asked in (("--fail-below", fail_below), ("--set work", work != "job")):
            if is_asked:
                raise UserError("there is no throughput to judge", option, "beside --threads")
        return {}
    if metric in ("cpu", "maxrss"):
        allowed = "allowed: wall, or a regular expression"
        raise UserError(f"{metric} is no throughput", "--metric", allowed)
    if rate and work == "thread":
        what = "a rate is that of all threads, whatever each does"
        raise UserError(what, "--set work", "allowed beside --higher-is-better: work=job")
    least, undecided_fails = limit_of(fail_below, units.multiple, "--fail-below")
    return {"work": work, "fail_below": least or 0.0, "undecided_fails": undecided_fails}


def _only_alone(context: typer.Context) -> None:
    """Refuse what --resume would not heed: more rounds, say, which must be planned from the
    start."""
    others = context.params.keys() - {"resume", "more", "as_json"}
    if any(context.get_parameter_source(name).name == "COMMANDLINE" for name in others):
        allowed = "allowed beside it: --json, --set limit=60s"
        raise UserError("--resume takes everything from its file", "trial", allowed)


def _session(command: list[str], named: list, there: TrialPlace, values: dict, **asked: object):
    from linewright.trial.runner import METRICS
    from linewright.trial.trial_file import Session

    return Session(
        linewright_trial=1,
        session=secrets.token_hex(8),
        started_utc=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        tool_version=__version__,
        command=command,
        unit=METRICS.get(asked["metric"], ""),
        settings=named,
        precision=values["precision"],
        warmup_rounds=values["warmup"],
        seed=secrets.randbits(53) if values["seed"] is None else values["seed"],
        target=there.name,
        **there.facts(),
        **asked,
    )


def _file(path: str | None, session, there: TrialPlace):
    """A writer to the trial file, behind the session's line; an existing file must fit."""
    from linewright.records import files as records
    from linewright.trial import trial_file

    for setting in session.settings:
        there.find((setting.command or session.command)[0])
    if path is not None and os.path.exists(path):
        known = trial_file.read(path, note)
        trial_file.check_same(known.sessions[0], session, path)
        writer = trial_file.append_to(known, "--output")
    else:
        name = f"trial-{records.moment()}-{secrets.token_hex(2)}"
        writer = records.create(path or records.new_path(name, "--output"), "--output")
    writer.write(session)
    return writer


def _resume(path: str, limit_s: float | None, as_json: bool) -> int:
    from linewright.trial import trial_file

    known = trial_file.read(path, note)
    session = known.sessions[-1]
    samples = [s for s in known.samples if s.session == session.session]
    with closing(TrialPlace(session.target, lambda problem: note(problem_text(problem)))) as there:
        now = there.facts()
        for name in ("cpu_model", "kernel", "boot_id"):
            if getattr(session, name) != now[name]:
                other = f"{session.cpu_model}, {session.kernel}"
                what = f"{path} was begun on another boot or machine ({other})"
                allowed = "--output on each boot, then linewright compare"
                raise UserError(what, "--resume", allowed)
        writer = trial_file.append_to(known, "--resume")
        return _run(session, samples, there, writer, limit_s, as_json)


def _run(
    session, samples: list, there: TrialPlace, writer, limit_s: float | None, as_json: bool
) -> int:
    """Run what is left, keep every run as it ends, show what there is, also when it stops early."""
    from linewright.run.process import Interrupts
    from linewright.say.machine_lines import held_back_remarks
    from linewright.show.progress import TrialMeter, fitting
    from linewright.trial import engine

    def keep(sample) -> None:
        writer.write(sample)
        writer.sync()

    try:
        held_s, began_s = there.quota().held_back_s, time.monotonic()
        done = sum(not sample.warm_up for sample in samples)
        total = (session.planned_rounds + session.warmup_rounds) * len(session.settings)
        with Interrupts() as interrupts, fitting(TrialMeter(total, done)) as shown:
            runs = there.runs(session, interrupts, limit_s)
            finished = engine.run(session, runs, samples, keep, shown.show)
    finally:
        writer.close()
    held_s, ran_s = there.quota().held_back_s - held_s, time.monotonic() - began_s
    found = _show(session, finished, writer.name, as_json)
    for line in held_back_remarks(held_s, ran_s):
        note(line)
    if finished.interrupted:
        go_on = shlex.join(["linewright", "trial", "--resume", writer.name])
        kept = f"{len(finished.samples)} runs are kept; continue with {go_on}"
        raise RunError(f"{runs.lost or 'interrupted'}; {kept}")
    if all(sample.value is None for sample in finished.samples):
        raise RunError(engine.no_figure(session, finished.samples[0].reason))
    if found is None or not session.fail_below:
        return DONE
    if found.untold:
        raise RunError(f"--fail-below {session.fail_below:g}x: nothing is known")
    return DIFFERENT if found.fails(session) else DONE


def _show(session, finished, name: str, as_json: bool) -> Scaling | None:
    """Print the result; gives what the numbers of threads came to, if they are the settings."""
    from linewright.say import trial_document
    from linewright.say.document import render_all
    from linewright.show.terminal import print_tables
    from linewright.trial.scaling import scaling

    every = [*finished.warm_ups, *finished.samples]
    found = scaling(session, every, finished.verdict) if session.scaling else None
    said = trial_document.document(session, finished.samples, finished.verdict, found)
    if as_json:
        failures = render_all(trial_document.failures(session, finished.samples))
        needed = finished.verdict.rounds_needed
        data = {"session": session, "verdict": finished.verdict, "rounds_needed": needed}
        data |= {"scaling": found} if found else {}
        data |= {"failures": failures, "file": name, "document": said}
    with answer_beside():
        if as_json:
            print_json(data)
        else:
            print_tables(said, console_for(sys.stdout))
    note(f"every run is in {name}")
    return found
