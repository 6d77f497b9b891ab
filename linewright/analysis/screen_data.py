"""What one screen says of one machine, as frozen records: no text layout, no statistics, only figures and sentences."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from linewright.analysis.saying import Sentence
from linewright.schema import Interval


class Figure(Struct, frozen=True, kw_only=True):
    """One measured cost in ns per operation, with its interval."""

    ns: Interval
    id: str
    """The cell's canonical id, for ``show --why``."""
    form: str
    metastable: bool = False
    """The launches fall into groups: one number does not describe the cell."""
    modes_ns: tuple[float, ...] = ()
    """The groups' medians, of a metastable cell."""
    reliable: bool = True
    """False where too many windows were disturbed."""


class Versus(Struct, frozen=True, kw_only=True):
    """The best alternative to a row's default form, and what is known of it."""

    form: str
    answer: Literal["cheaper", "slower", "same", "undecided"]
    scale: Literal["ratio", "ns"]
    """Whether `low` and `high` are the alternative over the default, or the alternative minus the default."""
    low: float | None
    """Ends of the 95 % interval; None where there is none, such as after one launch."""
    high: float | None


class Entry(Struct, frozen=True, kw_only=True):
    """One cell of the matrix: an operation under one condition."""

    default: Figure | None
    """The form that a compiler emits, which the others are compared with; None where it has no figure."""
    versus: Versus | None = None
    """The cheapest form that is shown to cost less; where none is, the one that might save most; None without any."""
    why: str = ""
    """Why there is no figure, in a word or two."""


class Condition(Struct, frozen=True, kw_only=True):
    """One column of the matrix: where the operation is performed, and what may be said there."""

    key: Literal["alone", "work", "contended"]
    work_iters: int = 0
    contender_iters: int = 0
    threads: int = 1
    placement: str = ""
    """Topology class of the second CPU, such as ``same_l3``."""
    scale: Literal["ratio", "ns"]
    same: float
    """Below this difference, a share or ns, two costs are called the same."""
    floor: float = 0.0
    """What identical machine code differed by in this run; 0 where it is unknown."""
    pairs: int = 0
    """Pairs of forms with identical machine code that the floor rests on."""
    bent: float | None = None
    """Of work, how far the loop without an operation is from proportional to it in this run, as a share."""
    spread: float | None = None
    """And how far its windows are apart, from the 10th to the 90th percentile, as a share."""


class Row(Struct, frozen=True, kw_only=True):
    """One operation of the matrix."""

    operation: str
    name: str
    """In words: ``add``, ``CAS loop, reads first``."""
    entries: dict[str, Entry]
    """By the key of the condition."""


class Price(Struct, frozen=True, kw_only=True):
    """One line of the price list: what a remedy costs."""

    group: str
    """What it is a way to do: ``count``, ``read``, ``lock``, ``flush``."""
    name: str
    """In words."""
    alone: Figure | None
    contended: Figure | None
    """With a second CPU that does the same."""
    ratio: Interval | None
    """Over the locked add under the same condition: contended where both were measured so, else alone."""
    only_alone: bool = False
    """The ratio is of the uncontended figures, although others of the list may be of the contended ones."""
    reference: bool = False
    """This is the locked add itself."""
    few: bool = False
    """The ratio rests on fewer launches than a claim needs."""
    rank: int = 0
    """Where there is no room for all, the highest ranks are left out first."""


class Screen(Struct, frozen=True, kw_only=True):
    """Everything that the one screen says of one machine."""

    machine_id: str
    arch: str
    title: str
    """The CPU's name."""
    facts: list[str]
    """What else tells the machine: CPUs, virtual machine, kernel; the first ones matter most."""
    run: list[str]
    """Plan, timed CPU, launches, time spent."""
    coarse: bool = False
    """Fewer launches than a claim needs: the run was cut short, or asked for little time."""
    warning: str = ""
    """Set where figures mean something else than usual: emulated, simulated, published percentiles."""
    headline: list[Sentence] = []
    """What a locked operation costs alone and with a second CPU on its line."""
    use: list[Sentence] = []
    """What to write in code, the most valuable first; empty where nothing is decided."""
    set: list[Sentence] = []
    """What to set LINEWRIGHT_ATOMICS to, or why there is nothing to set."""
    limits: list[Sentence] = []
    """What is undecided, withheld or holds only here; the most important first."""
    width_bits: int = 64
    conditions: list[Condition] = []
    rows: list[Row] = []
    prices: list[Price] = []
    missing: list[str] = []
    """Parts of the matrix or price list that no record holds, each with the plan that gives it."""
