# SPDX-License-Identifier: MIT
"""Every option of every command with a value that is right and one that cannot be, and every
command line that pages, results and messages print: none is refused, and none ends in an internal
error."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from linewright.analysis import loading
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.summary import Summary
from linewright.find.sampled_machine import find_sampler
from linewright.model.simulator import find_model
from linewright.run.programs import find_workload
from linewright.say.phrases import measure_again
from linewright.schema import Context, Record
from linewright.trial import named_settings, workload_sweep
from support import analysis_samples, find_results, machines
from support.analysis_samples import write
from support.command_lines import (
    COMMANDS,
    TAKES_ITS_PLACE,
    complaint,
    follow,
    is_flag,
    options_of,
    refused,
    within,
)
from support.places import ROOT

MOST = 80
"""Options of all commands together. One more has to earn its place: another goes, or becomes a key
of ``--set``."""
CELL = "add/lock_add/u64/full/same_line/ci0/w0/auto/l8/t2"
SIMULATED = "add/stadd/u64/relaxed/none/ci0/w0/auto/l1/t1"
TRIAL = "trial --env A=1 --env A=2 --runs 2 --set warmup=0"
CALIBRATE = "model calibrate table.jsonl --from arm64-server-2025 -o m.toml"
LINES = {
    "measure": "measure --only plain_add --set launches=1 -o new.jsonl {}",
    "show": "show r.jsonl {}",
    "model machines": "model machines xeon-2009 {}",
    "model calibrate": f"{CALIBRATE} {{}}",
    "model explain": f"model explain {SIMULATED} --on model:arm64-server-2025 {{}}",
    "list": "list {}",
    "report": "report r.jsonl -o new.html {}",
    "advise": "advise r.jsonl {}",
    "find": "find {} -- true",
    "trial": f"{TRIAL} {{}} -- true",
    "workload": "workload {} ticket --threads 1 --duration 10ms",
    "sweep": "sweep futex-wake --set threads=1 --set duration=10ms {}",
    "compare": "compare r.jsonl r2.jsonl {}",
    "run": "run {} sh -c true",
    "inspect": "inspect /bin/true {}",
    "torture": "torture srcu --set seconds=0 {}",
    "probe": "probe --arch x86_64 -o new {}",
}
"""A line of each command that has options, with a place for another one. A whole line in place of
a value stands for itself."""
VALUES = {
    "measure": {
        "--plan": ("quick", "quik"),
        "--on": ("local", "moon"),
        "--output": ("other.jsonl", "absent/r.jsonl"),
        "--budget": ("30s", "soon"),
        "--only": ("lock_add", "nothing"),
        "--set": ("lines=2", "colour=red"),
        "--resume": ("measure --resume begun.jsonl", "absent.jsonl"),
        "--from": ("measure --from begun.jsonl -o new.jsonl", "measure --from absent.jsonl"),
        "--format": ("csv", "xml"),
        "--against": ("begun.jsonl", "absent.jsonl"),
    },
    "show": {
        "--why": (CELL, "nothing"),
        "--format": ("plain", "xml"),
        "--output": ("other.csv", "absent/r.csv"),
        "--only": ("lock_add", "nothing"),
    },
    "model calibrate": {
        "--from": ("xeon-2009", "nowhere"),
        "--output": ("other.toml", "r.jsonl"),
        "--only": ("*/none/*", "nothing"),
        "--set": ("steps=0", "steps=many"),
    },
    "model explain": {
        "--on": ("model:arm64-server-2025", "model:nowhere"),
        "--trace": ("t.json", "absent/t.json"),
    },
    "report": {"--output": ("other.html", "absent/r.html")},
    "find": {
        "--pid": (str(os.getpid()), "none"),
        "--for": ("1s", "soon"),
        "--prices": ("r.jsonl", "absent.jsonl"),
        "--on": ("exec:env", "moon"),
        "--output": ("found.json", "absent/found.json"),
        "--baseline": ("found.json", "absent.json"),
    },
    "trial": {
        "--settings": (
            "trial --settings default/prefetch --runs 2 -- true",
            "trial --settings near -- true",
        ),
        "--env": ("A=3", "A"),
        "--threads": (
            "trial --threads 1,2 --runs 2 -- sh -c 'exit 0 {threads}'",
            "trial --threads 2,1 -- true {threads}",
        ),
        "--fail-below": (
            "trial --threads 1,2 --fail-below 3.2x --runs 2 -- sh -c 'exit 0 {threads}'",
            "trial --threads 1,2 --fail-below much -- true {threads}",
        ),
        "--pad": ("trial --pad main --runs 2 -- true", "trial --pad '' -- true"),
        "--runs": ("3", "none"),
        "--metric": ("cpu", "("),
        "--on": ("exec:env", "moon"),
        "--output": ("new.jsonl", "absent/t.jsonl"),
        "--set": ("seed=1", "colour=red"),
        "--resume": ("trial --resume t.jsonl", "trial --resume absent.jsonl"),
    },
    "workload": {"--on": ("exec:env", "moon")},
    "sweep": {
        "--settings": ("off:default", "default//x"),
        "--output": ("runs.csv", "absent/runs.csv"),
        "--set": ("runs=2", "runs=none"),
    },
    "compare": {
        "--measure": ("compare --measure 'a {output}' 'b {output}'", "true true"),
        "--launches": ("compare --launches 5 --measure 'a {output}' 'b {output}'", "none"),
        "--fail-above": ("5%,undecided", "much"),
        "--format": ("csv", "xml"),
        "--html": ("c.html", "absent/c.html"),
        "--only": ("lock_add", "nothing"),
    },
    "run": {"--atomics": ("llsc", "near")},
    "torture": {"--set": ("seed=2", "seed=none")},
    "probe": {
        "--arch": ("x86_64", "sparc"),
        "--output": ("other", "absent/probe"),
        "--plan": ("quick", "quik"),
        "--set": ("probe --arch x86_64 -o new --plan quick --set lines=2", "colour=red --plan rmw"),
    },
}
"""By command and option: a right value, and one that cannot be (None where only another machine
can know)."""
PARSED = {
    *(
        ("model calibrate", option) for option in VALUES["model calibrate"]
    ),  # model/test_calibration.py
    ("run", "--atomics"),  # elf/test_run.py, as on arm64
    ("trial", "--settings"),
    ("find", "--on"),
    ("find", "--pid"),
    ("find", "--exact"),
    ("find", "--fail-new"),  # find/test_planted.py; a program that does nothing shows nothing: 3
    ("trial", "--on"),
    ("trial", "--fail-below"),  # trial/test_scaling.py; two rounds show nothing: 3
    ("trial", "--pad"),
    ("trial", "--locks"),  # trial/test_locks.py
    ("workload", "--on"),
    ("compare", "--measure"),  # compare/test_in_turns.py
    ("compare", "--launches"),
}
"""Right values that are parsed here and run elsewhere: they take other machines, or minutes."""
NEEDED = {"model explain": find_model, "find": find_sampler, "sweep": find_workload}
EVERY = [
    (name, max(parameter.opts, key=len))
    for name, command in COMMANDS.items()
    for parameter in command.params
    if parameter.param_type_name == "option"
]


def line_of(name: str, option: str, value: str) -> str:
    """A whole line with the option."""
    if value.startswith(f"{name} "):
        return value
    return LINES[name].format(f"{option} {value if ' ' in value else shlex.quote(value)}".strip())


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """What the lines name."""
    made = tmp_path_factory.mktemp("files")
    values = machines.records("x86-vm")
    contexts = [value for value in values if isinstance(value, Context)]
    rows = [value for value in values if isinstance(value, Record)]
    write(made / "r.jsonl", contexts, rows)
    shutil.copy(made / "r.jsonl", made / "r2.jsonl")
    write(made / "table.jsonl", *analysis_samples.published())
    found = find_results.result(find_results.line(), program="true")
    (made / "found.json").write_bytes(msgspec.json.encode(found))
    run = workload_sweep.SweepRun("futex-wake", 1, "ms", False, "off", 0, 1.0)
    (made / "runs.csv").write_text(workload_sweep.written([run]))
    return made


@pytest.fixture
def here(command, folder: Path):
    """The command in a folder with such files."""
    shutil.copytree(folder, command.directory, dirs_exist_ok=True)
    return command


def test_there_are_no_more_options_than_pages_need():
    assert len(EVERY) <= MOST, f"{len(EVERY)} options"


def test_every_option_has_its_values_here():
    valued = {(name, option) for name, option in EVERY if not is_flag(options_of(name)[option])}
    assert valued == {(name, option) for name, options in VALUES.items() for option in options}
    assert {name for name, _ in EVERY} == set(LINES)


@pytest.mark.parametrize(("name", "option"), EVERY)
def test_a_wrong_value_is_one_line(here, name: str, option: str):
    flag = is_flag(options_of(name)[option])
    wrong = f"{option}=x" if flag else VALUES[name][option][1]
    if wrong is None:
        pytest.skip("only another machine can know")
    line = LINES[name].format(wrong) if flag else line_of(name, option, wrong)
    said = here.refused(*shlex.split(line))
    assert "unexpected" not in said and "Traceback" not in said


@pytest.mark.usefixtures("without_vega")
@pytest.mark.parametrize(("name", "option"), EVERY)
def test_a_right_value_is_taken(here, name: str, option: str):
    flag = is_flag(options_of(name)[option])
    line = LINES[name].format(option) if flag else line_of(name, option, VALUES[name][option][0])
    assert complaint(f"linewright {line}") == ""
    if (name, option) in PARSED:
        return
    if name in NEEDED:
        try:
            NEEDED[name]()
        except Exception:
            pytest.skip("its program is not built")
    if "begun.jsonl" in line:
        begun = ["measure", "--only", "plain_add", "--set", "launches=1", "-o", "begun.jsonl"]
        assert here(*begun).returncode == 0
    if line == "trial --resume t.jsonl":
        assert here(*shlex.split(f"{TRIAL} --output t.jsonl -- true")).returncode == 0
    words = shlex.split(line)
    done = here.apart(*words) if name in TAKES_ITS_PLACE else here(*words)
    assert done.returncode in (0, 1), (line, done.stderr)
    assert "unexpected" not in done.stderr and "Traceback" not in done.stderr


ROOMS = ("find", "probe", "model", "workload", "torture", "wire")
PROGRAMS = [path for room in ROOMS for path in sorted(ROOT.glob(f"{room}/*.[ch]pp"))]
"""Sources of what the command runs."""


def texts() -> Iterator[tuple[str, str]]:
    """Every text of the command's code that can be printed, with its file; what is put into one
    when it is printed is left out. Of docstrings those of commands, which are their help; of
    programs in C++ the whole source, with texts in one piece."""
    for path in sorted((ROOT / "linewright").rglob("*.py")):
        tree = ast.parse(path.read_text())
        about = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        parts = {
            id(part) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for part in n.values
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                whole = (p.value if isinstance(p, ast.Constant) else "\0" for p in node.values)
                yield str(path.relative_to(ROOT)), "".join(whole)
            elif id(node) not in about | parts and isinstance(node, ast.Constant):
                yield str(path.relative_to(ROOT)), str(node.value)
    for name, command in COMMANDS.items():
        yield f"help of {name}", command.help or ""
        yield from ((f"help of {name}", getattr(p, "help", "") or "") for p in command.params)
    for path in PROGRAMS:
        yield str(path.relative_to(ROOT)), re.sub(r'"\s*"', "", path.read_text())


FOREIGN = {
    "--decompress-debug-sections",
    "--obj",
    "--output-style",
    "--perf-basic-prof",
    "--preset",
    "--stdio",
}
"""Options of other programs: of cmake, llvm-symbolizer, node, objcopy and perf."""


def test_messages_name_commands_and_options_that_there_are():
    """An option that has gone is named nowhere."""
    ours = {option for name in COMMANDS for option in options_of(name)}
    ours |= {"--help", named_settings.VERSUS}
    programs = "".join(path.read_text() for path in (ROOT / "CMakePresets.json", *PROGRAMS))
    wrong = []
    for where, text in texts():
        for line in within(text):
            if "\0" not in line and complaint(f"{line} …"):
                wrong.append((where, line, complaint(f"{line} …")))
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text):
            if (
                option not in ours | FOREIGN
                and f'"{option[2:]}' not in programs
                and option not in programs
            ):
                wrong.append((where, option))
    assert wrong == []


@pytest.mark.slow
def test_whole_lines_of_messages_run(here):
    """Those in which nothing is filled in: with what a reader has in place of words in capitals."""
    shutil.copy(here.directory / "r.jsonl", here.directory / "records.jsonl")
    lines = {line for _, text in texts() for line in within(text) if "\0" not in line}
    done = follow(here, "\n".join(f"`{line}`" for line in sorted(lines)))
    failed = {line: a.stderr for line, (a, _) in done.items() if a.returncode not in (0, 1)}
    if os.uname().machine != "aarch64":  # said where settings differ
        arm64 = (
            "linewright trial -- PROGRAM",
            "linewright trial --settings default/llsc -- PROGRAM",
        )
        assert all("nothing to try" in failed.pop(line) for line in arm64)
    assert failed == {} and len(done) > 13


@pytest.fixture
def summarised_once(monkeypatch):
    """A test's record files are summarised once, and not again by each command that reads them."""
    known: dict[frozenset[str], list[Summary]] = {}
    summarise = loading.summarise_groups

    def once(contexts, groups) -> list[Summary]:
        if (key := frozenset(contexts)) not in known:
            known[key] = summarise(contexts, groups)
        return known[key]

    monkeypatch.setattr(loading, "summarise_groups", once)


