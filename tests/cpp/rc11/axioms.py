#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hold the explorer to RC11's axioms.

    axioms.py LITMUS.def
    axioms.py --draw COUNT RC11 FOLDER [SEED]

The first derives every set of outcomes in LITMUS.def from the axioms. The second draws programs,
derives their outcomes, and has the explorer RC11 find the same, with its reduction and without;
it draws others each time, and prints of which SEED, where none is given.

An execution is a choice of the write that each read reads from, of an order of each word's writes,
and of the places where membarrier interrupts the other threads (verify/litmus/model.py enumerates
the first two). The axioms are those of Lahav, Vafeiadis and others (PLDI 2017), with C++20's
release sequences. Beside them, the explorer performs one step after another, so that the order of
sequentially consistent steps together with the order of reading has no cycle: `relay` and `Z6.U`
have fewer outcomes for that, and no other test."""

import random
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "verify" / "litmus"))

import build  # noqa: E402
import model  # noqa: E402

FEWER = {"relay", "Z6.U of sc and release"}
"""The tests for which RC11 alone allows more than the explorer finds."""


@dataclass(eq=False)
class Step(model.Event):
    """An access, or a fence F; of a read-modify-write that fails, `order` does not count."""

    order: str = ""
    barrier: tuple[int, str] | None = (
        None  # the membarrier that this fence is of; its begin, in, or end
    )


@dataclass(frozen=True)
class Test:
    """A line of LITMUS.def."""

    name: str
    text: str
    last: str
    outcomes: str


def read_tests(text: str) -> list[Test]:
    """The tests of a file like litmus.def."""
    return [
        Test(*fields)
        for fields in re.findall(r'^TEST\("(.*?)", "(.*?)", "(.*?)", "(.*?)"\)$', text, re.M)
    ]


# ---- programs ----


def steps_of(text: str, thread: int, barriers: list[int]) -> list[Step]:
    """One thread's steps. A membarrier is two fences here; its caller joins `barriers`."""
    steps: list[Step] = []
    for word in text.split():
        order = word[-1] if len(word) > 1 and word[-1] in "arbs" else ""
        if word == "M":
            steps += [
                Step(thread, 0, "F", order="s", barrier=(len(barriers), e))
                for e in ("begin", "end")
            ]
            barriers.append(thread)
        elif word[0] == "F":
            steps.append(Step(thread, 0, "F", order=order))
        elif word[1] == "=":
            steps.append(Step(thread, 0, "W", word[0], value=int(word[2]), order=order))
        else:
            read = Step(thread, 0, "R", word[0], order=order)
            steps.append(read)
            if word[1] != "?":
                value = (
                    (read, int(word[2]))
                    if word[1] == "+"
                    else int(word[3 if word[1] == ":" else 2])
                )
                kind = "W?" if word[1] == ":" else "W"
                read.value = int(word[2]) if word[1] == ":" else None
                steps.append(
                    Step(thread, 0, kind, word[0], value=value, exclusive_of=read, order=order)
                )
    return steps


def interrupted(threads: list[list[Step]], fences: list[tuple[int, int]]):
    """The program with those membarriers' fences in those threads, wherever each may come."""
    if not fences:
        yield threads
        return
    (barrier, thread), *others = fences
    for at in range(len(threads[thread]) + 1):
        now = [list(steps) for steps in threads]
        now[thread].insert(at, Step(thread, 0, "F", order="s", barrier=(barrier, "in")))
        yield from interrupted(now, others)


# ---- relations: for each step the steps after it, as bits ----


def composed(*relations: list[int]) -> list[int]:
    """r1; r2; …"""
    first, *rest = relations
    for second in rest:
        first = [sum_of(second, row) for row in first]
    return first


def sum_of(relation: list[int], of: int) -> int:
    """What follows any of these steps."""
    total = 0
    while of:
        low = of & -of
        total |= relation[low.bit_length() - 1]
        of ^= low
    return total


def either(*relations: list[int]) -> list[int]:
    """Union."""
    total = [0] * len(relations[0])
    for r in relations:
        total = [a | b for a, b in zip(total, r, strict=True)]
    return total


def both(a: list[int], b: list[int]) -> list[int]:
    """Intersection."""
    return [x & y for x, y in zip(a, b, strict=True)]


