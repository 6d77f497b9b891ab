"""Evidence into a result: kinds, objects, sites, shares with intervals, in the order of what they
cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from linewright.analysis.intervals import wilson_score
from linewright.elf import types
from linewright.elf.outline_helpers import is_helper
from linewright.elf.types import Accessed, Layout
from linewright.find.decode import DWARF_REGISTERS, Decoder, Operand
from linewright.find.evidence import (
    LINE,
    Evidence,
    LineEvidence,
    LinePlace,
    SiteKey,
    byte_mask,
    paired,
    runs,
    sharing_kind,
)
from linewright.find.movement import Ticks, Use, movement, table_movement
from linewright.find.names import FileAddress, Names, Object
from linewright.find.object_words import line_text, place_text, table_text
from linewright.find.objects import Objects
from linewright.find.sharing_schema import (
    APART,
    FieldBytes,
    Hot,
    LayoutAdvice,
    Movement,
    Sample,
    SharingKind,
    Site,
    ThreadShare,
    Touch,
)
from linewright.find.space import Spaces
from linewright.schema import Estimate

MOST_LISTED = 20
MOST_TOUCHES = 16
MOST_SITES = 8
FEWEST_SAMPLES = 3
"""Samples that a line needs beside watchpoints' word: one stray decoding makes no finding."""


FEWEST_LINES = 16
"""Lines that one instruction uses, each below SMALL of the samples, from which they are summed
up: a table that is hot as a whole."""
SMALL = 0.01
FEWEST_MET = 3
"""Of them, lines that two threads were seen on, and the same as a share of those with two samples:
less is chance."""
FEWEST_MET_SHARE = 0.1
FEWEST_TAKEOVERS = 32
"""Times that a line changes hands under emulation before it is called travelling: what a thread is
given at its start moves once."""


