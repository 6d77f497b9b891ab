# SPDX-License-Identifier: MIT
"""Which lines of a run several threads use, from the evidence of each: kind, object, sites and
share of time with its interval, in the order of what they cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from linewright.analysis.intervals import wilson_score
from linewright.elf.outline_helpers import is_helper
from linewright.find.addresses import Addresses
from linewright.find.decode import Decoder
from linewright.find.evidence import (
    LINE,
    MOST_SITES,
    Evidence,
    LineEvidence,
    LinePlace,
    SiteKey,
    paired,
    runs,
    sharing_kind,
)
from linewright.find.fields import Fields
from linewright.find.line_verdict import SHARED, bystanders
from linewright.find.line_words import place_text
from linewright.find.movement import Ticks, Use, movement, ran_at_once, table_movement
from linewright.find.results import (
    Hot,
    Movement,
    Object,
    SharingKind,
    Site,
    ThreadShare,
    Touch,
    Unsure,
)
from linewright.find.stream import Sample

MOST_ALONE = 20
FEWEST_OF_THREAD = 3
"""Samples of a thread at a site from which it is said to be there: fewer may be stray."""
MOST_TOUCHES = 16
FEWEST_SAMPLES = 3
"""Samples that a line needs beside watchpoints' word: one stray decoding makes no finding."""
FEWEST_ALONE = 12
"""Samples by one thread from which a line is that thread's: fewer may have missed another thread,
even one that uses the line as often in but 1 of 2^11 cases."""
FEWEST_LINES = 16
"""Lines that one instruction uses, each with at most MOST_OF_TABLE of the samples, or
MOST_OF_VARIABLE of those at one variable, from which they are summed up: a table that is hot as a
whole, or in its middle, as an array of 25 lines whose middle one has a tenth."""
MOST_OF_TABLE = 0.1
MOST_OF_VARIABLE = 1 / 6
SMALL = 0.01
"""Of the samples, what a line of one thread takes at least to be named."""
FEWEST_MET = 3
"""Of them, lines that two threads were seen on, and the same as a share of those with two samples:
less is chance."""
FEWEST_MET_SHARE = 0.1
FEWEST_TAKEOVERS = 32
"""Times that a line changes hands under emulation before it is called travelling, and that a byte
of it is used: what a thread is given at its start moves once, and the items of a queue move once
each, which may be many times in one line or few, as threads happen to take turns."""


class _Found(NamedTuple):
    """A line that is listed."""

    evidence: Evidence
    kind: SharingKind
    wide: SharingKind
    """The kind on 128 bytes."""
    table: Sequence[Evidence] = ()
    """The lines that it sums up."""