@pytest.mark.usefixtures("summarised_once")
@pytest.mark.parametrize("name", machines.MACHINES)
def test_what_a_result_says_to_type_can_be_typed(real, name: str):
    """Of each example machine: the lines inside what `show`, `advise` and `compare` say; a
    measurement is also planned."""
    here = real
    values = machines.records(name)
    contexts = [value for value in values if isinstance(value, Context)]
    rows = [value for value in values if isinstance(value, Record)]
    write(here.directory / "r.jsonl", contexts, rows)
    few = [c for c in contexts if c.launch < 2], [r for r in rows if r.launch < 2]
    write(here.directory / "few.jsonl", *few)
    said = ""
    for words in (
        *(("show", file, "--json") for file in ("r.jsonl", "few.jsonl")),
        *(("advise", file, "--json") for file in ("r.jsonl", "few.jsonl")),
        ("compare", "r.jsonl", "few.jsonl", "--json"),
        *(("show", file) for file in ("r.jsonl", "few.jsonl")),
    ):
        answer = here(*words, columns=400)
        assert answer.returncode in (0, 1), answer.stderr
        said += json.dumps(json.loads(answer.stdout)) if "json" in words[-1][-4:] else answer.stdout
    assert any("--set launches=" in line for line in within(said)), "few launches are too few"
    assert refused(here, said) == {}


