# SPDX-License-Identifier: MIT
"""A second opinion on the litmus tests: every execution of each, against the axioms of the Arm
memory model.

Tests for x86 run on the machine of x86.py instead.

This is our own reading of the ordering rules that these tests touch (Arm ARM, B2.3: external
visibility), over straight-line code where every store-exclusive succeeds and every conditional
branch falls through. It is no replacement for herd7 and Arm's own model; it shows that what each
file expects follows from the rules as written here.

An execution is a choice, for each read, of the write it reads from, and for each variable an order
of its writes. It is allowed when memory is coherent per variable, read-modify-writes are atomic,
and ordered-before is acyclic."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import permutations, product

import x86
from litmus import Litmus


@dataclass(eq=False)
class Event:
    thread: int
    position: int
    kind: str  # R, W, or the name of a barrier
    variable: str = ""
    acquire: bool = False
    release: bool = False
    register: str = ""  # where a read's value lands; "" if nowhere: then no load for DMB ISHLD
    value: object = None  # of a write: a number, or a function of register values
    exclusive_of: Event | None = None  # a write: the read of the same read-modify-write
    single: bool = False  # both halves by one instruction
    needs: list[Event] = field(default_factory=list)  # reads whose value this write is made of
    address: Event | None = None  # the read that the address depends on


def events_of(test: Litmus) -> list[Event]:
    out: list[Event] = [Event(-1, i, "W", v, value=0) for i, v in enumerate(test.variables)]
    for number, thread in enumerate(test.threads):
        out += _thread_events(test, number, thread)
    return out


def _thread_events(test: Litmus, number: int, thread: tuple[str, ...]) -> list[Event]:
    """Symbolic run: a register is a constant, a read event, or a sum of one read and a constant.

    A register that EOR has zeroed is kept apart: an address formed with it depends on the read it
    came from."""
    zeroes: dict[str, Event | None] = {}
    registers: dict[str, tuple[Event | None, int]] = {}
    events: list[Event] = []
    monitor: Event | None = None

    def operand(text: str) -> tuple[Event | None, int]:
        if text.startswith("#"):
            return None, int(text[1:])
        return (None, 0) if text.endswith("ZR") else registers[text[1:]]

    def add(kind: str, variable: str = "", **more) -> Event:
        events.append(Event(number, len(events), kind, variable, **more))
        return events[-1]

    def read(register: str, variable: str, **more) -> Event:
        live = "" if register.endswith("ZR") else register[1:]
        event = add("R", variable, register=live, **more)
        if live:
            registers[live] = (event, 0)
        return event

    for text in thread:
        name, _, rest = text.partition(" ")
        arguments = [a.strip() for a in re.split(r",(?![^\[]*\])", rest)] if rest else []
        variable, depends = "", None
        if arguments and arguments[-1].startswith("["):
            base, _, index = arguments[-1].strip("[]").partition(",")
            variable, depends = test.pointers[number, base], zeroes[index[1:]] if index else None
        if name == "MOV":
            registers[arguments[0][1:]] = operand(arguments[1])
        elif name == "ADD":
            (a, x), (b, y) = operand(arguments[1]), operand(arguments[2])
            assert a is None or b is None
            registers[arguments[0][1:]] = (a or b, x + y)
        elif name == "EOR":
            zeroes[arguments[0][1:]] = operand(arguments[1])[0]
        elif name in ("LDR", "LDAR", "LDXR", "LDAXR"):
            event = read(arguments[0], variable, acquire="A" in name, address=depends)
            monitor = event if "X" in name else monitor
        elif name in ("STR", "STLR", "STXR", "STLXR"):
            event = add(
                "W", variable, release="L" in name, value=operand(arguments[-2]), address=depends
            )
            if "X" in name:
                event.exclusive_of, monitor = monitor, None
        elif name == "DMB":
            add(arguments[0])
        elif re.match(r"STADD|LDADD|SWP|CAS", name):
            _single_instruction(name, arguments, variable, operand, add, read)
    return events


def _single_instruction(name, arguments, variable, operand, add, read) -> None:
    source = operand(arguments[1] if name.startswith("CAS") else arguments[0])
    compared = operand(arguments[0]) if name.startswith("CAS") else None
    order = re.sub(r"^(STADD|LDADD|SWP|CAS)", "", name)
    target = "XZR" if name.startswith("STADD") else arguments[0] if compared else arguments[1]
    # Acquire is ignored when the destination is the zero register (and a store form has no
    # destination).
    first = read(target, variable, acquire="A" in order and not target.endswith("ZR"), single=True)
    assert source[0] is None
    value = (first, source[1]) if "ADD" in name else source
    write = add("W", variable, release="L" in order, value=value, exclusive_of=first, single=True)
    if compared is not None:
        write.kind, first.value = "W?", compared[1]  # written only if the read finds this


def allowed(test: Litmus) -> bool:
    """Whether some execution ends in the state that the test asks for."""
    if test.architecture == "X86_64":
        return x86.allowed(test)
    return any(
        _consistent(*execution) and _final(test, *execution)
        for execution in executions(events_of(test), test.variables)
    )


def executions(everything: list[Event], variables: Iterable[str]):
    """Every choice of sources and orders, allowed or not: events, rf, co, values."""
    conditional = [e for e in everything if e.kind == "W?"]
    for chosen in product((True, False), repeat=len(conditional)):
        written = {id(e) for e, done in zip(conditional, chosen, strict=True) if done}
        events = [e for e in everything if e.kind != "W?" or id(e) in written]
        reads = [e for e in events if e.kind == "R"]
        writes = {
            v: [e for e in events if e.kind.startswith("W") and e.variable == v] for v in variables
        }
        for sources in product(*(writes[r.variable] for r in reads)):
            rf = dict(zip(reads, sources, strict=True))
            values = _values(events, rf)
            if values is None or any(
                (values[r] == c.exclusive_of.value) != (id(c) in written)
                for c in conditional
                for r in [c.exclusive_of]
            ):
                continue
            orders = [[(w[0], *rest) for rest in permutations(w[1:])] for w in writes.values()]
            for order in product(*orders):
                yield events, rf, {w: i for chain in order for i, w in enumerate(chain)}, values


def _values(events, rf):
    """The value of every access, or None when values would come out of nothing."""
    values: dict[Event, int] = {}

    def of(event: Event, seen: tuple[Event, ...]) -> int | None:
        if event in seen:
            return None
        if event not in values:
            if event.kind == "R":
                got = of(rf[event], (*seen, event))
            elif isinstance(event.value, tuple):
                base = 0 if event.value[0] is None else of(event.value[0], (*seen, event))
                got = None if base is None else base + event.value[1]
            else:
                got = event.value
            if got is None:
                return None
            values[event] = got
        return values[event]

    return values if all(of(e, ()) is not None for e in events if e.variable) else None


def _consistent(events, rf, co, values) -> bool:
    accesses = [e for e in events if e.variable]
    edges_rf = [(w, r) for r, w in rf.items()]
    edges_co = [(a, b) for a in co for b in co if a.variable == b.variable and co[a] < co[b]]
    edges_fr = [
        (r, w) for r, s in rf.items() for w in co if w.variable == r.variable and co[w] > co[s]
    ]
    communication = edges_rf + edges_co + edges_fr
    po_loc = [
        (a, b) for a in accesses for b in accesses if _before(a, b) and a.variable == b.variable
    ]
    if not _acyclic(po_loc + communication):
        return False
    for write in co:  # no other write between the two halves of a read-modify-write
        if write.exclusive_of and co[write] != co[rf[write.exclusive_of]] + 1:
            return False
    external = [(a, b) for a, b in communication if a.thread != b.thread]
    return _acyclic(external + _locally_ordered(events))


def _before(a: Event, b: Event) -> bool:
    return a.thread == b.thread >= 0 and a.position < b.position


def _locally_ordered(events):
    """Barrier-ordered-before, dependency into a write, and the order inside a read-modify-write."""
    edges = []
    accesses = [e for e in events if e.variable and e.thread >= 0]
    for a, b in product(accesses, repeat=2):
        if not _before(a, b):
            continue
        between = {e.kind for e in events if not e.variable and _before(a, e) and _before(e, b)}
        load = a.kind == "R" and bool(
            a.register
        )  # a read without a destination is no load for DMB ISHLD
        full_pair = any(
            w.single
            and w.release
            and w.exclusive_of.acquire
            and _before(a, w.exclusive_of)
            and _before(w, b)
            for w in accesses
            if w.exclusive_of
        )
        depends = isinstance(b.value, tuple) and b.value[0] is a
        if (
            "ISH" in between
            or ("ISHLD" in between and load)
            or a.acquire
            or b.release
            or (a.release and b.acquire)
            or full_pair
            or depends
            or b.address is a
            or b.exclusive_of is a
        ):
            edges.append((a, b))
        if "ISHST" in between and a.kind != "R" and b.kind != "R":
            edges.append((a, b))
    return edges


def _acyclic(edges) -> bool:
    after: dict[Event, list[Event]] = {}
    for a, b in edges:
        after.setdefault(a, []).append(b)
    state: dict[Event, int] = {}

    def visit(node: Event) -> bool:
        state[node] = 1
        for follower in after.get(node, ()):
            if state.get(follower) == 1 or (follower not in state and not visit(follower)):
                return False
        state[node] = 2
        return True

    return all(node in state or visit(node) for node in list(after))


def _final(test: Litmus, events, rf, co, values) -> bool:
    for left, wanted in test.condition:
        if ":" in left:
            thread, register = int(left.split(":")[0]), left.split(":")[1][1:]
            reads = [
                e for e in events if e.kind == "R" and e.thread == thread and e.register == register
            ]
            # A register no read wrote last marks that the end was reached: every path here does.
            if reads and values[reads[-1]] != wanted:
                return False
        else:
            last = max((w for w in co if w.variable == left), key=lambda w: co[w])
            if values[last] != wanted:
                return False
    return True
