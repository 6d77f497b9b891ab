# SPDX-License-Identifier: MIT
"""What an operation costs alone and contended on this machine, from its records, and so what ending
the contention could bring.

At most the line's atomic operations, and where threads wait for each other that waiting, cost
nothing any more: the ceiling's upper end is their share of time.  Prices bound no program's costs:
an operation that meets the line seldom waits for a whole transfer each time, two that contend
without a pause share one.  At the prices it is share × (contended − alone) / contended: were the
line never taken by another thread, each operation would cost what it costs alone.  Of a
readers-writer lock that mostly readers take, it is what readers that write no shared line would
save: (pthread_rwlock_t's − the biased lock's) / pthread_rwlock_t's, both beside a second CPU."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from linewright.analysis.bytes_apart import ApartAnswers
from linewright.analysis.intervals import BAND, extremes
from linewright.analysis.loading import summarise
from linewright.analysis.machine_answers import machines_with_answers
from linewright.errors import LinewrightError
from linewright.find.evidence import LINE
from linewright.find.line_verdict import lock_use, waits_at
from linewright.find.line_words import place
from linewright.find.results import BIASED, Ceiling, Hot, Remark, note
from linewright.forms import SPACING, standing_for
from linewright.schema import Cell, Context, Estimate, Interval, Record

MOST_NAMED = 2
"""Record files that a refusal names; more are counted."""
LIBCS = "rwsem"
LOCKS = (BIASED, LIBCS)
"""Readers of the library's lock, and of the C library's."""


class Prices:
    """Alone and contended costs by form, each with the least and the greatest of its launches:
    these are few and often of several modes.  Of a simulated one with the ends of its bands."""

    def __init__(self, contexts: Sequence[Context], records: Sequence[Record]) -> None:
        emulated = {c.context_id for c in contexts if c.emulated}
        some: dict[tuple[str, str], list[Record]] = defaultdict(list)
        for r in records:
            known = r.status == "ok" and r.window_ns and r.context_id not in emulated
            if known and not r.cell.work_iters and _as_in_programs(r.cell):
                some[r.cell.contender, r.cell.form].append(r)
        self._alone, self._contended = (
            {form: _price(records) for (who, form), records in some.items() if who == contender}
            for contender in ("none", "same_line")
        )
        self.distance = _distance(contexts, records)
        """How far apart words have to lie here, where the records decide it."""

    def __bool__(self) -> bool:
        """Whether any form has both prices."""
        return bool(self._alone.keys() & self._contended.keys())

    def ceiling(self, hot: Hot, arch: str) -> Ceiling | None:
        """What an end of the line's contention could bring at most; None where its main site is not
        priced, of a line that stays on one CPU at a time, and of a pair of lines where pairs were
        not measured to disturb each other."""
        apart = self.distance.needed if self.distance else LINE
        if hot.verdict.stays or (hot.verdict.line_bytes == 128 and apart <= LINE):
            return None
        atomic = [site for site in hot.sites if site.access == "atomic"]
        form = standing_for(atomic[0].instruction, arch) if atomic else ""
        alone, contended = self._alone.get(form), self._contended.get(form)
        if atomic and lock_use(hot.sites) == "readers" and self._contended.keys() >= set(LOCKS):
            form = BIASED
            alone, contended = self._contended[BIASED], self._contended[LIBCS]
        if hot.share is None or alone is None or contended is None:
            return None
        plain = _plain(hot)
        ends = _ends(hot, plain)
        most = _part(contended.high_ns, alone.low_ns) if form == BIASED else 1.0
        gain = Estimate(
            value=hot.share.value * (1 - plain) * _part(contended.median_ns, alone.median_ns),
            low=hot.share.low * (1 - plain) * _part(contended.low_ns, alone.high_ns),
            high=hot.share.high * ends * most,
            confidence=max(0.0, alone.confidence + contended.confidence + hot.share.confidence - 2),
        )
        thread, slowed = _most_slowed(hot, most)
        return Ceiling(
            gain=gain,
            slowed_thread=thread,
            most_slowed=slowed,
            form=form,
            alone_ns=alone,
            contended_ns=contended,
            plain=1 - ends,
        )


def _distance(contexts: Sequence[Context], records: Sequence[Record]) -> ApartAnswers | None:
    """Of machines that differ in nothing but their kernel or probe, the one that needs most."""
    own = [record for record in records if record.cell.operation in SPACING.operations]
    found = [m.bytes_apart for m in machines_with_answers(summarise(contexts, own), contexts)]
    decided = [answers for answers in found if answers.needed]
    if not decided or len(decided) < len(found):
        return None
    return max(decided, key=lambda answers: answers.needed)


def _price(records: Sequence[Record]) -> Interval:
    """The median of some launches, with the least and the greatest, or the widest band."""
    found = extremes([statistics.median(record.window_ns) for record in records])
    bands = [r.metrics[end] for r in records for end in ("p05_ns", "p95_ns") if end in r.metrics]
    if not bands:
        return found
    low, high = min(found.low_ns, *bands), max(found.high_ns, *bands)
    return msgspec.structs.replace(found, low_ns=low, high_ns=high, confidence=BAND)


def _as_in_programs(cell: Cell) -> bool:
    """Of readers, alone or two of them, back to back and without an updater; of mixes, those whose
    every operation is the form, and no others counted."""
    params = cell.params
    if cell.operation == "readers_pair":
        alone = params.get("updater", "none") == "none"
        return cell.threads <= 2 and not params.get("read_delay") and alone
    return params.get("write_percent", 100) == 100 and "rounds" not in params


def _most_slowed(hot: Hot, most: float) -> tuple[int, float]:
    """The thread that the line holds up most, and the upper end of what an end of the contention
    could bring it, of its own time.  Which one it is goes by what is certain of its share: a thread
    of a few samples is no such."""
    factor = {s.thread: _ends(hot, s.plain) * most for s in hot.slowed}
    worst = max(hot.slowed, key=lambda s: s.share.low * factor[s.thread], default=None)
    return (worst.thread, worst.share.high * factor[worst.thread]) if worst else (0, 0.0)


def _plain(hot: Hot) -> float:
    """Of the line's samples, the part at plain accesses, which have no price."""
    all_sites = sum(site.share for site in hot.sites)
    plain = sum(site.share for site in hot.sites if site.access != "atomic")
    return min(1.0, plain / all_sites) if all_sites else 0.0


