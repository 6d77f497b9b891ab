#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compile scenarios with the text they explore: build.py ROOT SCENARIOS OUT.so [COMPILER]."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
TEXTS = {
    "litmus": [],
    "interpose": ["src/rwlock/marks.c", "src/srcu/membarrier.c"],
    "percpu": [],
    "rwlock": ["src/rwlock/marks.c", "src/srcu/membarrier.c"],
    "srcu": [
        *(f"src/srcu/{name}.c" for name in ("arena", "callbacks", "domain", "grace", "membarrier")),
        *(f"src/srcu/{name}.c" for name in ("queue", "readers", "wait")),
    ],
    "stack": [],
    "wait": [],
}
"""The shipped files of each file of scenarios, but for those that it includes."""
FEWER = {
    "src/rwlock/marks.c": [(r"(define CHUNK_THREADS) 127u", r"\1 5u")],
    "src/rwlock/plain.h": [(r"(define LONGEST_PAUSE \\\n\s*)256u", r"\g<1>0u")],
    "src/rwlock/rwlock.c": [(r"(define LOOKS_AT_A_MARK) 100", r"\1 1")],
    "src/srcu/callbacks.c": [(r"= help\(", "= scans > 1 ? -ETIMEDOUT : help(")],
    "src/srcu/grace.c": [(r"polls < 16", "polls < 0"), (r"scans < 3", "scans < 0")],
    "src/srcu/records.c": [
        (r"(define LW_FOLD_WORDS) .*", r"\1 4u"),
        (r"(define LW_FOLD_TRIES) 4", r"\1 1"),
    ],
    "src/srcu/wait.c": [(r"if \(!left\)", r"if (!left || scans)")],
}
"""How often a loop looks before its thread sleeps: once here, as no number makes a lock right."""
FLAGS = [
    *("-std=gnu11", "-O2", "-fno-inline", "-g1", "-fPIC", "-w", "-fno-builtin-memset"),
    *("-fsanitize=thread", "-DLINEWRIGHT_ARCH_THREAD_SANITIZER_H"),
]
"""Instrumented, and without the text for ThreadSanitizer: the header that asks for it counts as
read, so that LW_THREAD_SANITIZER stays undefined with every compiler."""


def copy_text(root: Path, to: Path) -> None:
    """The shipped text, with fewer looks."""
    for folder in ("src/common", "src/rwlock", "src/srcu", "src/percpu", "src/wait", "include"):
        shutil.copytree(root / folder, to / folder)
    for file, replacements in FEWER.items():
        path = to / file
        text = path.read_text()
        for pattern, less in replacements:
            text, found = re.subn(pattern, less, text)
            if found != 1:
                raise ValueError(f"{file}: {pattern} stands there {found} times, not once")
        path.write_text(text)


def compile_scenarios(text: Path, name: str, out: Path, compiler: str = "gcc", more=()) -> None:
    """A shared object of the scenarios `name` and of the text in that folder."""
    with tempfile.TemporaryDirectory() as folder:
        objects = []
        for source in [HERE / f"{name}.c", *(text / file for file in TEXTS[name])]:
            objects.append(f"{folder}/{len(objects)}.o")
            include = [f"-I{text}", f"-I{text}/include", f"-I{HERE}", "-include", "shim.h"]
            subprocess.run(
                [compiler, *FLAGS, *more, *include, "-c", source, "-o", objects[-1]], check=True
            )
        subprocess.run(
            [compiler, "-shared", "-Wl,-z,lazy,-Bsymbolic-functions", *objects, "-o", out],
            check=True,
        )


def main() -> int:
    """Copy and compile."""
    root, name, out = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as folder:
        copy_text(Path(root), Path(folder))
        compile_scenarios(Path(folder), name, Path(out), *sys.argv[4:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
