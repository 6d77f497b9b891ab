#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Explores mutants of the shipped text by tests/cpp/rc11, and prints a table: each must be caught
by the scenario that is named for it.

    mutants.py EXPLORER [--only=TEXT] [--search]
    mutants.py --places

There are two kinds. Of every memory order and every fence of the files in ROOMS there is one that
is a step weaker, found in the text by this program; orders.txt has a line for each, with the
scenario that catches it or, after "kept:", why it is stronger than the scenarios can show.
protocols.py lists steps that are left out or swapped. Exit code 1 where a mutant survives, where
one is caught that orders.txt keeps, and where a list and the text have different places; --places
looks for that alone. --search tries every scenario, not the one that is named."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from protocols import PROTOCOLS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
TABLE = HERE / "orders.txt"
ROOMS = {
    "rwlock": ["include/linewright/rwlock_mark.h", "src/rwlock/*.[ch]"],
    "interpose": ["src/rwlock/interpose/interpose.c", "src/rwlock/interpose/hooks.h"],
    "percpu": ["src/percpu/lock.h", "src/percpu/owned.c", "include/linewright/percpu.h"],
    "srcu": [
        *(f"src/srcu/{name}.[ch]" for name in ("arena", "callbacks", "domain", "end", "event")),
        *(f"src/srcu/{name}.[ch]" for name in ("gp", "grace")),
        *(f"src/srcu/{name}.[ch]" for name in ("membarrier", "queue", "readers", "records")),
        *("src/srcu/wait.c", "src/srcu/worker.c", "src/common/futex.h"),
    ],
    "wait": ["include/linewright/wait.h", "src/wait/*.[ch]"],
}
"""The files whose orders a file of scenarios explores."""
KEPT = "kept: "
WORKERS = 2

_NO_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|__attribute__\(\((?:[^()]|\([^()]*\))*\)\)", re.DOTALL)
_TESTS_ONLY = re.compile(
    r"#ifdef (?:LW_SRCU_TEST|LW_THREAD_SANITIZER)\n.*?\n#(?:else|endif)", re.DOTALL
)
_ORDER = re.compile(r"\b(?:__ATOMIC_)?(ACQUIRE|RELEASE|ACQ_REL|SEQ_CST)\b(?=[\s,);\\])")
_FENCE = re.compile(r"\b(?:lw_full_fence|LW_RW_FENCE|LW_GP_FENCE)\(\);")
_BARRIER = re.compile(
    r"\b(?:LW_\w+_HEAVY_BARRIER\(d?\)|barrier_in_every_thread\(\))(?= ?(?:;|[!]))"
)
_OPENS = re.compile(r"(?m)^(?:#define (\w+)|[A-Za-z_][^;{}()\n]*?\b(\w+)\([^;\n]*$)")
_SCENARIO = re.compile(r'\{\.name = "([^"]*)"(.*?)\},\n(?=    \{|\};)', re.DOTALL)
_VERDICT = re.compile(r"(.*?): (.*), \d+ executions \(")
_LOADS, _STORES = "__atomic_load", "__atomic_store"


