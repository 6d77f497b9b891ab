"""What a setting corresponds to when it is fixed at build time, and the kernel's options that the
same figures speak for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.setting_choice import Choice, SettingPoint, clearest, setting_of
from linewright.policy import Policy

FLAGS = {
    "load": ["-DLW_NO_POLICY", "-march=armv8-a+lse"],
    "llsc": ["-DLW_NO_POLICY", "-march=armv8-a", "-mno-outline-atomics"],
}
"""Compiler options that fix every class of operations to one form."""


def fixed_form(m: MachineAnswers) -> Literal["load", "llsc", "some_llsc", ""]:
    """The form that all classes take and a compiler can fix; ``some_llsc`` where LL/SC is the
    choice of some classes only, which no compiler option gives."""
    chosen = {c.choice for c in m.choices}
    if m.default.form == "load" and all(c.choice == c.default for c in m.choices):
        return "load"
    if chosen == {Policy("llsc")}:
        return "llsc"
    return "some_llsc" if Policy("llsc") in chosen else ""


def beyond_compilers(choices: Iterable[Choice]) -> bool:
    """Whether a class differs from the default by a form that compilers do not emit."""
    changed = [c.choice for c in choices if c.choice != c.default]
    return any(choice.form == "store" or choice.prefetch for choice in changed)


def value_for_built(choices: Iterable[Choice]) -> str:
    """The setting for a program that is built already: its outlined atomics return values, so a
    choice for operations without a value does not reach them."""
    return setting_of(c for c in choices if c.operations != "void")


class KernelOption(Struct, frozen=True, kw_only=True):
    """An option of the kernel that exchanges one form for another and that figures speak for."""

    option: Literal["percpu_load", "prefetch"]
    evidence: SettingPoint
    """Where the store form is shown to cost most, alone."""
    against: SettingPoint | None
    """Where the contended figures speak most against it; None where none does."""


def kernel_options(m: MachineAnswers) -> list[KernelOption]:
    """The kernel's options that the figures speak for. Each needs its own comparison with the store
    form: that form is shown to be slower than the default (LDADD) here."""
    points = [p for c in m.choices if c.operations == "void" for p in c.points]
    contended = [p for p in points if p.situation.contended]
    alone = [p for p in points if not p.situation.contended]
    bare, behind = Policy("store"), Policy("store", True)
    store = [p for p in alone if p.choice == bare]
    prefetched = [p for p in alone if p.choice == behind]
    worst, found = clearest(store, cheaper=False), []
    if worst and not any(p.judgement.cheaper for p in store):
        against = clearest([p for p in contended if p.choice == bare], cheaper=True)
        found.append(KernelOption(option="percpu_load", evidence=worst, against=against))
    if worst and prefetched and all(p.not_worse for p in prefetched):
        against = clearest([p for p in contended if p.choice == behind], cheaper=False)
        found.append(KernelOption(option="prefetch", evidence=worst, against=against))
    return found