class SharedLines:
    """Names and orders the lines of one run."""

    def __init__(
        self,
        addresses: Addresses,
        lines: LineEvidence,
        decoder: Decoder,
        samples: Sequence[Sample] = (),
        ticks: Sequence[Use] = (),
        period_ns: int = 0,
        perhaps_shared: Sequence[Evidence] = (),
    ) -> None:
        """`samples` are all of the run, each of so much CPU time; none where every access is
        seen. `perhaps_shared` are lines that plain accesses may share, with the samples there."""
        self._addresses, self._lines, self._ticks = addresses, lines, Ticks(ticks)
        self._times: dict[int, list[int]] = defaultdict(list)
        for sample in samples:
            self._times[sample.tid].append(sample.time_ns)
        self._period_ns, self._total = period_ns, len(samples)
        self._together = bool(ticks)
        self._sites = Sites(addresses, decoder, samples, self._ticks)
        self._fields = Fields(addresses, decoder)
        self.seldom: list[Evidence] = []
        """Shared lines that moved too seldom to be listed."""
        self._alone: list[Evidence] = []
        """Lines whose samples show no two threads at one time."""
        self._plain = list(perhaps_shared)

    def shared(self) -> list[Hot]:
        """Lines that several threads use, on 64 bytes or on 128: what moves between CPUs first,
        then by cost."""
        tables = self._tables()
        summed = {id(e) for table in tables for e in table.table}
        found: list[_Found] = []
        for place, evidence in self._lines.known.items():
            if id(evidence) in summed:
                continue
            kind, wide = sharing_kind(evidence.threads.values()), self._wide(place)
            if kind in SHARED or wide in SHARED:
                if _enough(evidence):
                    found.append(_Found(evidence, kind, wide))
                else:
                    self.seldom.append(evidence)
            elif evidence.samples:
                self._alone.append(evidence)
        # What is shared on 128 bytes only comes behind what is shared on 64.
        found.sort(key=lambda f: (f.kind not in SHARED, -f.evidence.samples, -f.evidence.moved))
        listed = [*found, *tables]
        self._sites.prepare([*(f.evidence for f in listed), *self._lonely()])
        lines = [self._facts(f) for f in listed]
        if self._total:
            lines.sort(key=lambda line: (line.verdict.line_bytes, -line.share.value))
        return sorted(lines, key=lambda line: line.verdict.stays)

    def _tables(self) -> list[_Found]:
        """Lines of objects of one type, or of one object that one instruction uses, none of which
        is most of what that costs, all together: shared where two threads were seen on enough of
        them."""
        names = self._addresses.code
        hottest = [
            (e, key, names.where(key.pid, key.ip))
            for e in self._lines.known.values()
            if e.samples
            for ((key, _),) in [e.sites.most_common(1)]
        ]
        often = Counter(where for _, _, where in hottest)
        groups: dict[tuple, list[Evidence]] = defaultdict(list)
        for e, key, where in hottest:
            mapping = self._addresses.spaces.find(e.pid, e.address)
            static = names.variable(e.pid, e.address)
            variable = static and (static.symbol, static.file)
            many = static is None and often[where] >= FEWEST_MET
            typed = self._fields.behind(e, key) if many else None
            place = (where, mapping and mapping.start, variable)
            groups[(typed.layout.name,) if typed else place].append(e)
        found = []
        for (*_, of), all_ in groups.items():
            named = isinstance(of, tuple) and bool(of[0])  # a variable, and no type
            in_it = MOST_OF_VARIABLE * sum(e.samples for e in all_) * named
            most = max(FEWEST_SAMPLES, MOST_OF_TABLE * self._total, in_it)
            some = [e for e in all_ if e.samples <= most]
            repeated = [e for e in some if e.samples > 1]
            met = [sharing_kind(t.at_any_time() for t in e.threads.values()) for e in repeated]
            kinds = Counter(kind for kind in met if kind in SHARED)
            enough = max(FEWEST_MET, FEWEST_MET_SHARE * len(repeated))
            if len(some) >= FEWEST_LINES and kinds.total() >= enough:
                first = min(some, key=lambda e: e.address)
                whole = Evidence(first.place, first.pid, first.address)
                for e in some:
                    whole.add(e)
                kind = kinds.most_common(1)[0][0]
                found.append(_Found(whole, kind, kind, some))
        return found

    def alone(self) -> list[Hot]:
        """Lines on which one thread's atomics take at least a hundredth of the samples."""
        return [self._facts(_Found(e, "alone", "alone")) for e in self._lonely()]

    def _lonely(self) -> list[Evidence]:
        found = [
            e
            for place, e in self._lines.known.items()
            if e.samples >= max(FEWEST_SAMPLES, SMALL * self._total)
            and sharing_kind(e.threads.values()) in ("alone", "read")
            and self._wide(place) not in SHARED
        ]
        return sorted(found, key=lambda e: -e.samples)[:MOST_ALONE]

    def _halves(self, place: LinePlace) -> list[Evidence]:
        """Those of the two lines of the 128 bytes that are known."""
        halves = (place._replace(line=place.line & ~1 | half) for half in (0, 1))
        return [self._lines.known[half] for half in halves if half in self._lines.known]

    def _wide(self, place: LinePlace) -> SharingKind:
        return sharing_kind(paired(self._halves(place)))

    def _movement(self, found: _Found, line_bytes: int) -> Movement | None:
        """Of the line, of the pair where only that is shared, or of many lines together."""
        if found.table:
            lines = [e.uses() for e in found.table]
            return table_movement(lines, self._ticks) if any(lines) else None
        one = found.evidence
        halves = [one] if line_bytes == LINE else self._halves(one.place)
        uses = [use for half in halves for use in half.uses()]
        return movement(uses, self._ticks) if uses else None

    def _facts(self, found: _Found) -> Hot:
        e, kind, wide, table = found
        used = self._used(e)
        where, objects = list(used), list(used.values())
        touches = self._touches(e)
        mixed = kind == "true" and bool(bystanders(touches, len(e.threads)))
        fields, advised = self._fields.of(e, objects, separate=kind == "false" or mixed)
        type_, used_fields = (table and self._fields.type_of(e)) or ("", [])
        wide_only = kind not in SHARED and wide in SHARED
        line_bytes = 2 * LINE if wide_only else LINE
        return Hot(
            address=e.address,
            pid=e.pid,
            line_bytes=line_bytes,
            kind=kind,
            kind_128=wide,
            certainty="exact" if e.accesses else "watched" if e.watched else "sampled",
            objects=objects[:1] if table else objects,
            type=type_,
            used_fields=used_fields,
            identity=self.identity(e),
            one_block=not table and self._addresses.one_block(e.pid, where, e.when_ns),
            share=None if e.accesses else wilson_score(e.samples, self._total),
            estimated=2 * e.near_by_thread.total() > e.samples,
            lines=len(table) or 1,
            fields=fields,
            advised=advised,
            member=self._fields.member(e, objects) if kind == "true" and not table else None,
            accesses=e.accesses,
            movement=self._movement(found, line_bytes),
            tasks=e.tasks,
            touches=touches,
            threads=len(e.threads),
            slowed=self._slowed(e),
            sites=self._sites.of(e, one_line=not table),
            at_once=self.at_once(e.threads),
        )

    def seldom_identities(self) -> list[str]:
        """Of all lines that are or may be shared and are not listed."""
        few = [e for e in self._alone if e.samples < FEWEST_ALONE]
        return self._names([*self.seldom, *self._plain, *few])

    def unsure(self) -> list[Unsure]:
        """Lines that no two threads were seen to use at one time."""
        return [
            Unsure(identity=self.identity(e), samples=e.samples, atomics=atomics)
            for lines, atomics in ((self._plain, False), (self._alone, True))
            for e in lines
        ]

    def met(self, suspected: Iterable[Evidence]) -> list[str]:
        """Identities of all lines that samples show, and of those that plain accesses may use."""
        return self._names([*self._lines.known.values(), *suspected])

    def _names(self, lines: Iterable[Evidence]) -> list[str]:
        return sorted({name for e in lines for name in self.identity(e)})

    def identity(self, e: Evidence) -> list[str]:
        """What the line is called in every build: by its variables, by the functions that allocated
        its blocks, else by those that use it."""
        names = set()
        for what in self._used(e).values():
            if what.site or what.symbol:
                names.add(f"{what.kind} {what.site or what.symbol}")
        users = {self._addresses.code.symbol(key.pid, key.ip) for key in e.sites}
        first = self._addresses.object(e.pid, e.address, e.when_ns)
        return sorted(names or {f"{first.kind} used by {user}" for user in users})

    def _used(self, e: Evidence) -> dict[int, Object]:
        """What lies where a thread's used bytes begin, and where another object does among them."""
        when_ns = e.when_ns

        def what(at: int) -> Object:
            return self._addresses.object(e.pid, e.address + at, when_ns)

        def same(one: Object, two: Object) -> bool:
            return (one.kind, one.symbol) == (two.kind, two.symbol) and (
                one.start == two.start or not (one.symbol or one.size)
            )

        begin = e.begins or {0}
        for first, size in runs(reduce(or_, (t.touched for t in e.threads.values()), 0)):
            if not same(what(first), what(first + size - 1)):
                inside = range(first + 1, first + size)
                begin |= {at for at in inside if not same(what(at - 1), what(at))}
        return {e.address + at: what(at) for at in sorted(begin)}

    def at_once(self, threads: Iterable[int] | None = None) -> float | None:
        """Of the time in which any of these threads ran, or any of the program's, the part in which
        two did; None where no time is counted."""
        if not self._period_ns:
            return None
        runs = [self._times[tid] for tid in threads or self._times if tid in self._times]
        return ran_at_once(runs, self._period_ns, self._together) if runs else None

    def _touches(self, e: Evidence) -> list[Touch]:
        """Each thread's bytes, those of neighbours together; of many threads those that write."""
        threads = sorted(e.threads.items(), key=lambda pair: (runs(pair[1].touched), pair[0]))
        if len(threads) > MOST_TOUCHES:
            threads.sort(key=lambda pair: not pair[1].written)
        return [
            Touch(
                thread=tid,
                name=self._addresses.spaces.names.get(tid, ""),
                bytes=runs(t.touched),
                writes=bool(t.written),
                reads=bool(t.read),
            )
            for tid, t in threads[:MOST_TOUCHES]
        ]

    def _slowed(self, e: Evidence) -> list[ThreadShare]:
        """Each thread's own share at the line, those with most samples there first."""
        return [
            ThreadShare(
                thread=tid,
                name=self._addresses.spaces.names.get(tid, ""),
                share=own,
                plain=e.near_by_thread[tid] / number,
            )
            for tid, number in Counter(s.tid for s in e.samples_at()).most_common(MOST_TOUCHES)
            for own in [wilson_score(number, len(self._times[tid]))]
            if own is not None
        ]


