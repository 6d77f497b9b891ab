"""`linewright trial`: a program of the user's under several settings, in random interleaved order."""

from __future__ import annotations

import datetime
import os
import re
import secrets
import shlex
import sys
from contextlib import closing
from typing import Annotated

import typer

from linewright import __version__, policy, units
from linewright.commands._options import AsJson, check_range
from linewright.commands._where import Where, where
from linewright.errors import DONE, RunError, UserError
from linewright.output.console import console_for, note, print_json

ORDER = 35
CONTEXT = {"ignore_unknown_options": False, "allow_interspersed_args": False}
MOST_SETTINGS = 16
AS_IS = "as is"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


CommandArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="-- PROGRAM [ARGS…]", help="The program and its arguments.", show_default=False),
]
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
RunsOption = Annotated[int, typer.Option(help="Rounds planned: runs of each setting.", show_default=True)]
PrecisionOption = Annotated[str, typer.Option(help="Half-width of every interval at which the trial may end.")]
MetricOption = Annotated[
    str,
    typer.Option(
        help="wall, cpu, maxrss, or a regular expression whose first group is a number in the program's output."
    ),
]
HigherOption = Annotated[bool, typer.Option("--higher-is-better", help="The metric is a rate: more is better.")]
WarmupOption = Annotated[int, typer.Option(help="Rounds that are run first and not counted.")]
LimitOption = Annotated[
    str | None,
    typer.Option(help="A run longer than this is ended and counts as failed: 60s, 2m.", show_default="none"),
]
SeedOption = Annotated[int | None, typer.Option(help="Seed of the order.", show_default="random")]
SaveOption = Annotated[
    str | None,
    typer.Option(
        help="Trial file; an existing one of the same program gets another session.",
        show_default="results/trial-TIME.jsonl",
    ),
]
OnOption = Annotated[
    str | None,
    typer.Option("--on", help="Where to run: ssh://USER@HOST:PORT or 'exec:COMMAND'.", show_default="local"),
]
ResumeOption = Annotated[str | None, typer.Option(help="Continue this trial file's last session.")]

PadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--pad",
        help="Heap blocks that this function allocates get lines of their own; repeatable. linewright find names it.",
    ),
]


def trial(
    context: typer.Context,
    command: CommandArgument = None,
    settings: SettingsOption = None,
    env: EnvOption = None,
    pad: PadOption = None,
    runs: RunsOption = 20,
    precision: PrecisionOption = "1%",
    metric: MetricOption = "wall",
    higher_is_better: HigherOption = False,
    warmup: WarmupOption = 1,
    limit: LimitOption = None,
    seed: SeedOption = None,
    on: OnOption = None,
    save: SaveOption = None,
    resume: ResumeOption = None,
    as_json: AsJson = False,
) -> int:
    """Run your own program under each setting and say what differs, with an interval."""
    if resume is not None:
        _only_alone(context)
        return _resume(resume, limit, as_json)
    if not command:
        raise UserError("no program named", "trial", "linewright trial [OPTIONS] -- PROGRAM [ARGS…]")
    check_range(runs, 2, 100_000, "--runs")
    check_range(warmup, 0, 1000, "--warmup")
    if seed is not None:
        check_range(seed, 0, 2**53, "--seed")
    limit_s = units.duration_s(limit, "--limit") if limit is not None else None
    from linewright.trial import runner

    runner.compile_metric(metric)
    for text in (*command, *(env or [])):
        _storable(text)
    asked = dict(
        metric=metric,
        unit=runner.METRICS.get(metric, ""),
        higher_is_better=higher_is_better,
        planned_rounds=runs,
        precision=units.fraction(precision, "--precision"),
        warmup_rounds=warmup,
        seed=secrets.randbits(53) if seed is None else seed,
    )
    with closing(where(on)) as there:
        if pad:
            named = _padded(pad, settings, env, command[0], there)
        else:
            named = _settings(settings, env, command[0], save is not None, there)
        session = _session(command, named, there, **asked)
        writer = _file(save, session, there)
        _say_limits(settings, named, runs, there.machine)
        run = _run_padded if pad else _run_new
        return run(session, there, writer, limit_s, as_json)


