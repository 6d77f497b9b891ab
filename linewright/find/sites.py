# SPDX-License-Identifier: MIT
"""The instructions that use a line: their names, and who calls them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from linewright.elf.outline_helpers import is_helper
from linewright.find.addresses import Addresses
from linewright.find.decode import Decoder
from linewright.find.evidence import Evidence, SiteKey, runs
from linewright.find.line_words import place_text
from linewright.find.movement import Ticks, movement
from linewright.find.results import Site
from linewright.find.stream import Sample

MOST_SITES = 8
FEWEST_OF_THREAD = 3
"""Samples of a thread at a site from which it is said to be there: fewer may be stray."""


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
            for at in {at for t in e.threads.values() for at, _ in runs(t.touched)}:
                wanted += self._addresses.allocation(e.pid, e.address + at, e.when_ns)
            for key in hottest(e):
                wanted.append((key.pid, key.ip))
                if caller := self._caller(key, e):
                    wanted.append((key.pid, caller - 1))
        self._names.prepare(wanted)
        above = [
            (key.pid, at - 1)
            for e in evidence
            for key in hottest(e)
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


def hottest(e: Evidence) -> list[SiteKey]:
    """The line's sites that are named."""
    return [key for key, _ in e.sites.most_common(MOST_SITES)]