def _enough(evidence: Evidence) -> bool:
    if evidence.accesses:
        most = max(evidence.used_at.values(), default=0)  # uses of one byte
        return min(evidence.moved, most) >= FEWEST_TAKEOVERS
    return evidence.watched or evidence.samples >= FEWEST_SAMPLES


class Sites:
    """Names instructions of one run."""

    def __init__(
        self, addresses: Addresses, decoder: Decoder, samples: Sequence[Sample], ticks: Ticks
    ) -> None:
        self._addresses, self._names, self._decoder = addresses, addresses.code, decoder
        self._samples, self._ticks = samples, ticks

    def prepare(self, evidence: Sequence[Evidence]) -> None:
        """Source lines of everything that will be named, asked for at once: the symboliser reads a
        program's debug information anew each time."""
        wanted = []
        for e in evidence:
            for at in e.begins:
                wanted += self._addresses.allocation(e.pid, e.address + at, e.when_ns)
            for key in e.hottest:
                wanted.append((key.pid, key.ip))
                if caller := self._caller(key, e):
                    wanted.append((key.pid, caller - 1))
        self._names.prepare(wanted)
        above = [
            (key.pid, at - 1)
            for e in evidence
            for key in e.hottest
            for sample in [e.example(key)]
            if sample and self._names.is_header(key.pid, key.ip)
            for at in self._names.callers(sample)
        ]
        self._names.prepare(above)

    def of(self, e: Evidence, one_line: bool = True) -> list[Site]:
        """The most frequent ones. Sites of one file and address are one, whichever process ran
        them; whether each moves the line is asked of `one_line`, not of many together."""
        counts: Counter[tuple] = Counter()
        keys: dict[tuple, list[SiteKey]] = defaultdict(list)
        for key, number in e.sites.items():
            where = self._names.where(key.pid, key.ip)
            same = (where, key.access, key.caller if self._is_helper(key) else 0)
            counts[same] += number
            keys[same].append(key)
        return [
            self._site(e, keys[same], same[0].address, number, one_line)
            for same, number in counts.most_common(MOST_SITES)
        ]

    def _site(
        self, e: Evidence, keys: Sequence[SiteKey], offset: int, number: int, one_line: bool
    ) -> Site:
        key, uses = max(keys, key=e.sites.__getitem__), e.uses(*keys) if one_line else []
        named = self._names.name(key.pid, key.ip)
        caller, total = self._caller(key, e), len(self._samples)
        threads = Counter(s.tid for s in e.samples_at(*keys)) if one_line else Counter()
        exact = bool(e.accesses)
        return Site(
            instruction=key.mnemonic or self._decoder.mnemonic(key.pid, key.ip),
            module=named.module,
            function=named.function,
            offset=offset,
            source=named.source,
            inlined=list(self._names.inlined(key.pid, key.ip)),
            caller=place_text(self._names.name(key.pid, caller - 1)) if caller else "",
            access=key.access,
            role=self._decoder.role(key.pid, key.ip),
            share=0.0 if exact or not total else min(1.0, number / total),
            accesses=number if exact else 0,
            movement=movement(uses, self._ticks) if uses else None,
            threads=[tid for tid, n in threads.most_common() if n >= FEWEST_OF_THREAD],
        )

    def _caller(self, key: SiteKey, e: Evidence) -> int:
        """For a site in a system library, in a header's function or an outline helper: the first
        return address outside of them, or 0."""
        names, pid, sample, helper = self._names, key.pid, e.example(key), self._is_helper(key)
        inside = helper or names.is_system(pid, key.ip)
        if key.caller:
            own = helper or (inside and not names.is_system(pid, key.caller))
            return key.caller + 1 if own else 0
        if sample is None or names.is_unlisted(pid, key.ip):
            return 0

        def outside(stack: Iterable[int]) -> Iterator[int]:
            """What may be of callers in no system library."""
            return (at for at in stack if names.is_code(pid, at) and not names.is_system(pid, at))

        if names.is_header(pid, key.ip):
            own = outside(names.callers(sample))
            return next((at for at in own if not names.is_header(pid, at - 1)), 0)
        if helper and len(sample.registers) > 30:
            return sample.registers[30]
        return next(outside((*sample.top, *sample.chain[1:])), 0) if inside else 0

    def _is_helper(self, key: SiteKey) -> bool:
        """An outline helper of arm64: what matters is where it is called from."""
        return is_helper(self._names.name(key.pid, key.ip).function)
