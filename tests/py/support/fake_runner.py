"""Stands for linewright-kernel: answers as the module would, in times that are made up; FAKE_RUNNER (JSON) says what
goes wrong.

Keys: ``interface`` (of another module), ``load`` (the message of a module that is not loaded), ``refuse`` (a form whose
cells are refused), ``wrong_sum`` (a form that loses a count), ``die`` (a form at which it ends).
"""

from __future__ import annotations

import json
import os
import sys

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
NS = {"empty": 1.0, "percpu_empty": 1.0, "readers_empty": 1.0, "plain_add": 2.0, "atomic_add": 5.0, "lock_add": 5.0}


def say(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)


def forms() -> list[str]:
    rows = [
        f"form operation={operation} name={name} width={width} order=relaxed family={family} counts={counts}"
        f" racy={racy} "
        f"sleeps=0 synchronize={int(operation == 'readers_pair')} expedited=0 missing="
        for operation, name, width, family, counts, racy in FORMS
    ]
    rows.append(
        "form operation=xchg name=xchg width=64 order=full family=rmw counts=0 racy=0 sleeps=0 synchronize=0"
        " expedited=0 missing=this CPU has no such thing"
    )
    return [
        f"machine interface={FAULTS.get('interface', 2)} version=9.9"
        " release=6.99-test arch=x86_64 cpus=0-1 line_bytes=64 "
        "page_bytes=4096 dma=coherent clock_ns=20",
        *rows,
    ]


def cell(asked: dict[str, str]) -> list[str]:
    form = asked["form"]
    if form == FAULTS.get("refuse"):
        return ["error it is Sunday"]
    if asked["operation"] == "readers_lookup" and asked.get("instances") != "64":
        return ["error a lookup among none"]
    if form == FAULTS.get("die"):
        sys.exit(3)
    threads, lines = int(asked["threads"]), int(asked["lines"])
    ns = NS.get(form, 8.0) * threads + 0.3 * int(asked["work"])
    ops = int(1e6 / ns)
    answer = [
        f"window line={(int(asked['first_line']) + number) % lines} ns=1000000 ops={ops} batch={ops // 50}"
        " longest_ns=21000 "
        f"switches=0 baseline_ns=1000000 baseline_ops={int(1e6 / (1.0 + 0.3 * int(asked['work'])))} "
        f"threads={','.join([str(ops)] * threads)}"
        for number in range(int(asked["windows"]))
    ]
    total = ops * threads * int(asked["windows"])
    return [
        *answer,
        f"sum expected={total} found={total - (form == FAULTS.get('wrong_sum'))} wrong=0",
        "end stop=windows",
    ]


def main() -> None:
    if "load" in FAULTS:
        say(f"error /x/linewright.ko: {FAULTS['load']}", "done")
        sys.exit(3)
    say("ready")
    request: list[str] = []
    for line in sys.stdin:
        if line.strip():
            request.append(line.strip())
            continue
        asked = dict(word.split("=", 1) for word in request if "=" in word)
        say(*(forms() if request == ["forms"] else cell(asked)), "done")
        request = []


main()
