# SPDX-License-Identifier: MIT
"""Stands for linewright-kernel: answers as the module would, in times that are made up; FAKE_RUNNER
(JSON) says what goes wrong.

Keys: ``interface`` (of another module), ``load`` (the message of a module that is not loaded),
``told`` (a file that is written when the input ends), ``asked`` (a file with the last prepared
cell), ``cpuectlr`` (what the module says of that register), ``command_line`` and ``dma_one_wait``
(the kernel's), ``slow`` (seconds of each window), ``readers`` (further forms of readers_pair with
their ns), and forms: ``refuse`` (its cells are refused), ``wrong_sum`` (it loses a count), ``die``
(the runner ends there), ``cut`` (its windows are cut short), ``switched`` (its threads are off
their CPUs), ``late`` (one batch of each window is long)."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

FORMS = [
    ("none", "empty", 64, "rmw", 0, 0),
    ("add", "lock_add", 64, "rmw", 1, 0),
    ("add", "plain_add", 64, "rmw", 1, 1),
    ("add", "atomic_add", 64, "rmw", 1, 0),
    ("percpu_none", "percpu_empty", 64, "percpu", 0, 0),
    ("percpu_add", "this_cpu_add", 64, "percpu", 1, 0),
    ("readers_none", "readers_empty", 8, "readers", 0, 0),
    ("readers_pair", "rcu", 8, "readers", 0, 0),
    ("readers_pair", "rwlock", 8, "readers", 0, 0),
    ("readers_none", "lookup_empty", 8, "lookups", 0, 0),
    ("readers_lookup", "typesafe_ref", 8, "lookups", 0, 0),
    ("dma_map", "dma_sg", 8, "dma", 0, 0),
    ("clean", "dc_cvac", 8, "dma", 0, 0),
]
FAULTS = json.loads(os.environ.get("FAKE_RUNNER", "{}"))
NS = {
    "empty": 1.0,
    "percpu_empty": 1.0,
    "readers_empty": 1.0,
    "plain_add": 2.0,
    "atomic_add": 5.0,
    "lock_add": 5.0,
}
for name, ns in FAULTS.get("readers", {}).items():
    FORMS.append(("readers_pair", name, 8, "readers", 0, 0))
    NS[name] = ns
CELLS: dict[str, dict[str, str]] = {}


def say(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)


def forms() -> list[str]:
    rows = [
        f"form operation={operation} name={name} width={width} order=relaxed family={family} "
        f"counts={counts}"
        f" racy={racy} "
        f"sleeps=0 synchronize={int(operation == 'readers_pair')} expedited=0 missing="
        for operation, name, width, family, counts, racy in FORMS
    ]
    rows.append(
        "form operation=xchg name=xchg width=64 order=full family=rmw counts=0 racy=0 sleeps=0 "
        "synchronize=0"
        " expedited=0 missing=this CPU has no such thing"
    )
    return [
        f"machine interface={FAULTS.get('interface', 5)} version=9.9"
        " release=6.99-test arch=x86_64 cpus=0-1 line_bytes=64 "
        "page_bytes=4096 dma=coherent clock_ns=20 counts=task_clock,cycles "
        "lacks=instructions,cache_references"
        + (f" cpuectlr={FAULTS['cpuectlr']}" if FAULTS.get("cpuectlr") else ""),
        *(f"{key} {FAULTS[key]}" for key in ("command_line", "dma_one_wait") if key in FAULTS),
        *rows,
    ]


def prepare(number: str, asked: dict[str, str]) -> list[str]:
    form = asked["form"]
    if form == FAULTS.get("refuse"):
        return ["error it is Sunday"]
    if asked["operation"] == "readers_lookup" and asked.get("instances") != "64":
        return ["error a lookup among none"]
    if "asked" in FAULTS:
        Path(FAULTS["asked"]).write_text("\n".join(f"{k}={v}" for k, v in asked.items()))
    CELLS[number] = asked
    return []


def window(number: str, asked: dict[str, str]) -> list[str]:
    cell = CELLS[number]
    form, threads = cell["form"], int(cell["threads"])
    if form == FAULTS.get("die"):
        sys.exit(3)
    time.sleep(FAULTS.get("slow", 0))
    baseline = asked["baseline"] == "1"
    ns = (1.0 if baseline else NS.get(form, 8.0) * threads) + 0.3 * int(cell["work"])
    batch = 100 if form == FAULTS.get("cut") else 1000
    length = int(1000 * ns * batch) // 1000
    total = 0 if baseline else 100 * batch * threads
    cut = form == FAULTS.get("cut") and not baseline
    away = 40 * length if form == FAULTS.get("switched") and not baseline else 0
    late = form == FAULTS.get("late") and not baseline
    batches = [length] * 99 + [length * (20000 if late else 1)]
    return [
        f"window batch={batch} stop={'time' if cut else 'length'} expected={total}"
        f" found={total - (form == FAULTS.get('wrong_sum') and not baseline)} wrong=0",
        *(
            f"thread ops={100 * batch} ns={int(100 * ns * batch)} away_ns={away} cpu={cpu}"
            for cpu in asked["cpus"].split(",")
        ),
        f"counted task_clock={length * 100} cycles={3 * length * 100}",
        f"batches {' '.join(map(str, batches))}",
    ]


def answer(request: list[str]) -> list[str]:
    if request == ["forms"]:
        return forms()
    verb, number = request[0].split()
    asked = dict(line.split("=", 1) for line in request[1:])
    if verb == "forget":
        CELLS.pop(number)
        return []
    return prepare(number, asked) if verb == "prepare" else window(number, asked)


def main() -> None:
    if "load" in FAULTS:
        say(f"error /x/linewright.ko: {FAULTS['load']}", "done")
        sys.exit(3)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the probe ends the input
    say("ready")
    request: list[str] = []
    for line in sys.stdin:
        if line.strip():
            request.append(line.strip())
            continue
        say(*answer(request), "done")
        request = []
    if "told" in FAULTS:
        Path(FAULTS["told"]).write_text(f"{len(CELLS)} cells left")


main()