def test_more_launches_are_taken_by_every_plan_and_machine_that_a_result_names(command):
    """All of these were printed, and refused."""
    mine = command.directory / "mine.toml"
    shutil.copy(ROOT / "machines" / "arm64-server-2025.toml", mine)
    simulated = ("measure", "--on", "model:mine", "--dry-run")
    answer = command(*simulated, "--plan", "published", "--set", "launches=8")
    assert answer.returncode == 0, answer.stderr
    assert "each in 8 launches" in answer.stdout
    (command.directory / "p.json").write_text(command("list", "quick", "--json").stdout)
    answer = command("measure", "--dry-run", "--plan", "p.json", "--set", "launches=3")
    assert answer.returncode == 0 and "each in 3 launches" in answer.stdout, answer.stderr


def again(*runs: tuple[str, str], launches: int = 2) -> str:
    """What measures runs of these plans and options again."""
    contexts = [
        analysis_samples.context(f"{n:016x}", n, plan=plan, command=command, launches=launches)
        for n, (plan, command) in enumerate(runs)
    ]
    return measure_again(MachineAnswers(contexts, []))


def test_measuring_again_has_every_option_of_the_run_and_enough_launches():
    assert again(("own", "--plan 'my plan.json' --budget 20s --only '*/w0/*'")) == (
        "linewright measure --plan 'my plan.json' --only '*/w0/*' --set launches=5 --budget 50s"
    )
    assert again(("rmw", "--set lines=2 --set launches=3")) == (
        "linewright measure --plan rmw --set lines=2 --set launches=5"
    )
    assert again(("quick", ""), launches=11) == "linewright measure --plan quick --set launches=11"
    assert again(("quick", "--frob x")) == "linewright measure --plan quick --set launches=5"
    assert again(("quick", ""), ("quick", "--set launches=3"), ("percpu", "--plan percpu")) == (
        "linewright measure --plan quick --set launches=5 and "
        "linewright measure --plan percpu --set launches=5"
    )
