"""The price list of a machine: what the remedies for one shared atomic word cost, and how many
times its price that is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from linewright.analysis.comparison import Comparison
from linewright.analysis.contrast import Contrast
from linewright.analysis.control import contrast_of, noise_group_of
from linewright.analysis.hypothesis_tests import FEWEST_LAUNCHES
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.matrix import Figure, column_key, figure
from linewright.analysis.pairs import COUNTER, PADDED, READERS, SHARED, defaults
from linewright.analysis.plausible import distrust_of
from linewright.analysis.questions import QUESTIONS
from linewright.analysis.summary import Summary
from linewright.analysis.variance_components import pool_components
from linewright.schema import Interval

REFERENCE = "add"
"""What every other price is compared with: one shared atomic word."""
PRICES: tuple[tuple[str, str, tuple[str, ...], int], ...] = (
    ("count", "percpu_add", ("percpu_thread_local_add",), 4),
    ("count", "percpu_add", (COUNTER,), 1),
    ("count", "percpu_add", ("this_cpu_add",), 1),
    ("count", "percpu_add", ("preempt_this_cpu_add",), 3),
    ("count", "percpu_add", ("irq_this_cpu_add",), 3),
    ("count", "percpu_add", ("percpu_shared_lock_add",), 6),
    ("count", "percpu_add", ("percpu_shared_ldadd",), 6),
    ("count", "percpu_add", ("percpu_shared_llsc_add",), 7),
    ("count", "percpu_add", (SHARED,), 6),
    ("count", "percpu_add", PADDED[1:], 2),
    ("count", "percpu_add", PADDED[:1], 2),
    ("read", "readers_pair", ("rcu",), 1),
    ("read", "readers_pair", READERS[:1], 1),
    ("read", "readers_pair", ("srcu_fast_updown", "srcu_fast_updown_defined"), 7),
    ("read", "readers_pair", ("srcu_fast_updown_irqsave",), 7),
    ("read", "readers_pair", ("srcu",), 5),
    ("read", "readers_pair", ("srcu_nmisafe",), 9),
    ("read", "readers_pair", ("tasks_trace",), 8),
    ("read", "readers_pair", ("percpu_rwsem",), 7),
    ("read", "readers_pair", ("refcnt",), 8),
    ("read", "readers_pair", ("biased_rwlock",), 4),
    ("read", "readers_pair", READERS[1:], 2),
    ("read", "readers_pair", ("rwsem",), 8),
    ("lock", "readers_pair", ("mutex",), 3),
    ("lock", "readers_pair", ("spinlock",), 7),
    ("lock", "readers_pair", ("spinlock_irq",), 9),
    ("wait", "readers_grace", ("rcu",), 6),
    ("wait", "readers_grace", ("srcu_fast", "srcu"), 5),
    ("flush", "clean", ("clwb", "dc_cvac"), 3),
    ("flush", "clean_invalidate", ("clflushopt", "dc_civac"), 3),
)
"""Group, operation, the forms of which the first measured is shown, and the rank: where there is no
room for all, the highest ranks are left out first. Some forms are the kernel's alone."""
PARAMS: Mapping[str, Mapping[str, object]] = {
    "percpu_add": {"slots": 1},
    "readers_pair": {"read_delay": 0},
    "readers_grace": {"read_delay": 0, "updater": "synchronize"},
    "clean": {"entries": 1, "wait": "once", "state": "dirty_l1"},
    "clean_invalidate": {"entries": 1, "wait": "once", "state": "dirty_l1"},
}
"""Parameters that cells of the price list have; cells with others measure something else."""
WIDEST = 100
"""An interval of ratios of few launches whose ends are further apart says nothing."""


