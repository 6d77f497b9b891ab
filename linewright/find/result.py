"""Evidence into a result: kinds, objects, sites, shares with intervals, in the order of what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from linewright.find.decode import Decoder
from linewright.find.evidence import LINE, Evidence, Lines, Place, SiteKey, judge, paired, runs
from linewright.find.objects import Objects
from linewright.find.schema import Hot, Kind, Site, Slowed, Touch
from linewright.find.space import Spaces
from linewright.find.symbols import Names
from linewright.schema import Estimate

MOST_LISTED = 20
MOST_TOUCHES = 16
MOST_SITES = 8
FEWEST_SAMPLES = 3
"""Samples that a line needs beside watchpoints' word: one stray decoding makes no finding."""


FEWEST_TAKEOVERS = 32
"""Times that a line changes hands under emulation before it is called travelling: what a thread is given at its start
moves once."""


def share(part: int, whole: int) -> Estimate | None:
    """A share of samples with its 95 % interval (Wilson)."""
    if whole <= 0:
        return None
    from scipy.stats import binomtest  # heavy: only where there is something to say

    found = binomtest(min(part, whole), whole).proportion_ci(0.95, "wilson")
    return Estimate(value=min(part, whole) / whole, low=float(found.low), high=float(found.high))


class Judge:
    """Names and orders the lines of one run."""

    def __init__(
        self, spaces: Spaces, names: Names, objects: Objects, lines: Lines, by_thread: Counter[int], arch: str
    ) -> None:
        self._spaces, self._names, self._objects, self._lines = spaces, names, objects, lines
        self._by_thread, self._total = by_thread, by_thread.total()
        """All samples of each thread; none where every access is seen."""
        self._decoder = Decoder(arch, spaces)
        self.seldom = 0
        """Shared lines that moved too seldom to be listed."""

    def shared(self) -> list[Hot]:
        """Lines that travel, on 64 bytes or on 128, the most expensive first."""
        found: list[tuple[Evidence, Kind, Kind]] = []
        for place, evidence in self._lines.known.items():
            kind = judge(evidence.threads.values())
            wide = self._wide(place)
            if kind in ("true", "false") or wide in ("true", "false"):
                if self._enough(evidence):
                    found.append((evidence, kind, wide))
                else:
                    self.seldom += 1
        # What is shared on 128 bytes only comes behind what is shared on 64.
        found.sort(key=lambda f: (f[1] not in ("true", "false"), -f[0].samples, -f[0].moved))
        self._prepare(evidence for evidence, _, _ in found[:MOST_LISTED])
        return [self._hot(*f) for f in found[:MOST_LISTED]]

    def alone(self, least: float = 0.01) -> list[Hot]:
        """Lines on which one thread's atomics take at least this share of the samples."""
        found = [
            e
            for place, e in self._lines.known.items()
            if e.samples >= max(FEWEST_SAMPLES, least * self._total)
            and judge(e.threads.values()) in ("alone", "read")
            and self._wide(place) not in ("true", "false")
        ]
        found.sort(key=lambda e: -e.samples)
        self._prepare(found[:MOST_LISTED])
        return [self._hot(e, "alone", "alone") for e in found[:MOST_LISTED]]

    def _enough(self, evidence: Evidence) -> bool:
        if evidence.accesses:
            return evidence.moved >= FEWEST_TAKEOVERS
        return evidence.watched or evidence.samples >= FEWEST_SAMPLES

    def _wide(self, place: Place) -> Kind:
        low, high = (self._lines.known.get(Place(place.space, place.line & ~1 | half)) for half in (0, 1))
        return judge(paired(low, high))

    def _prepare(self, evidence: Iterable[Evidence]) -> None:
        """Source lines of everything that will be named, asked for at once."""
        wanted = []
        for e in evidence:
            for key, _ in e.sites.most_common(MOST_SITES):
                wanted.append((key.pid, key.ip))
                caller = self._caller(key, e)
                if caller:
                    wanted.append((key.pid, caller - 1))
        self._names.prepare(wanted)

    def _hot(self, e: Evidence, kind: Kind, wide: Kind) -> Hot:
        offsets = sorted({at for t in e.threads.values() for at, _ in runs(t.touched)}) or [0]
        where = [e.address + at for at in offsets]
        object_ = self._objects.name(e.pid, where[0])
        merged = self._sites(e)
        touches = sorted(e.threads.items(), key=lambda pair: (runs(pair[1].touched), pair[0]))
        return Hot(
            address=e.address,
            pid=e.pid,
            line_bytes=128 if kind not in ("true", "false") and wide in ("true", "false") else LINE,
            kind=kind,
            kind_128=wide,
            certainty="exact" if e.accesses else "watched" if e.watched else "sampled",
            object=self._objects.all_names(e.pid, where),
            object_kind=object_.kind,
            allocated_in=object_.site,
            one_block=self._objects.one_block(e.pid, where),
            share=None if e.accesses else share(e.samples, self._total),
            at_most=2 * e.near > e.samples,
            accesses=e.accesses,
            touches=[
                Touch(
                    thread=tid,
                    name=self._spaces.names.get(tid, ""),
                    bytes=runs(t.touched),
                    writes=bool(t.written),
                    reads=bool(t.read),
                )
                for tid, t in touches[:MOST_TOUCHES]
            ],
            threads=len(touches),
            slowed=self._slowed(e),
            sites=merged[:MOST_SITES],
        )

    def _slowed(self, e: Evidence) -> list[Slowed]:
        """Each thread's own share at the line, those with most samples there first."""
        return [
            Slowed(thread=tid, name=self._spaces.names.get(tid, ""), share=own, plain=e.near_by_thread[tid] / number)
            for tid, number in e.by_thread.most_common(MOST_TOUCHES)
            for own in [share(number, self._by_thread[tid])]
            if own is not None
        ]

    def _sites(self, e: Evidence) -> list[Site]:
        """Sites of one file and address are one, whichever process ran them."""
        counts: Counter[tuple] = Counter()
        example: dict[tuple, SiteKey] = {}
        for key, number in e.sites.items():
            where = self._names.where(key.pid, key.ip)
            same = (where, key.access, key.caller if self._is_helper(key) else 0)
            counts[same] += number
            example.setdefault(same, key)
        return [self._site(e, example[same], same[0].address, number) for same, number in counts.most_common()]

    def _site(self, e: Evidence, key: SiteKey, offset: int, number: int) -> Site:
        named = self._names.name(key.pid, key.ip)
        caller = self._caller(key, e)
        if caller:
            above = self._names.name(key.pid, caller - 1)
            said = above.function + (f" ({above.source.rpartition('/')[2]})" if above.source else "")
        exact = bool(e.accesses)
        return Site(
            instruction=key.mnemonic or self._decoder.mnemonic(key.pid, key.ip),
            module=named.module,
            function=named.function,
            offset=offset,
            source=named.source,
            caller=said if caller else "",
            access=key.access,
            share=0.0 if exact or not self._total else min(1.0, number / self._total),
            accesses=number if exact else 0,
        )

    def _caller(self, key: SiteKey, e: Evidence) -> int:
        """For a site in a system library or an outline helper: the first return address outside of them, or 0."""
        sample = e.examples.get(key)
        if key.caller and (self._names.is_system(key.pid, key.ip) or self._is_helper(key)):
            return key.caller + 1
        helper = self._is_helper(key)
        if sample is None or not (helper or self._names.is_system(key.pid, key.ip)):
            return 0
        if helper and len(sample.registers) > 30:
            return sample.registers[30]
        for address in (*sample.top, *sample.chain[1:]):
            if self._names.is_code(key.pid, address) and not self._names.is_system(key.pid, address):
                return address
        return 0

    def _is_helper(self, key: SiteKey) -> bool:
        """An outline helper of arm64: what matters is where it is called from."""
        return self._names.name(key.pid, key.ip).function.startswith("__aarch64_")