class Judge:
    """Names and orders the lines of one run."""

    def __init__(
        self,
        spaces: Spaces,
        names: Names,
        objects: Objects,
        lines: LineEvidence,
        by_thread: Counter[int],
        arch: str,
        samples: Sequence[Sample] = (),
        ticks: Sequence[Use] = (),
    ) -> None:
        self._spaces, self._names, self._objects, self._lines = spaces, names, objects, lines
        self._ticks = Ticks(ticks)
        self._samples, self._by_thread, self._total = samples, by_thread, by_thread.total()
        """All samples of each thread; none where every access is seen."""
        self._decoder, self._dwarf_registers = Decoder(arch, spaces), DWARF_REGISTERS[arch]
        self._types: dict[FileAddress, Accessed | None] = {}
        self.seldom = 0
        """Shared lines that moved too seldom to be listed."""

    def shared(self) -> list[Hot]:
        """Lines that several threads use, on 64 bytes or on 128: what moves between CPUs first,
        then by cost."""
        tables = self._tables()
        summed = {id(e) for _, _, some in tables for e in some}
        found: list[tuple[Evidence, SharingKind, SharingKind]] = []
        for place, evidence in self._lines.known.items():
            if id(evidence) in summed:
                continue
            kind = sharing_kind(evidence.threads.values())
            wide = self._wide(place)
            if kind in ("true", "false") or wide in ("true", "false"):
                if self._enough(evidence):
                    found.append((evidence, kind, wide))
                else:
                    self.seldom += 1
        # What is shared on 128 bytes only comes behind what is shared on 64.
        found.sort(key=lambda f: (f[1] not in ("true", "false"), -f[0].samples, -f[0].moved))
        self._prepare(
            [
                *(evidence for evidence, _, _ in found[:MOST_LISTED]),
                *(whole for _, whole, _ in tables),
                *self._lonely(),
            ]
        )
        lines = [self._hot(*f) for f in found[:MOST_LISTED]]
        lines += [self._table(*table) for table in tables]
        if self._total:
            lines.sort(key=lambda hot: (hot.kind not in ("true", "false"), -hot.share.value))
        return sorted(lines[:MOST_LISTED], key=lambda hot: hot.stays)

    def _tables(self) -> list[tuple[SharingKind, Evidence, list[Evidence]]]:
        """Lines of objects of one type, or of one object that one instruction uses, each too seldom
        to be judged by itself, and all together: shared where two threads were seen on enough of
        them."""
        most = max(FEWEST_SAMPLES, SMALL * self._total)
        small = [
            (e, key, self._names.where(key.pid, key.ip))
            for e in self._lines.known.values()
            if 0 < e.samples <= most
            for ((key, _),) in [e.sites.most_common(1)]
        ]
        often = Counter(where for _, _, where in small)
        groups: dict[tuple, list[Evidence]] = defaultdict(list)
        for e, key, where in small:
            mapping = self._spaces.find(e.pid, e.address)
            static = self._names.variable(e.pid, e.address)
            variable = static and (static.symbol, static.file)
            many = static is None and often[where] >= FEWEST_MET
            typed = self._behind(e, key) if many else None
            place = (where, mapping and mapping.start, variable)
            groups[(typed.layout.name,) if typed else place].append(e)
        found = []
        for some in groups.values():
            repeated = [e for e in some if e.samples > 1]
            met = [sharing_kind(t.at_once() for t in e.threads.values()) for e in repeated]
            kinds = Counter(kind for kind in met if kind in ("true", "false"))
            enough = max(FEWEST_MET, FEWEST_MET_SHARE * len(repeated))
            if len(some) >= FEWEST_LINES and kinds.total() >= enough:
                first = min(some, key=lambda e: e.address)
                whole = Evidence(first.place, first.pid, first.address)
                for e in some:
                    whole.add(e)
                found.append((kinds.most_common(1)[0][0], whole, some))
        return found

    def _table(self, kind: SharingKind, whole: Evidence, some: list[Evidence]) -> Hot:
        """Lines that are hot together, as one."""
        hot, uses = self._hot(whole, kind, kind), [e.uses() for e in some]
        return msgspec.structs.replace(
            hot,
            object=table_text(self._type_of(whole) or self._object(whole), len(some)),
            lines=len(some),
            one_block=False,
            movement=table_movement(uses, self._ticks) if any(uses) else None,
            sites=[msgspec.structs.replace(site, movement=None) for site in hot.sites],
        )

    def _object(self, e: Evidence) -> Object:
        """What lies at the first of a line's bytes that are used."""
        return self._objects.name(e.pid, _used(e)[0], e.when_ns)

    def _type_of(self, whole: Evidence) -> tuple[str, list[str]] | None:
        """The type of objects on many lines, with its fields that are used; None where it is not
        known or there are several."""
        if self._names.variable(whole.pid, whole.address) is not None:
            return None
        typed = [t for key in whole.sites for t in [self._behind(whole, key)] if t]
        if len({t.layout.name for t in typed}) != 1:
            return None
        used = {f.path for t in typed for f in t.layout.fields(t.offset, t.offset + 1)}
        return typed[0].layout.name, sorted(used - {""})

    def alone(self) -> list[Hot]:
        """Lines on which one thread's atomics take at least a hundredth of the samples."""
        found = self._lonely()
        self._prepare(found)
        return [self._hot(e, "alone", "alone") for e in found]

    def _lonely(self) -> list[Evidence]:
        found = [
            e
            for place, e in self._lines.known.items()
            if e.samples >= max(FEWEST_SAMPLES, SMALL * self._total)
            and sharing_kind(e.threads.values()) in ("alone", "read")
            and self._wide(place) not in ("true", "false")
        ]
        return sorted(found, key=lambda e: -e.samples)[:MOST_LISTED]

    def _enough(self, evidence: Evidence) -> bool:
        if evidence.accesses:
            return evidence.moved >= FEWEST_TAKEOVERS
        return evidence.watched or evidence.samples >= FEWEST_SAMPLES

    def _halves(self, place: LinePlace) -> list[Evidence | None]:
        """The two lines of the 128 bytes."""
        return [
            self._lines.known.get(place._replace(line=place.line & ~1 | half)) for half in (0, 1)
        ]

    def _wide(self, place: LinePlace) -> SharingKind:
        return sharing_kind(paired(*self._halves(place)))

    def _movement(self, e: Evidence, line_bytes: int) -> Movement | None:
        """Of the line, or of the pair where only that is shared."""
        halves = [e] if line_bytes == LINE else [half for half in self._halves(e.place) if half]
        uses = [use for half in halves for use in half.uses()]
        return movement(uses, self._ticks) if uses else None

    def _prepare(self, evidence: Sequence[Evidence]) -> None:
        """Source lines of everything that will be named, asked for at once: the symboliser reads a
        program's debug information anew each time."""
        wanted = []
        for e in evidence:
            for at in {at for t in e.threads.values() for at, _ in runs(t.touched)}:
                wanted += self._objects.allocation(e.pid, e.address + at, e.when_ns)
            for key, _ in e.sites.most_common(MOST_SITES):
                wanted.append((key.pid, key.ip))
                caller = self._caller(key, e)
                if caller:
                    wanted.append((key.pid, caller - 1))
        self._names.prepare(wanted)
        above = [
            (key.pid, at - 1)
            for e in evidence
            for key, _ in e.sites.most_common(MOST_SITES)
            for sample in [e.example(key)]
            if sample and self._names.is_header(key.pid, key.ip)
            for at in self._names.callers(sample)
        ]
        self._names.prepare(above)

    def _hot(self, e: Evidence, kind: SharingKind, wide: SharingKind) -> Hot:
        where = _used(e)
        objects = [self._objects.name(e.pid, at, e.when_ns) for at in where]
        first = objects[0]
        touches = sorted(e.threads.items(), key=lambda pair: (runs(pair[1].touched), pair[0]))
        layout = self._objects.layout(
            e.pid, first, [key.ip for key, _ in e.sites.most_common(MOST_SITES)]
        )
        fields = (
            _fields(
                layout,
                first.start,
                layout.name if first.kind == "heap" else first.symbol,
                e.address,
            )
            if layout
            else self._pointed(e)
        )
        wide_only = kind not in ("true", "false") and wide in ("true", "false")
        line_bytes = 2 * LINE if wide_only else LINE
        return Hot(
            address=e.address,
            pid=e.pid,
            line_bytes=line_bytes,
            kind=kind,
            kind_128=wide,
            certainty="exact" if e.accesses else "watched" if e.watched else "sampled",
            object=line_text(objects),
            object_kind=first.kind,
            allocated_in=first.site,
            one_block=self._objects.one_block(e.pid, where, e.when_ns),
            share=None if e.accesses else wilson_score(e.samples, self._total),
            estimated=2 * e.near > e.samples,
            reach=self._reach(e) if e.near else None,
            fields=fields,
            advised=_advised(layout, first.start, fields, e)
            if layout and kind == "false"
            else None,
            accesses=e.accesses,
            movement=self._movement(e, line_bytes),
            tasks=e.tasks,
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
            sites=self._sites(e),
        )

    def _pointed(self, e: Evidence) -> list[FieldBytes]:
        """The fields on a line of objects without a type of their own (on a stack, of Go's heap),
        by the pointers that the line's accesses go through."""
        found: dict[int, FieldBytes] = {}
        for key in e.sites:
            typed = self._behind(e, key)
            if typed is not None:
                start = self._operand(e, key).address(e.example(key).registers) - typed.offset
                fields = _fields(typed.layout, start, typed.layout.name, e.address)
                found |= {f.offset: f for f in fields}
        return [found[at] for at in sorted(found)]

    def _behind(self, e: Evidence, key: SiteKey) -> Accessed | None:
        """What a site accesses through a pointer in a register."""
        where, operand = self._names.where(key.pid, key.ip), self._operand(e, key)
        if operand is None or not where.path or operand.base not in self._dwarf_registers:
            return None
        if where not in self._types:
            register = self._dwarf_registers.index(operand.base)
            file = self._names.file(where.path)
            self._types[where] = types.pointed(file, where.address, register, operand.displacement)
        return self._types[where]

    def _operand(self, e: Evidence, key: SiteKey) -> Operand | None:
        """The site's access, where a register and a number make its address."""
        sample = e.example(key)
        operands = self._decoder.operands(key.pid, sample.ip, sample.bits) if sample else ()
        return next((o for o in operands if o.ip == key.ip and o.index < 0 <= o.base), None)

    def _reach(self, e: Evidence) -> Estimate | None:
        """The part of the samples that fall into the functions which access the line, or into
        their callers: where stalls of its plain accesses surface."""
        functions = set()
        for key in e.sites:
            functions.add(self._names.extent(key.pid, key.ip))
            sample = e.example(key)
            caller = self._outside(sample) if sample else 0
            if caller:
                functions.add(self._names.extent(key.pid, caller - 1))
        places = Counter((s.pid, s.ip) for s in self._samples if s.tid in e.threads)
        inside = sum(n for at, n in places.items() if self._names.extent(*at) in functions)
        return wilson_score(max(inside, e.samples), self._total)

    def _outside(self, sample: Sample) -> int:
        """The first address on the stack that may be of a caller in no system library, or 0."""
        names, pid = self._names, sample.pid
        return next(
            (
                address
                for address in (*sample.top, *sample.chain[1:])
                if names.is_code(pid, address) and not names.is_system(pid, address)
            ),
            0,
        )

    def _slowed(self, e: Evidence) -> list[ThreadShare]:
        """Each thread's own share at the line, those with most samples there first."""
        return [
            ThreadShare(
                thread=tid,
                name=self._spaces.names.get(tid, ""),
                share=own,
                plain=e.near_by_thread[tid] / number,
            )
            for tid, number in Counter(s.tid for s in e.samples_at()).most_common(MOST_TOUCHES)
            for own in [wilson_score(number, self._by_thread[tid])]
            if own is not None
        ]

    def _sites(self, e: Evidence) -> list[Site]:
        """Sites of one file and address are one, whichever process ran them."""
        counts: Counter[tuple] = Counter()
        keys: dict[tuple, list[SiteKey]] = defaultdict(list)
        for key, number in e.sites.items():
            where = self._names.where(key.pid, key.ip)
            same = (where, key.access, key.caller if self._is_helper(key) else 0)
            counts[same] += number
            keys[same].append(key)
        return [
            self._site(e, keys[same], same[0].address, number)
            for same, number in counts.most_common(MOST_SITES)
        ]

    def _site(self, e: Evidence, keys: Sequence[SiteKey], offset: int, number: int) -> Site:
        key, uses = keys[0], e.uses(*keys)
        named = self._names.name(key.pid, key.ip)
        caller = self._caller(key, e)
        exact = bool(e.accesses)
        return Site(
            instruction=key.mnemonic or self._decoder.mnemonic(key.pid, key.ip),
            module=named.module,
            function=named.function,
            offset=offset,
            source=named.source,
            caller=place_text(self._names.name(key.pid, caller - 1)) if caller else "",
            access=key.access,
            role=self._decoder.role(key.pid, key.ip),
            share=0.0 if exact or not self._total else min(1.0, number / self._total),
            accesses=number if exact else 0,
            movement=movement(uses, self._ticks) if uses else None,
        )

    def _caller(self, key: SiteKey, e: Evidence) -> int:
        """For a site in a system library, in a header's function or an outline helper: the first
        return address outside of them, or 0."""
        sample = e.example(key)
        if key.caller and (self._names.is_system(key.pid, key.ip) or self._is_helper(key)):
            return key.caller + 1
        helper = self._is_helper(key)
        if self._names.is_unlisted(key.pid, key.ip):
            return 0
        if sample is not None and self._names.is_header(key.pid, key.ip):
            return next((at for at in self._names.callers(sample) if self._is_own(key.pid, at)), 0)
        if sample is None or not (helper or self._names.is_system(key.pid, key.ip)):
            return 0
        if helper and len(sample.registers) > 30:
            return sample.registers[30]
        return self._outside(sample)

    def _is_own(self, pid: int, address: int) -> bool:
        """A return address in the program's own source."""
        names = self._names
        code = names.is_code(pid, address) and not names.is_system(pid, address)
        return code and not names.is_header(pid, address - 1)

    def _is_helper(self, key: SiteKey) -> bool:
        """An outline helper of arm64: what matters is where it is called from."""
        return is_helper(self._names.name(key.pid, key.ip).function)


