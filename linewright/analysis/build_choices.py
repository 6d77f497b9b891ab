"""What a setting corresponds to when it is fixed at build time, and the kernel's options that the
same figures speak for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.setting_choice import Choice, SettingPoint, clearest, setting_of

FLAGS = {
    "load": ["-DLW_NO_POLICY", "-march=armv8-a+lse"],
    "llsc": ["-DLW_NO_POLICY", "-march=armv8-a", "-mno-outline-atomics"],
}
"""Compiler options that fix every class of operations to one form."""


def fixed_form(m: MachineAnswers) -> Literal["load", "llsc", "some_llsc", ""]:
    """The form that all classes take and a compiler can fix; ``some_llsc`` where LL/SC is the
    choice of some classes only, which no compiler option gives."""
    chosen = {c.choice for c in m.choices}
    if m.default == "load" and all(c.choice == c.default for c in m.choices):
        return "load"
    if chosen == {"llsc"}:
        return "llsc"
    return "some_llsc" if "llsc" in chosen else ""


def beyond_compilers(choices: Iterable[Choice]) -> bool:
    """Whether a class differs from the default by a form that compilers do not emit."""
    changed = [c.choice for c in choices if c.choice != c.default]
    return any("store" in choice or "prefetch" in choice for choice in changed)


def value_for_built(choices: Iterable[Choice]) -> str:
    """The setting for a program that is built already: its outlined atomics return values, so a
    choice for operations without a value does not reach them."""
    return setting_of(c for c in choices if c.operations != "void")


def kernel_options(m: MachineAnswers) -> dict[Literal["percpu_load", "prefetch"], SettingPoint]:
    """Options of the kernel that exchange one form for another and that the figures speak for, each
    with the point at which the store form is shown to cost most.

    Each needs its own comparison with the store form: that form is shown to be slower than the
    default (LDADD) here."""
    points = [
        p
        for c in m.choices
        if c.operations == "void"
        for p in c.points
        if not p.situation.contended
    ]
    store = [p for p in points if p.choice == "store"]
    prefetched = [p for p in points if p.choice == "store,prefetch"]
    worst, found = clearest(store, cheaper=False), {}
    if worst and not any(p.judgement.cheaper for p in store):
        found["percpu_load"] = worst
    if worst and prefetched and all(p.not_worse for p in prefetched):
        found["prefetch"] = worst
    return found
