# SPDX-License-Identifier: MIT
"""Advice, comparisons, inspections and trials keep to one screen, whatever they hold; `--all` has
the rest."""

from __future__ import annotations

import io
import random
import shutil
import subprocess

import msgspec
import pytest
from rich.console import Console

from linewright.say.document import (
    ASKED,
    Column,
    document_of,
    sentence_as_written,
    table_of,
)
from linewright.say.trial_document import document
from linewright.schema import Context, Record
from linewright.show.output import WIDEST
from linewright.show.terminal import LINES, print_tables
from linewright.trial.interim_analysis import analyse
from linewright.trial.trial_file import Session, TrialSetting
from support import machines
from support.analysis_samples import write


def fits(text: str, columns: int = WIDEST) -> bool:
    lines = text.splitlines()
    return (
        len(lines) <= LINES
        and max(map(len, lines)) <= columns
        and not any(line != line.rstrip() for line in lines)
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, str]:
    """Records of two machines, and of one of them with every operation back to back half as
    fast."""
    folder = tmp_path_factory.mktemp("records")
    made = {}
    for name in ("x86-vm", "arm64-far"):
        values = machines.records(name)
        contexts = [value for value in values if isinstance(value, Context)]
        rows = [value for value in values if isinstance(value, Record)]
        made[name] = str(folder / write(folder / f"{name}.jsonl", contexts, rows))
        if name == "x86-vm":
            made["slow"] = str(folder / write(folder / "slow.jsonl", *_slower(contexts, rows)))
    return made


def _slower(contexts: list[Context], rows: list[Record]) -> tuple[list[Context], list[Record]]:
    def other(context_id: str) -> str:
        return f"f{context_id[1:]}"

    replaced = msgspec.structs.replace
    return (
        [replaced(c, context_id=other(c.context_id)) for c in contexts],
        [
            replaced(r, context_id=other(r.context_id), window_ns=[2 * ns for ns in r.window_ns])
            for r in rows
        ],
    )


@pytest.mark.parametrize("columns", [80, 100, 200])
@pytest.mark.parametrize(
    "words", [("advise", "x86-vm"), ("advise", "arm64-far"), ("compare", "x86-vm", "slow")]
)
def test_the_default_is_one_screen_and_all_is_more(command, files, words, columns: int):
    arguments = [files.get(word, word) for word in words]
    short = command(*arguments, columns=columns)
    whole = command(*arguments, "--all", columns=columns)
    assert fits(short.stdout, min(columns, WIDEST)), short.stdout
    assert f"linewright {words[0]} --all" in short.stdout and "--all" not in whole.stdout
    assert len(whole.stdout.splitlines()) > LINES
    assert short.returncode == whole.returncode == (1 if words[0] == "compare" else 0)


@pytest.mark.parametrize("name", ["x86-vm", "arm64-far"])
def test_advice_begins_with_the_setting_and_ends_with_its_limits(command, files, name: str):
    lines = command("advise", files[name]).stdout.splitlines()
    assert lines[0].startswith("SET ") and any(line.startswith("USE ") for line in lines[:5])
    assert "linewright advise shows" not in " ".join(lines), (
        "it refers to nothing but its own --all"
    )
    assert "What this measurement cannot tell" in lines and "more line" in lines[-1]
    assert lines.index("What this measurement cannot tell") > len(lines) - 6


def test_comparisons_begin_with_the_decision(command, files):
    lines = command(
        "compare", files["x86-vm"], files["slow"], "--fail-above", "5%"
    ).stdout.splitlines()
    assert lines[0].startswith("check: FAILED: ")
    assert "slower" in " ".join(lines[1:3])


def test_of_many_functions_those_with_most_operations_are_shown(command, tmp_path):
    if not shutil.which("cc"):
        pytest.skip("no compiler")
    source = tmp_path / "many.c"
    body = "".join(
        f"void f{n}(long *p) {{ {'__atomic_fetch_add(p, 1, 5);' * (n + 1)} }}\n" for n in range(60)
    )
    source.write_text(body)
    subprocess.run(
        ["cc", "-O1", "-shared", "-fPIC", "-o", tmp_path / "many.so", source], check=True
    )
    short, whole = (command("inspect", tmp_path / "many.so", *more) for more in ((), ("--all",)))
    assert fits(short.stdout), short.stdout
    assert (
        short.stdout.startswith("Nothing can be switched: ")
        and "more functions: linewright inspect" in short.stdout
    )
    assert "f59 " in short.stdout and "f0 " not in short.stdout
    assert all(f"f{n} " in whole.stdout for n in range(60))


def test_a_trial_of_many_settings_is_one_screen():
    names = [f"A={n}" for n in range(16)]
    session = Session(
        linewright_trial=1,
        session="0" * 16,
        started_utc="",
        tool_version="",
        command=["server"],
        metric="wall",
        unit="s",
        higher_is_better=False,
        settings=[TrialSetting(name=name, environment={}) for name in names],
        planned_rounds=30,
        precision=0.01,
        warmup_rounds=0,
        seed=1,
        arch="x86_64",
        cpu_model="",
        cpus=2,
        kernel="",
        boot_id="",
        boot_parameters="",
    )
    noise = random.Random(1)
    runs = {name: {n: 1.0 + noise.random() / 3 for n in range(30)} for name in names}
    stream = io.StringIO()
    print_tables(document(session, [], analyse(runs, 30)), Console(file=stream, width=100))
    assert fits(stream.getvalue()), stream.getvalue()
    assert stream.getvalue().startswith(
        "15 settings are undecided against A=0: their intervals are below; about "
    )
    alike = {
        name: {n: 1.0 + value / 1000 for n, value in own.items()} for name, own in runs.items()
    }
    stream = io.StringIO()
    print_tables(document(session, [], analyse(alike, 30)), Console(file=stream, width=100))
    assert fits(stream.getvalue()) and stream.getvalue().startswith(
        "15 settings are the same as A=0 within 0.1 %."
    )


def lines_of(rows: int, sentences: int, ranks: list[int]) -> list[str]:
    """A document of a table and sentences about it, as a command prints it that has the rest."""
    said = [sentence_as_written(f"said {n}", basis="rule") for n in range(sentences)]
    table = table_of("", [Column("number", str)], range(rows), ranks=ranks)
    stream = io.StringIO()
    made = document_of(headline=said, tables=[table])
    print_tables(made, Console(file=stream, width=100), "inspect --all PROGRAM")
    return stream.getvalue().split("\n")[:-1]


def test_the_most_that_fits_is_found():
    lines = lines_of(100, 1, [])
    assert len(lines) == LINES and lines[-1].startswith("74 more rows: ")
    assert [line.strip() for line in lines[3:-1]] == [str(n) for n in range(26)]
    lines = lines_of(100, 40, [])
    assert lines[39] == "said 39" and lines[-2].strip() == "0", (
        "what never fits is shown all the same, and of a table the first row"
    )


def test_what_has_the_highest_rank_gives_way_first():
    """Not what stands last: of 40 rows the odd ones have the higher ranks, and one is for those
    alone who ask for everything."""
    ranks = [n + 100 * (n % 2) for n in range(40)]
    ranks[2] = ASKED
    lines = [line.strip() for line in lines_of(40, 1, ranks)]
    assert len(lines) == LINES
    assert lines[3:-1] == [str(n) for n in range(40) if n != 2 and (n % 2 == 0 or n < 14)]