class Price(Struct, frozen=True, kw_only=True):
    """One line of the price list: what a remedy costs."""

    group: str
    """What it is a way to do: ``count``, ``read``, ``lock``, ``wait``, ``flush``."""
    operation: str = ""
    form: str = ""
    """The first of its forms in `PRICES`, which names it."""
    alone: Figure | None
    contended: Figure | None
    """With a second CPU that does the same."""
    ratio: Interval | None
    """Over the locked add in the same situation: contended where both were measured so, else
    alone."""
    only_alone: bool = False
    """The ratio is of the uncontended figures, although others of the list may be of the contended
    ones."""
    reference: bool = False
    """This is the locked add itself."""
    few: bool = False
    """The ratio rests on fewer launches than a claim needs."""
    rank: int = 0
    """Where there is no room for all, the highest ranks are left out first."""

    @property
    def answer(self) -> Literal["", "wide", "same", "less", "more", "either"]:
        """What is shown of the ratio; empty where there is no interval."""
        if self.ratio is None or self.ratio.confidence <= 0:
            return ""
        if not 0 < self.ratio.low_ns <= self.ratio.high_ns < math.inf:
            return ""
        low, high = self.ratio.low_ns, self.ratio.high_ns
        if self.few and high >= WIDEST * low:
            return "wide"
        same = QUESTIONS["price"].same.share
        if low > 1 / (1 + same) and high < 1 + same:
            return "same"
        return "less" if high < 1 else "more" if low > 1 else "either"


_Sides = Mapping[str, Summary | None]
"""The cells of a price, by ``alone`` and ``contended``."""


def prices(m: MachineAnswers) -> list[Price]:
    """The price of one atomic word, then those of the remedies that were measured."""
    usable = (
        s
        for s in m.summaries
        if s.status == "ok" and s.has_figures and not s.cell.work_iters and not s.emulated
    )
    plain = [
        s
        for s in usable
        if s.cell.contender_iters == 0 and s.cell.threads <= 2 and not distrust_of(s)
    ]
    adds = [s for s in plain if s.cell.operation in ("add", "fetch_add")]
    added = {key: defaults([s for s in adds if column_key(s) == key]).get("add") for key in _KEYS}
    priced = [
        (item, own)
        for item in PRICES
        if any((own := {key: _of(plain, item[1], item[2], key) for key in _KEYS}).values())
    ]
    if not priced:
        return []
    pairs = [_beside(group, own, added) for (group, *_), own in priced]
    ratios = over_one_atomic([pair for pair in pairs if pair], m.select("operations"))
    answers = []
    if any(added.values()):
        answers.append(Price(group="count", operation=REFERENCE, reference=True,
                             ratio=None, **_figures(added)))  # fmt: skip
    for ((group, operation, forms, rank), own), pair in zip(priced, pairs, strict=True):
        c = ratios[(pair[0].id, pair[1].id)] if pair else None
        answers.append(
            Price(
                group=group,
                operation=operation,
                form=forms[0],
                ratio=c
                and Interval(
                    median_ns=c.value, low_ns=c.low, high_ns=c.high, confidence=c.confidence
                ),
                rank=rank,
                few=c is not None and c.over == "launches" and not c.enough(FEWEST_LAUNCHES),
                only_alone=c is not None and pair[0] is own["alone"],
                **_figures(own),
            )
        )
    return answers


def over_one_atomic(
    priced: Iterable[tuple[Summary, Summary]], known: Iterable[Comparison]
) -> dict[tuple[str, str], Contrast | None]:
    """Each price over that of the atomic add beside it, by both ids; nothing is claimed of it but
    its interval.

    A pair that a question compares has that comparison's interval, so that no figure stands
    twice in two values."""
    pairs = list(priced)
    found = pool_components(
        [contrast_of(own, base, "issue") for own, base in pairs],
        [noise_group_of(own.cell) for own, _ in pairs],
    )
    contrasts = {(own.id, base.id): c for (own, base), c in zip(pairs, found, strict=True)}
    return contrasts | {a.ids: a.contrast for a in known if a.ids in contrasts}


_KEYS = ("alone", "contended")


def _of(plain: Sequence[Summary], operation: str, forms: Sequence[str], key: str) -> Summary | None:
    wanted = PARAMS[operation].items()
    return next(
        (
            s
            for form in forms
            for s in plain
            if (s.cell.operation, s.cell.form, column_key(s)) == (operation, form, key)
            and all(s.cell.params.get(name) == value for name, value in wanted)
        ),
        None,
    )


def _beside(group: str, own: _Sides, added: _Sides) -> tuple[Summary, Summary] | None:
    """A price and the atomic add in the same situation: contended where both were measured so,
    else alone.  A wait is no operation and has none."""
    if group == "wait":
        return None
    both = ((own[key], added[key]) for key in ("contended", "alone"))
    return next(((a, b) for a, b in both if a is not None and b is not None), None)


def _figures(own: _Sides) -> dict[str, Figure | None]:
    return {key: figure(s) if s else None for key, s in own.items()}
