# SPDX-License-Identifier: MIT
"""The fields on a line, by the debug information of the code that uses it, and the type's layout in
which each thread has its own lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

import msgspec

from linewright.elf import declarations, types
from linewright.elf.types import Accessed, Layout
from linewright.find.addresses import Addresses, Object
from linewright.find.decode import DWARF_REGISTERS, Decoder, Operand
from linewright.find.evidence import LINE, Evidence, SiteKey, byte_mask, bytes_in
from linewright.find.line_verdict import SEEN
from linewright.find.results import APART, ContendedMember, FieldBytes, LayoutAdvice, Role


class Fields:
    """Types of what one run's lines hold; each instruction is looked up once."""

    def __init__(self, addresses: Addresses, decoder: Decoder) -> None:
        self._addresses, self._names, self._decoder = addresses, addresses.code, decoder
        self._dwarf_registers = DWARF_REGISTERS[decoder.arch]
        self._pointee = cache(types.pointed)

    def of(
        self, e: Evidence, objects: Sequence[Object], separate: bool
    ) -> tuple[list[FieldBytes], LayoutAdvice | None]:
        """The fields of the line's objects where they have a type, else of what pointers lead to; a
        layout is advised where one of them is all that is used."""
        found: list[FieldBytes] = []
        advised, alone = None, len({(what.symbol, what.start) for what in objects}) == 1
        for what, layout in self._typed(e, objects):
            name = layout.name if what.kind == "heap" else what.symbol
            fields = fields_on(layout, what.start, name, e.address)
            if separate and alone:
                advised = separated(layout, what.start, fields, e)
            found += fields
        return [_weighed(f, e) for f in found or self._pointed(e)], advised

    def member(self, e: Evidence, objects: Sequence[Object]) -> ContendedMember | None:
        """What most samples are at, where two threads use it and one of them writes; where no use
        tells, the first one of several."""
        typed_objects = self._typed(e, objects)
        for key, used in self._hottest_bytes(e):
            at = used[0]
            held = ((o, layout, e.address + at - o.start) for o, layout in typed_objects)
            inside = (h for h in held if 0 <= h[2] < h[1].size)
            what, layout, offset = next(inside, (None, None, 0))
            typed = None if layout or key is None else self.behind(e, key)
            layout, offset = (typed.layout, typed.offset) if typed else (layout, offset)
            found = layout and declarations.own_member(layout, offset % layout.element)
            if not found:
                continue
            begin = at - (offset % layout.element - found.place[0])
            mask = byte_mask(max(0, begin), found.place[1] + min(0, begin))
            users = [t for t in e.threads.values() if t.touched & mask]
            writers = sum(bool(t.written & mask) for t in users)
            if len(users) > 1 and writers:
                beside = any(t.touched & ~mask for t in e.threads.values())
                own, all_ = range(found.place[0], sum(found.place)), range(layout.size)
                places = [offset + byte - at for byte in used]
                return ContendedMember(
                    language=found.language,
                    type=found.type,
                    name=found.name or (what.symbol if what else ""),
                    declared=found.declared,
                    following=found.following if beside else "",
                    shown=all(p in all_ and p % layout.element in own for p in places),
                    writers=writers,
                )
        return None

    def _typed(self, e: Evidence, objects: Sequence[Object]) -> list[tuple[Object, Layout]]:
        """The line's objects that have a type, each once."""
        code = [key.ip for key in e.hottest]
        whole = {(what.symbol, what.start): what for what in objects}
        known = [(what, self._addresses.layout(e.pid, what, code)) for what in whole.values()]
        return [(what, layout) for what, layout in known if layout]

    def _hottest_bytes(self, e: Evidence) -> Iterator[tuple[SiteKey | None, Sequence[int]]]:
        """Sites with the bytes of the line that they use: those first whose role decides the
        remedy (line_verdict.py), then those whose bytes are used most. Behind them the byte that is
        used most, and where no use says, all that two threads share."""
        found: list[tuple[SiteKey, Role, Sequence[int]]] = []
        shares: Counter[Role] = Counter()
        for key in e.hottest:
            role, sample = self._decoder.role(key.pid, key.ip), e.example(key)
            shares[role] += e.sites[key]
            operand = self._operand(e, key)
            address = operand.address(sample.registers) if operand and sample else None
            if address is not None and e.address <= address < e.address + LINE:
                found.append((key, role, [address - e.address]))
            elif used := bytes_in(e.bytes_of[key]):
                found.append((key, role, used))
        often = (role for role in ("zero", "waits") if shares[role] >= SEEN * shares.total())
        decides = next(often, None)
        found.sort(key=lambda one: (one[1] != decides, -e.used_at[one[2][0]]))
        yield from ((key, used) for key, _, used in found)
        yield from ((None, [at]) for at, _ in e.used_at.most_common(1))
        once = twice = written = 0
        for thread in e.threads.values():
            twice, once = twice | once & thread.touched, once | thread.touched
            written |= thread.written
        if shared := bytes_in(twice & written):
            yield None, shared

    def type_of(self, whole: Evidence) -> tuple[str, list[str]] | None:
        """The type of objects on many lines, with its fields that are used; None where it is not
        known or there are several."""
        if self._names.variable(whole.pid, whole.address) is not None:
            return None
        typed = [t for key in whole.sites for t in [self.behind(whole, key)] if t]
        if len({t.layout.name for t in typed}) != 1:
            return None
        used = {f.path for t in typed for f in t.layout.fields(t.offset, t.offset + 1)}
        return typed[0].layout.name, sorted(used - {""})

    def _pointed(self, e: Evidence) -> list[FieldBytes]:
        """The fields on a line of objects without a type of their own (on a stack, of Go's heap),
        by the pointers that the line's accesses go through."""
        found: dict[int, FieldBytes] = {}
        for key in e.sites:
            typed = self.behind(e, key)
            if typed is not None:
                start = self._operand(e, key).address(e.example(key).registers) - typed.offset
                fields = fields_on(typed.layout, start, typed.layout.name, e.address)
                found |= {f.offset: f for f in fields}
        return [found[at] for at in sorted(found)]

    def behind(self, e: Evidence, key: SiteKey) -> Accessed | None:
        """What a site accesses through a pointer in a register."""
        where, operand = self._names.where(key.pid, key.ip), self._operand(e, key)
        if operand is None or not where.path or operand.base not in self._dwarf_registers:
            return None
        register, file = self._dwarf_registers.index(operand.base), self._names.typed(where.path)
        return self._pointee(file, where.address, register, operand.displacement)

    def _operand(self, e: Evidence, key: SiteKey) -> Operand | None:
        """The site's access, where a register and a number make its address, or one of them."""
        sample = e.example(key)
        operands = self._decoder.operands(key.pid, sample.ip, sample.bits) if sample else ()
        return next((o for o in operands if o.ip == key.ip and o.index < 0), None)


def fields_on(layout: Layout, start: int, name: str, line: int) -> list[FieldBytes]:
    """The fields on a line of an object with a name."""
    at = line - start
    return [
        FieldBytes(offset=f.offset - at, bytes=f.size, name=name + f.path)
        for f in layout.fields(max(0, at), min(at + LINE, layout.size))
    ]


def _weighed(field: FieldBytes, e: Evidence) -> FieldBytes:
    """The field with its part of the line's samples, or of its accesses, by the byte that has most
    of those."""
    inside = range(field.offset, field.offset + field.bytes)
    used = [number for at, number in e.used_at.items() if at in inside]
    part = max(used, default=0) if e.accesses else sum(used)
    return msgspec.structs.replace(field, share=min(1.0, part / max(1, e.accesses or e.samples)))


def separated(
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
    written = [declarations.member(layout, at) for at in sorted(starts) or [0]]
    known = all(written)
    return LayoutAdvice(
        language=written[0].language if known else "",
        members=[one.member for one in written] if known else [],
        own_name=written[0].type if known else "",
        type=layout.name,
        bytes_before=layout.element,
        bytes_after=layout.element,
        count=count,
        aligned=[starts[at] for at in sorted(starts)],
        starts=sorted(starts),
    ).at(APART)