def _used(e: Evidence) -> list[int]:
    """Addresses at which used bytes of a line begin."""
    offsets = {at for t in e.threads.values() for at, _ in runs(t.touched)}
    return [e.address + at for at in sorted(offsets) or [0]]


def _fields(layout: Layout, start: int, name: str, line: int) -> list[FieldBytes]:
    """The fields on a line of an object with a name."""
    at = line - start
    return [
        FieldBytes(offset=f.offset - at, bytes=f.size, name=name + f.path)
        for f in layout.fields(max(0, at), min(at + LINE, layout.size))
    ]


def _advised(
    layout: Layout, start: int, fields: list[FieldBytes], e: Evidence
) -> LayoutAdvice | None:
    """The type with a line for each thread's part: where threads use different elements of an
    array, its elements; else the fields at which another thread's begin."""
    owners, users = [], [t.touched for t in e.threads.values()]
    if e.tasks:
        users = [sum(byte_mask(*run) for run in part) for part in e.tasks.parts]
    for field in fields:
        mask = byte_mask(max(0, field.offset), field.bytes + min(0, field.offset))
        owners.append((field, frozenset(i for i, used in enumerate(users) if used & mask)))
    owners = [(field, who) for field, who in owners if who]
    element = {field.name.partition("]")[0]: who for field, who in owners}
    count, starts = max(1, layout.size // layout.element), {}
    if count == 1 or any(who != element[f.name.partition("]")[0]] for f, who in owners):
        for (_, before), (field, who) in pairwise(owners):
            if who != before:
                starts.setdefault((e.address + field.offset - start) % layout.element, field.name)
        if not starts:
            return None
        starts.pop(0, None)  # an element's own beginning follows from its size
    return LayoutAdvice(
        type=layout.name,
        bytes_before=layout.element,
        bytes_after=layout.element,
        count=count,
        aligned=[starts[at] for at in sorted(starts)],
        starts=sorted(starts),
        offset=start - e.address,
    ).at(APART)
