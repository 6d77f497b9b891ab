# SPDX-License-Identifier: MIT
"""The price list of a machine: what the remedies for one shared atomic word cost, and how many
times its price that is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from linewright.analysis.comparison import Comparison, compared, judge, side_of
from linewright.analysis.contrast import Contrast
from linewright.analysis.control import contrast_of, noise_group_of
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.matrix import Figure, column_key, figure
from linewright.analysis.questions import COUNTER, PADDED, QUESTIONS, READERS, SHARED, defaults
from linewright.analysis.summary import Summary
from linewright.analysis.variance_components import pool_components

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
    ("wait", "wait_hint", ("hint_pause",), 6),
    ("wait", "wait_hint", ("hint_isb",), 6),
    ("wait", "wait_woken", ("woken_pause",), 6),
    ("wait", "wait_woken", ("woken_isb",), 6),
    ("flush", "clean", ("clwb", "dc_cvac"), 3),
    ("flush", "clean_invalidate", ("clflushopt", "dc_civac"), 3),
)
"""Group, operation, the forms of which the first measured is shown, and the rank: where there is no
room for all, the highest ranks are left out first. Some forms are the kernel's alone."""
PARAMS: Mapping[str, Mapping[str, object]] = {
    "percpu_add": {"slots": 1},
    "readers_pair": {"read_delay": 0},
    "readers_grace": {"read_delay": 0, "updater": "synchronize"},
    "wait_hint": {},
    "wait_woken": {},
    "clean": {"entries": 1, "wait": "once", "state": "dirty_l1"},
    "clean_invalidate": {"entries": 1, "wait": "once", "state": "dirty_l1"},
}
"""Parameters that cells of the price list have; cells with others measure something else."""


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
    versus: Comparison | None
    """Over the locked add in the same situation: contended where both were measured so, else
    alone."""
    only_alone: bool = False
    """It is of the uncontended figures, although others of the list may be of the contended
    ones."""
    reference: bool = False
    """This is the locked add itself."""
    rank: int = 0
    """Where there is no room for all, the highest ranks are left out first."""

    @property
    def compared(self) -> bool:
        """Whether it has a ratio at all; a wait, which is no operation, has none."""
        return self.versus is not None and self.versus.contrast is not None

    @property
    def ratio(self) -> Contrast | None:
        """The ratio with its interval; None where there is none."""
        c = self.versus.contrast if self.versus else None
        return c if c and c.confidence > 0 and 0 < c.low <= c.high < math.inf else None

    @property
    def few(self) -> bool:
        """Whether it rests on fewer launches than a claim needs."""
        return self.versus is not None and self.versus.few_launches


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
        s for s in usable if s.cell.contender_iters == 0 and s.cell.threads <= 2 and not s.distrust
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
    ratios = _over_one_atomic([pair for pair in pairs if pair], m.select("operations"))
    answers = []
    if any(added.values()):
        answers.append(Price(group="count", operation=REFERENCE, reference=True,
                             versus=None, **_figures(added)))  # fmt: skip
    for ((group, operation, forms, rank), own), pair in zip(priced, pairs, strict=True):
        answers.append(
            Price(
                group=group,
                operation=operation,
                form=forms[0],
                versus=ratios[pair[0].id, pair[1].id] if pair else None,
                rank=rank,
                only_alone=pair is not None and pair[0] is own["alone"],
                **_figures(own),
            )
        )
    return answers


def _over_one_atomic(
    pairs: Sequence[tuple[Summary, Summary]], known: Iterable[Comparison]
) -> dict[tuple[str, str], Comparison]:
    """Each price over that of the atomic add beside it, by both ids; nothing is claimed of it but
    its interval.

    A pair that a question compares has that comparison's interval, so that no figure stands
    twice in two values."""
    found = pool_components(
        [contrast_of(own, base, "issue") for own, base in pairs],
        [noise_group_of(own.cell) for own, _ in pairs],
    )
    shared, asked, answers = {a.ids: a.contrast for a in known}, QUESTIONS["price"], {}
    for (own, base), pooled in zip(pairs, found, strict=True):
        c = shared.get((own.id, base.id), pooled)
        judgement = judge(c, c and c.p, alpha=asked.alpha, same=asked.same.share)
        answers[own.id, base.id] = compared(judgement, "price", side_of(own), side_of(base))
    return answers


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