def build_module():
    """tests/cpp/rc11/build.py."""
    spec = importlib.util.spec_from_file_location("rc11_build", HERE.parent / "rc11/build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILD = build_module()


@dataclass(frozen=True)
class Mutant:
    """A file of the shipped text with a mistake in it, and what is said of it."""

    name: str
    room: str
    file: str
    text: str
    said: str


@dataclass(frozen=True)
class Verdict:
    """What was found of a mutant."""

    mutant: Mutant
    caught: str

    @property
    def right(self) -> bool:
        """Whether it is as the lists say."""
        return bool(self.caught) != self.mutant.said.startswith(KEPT)

    def __str__(self) -> str:
        if self.caught:
            return f"{self.mutant.name} | caught by {self.caught}"
        return f"{self.mutant.name} | {'' if self.right else 'SURVIVES '}{self.mutant.said}"


# ---- orders ----


def without_comments(text: str) -> str:
    """The text without comments and attributes, each place where it was."""
    text = _TESTS_ONLY.sub(lambda c: re.sub(r"[^\n]", " ", c[0]), text)
    blank = {True: "_", False: " "}
    return _NO_CODE.sub(lambda c: re.sub(r"[^\n]", blank[c[0].startswith("__")], c[0]), text)


def weaker(code: str, at: re.Match[str]) -> list[str]:
    """The next weaker orders."""
    if at[1] == "ACQ_REL":
        return ["ACQUIRE", "RELEASE"]
    if at[1] != "SEQ_CST":
        return ["RELAXED"]
    call = code[code.rfind("__atomic_", 0, at.start()) :]
    if call.startswith(_LOADS):
        return ["ACQUIRE"]
    return ["RELEASE" if call.startswith(_STORES) else "ACQ_REL"]


def changes(code: str, at: re.Match[str]) -> list[tuple[int, int, str, str]]:
    """From where to where stands what instead, and its name."""
    if at.re is _ORDER:
        return [(*at.span(1), order, f"{at[1]}->{order}") for order in weaker(code, at)]
    return [(*at.span(), ";" if at.re is _FENCE else "0", f"without {at[0].split('(')[0]}")]


def orders_in(room: str, file: str, said: dict[str, str]) -> list[Mutant]:
    """Of one file, named by function and number."""
    text = (ROOT / file).read_text()
    code, found, count = without_comments(text), [], Counter()
    functions = [(m.start(), m[1] or m[2]) for m in _OPENS.finditer(code)]
    matches = [m for kind in (_ORDER, _FENCE, _BARRIER) for m in kind.finditer(code)]
    for at in sorted(matches, key=lambda m: m.start()):
        if "signal_fence(" in code[at.start() - 22 : at.start()]:
            continue  # orders the compiler alone, whose output the explorer runs
        function = next(name for start, name in reversed(functions) if start <= at.start())
        count[function] += 1
        for begin, end, instead, what in changes(code, at):
            name = f"{file} {function} {count[function]} {what}"
            mutant = text[:begin] + instead + text[end:]
            found.append(Mutant(name, room, file, mutant, said.get(name, "")))
    return found


def orders() -> tuple[list[Mutant], list[str]]:
    """All of them, and the lines of orders.txt that belong to none."""
    lines = [line for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    said = dict(line.split(" | ", 1) for line in lines)
    found = []
    for room, patterns in ROOMS.items():
        files = [str(f.relative_to(ROOT)) for p in patterns for f in sorted(ROOT.glob(p))]
        found += [m for file in files for m in orders_in(room, file, said)]
    return found, sorted(set(said) - {m.name for m in found})


# ---- protocols ----


def protocols() -> list[Mutant]:
    """Those of protocols.py; ValueError where a mutant's place is not found once."""
    made = []
    for p in PROTOCOLS:
        text = (ROOT / p.file).read_text()
        for before, after in p.changes:
            if text.count(before) != 1:
                raise ValueError(f"{p.name}: {before!r} is not in {p.file} once")
            text = text.replace(before, after)
        made.append(Mutant(f"{p.file} {p.name}", p.room, p.file, text, p.scenario))
    return made


# ---- exploring ----


def scenarios(room: str) -> dict[str, bool]:
    """Those of a room, and whether they are for the long lane."""
    text = (HERE.parent / f"rc11/{room}.c").read_text()
    return {name: ".slow" in rest for name, rest in _SCENARIO.findall(text)}


def wrong_in(explorer: str, module: Path, *arguments: str) -> str:
    """`SCENARIO: what is wrong` of the first that is; empty: none is."""
    command = [explorer, "--quiet", *arguments, str(module)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            verdict = _VERDICT.match(line)
            if verdict and verdict[2] != "not explored to the end":
                run.kill()
                return f"{verdict[1]}: {verdict[2]}"
    if run.returncode < 0:
        return f"{' '.join(arguments)}: the explorer ends by signal {-run.returncode}"
    if run.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}: exit code {run.returncode}")
    return ""


def found(explorer: str, module: Path, mutant: Mutant, search: bool) -> str:
    """Which scenario catches a mutant, and what is wrong there."""
    slow = scenarios(mutant.room)
    if mutant.said in slow and not search:
        flags = ["--slow"] if slow[mutant.said] else []
        return wrong_in(explorer, module, *flags, f"--only={mutant.said}")
    late = [name for name in slow if slow[name]] if search else []
    return wrong_in(explorer, module) or next(
        (what for name in late if (what := wrong_in(explorer, module, "--slow", f"--only={name}"))),
        "",
    )


def explored(explorer: str, mutant: Mutant, search: bool, folders: SimpleQueue) -> Verdict:
    """Compiles a mutant in a free folder, and explores it."""
    folder = folders.get()
    try:
        text, module = folder / "text", folder / "mutant.so"
        shutil.rmtree(text, ignore_errors=True)
        BUILD.copy_text(ROOT, text)
        mutated = mutant.text
        for pattern, less in BUILD.FEWER.get(mutant.file, []):
            mutated = re.sub(pattern, less, mutated)
        (text / mutant.file).write_text(mutated)
        BUILD.compile_scenarios(
            text, mutant.room, module, shutil.which("/usr/lib/ccache/gcc") or "gcc"
        )
        return Verdict(mutant, found(explorer, module, mutant, search))
    finally:
        folders.put(folder)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("explorer", nargs="?")
    parser.add_argument("--places", action="store_true")
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--search", action="store_true")
    options = parser.parse_args()
    by_order, gone = orders()
    if options.places:
        new = [m.name for m in by_order if not m.said]
        print(
            "\n".join(f"orders.txt: not in the text: {name}" for name in gone),
            end="\n" * bool(gone),
        )
        print(
            "\n".join(f"orders.txt: without a line: {name}" for name in new), end="\n" * bool(new)
        )
        print(f"{len(by_order)} orders and fences, {len(protocols())} protocols")
        return 1 if gone or new else 0
    those = [m for m in by_order + protocols() if options.only in m.name]
    folders: SimpleQueue = SimpleQueue()
    right, count = not gone, Counter()
    with tempfile.TemporaryDirectory() as base, ThreadPoolExecutor(WORKERS) as pool:
        for i in range(WORKERS):
            (Path(base) / str(i)).mkdir()
            folders.put(Path(base) / str(i))
        work = [pool.submit(explored, options.explorer, m, options.search, folders) for m in those]
        for job in work:
            verdict = job.result()
            print(verdict, flush=True)
            right &= verdict.right
            count["caught" if verdict.caught else "kept" if verdict.right else "SURVIVE"] += 1
    for name in gone:
        print(f"{name} | in orders.txt, and not in the text")
    print(", ".join(f"{n} {what}" for what, n in count.items()))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