def _say_limits(settings: str | None, named: list, runs: int, machine: str) -> None:
    """What this trial cannot show, before it begins."""
    from linewright.analysis import paired

    if settings is not None and machine != "aarch64":
        note(f"on {machine} each atomic operation has one form: these settings differ in name alone")
    if len(named) > 1 and (enough := paired.fewest_rounds(len(named))) > runs:
        note(
            f"{runs} rounds cannot show a difference between {len(named)} settings, however large:"
            f" --runs {enough} or more"
        )


def _run_new(session, there: Where, writer, limit_s: float | None, as_json: bool) -> int:
    return _run(session, [], there, writer, limit_s, as_json, describe=True)


def _run_padded(session, there: Where, writer, limit_s: float | None, as_json: bool) -> int:
    """Run it, and say of which site no block came: such a setting is the baseline under another name."""
    with there.watched() as unseen:
        code = _run_new(session, there, writer, limit_s, as_json)
        for name in unseen(session.settings[1:]):
            note(f"{name}: no heap block came from there, so nothing was padded")
    return code


def _only_alone(context: typer.Context) -> None:
    """Refuse what --resume would not heed: more rounds, say, which must be planned from the start."""
    beside = {"resume", "limit", "as_json"}
    if any(context.get_parameter_source(name).name == "COMMANDLINE" for name in context.params if name not in beside):
        raise UserError("--resume takes everything from its file", "trial", "allowed beside it: --json, --limit")


def _padded(pad: list[str], atomics: str | None, env: list[str] | None, program: str, there: Where) -> list:
    if atomics is not None or env:
        raise UserError("--pad with other settings", "trial", "one kind of setting at a time")
    check_range(len(pad), 1, MOST_SETTINGS - 1, "--pad")
    return there.padded(list(dict.fromkeys(pad)), program)


def _storable(text: str) -> None:
    """A trial file says what was run, and is JSON."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(
            f"not UTF-8: {text!r}",
            "trial",
            "allowed: a program, arguments and environments in UTF-8; a script can start any other",
        ) from None


def _settings(atomics: str | None, env: list[str] | None, program: str, alone: bool, there: Where) -> list:
    """The settings asked for, by name; the first is the baseline."""
    from linewright.trial.files import Named

    if atomics is not None and env:
        raise UserError("--settings and --env contradict each other", "trial", "put LINEWRIGHT_ATOMICS=… into --env")
    if env:
        named = [Named(name=text.strip() or AS_IS, environment=_assignments(text)) for text in env]
        if len(named) == 1 and not alone:
            named.insert(0, Named(name=AS_IS, environment={}))
    elif atomics is not None or (not alone and there.machine == "aarch64"):
        named = _policies(atomics or "default/prefetch/load", program, there)
    elif alone:
        named = [Named(name=AS_IS, environment={})]
    else:
        raise UserError(
            "nothing to try: each atomic operation has one form on this machine",
            "trial",
            "name environments: --env A=1 --env A=2",
        )
    names = [n.name for n in named]
    if len(set(names)) < len(names):
        raise UserError(
            f"setting named twice: {next(n for n in names if names.count(n) > 1)}", "trial", "each setting once"
        )
    if len(named) < 2 and not alone:
        raise UserError("one setting has nothing to be compared with", "--settings", "at least two, separated by /")
    check_range(len(named), 1, MOST_SETTINGS, "settings")
    return named


def _assignments(text: str) -> dict[str, str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(
            f"{text!r}: {error}", "--env", "allowed: NAME=VALUE, several separated by spaces, quoted as in a shell"
        ) from None
    answer: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not _NAME.fullmatch(name) or "\0" in value:
            raise UserError(f"not an assignment: {word!r}", "--env", "allowed: NAME=VALUE, several separated by spaces")
        answer[name] = value
    return answer


def _policies(text: str, program: str, there: Where) -> list:
    """Settings of the library; on arm64 all of them load the auditing library, so that nothing else differs."""
    from linewright.trial.files import Named

    values = [policy.check(value.strip(), "--settings") or "default" for value in text.split("/")]
    if there.machine != "aarch64":
        return [Named(name=value, environment={"LINEWRIGHT_ATOMICS": value}) for value in values]
    changed = there.switched(values, program)
    return [Named(name=value, environment=new) for value, new in zip(values, changed, strict=True)]


def _session(command: list[str], named: list, there: Where, **more: object):
    from linewright.trial.files import Session

    return Session(
        linewright_trial=1,
        session=secrets.token_hex(8),
        started_utc=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        tool_version=__version__,
        command=command,
        settings=named,
        target=there.name,
        **there.facts(),
        **more,
    )


def _file(save: str | None, session, there: Where):
    """A writer to the trial file, with the session's line to be written first; an existing file must fit."""
    from linewright.records import files as records
    from linewright.trial import boots, files

    there.find(session.command[0])
    if save is not None and os.path.exists(save):
        known = files.read(save, note)
        boots.check_same(known.sessions[0], session, save)
        return files.append_to(known, "--save")
    return records.create(
        save or records.new_path(f"trial-{records.moment()}-{secrets.token_hex(2)}", "--save"), False, "--save"
    )


