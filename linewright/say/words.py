# SPDX-License-Identifier: MIT
"""Names that programs read, in English: reasons why a figure or an answer is missing, flags, cells,
and why an already-built program runs unchanged or may not start. Names of one table or family stand
with its sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from linewright import wings
from linewright.schema import FEWEST_LAUNCHES, Cell
from linewright.trial.switching import TLS_TUNABLE, SwitchProblem

FEW_LAUNCHES = f"fewer than {FEWEST_LAUNCHES} launches"
WITHHELD = (
    "exposed costs are withheld, since the loop around the operation is no measure of its work"
)
LEFT_OPEN = "the model's constants and its own error leave it open"
NO_DRAWS = "a model's figures without draws of its constants: their ratios have no interval"
_WORDS = {
    "one_launch": FEW_LAUNCHES,
    "few_launches": FEW_LAUNCHES,
    "baseline_loop": "exposed costs are withheld",
    "few_states": "too few states of the machine",
    "wide": "wide interval",
    "model": LEFT_OPEN,
    "no_draws": NO_DRAWS,
}
"""Reasons of a judgement that say more, or another thing, than their name."""


def in_english(name: str) -> str:
    """A reason, flag, status, parameter or operation as people write it."""
    return _WORDS.get(name, name.replace("_", " "))


MEANING: dict[str, str] = {
    "metastable": "The launches, of a simulated cell its windows, fall into separate modes: read "
    "all of them and their shares, not one number.",
    "bimodal_lines": "The lines fall into separate modes: their home nodes, or their positions in "
    "a cache, differ.",
    "one_launch": f"{FEW_LAUNCHES.capitalize()}, a single one: its luck is not in the interval, "
    "and nothing is claimed.",
    "short_span": "All launches lie close together in time: another run may meet the machine in "
    "another state. Join runs made at other times.",
    "baseline_not_proportional": "The loop around the operation does not take time in proportion "
    "to its work, so exposed costs are withheld.",
    "baseline_not_steady": "The loop around the operation does not repeat within 10 %, so "
    "exposed costs are withheld.",
    "same_cpu": "The contender ran on the timed thread's CPU: the figure is of two threads sharing "
    "one CPU, not of contention.",
    "emulated": "Run by an emulator: the times mean nothing, only the sums do.",
    "faster_than_floor": "Cheaper than a plain add or than one core cycle: most likely the loop "
    "does not hold the operation.",
    "doubled": "Exactly 2.00 times the uncontended figure: most likely two threads share one "
    "CPU or one core.",
    "negative_cost": "Below its baseline loop by more than noise: most likely the two loops are"
    " placed or clocked differently.",
    "zero_cost": "No cost at all where the operation cannot be free: most likely it was "
    "optimised away.",
    "placebo_differs": "The placebo differs from no contender: SMT, frequency or power effects are"
    " in the contended figures too.",
    "coarse_clock": "A batch lasts fewer than 100 ticks of the clock: percentiles are quantised.",
    "no_context": "The file has no context line for this cell: machine and clock are unknown.",
}
"""Every flag that analysis adds, with its sentence; records bring the probe's own beside these."""


def explain(flag: str) -> str:
    """The sentence for a flag; the probe's own flags are explained in docs/reference/records.md."""
    for known in (MEANING, *wings.brought("flags")):
        if flag in known:
            return known[flag]
    return f"{in_english(flag)}: see docs/reference/records.md."


_OPERATIONS = {
    "read": "load",
    "fetch_add": "fetch_add",
    "xchg": "exchange",
    "cmpxchg": "compare-and-swap",
    "none": "loop without an operation",
    "handoff": "handoff between cores",
    "clean": "cache-line clean",
    "clean_invalidate": "cache-line clean and invalidate",
    "wait_hint": "round of a hint",
    "wait_woken": "round trip of two wake-ups",
    "wait_held": "section of a lock's holder",
    "percpu_add": "counter",
    "percpu_none": "counter loop without a counter",
    "apart_writers": "writer beside a writer",
    "apart_reader": "reader beside a writer",
    "apart_writer": "writer beside a reader",
    "apart_shared": "writer beside a word that both write",
    "readers_pair": "reader",
    "readers_grace": "grace period",
    "readers_shape": "increments of an SRCU reader",
    "readers_floor": "part of a reader",
    "readers_lookup": "lookup",
    "readers_none": "reader loop without a reader",
}


def in_words(cell: Cell) -> str:
    """A cell as a person would say it: ``fetch_add by lock_xadd, with a second CPU, with 20 units
    of work``."""
    operation = _OPERATIONS.get(cell.operation, in_english(cell.operation))
    plain = cell.form in (cell.operation, "empty", "percpu_empty", "readers_empty")
    parts = [operation if plain else f"{operation} by {cell.form}"]
    parts.append(cell.situation.sharers)
    if cell.work_iters:
        parts.append(cell.situation.around)
    return ", ".join(parts)


def label(cell: Cell) -> str:
    """A cell in a few words; what has its usual value is left out."""
    width = "" if cell.width_bits == 64 else f" u{cell.width_bits}"
    parts = [f"{cell.operation} {cell.form}{width}"]
    around = cell.situation.short() + cell.situation.where
    parts += [around] if around != "alone" else []
    return ", ".join(parts + [f"{key}={cell.params[key]}" for key in sorted(cell.params)])


def unique_labels(cells: Sequence[Cell]) -> dict[str, str]:
    """A label for every cell's id; the id itself where two cells would have the same label."""
    names = {cell.id: label(cell) for cell in cells}
    often = Counter(names.values())
    return {i: name if often[name] == 1 else i for i, name in names.items()}


_TEXTS = {
    "libraries_missing": "not found, so their thread-local memory is not provided for: {what}",
    "no_tunable": f"{{where}} knows no {TLS_TUNABLE} (glibc before 2.33): the program may stop at "
    "its start with 'cannot allocate memory in static TLS block', first for {what}",
    "tunable_too_small": "GLIBC_TUNABLES gives {where} bytes of thread-local memory; this program "
    "may need {what}",
    "other_rights": "{where} takes other rights ({what}), so the dynamic linker ignores the "
    "setting: it runs unchanged",
    "32_bit": "{where} is a 32-bit program, which cannot load the 64-bit {what}: it runs unchanged",
    "not_arm64": "{where} is no arm64 program: it runs unchanged",
    "static": "{where} is statically linked, so nothing can be switched at run time: it runs "
    "unchanged",
    "no_locks": "neither {where} nor a library loaded with it calls pthread_rwlock_*: --locks "
    "changes nothing, but in what it opens or starts by itself",
    "unaudited": "{where} is made for {what}, whose dynamic linker knows no auditing: it runs "
    "unchanged",
}


def problem_text(problem: SwitchProblem) -> str:
    """What the user should read before the program starts."""
    return _TEXTS[problem.kind].format(where=problem.where, what=problem.what)
