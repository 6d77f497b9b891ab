#!/usr/bin/env -S python3 -E -S
# SPDX-License-Identifier: MIT
"""A probe that can fail in ways the real one cannot be made to: it dies in mid-line, babbles,
hangs, or has other CPUs.

FAKE_PROBE is a JSON object: "die_after" (records before it dies in the middle of the next line),
"signal" (it kills itself with this instead of exiting with 3), "garbage" (a line that is no
record), "refuse" (a message for exit code 2), "skip" (cells left out), "pause_s" (before each
record), "stays_at" (the record of a launch before which it waits to be ended), "machine_id",
"cpus", "allowed", "arch", "deaf" (ignores signals), "version", "other_probe", "other_load", "ns"
(what an operation takes), "clock" (launches begin when they do).
"""

import json
import os
import sys
import time

# Started hundreds of times: without the packages of .venv, and what few tests ask for is imported
# where it is used.
KNOBS = json.loads(os.environ.get("FAKE_PROBE", "{}"))
CPUS = [
    {
        "cpu": cpu,
        "core": cpu,
        "l3": 0,
        "socket": 0,
        "node": 0,
        "allowed": cpu in KNOBS.get("allowed", KNOBS.get("cpus", [0, 1])),
    }
    for cpu in KNOBS.get("cpus", [0, 1])
]
ARCH = KNOBS.get("arch", "x86_64")


def form(name, operation, order="full", **more):
    plain = {
        "arch": ARCH,
        "width_bits": 64,
        "needs": "none",
        "atomic": True,
        "available": True,
        "reason": "",
    }
    return {"name": name, "operation": operation, "order": order, **plain, **more}


FORMS = [
    form("empty", "none", "relaxed", arch="any"),
    form("plain_add", "add", "relaxed", atomic=False),
    form("lock_add", "add"),
    form("lock_xadd", "fetch_add"),
    form("stadd", "add", "relaxed", needs="lse", available=False, reason="this CPU lacks lse"),
    form("lock_add", "add", width_bits=32),
]


def started():
    """One moment for every launch, or with the knob "clock" the present one."""
    if not KNOBS.get("clock"):
        return "2026-01-01T00:00:00Z"
    import datetime

    return datetime.datetime.now(datetime.UTC).isoformat()


def context(plan_name, launch, launches=1):
    return {
        "linewright_context": 2,
        "context_id": f"{os.getpid():016x}",
        "machine_id": KNOBS.get("machine_id", "00000000000000aa"),
        "started_utc": started(),
        "target": "local",
        "plan": plan_name,
        "launch": launch,
        "tool_version": "0.1.0",
        "compiler": "none",
        "arch": ARCH,
        "cpu_model": "Fake",
        "cpu_ids": ["0"],
        "features": [],
        "kernel": "Linux fake",
        "virtualised": "unknown",
        "emulated": False,
        "cpus": CPUS,
        "line_bytes": 64,
        "page_bytes": 4096,
        "time_source": "tsc",
        "tick_ns": 0.4,
        "timer_cost_ns": 9.0,
        "work_unit_ns": 0.3,
        "work_linearity": 0.01,
        "work_spread": 0.01,
        "nop_iter_ns": 0.3,
        "launches": launches,
        "cycle_ns": 0.3,
        "governor": "",
        "smt": "off",
        "counters": "unavailable",
        "rseq": "libc",
        "locked_memory": False,
        "realtime": False,
        "other_probe": KNOBS.get("other_probe", False),
        "other_load": KNOBS.get("other_load"),
    }


def cell_id(cell):
    parts = [
        cell["operation"],
        cell["form"],
        f"u{cell['width_bits']}",
        cell["order"],
        cell["contender"],
        f"ci{cell['contender_iters']}",
        f"{'nop' if cell.get('work') == 'nop_loop' else 'w'}{cell['work_iters']}",
        cell["placement"],
        f"l{cell['lines']}",
        f"t{cell['threads']}",
    ]
    return "/".join(parts + [f"{key}={cell['params'][key]}" for key in sorted(cell["params"])])


def record(cell, plan, context_id):
    ns = KNOBS.get("ns", {}).get(cell["form"], 5.0)
    value = {
        "linewright_record": 2,
        "context_id": context_id,
        "id": cell_id(cell),
        "cell": cell,
        "plan": plan["name"],
        "launch": plan["launch"],
        "status": "ok",
        "stop": "precision",
        "cpus": list(range(cell["threads"])),
        "window_ns": [ns + 0.01 * i for i in range(8)],
        "window_line": list(range(8)),
        "baseline_ns": [0.5] * 8,
        "issue": {"median_ns": ns + 0.035, "low_ns": ns, "high_ns": ns + 0.07},
        "thread_ops": [1000] * cell["threads"],
        "thread_ns": [ns] * cell["threads"],
        "total_mops": 200.0 * cell["threads"],
        "sum_expected": 1000,
        "sum_found": 1000,
    }
    if cell["form"] == "stadd":
        value = {
            key: value[key]
            for key in ("linewright_record", "context_id", "id", "cell", "plan", "launch")
        }
        value |= {"status": "unavailable", "reason": "this CPU lacks lse"}
    return value


def say(line):
    sys.stdout.write(line)
    sys.stdout.flush()


def progress(cell, done, total):
    counts = {"done": done, "total": total, "cells_done": done, "cells": total, "state": "done"}
    print(json.dumps({"progress": {"id": cell_id(cell), **counts}}), file=sys.stderr, flush=True)


def run(plan):
    told = context(plan["name"], plan["launch"], plan.get("launches", 5))
    say(json.dumps(told) + "\n")
    for number, cell in enumerate(plan["cells"]):
        line = json.dumps(record(cell, plan, told["context_id"])) + "\n"
        if number == KNOBS.get("die_after"):
            say(line[: len(line) // 2])
            if "signal" in KNOBS:
                os.kill(os.getpid(), KNOBS["signal"])
            print(json.dumps({"error": "told to die"}), file=sys.stderr)
            return 3
        if "garbage" in KNOBS and number == 1:
            say(KNOBS["garbage"] + "\n")
        time.sleep(600 if number == KNOBS.get("stays_at") else KNOBS.get("pause_s", 0))
        if number not in KNOBS.get("skip", []):
            say(line)
        progress(cell, number + 1, len(plan["cells"]))
    return 0


def main(option):
    if KNOBS.get("deaf"):
        import signal

        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    answers = {
        "--list-forms": lambda: FORMS,
        "--topology": lambda: {"arch": ARCH, "cpus": CPUS, "pairs": {}},
        "--context": lambda: context("none", 0),
    }
    if option == "--programs":  # trials are the real one's
        from pathlib import Path

        real = Path(__file__).parents[3] / "build/native/probe/linewright-probe"
        given = Path("/proc/self/environ").read_bytes().split(b"\0")  # without Python's own locale
        os.execve(real, [real, option], dict(a.split(b"=", 1) for a in given if b"=" in a))
    if option == "--version":
        say(KNOBS.get("version", "linewright-probe 0.1.0") + "\n")
        return 0
    if option in answers:
        say(json.dumps(answers[option]()) + "\n")
        return 0
    plan = json.load(sys.stdin)
    if "refuse" in KNOBS and (option == "--check") == KNOBS.get("at_check", True):
        print(json.dumps({"error": KNOBS["refuse"]}), file=sys.stderr)
        return 2
    return 0 if option == "--check" else run(plan)


sys.exit(main(sys.argv[1].removesuffix("=all") if len(sys.argv) > 1 else ""))