def closed(relation: list[int]) -> list[int]:
    """Transitive closure."""
    out = list(relation)
    for k in range(len(out)):
        for i, row in enumerate(out):
            if row >> k & 1:
                out[i] = row | out[k]
    return out


def cyclic(relation: list[int]) -> bool:
    """Whether it has a cycle."""
    return any(row >> i & 1 for i, row in enumerate(closed(relation)))


class Execution:
    """One candidate, with RC11's relations under their names in the paper."""

    def __init__(self, steps, rf, mo):
        self.steps = steps
        self.all = list(range(len(steps)))
        at = {id(s): i for i, s in enumerate(steps)}
        written = {id(s.exclusive_of) for s in steps if s.exclusive_of}
        pairs = self.pairs
        self.sb = pairs(
            lambda a, b: (
                (a.thread == b.thread and at[id(a)] < at[id(b)]) or a.thread < 0 <= b.thread
            )
        )
        self.location = pairs(lambda a, b: a.variable and a.variable == b.variable)
        self.rf = pairs(lambda a, b: rf.get(b) is a)
        self.mo = pairs(
            lambda a, b: a.variable == b.variable and a in mo and b in mo and mo[a] < mo[b]
        )
        self.rb = pairs(
            lambda a, b: a in rf and b in mo and a.variable == b.variable and mo[b] > mo[rf[a]]
        )
        self.eco = closed(either(self.rf, self.mo, self.rb))
        self.same = [1 << i for i in self.all]
        # A swap that fails is a relaxed read, of whatever order the swap is.
        self.ordered = [
            s for s in steps if s.order and (s.kind != "R" or s.value is None or id(s) in written)
        ]
        release = self.only(lambda s: s in self.ordered and s.kind != "R" and s.order in "rbs")
        acquire = self.only(lambda s: s in self.ordered and s.kind != "W" and s.order in "abs")
        fence = self.only(lambda s: s.kind == "F")
        write = self.only(lambda s: s.kind.startswith("W"))
        rmw = pairs(lambda a, b: b.exclusive_of is a)
        sequence = either(self.same, closed(composed(self.rf, rmw)))
        self.sw = composed(
            release,
            either(self.same, composed(fence, self.sb)),
            write,
            sequence,
            self.rf,
            either(self.same, composed(self.sb, fence)),
            acquire,
        )
        self.hb = closed(either(self.sb, self.sw))
        self.torn = any(mo[s] != mo[rf[s.exclusive_of]] + 1 for s in steps if s.exclusive_of)

    def pairs(self, related) -> list[int]:
        """The relation of those pairs."""
        return [
            sum(1 << j for j, b in enumerate(self.steps) if i != j and related(a, b))
            for i, a in enumerate(self.steps)
        ]

    def only(self, chosen) -> list[int]:
        """Identity on those steps."""
        return [1 << i if chosen(s) else 0 for i, s in enumerate(self.steps)]

    def in_order(self) -> list[int]:
        """Psc: what the sequentially consistent steps' order must respect."""
        hb, sb = self.hb, self.sb
        apart = [s & ~at for s, at in zip(sb, self.location, strict=True)]
        scb = either(sb, composed(apart, hb, apart), both(hb, self.location), self.mo, self.rb)
        accesses = self.only(lambda s: s in self.ordered and s.order == "s" and s.kind != "F")
        fences = self.only(lambda s: s.order == "s" and s.kind == "F")
        maybe = either(self.same, hb)
        base = composed(either(accesses, fences, composed(fences, hb)), scb,
                        either(accesses, composed(maybe, fences)))  # fmt: skip
        between = composed(fences, either(hb, composed(hb, self.eco, hb)), fences)
        order = {"begin": 0, "in": 1, "end": 2}
        barrier = self.pairs(
            lambda a, b: a.barrier and b.barrier and a.barrier[0] == b.barrier[0]
            and order[a.barrier[1]] < order[b.barrier[1]]
        )  # fmt: skip
        return either(base, between, barrier)

    def allowed(self, one_by_one: bool) -> bool:
        """By the axioms; `one_by_one`: and as the explorer performs it."""
        if self.torn or cyclic(either(self.sb, self.rf)):
            return False
        if any(row >> i & 1 for i, row in enumerate(either(self.hb, composed(self.hb, self.eco)))):
            return False
        psc = self.in_order()
        return not cyclic(either(psc, self.sb, self.rf) if one_by_one else psc)


