"""What each flag of a cell means, in a sentence."""

from __future__ import annotations

from linewright import wings
from linewright.say.name_words import FEW_LAUNCHES, in_english

MEANING: dict[str, str] = {
    "metastable": "The launches fall into separate modes: read all of them and their shares, not "
    "one number.",
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