def _ends(hot: Hot, plain: float) -> float:
    """Of time at the line, the part that an end of the contention ends at most, where `plain` of it
    is at plain accesses."""
    return 1.0 if waits_at(hot) else 1 - plain


def _part(contended: float, alone: float) -> float:
    return max(0.0, (contended - alone) / contended) if contended > 0 else 0.0


def from_files(
    paths: Sequence[str], cpu_model: str, named: bool = False, on: str = "local"
) -> tuple[Prices | None, Remark | None]:
    """Prices of this machine's records among these files, and what to say of them; `on` names the
    machine.

    Records of a simulated machine are taken only from files that the user `named`.
    """
    from linewright.records import files

    contexts, records, files_read = [], [], []
    for path in paths:
        try:
            some, more = files.read(path, lambda text: None)
        except LinewrightError:
            continue  # some other kind of file: a trial's, say
        files_read.append(path)
        contexts += some
        records += more
    here = [c for c in contexts if c.cpu_model == cpu_model]
    models = [c for c in contexts if named and not here and c.simulated]
    known = {c.context_id for c in here or models}
    prices = Prices(here or models, [r for r in records if r.context_id in known])
    if here:
        return prices, None
    if models:  # what they are is said with every ceiling
        names = sorted({c.simulated for c in models})
        if len(names) > 1:
            return None, note("several_models", ", ".join(names))
        return prices or None, note("of_a_model" if prices else "half_a_model", *names)
    few = len(files_read) <= MOST_NAMED
    where = f" in {' and '.join(files_read) if few else f'{len(files_read)} record files'}"
    again = f"linewright measure{place(on)}"
    return None, note("no_records", cpu_model, where if files_read else "", again)