def outcomes_of(test: Test, one_by_one: bool) -> str:
    """All of the test's outcomes, sorted."""
    barriers: list[int] = []
    threads = [steps_of(t, i, barriers) for i, t in enumerate(test.text.split("|"))]
    names = sorted({s.variable for t in threads for s in t if s.variable} | set(test.last))
    found = set()
    fences = [
        (b, t) for b, caller in enumerate(barriers) for t in range(len(threads)) if t != caller
    ]
    for program in interrupted(threads, fences):
        everything = [Step(-1, i, "W", v, value=0) for i, v in enumerate(names)] + [
            s for t in program for s in t
        ]
        for events, rf, mo, values in model.executions(everything, names):
            last = {w.variable: values[w] for w in sorted(mo, key=mo.get)}
            outcome = "".join(str(values[r]) for r in events if r.kind == "R")
            outcome += "".join(str(last[v]) for v in test.last)
            if outcome not in found and Execution(events, rf, mo).allowed(one_by_one):
                found.add(outcome)
    return " ".join(sorted(found))


# ---- against the explorer ----


def check_file(path: Path) -> int:
    """The number of the file's tests that have other outcomes than the axioms give."""
    wrong = 0
    tests = read_tests(path.read_text())
    for test in tests:
        derived = outcomes_of(test, True)
        more = outcomes_of(test, False) != derived
        if derived != test.outcomes or more != (test.name in FEWER):
            wrong += 1
            alone = "; RC11 alone allows more" if more else ""
            print(f"{test.name}: {test.outcomes}, by the axioms {derived}{alone}")
    print(f"{len(tests)} sets of outcomes derived from the axioms, {wrong} differ")
    return wrong if tests else 1


def drawn(random_: random.Random, number: int) -> Test:
    """A program of two or three threads with some of each kind of step."""

    def step() -> str:
        word, order = random_.choice("xy"), random_.choice(("", "", "a", "r", "b", "s", "s"))
        kind = random_.choice("===???+!:FFM")
        if kind == "M":
            return "M" if random_.random() < 0.3 else "Fs"
        if kind == "F":
            return "F" + random_.choice("arbs")
        if kind in "=?":
            order = {"a": "" if kind == "=" else "a", "r": "r" if kind == "=" else "", "b": ""}.get(
                order, order
            )
            return word + (kind + order if kind == "?" else f"={random_.choice('12')}{order}")
        return f"{word}{kind}{'0' if kind == ':' else ''}{random_.choice('12')}{order}"

    text = " | ".join(
        " ".join(step() for _ in range(n))
        for n in random_.choice(((3, 3), (4, 3), (2, 2, 2), (1, 3, 2)))
    )
    test = Test(f"drawn {number}", text, "xy", "")
    return Test(test.name, text, "xy", outcomes_of(test, True))


def check_drawn(count: int, explorer: str, folder: Path, seed: int | None = None) -> int:
    """0: the explorer finds the drawn programs' outcomes, with its reduction and without."""
    seed = random.randrange(1 << 32) if seed is None else seed
    random_ = random.Random(seed)
    print(f"seed {seed}")
    lines = [
        'TEST("{0.name}", "{0.text}", "{0.last}", "{0.outcomes}")'.format(drawn(random_, i))
        for i in range(count)
    ]
    folder.mkdir(exist_ok=True)
    (folder / "drawn.def").write_text("\n".join(lines) + "\n")
    build.compile_scenarios(
        HERE.parents[2], "litmus", folder / "drawn.so", more=[f'-DLITMUS="{folder}/drawn.def"']
    )
    whole = [[], ["--whole"]]
    return max(
        subprocess.run([explorer, "--quiet", *w, folder / "drawn.so"], check=False).returncode
        for w in whole
    )


def main(arguments: list[str]) -> int:
    """Run one of the two."""
    if arguments[0] == "--draw":
        return check_drawn(
            int(arguments[1]), arguments[2], Path(arguments[3]), *map(int, arguments[4:])
        )
    return 1 if check_file(Path(arguments[0])) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