def _resume(path: str, limit: str | None, as_json: bool) -> int:
    from linewright.trial import files

    known = files.read(path, note)
    session = known.sessions[-1]
    limit_s = units.duration_s(limit, "--limit") if limit is not None else None
    samples = [s for s in known.samples if s.session == session.session and not s.warm_up]
    with closing(where(session.target)) as there:
        now = there.facts()
        for name in ("cpu_model", "kernel", "boot_id"):
            if getattr(session, name) != now[name]:
                raise UserError(
                    f"{path} was begun on another boot or machine ({session.cpu_model}, {session.kernel})",
                    "--resume",
                    "--save on each boot, then linewright compare",
                )
        return _run(session, samples, there, files.append_to(known, "--resume"), limit_s, as_json, describe=False)


def _run(session, samples: list, there: Where, writer, limit_s: float | None, as_json: bool, describe: bool) -> int:
    """Run what is left, keep every run as it ends, show what there is, also when it stops early."""
    from linewright.output.progress import fitting
    from linewright.target.interrupts import Interrupts
    from linewright.trial import engine

    def keep(sample) -> None:
        writer.write(sample)
        writer.sync()

    try:
        if describe:
            writer.write(session)
        total = (session.planned_rounds + session.warmup_rounds) * len(session.settings)
        with Interrupts() as interrupts, fitting(engine.TrialMeter(total, len(samples))) as shown:
            runs = there.runs(session, interrupts, limit_s)
            finished = engine.run(session, runs, samples, keep, shown.show)
    finally:
        writer.close()
    _show(session, finished, writer.name, as_json)
    if finished.interrupted:
        kept = f"{len(finished.samples)} runs are kept; continue with --resume {writer.name}"
        raise RunError(f"{runs.lost or 'interrupted'}; {kept}")
    if all(sample.value is None for sample in finished.samples):
        raise RunError(engine.no_figure(session, finished.samples[0].reason))
    return DONE


def _show(session, finished, name: str, as_json: bool) -> None:
    from linewright.trial import report

    if as_json:
        failures = report.failures(session, finished.samples)
        print_json({"session": session, "verdict": finished.verdict, "failures": failures, "file": name})
    else:
        report.show(session, finished.samples, finished.verdict, console_for(sys.stdout))
        sys.stdout.flush()
    note(f"every run is in {name}")
