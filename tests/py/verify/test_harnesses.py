"""The harnesses for the model checker compile around every text and mutant that it is to be given,
and hold in an execution of their own; without the checker `make verify` fails and says why."""

import importlib.machinery
import importlib.util
import subprocess

import pytest

from support.places import ROOT

loader = importlib.machinery.SourceFileLoader("verify_srcu_run", str(ROOT / "verify/srcu/run"))
run = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(run)

# An execution that the checker is not to look at ends well.
ASSUME = """#include <stdbool.h>
#include <stdlib.h>
void __VERIFIER_assume(bool holds) { if (!holds) _Exit(0); }
"""
CASES = [
    pytest.param(harness, *case, id=f"{harness}: {case[0]}")
    for harness, cases in run.HARNESSES.items()
    for case in cases
]


@pytest.mark.parametrize(("harness", "name", "text", "flags", "passes"), CASES)
def test_compiles_and_holds_once(harness, name, text, flags, passes, tmp_path):
    (tmp_path / "assume.c").write_text(ASSUME)
    program = tmp_path / "program"
    given = run.compiled(harness, text, flags, tmp_path)
    strict = ["-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-unused-parameter"]
    warnings = strict if passes else []
    subprocess.run(
        ["gcc", "-std=gnu11", "-pthread", "-o", program, tmp_path / "assume.c", *given, *warnings],
        check=True,
    )
    if passes:
        subprocess.run([program], check=True, timeout=60)


def test_the_checker_is_given_every_mutant_of_a_lock_that_the_interleaver_is_given():
    assert {text for _, text, _, _ in run.BIASED} == {"original", *run.biased.MUTANTS}


def test_without_the_checker_nothing_passes(monkeypatch):
    monkeypatch.setenv("PATH", "")
    good, lines = run.genmc()
    assert not good
    assert lines == ["GenMC: NOT CHECKED, it is not installed"]
