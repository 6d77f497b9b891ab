# SPDX-License-Identifier: MIT
"""Where the build leaves what the tests of `find` run, and what is planted in find_planted."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

import pytest

from support.places import ROOT

SAMPLER = ROOT / "build/native/find/linewright-find"
TRIES = 20
"""Runs of a program that a load may leave too little time to watch."""
PLANTED = ROOT / "build/native/tests/cpp/find/find_planted"
SHARING = {
    "true": ("true_counter", "true"),
    "false": ("false_counters", "false"),
    "false_plain": ("plain_counters", "false"),
    "fenced": ("fenced_words", "false"),
    "sums": ("thread_sums", "false"),
    "scattered": ("scattered_table", "true"),
    "reader_writer": ("flag_line", "true"),
    "mutex": ("planted_mutex", "true"),
    "rwlock": ("planted_rwlock", "true"),
    "std_mutex": ("planted_std_mutex", "true"),
    "shared_mutex": ("planted_shared_mutex", "true"),
    "heap": ("heap block", "true"),
    "heap_false": ("heap block", "false"),
    "heap_fields": ("heap block", "false"),
    "jit": ("true_counter", "true"),
    "fork": ("shared mapping", "true"),
    "pool": ("planted_std_mutex", "true"),
    "own_lock": ("planted_spin", "true"),
    "dlopen": ("plugin_counter", "true"),
    "tls_shared": ("own_counter", "true"),
    "tls_library": ("plugin_own", "true"),
}
"""Kinds of find_planted: what its shared line is called and how it is shared."""
CONTROLS = (
    "private", "private_plain", "read_shared", "stack", "tls", "turns", "scattered_own",
)  # fmt: skip
"""Kinds in which no line travels."""
STAYING = {
    "percpu_counter": "cpu_counter",
    "slot_of_cpu": "cpu_slots",
    "one_cpu": "true_counter",
    "handed_over": "handed_line",
    "handed_over_fast": "handed_line",
    "striped": "striped_cells",
}
"""Kinds whose line, named here, many threads use, and no two CPUs at a time."""


def sampled(search: Callable[[str], dict], first: str = "1s") -> dict:
    """What a search finds in the time that it is given: on a loaded machine a program that goes on
    by itself takes longer to have enough samples."""
    for seconds in (first, "5s", "20s", "80s"):
        result = search(seconds)
        if result["lines"]:
            return result
    raise AssertionError(result)


def without_plugins(name: str) -> str:
    """Why the emulator of `--exact` is of no use here: it is not there, or can load no plugin."""
    if shutil.which(name) is None:
        return f"no {name}"
    if "-plugin" not in subprocess.run([name, "--help"], capture_output=True, text=True).stdout:
        return "this qemu-user was built without plugins, as Debian 13's and Ubuntu's are"
    return ""


def emulator_with_plugins(name: str) -> None:
    """Skips the test where it is of no use."""
    if why := without_plugins(name):
        pytest.skip(why)
