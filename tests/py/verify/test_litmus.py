# SPDX-License-Identifier: MIT
"""The litmus tests are well formed, say what they expect, and the axioms they are held to notice a
missing barrier."""

import importlib.util
import shutil
import sys

import pytest

from support import waiting
from support.places import ROOT

FOLDER = ROOT / "verify" / "litmus"


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


litmus = load("litmus")
x86 = load("x86")
model = load("model")
TESTS = {test.name: test for test in litmus.all_tests()}


@pytest.mark.parametrize("name", sorted(TESTS))
def test_expectation_follows_from_the_axioms(name):
    assert model.allowed(TESTS[name]) == (TESTS[name].expected == "allowed")


def text_of(name):
    return (litmus.TESTS / f"{name}.litmus").read_text()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("sb-llsc-swp-full", "DMB ISH ", "NOP     "),
        ("sb-llsc-cas-full", "DMB ISH ", "NOP     "),
        ("sb-llsc-fetch-full", "DMB ISH ", "NOP     "),
        ("sb-lse-swp-full", "SWPAL", "SWPL"),
        ("sb-stlr-ldar", "LDAR", "LDR"),
        ("sb-stlr-llsc-fetch-full", "STLXR", "STXR"),
        ("sb-lse2-read", "LDAR X4", "LDR X4"),
        ("mp-llsc-read-full", "DMB ISH", "NOP"),
        ("mp-llsc-write-full", "STLXR", "STXR"),
        ("sb-failed-casal", "CASAL", "CAS"),
        ("mp-final-ldadd-live", "X2,X4", "X2,XZR"),
        ("mp-lse-write-release", "SWPL", "SWP"),
        ("mp-stadd-write-release", "STADDL", "STADD"),
        ("percpu-lock-with-dependency", "[X1,X5]", "[X1]"),
        ("srcu-updown-release-acquire", "STLR", "STR"),
        ("srcu-updown-release-acquire", "LDAR", "LDR"),
        ("rwlock-mark-with-barrier", "DMB ISH      |", "NOP          |"),
        ("rwlock-unmark-release-acquire", "STLR", "STR"),
        ("rwlock-unmark-release-acquire", "LDAR", "LDR"),
        ("rwlock-bias-release-acquire", "STLR", "STR"),
        ("rwlock-bias-release-acquire", "LDAR", "LDR"),
        ("rwlock-waiting-with-fences", "DMB ISH      |", "NOP          |"),
        ("rwlock-waiting-with-fences", "| DMB ISH  ", "| NOP      "),
        ("rwlock-slot-release-acquire", "STLR X0,[X3]", "STR X0,[X3]"),
        ("x86-sb-mfence", " mfence        | mfence        ;\n", ""),
        ("x86-sb-lock-or", "lock addq", "addq"),
        ("x86-srcu-lock-with-b", "lock addq", "addq"),
        ("x86-rwlock-mark-with-barrier", " mfence        |", "               |"),
        ("x86-rwlock-waiting-with-fences", "lock addq $0,[z]", "addq $0,[z]     "),
    ],
)
def test_axioms_notice_what_is_taken_away(name, old, new):
    weakened = text_of(name).replace(old, new)
    assert weakened != text_of(name)
    assert not model.allowed(TESTS[name])
    assert model.allowed(litmus.parse(weakened, name))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("AArch64 sb-stlr-ldar", "AArch64 other"),
        ("Expected: forbidden", "Expected: maybe"),
        ("0:X1=x", "0:X1=q"),
        ("STLR X0,[X1]", "STLR X0,[X5]"),
        ("STLR X0,[X1]", "STLX X0,[X1]"),
        ("0:X2=0", "0:X8=0"),
        ("exists", "forall"),
        (" ;\n MOV", "\n MOV"),
        ("exists", "E: | E: ;\nexists"),
    ],
)
def test_a_slip_in_a_test_is_refused(old, new):
    text = text_of("sb-stlr-ldar")
    assert old in text
    with pytest.raises(litmus.Malformed):
        litmus.parse(text.replace(old, new), "sb-stlr-ldar")


def test_committed_outcome_lists_every_test_and_claims_no_checker_that_did_not_run():
    outcome = (FOLDER / "outcome.md").read_text()
    for name, test in TESTS.items():
        assert f"| `{name}` | {test.doc} | {test.expected} |" in outcome
    assert ("not run" in outcome) == ("is not installed" in outcome)


def test_run_says_where_herd7_is_missing_and_refuses_what_it_does_not_know():
    done = waiting.run([FOLDER / "run"])
    missing = not shutil.which("herd7")
    assert done.returncode == (77 if missing else 0), done.stdout
    assert ("herd7: NOT CHECKED" in done.stdout) == missing
    assert f"{len(TESTS)} tests, 0 wrong" in done.stdout
    assert waiting.run([FOLDER / "run", "--fast"], text=False).returncode == 2
