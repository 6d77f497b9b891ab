#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Executed arm64 instructions per operation, with the policy word and with LW_NO_POLICY, counted
under qemu-user.

A free-standing program performs N operations and exits; qemu logs every instruction executed. The
difference between two N, divided by the difference of N, is exact: loop control (the same in all
columns) included."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = next(p for p in Path(__file__).resolve().parents if (p / "include" / "linewright").is_dir())
COMPILERS = {
    "gcc": ["aarch64-linux-gnu-gcc"],
    "clang": ["clang-14", "--target=aarch64-linux-gnu", "-fuse-ld=lld"],
}
OPERATIONS = {
    "lw_inc_u64": "lw_inc_u64(p)",
    "lw_fetch_add_u64": "keep(lw_fetch_add_u64(p, 1))",
    "lw_xchg_u64": "keep(lw_xchg_u64(p, 1))",
    "lw_cmpxchg_u64": "keep(lw_cmpxchg_u64(p, 0, 0))",
    "lw_fetch_add_u8": "keep(lw_fetch_add_u8((uint8_t *)p, 1))",
}
# setting -> the policy word it gives on a CPU with LSE
WORDS = {
    "default": 0x0000,
    "store": 0x0004,
    "store,prefetch": 0x1115,
    "prefetch": 0x1111,
    "llsc": 0x2222,
}
PROGRAM = """
#include <linewright/atomic.h>
#ifndef LW_NO_POLICY
uint32_t lw_policy_word = WORD;
#endif
static uint64_t words[32] __attribute__((aligned(256)));
static inline void keep(uint64_t v) { __asm__ volatile("" : : "r"(v)); }
void _start(void)
{
    uint64_t *p = words;
    for (unsigned n = TIMES; n; n--) {
        __asm__ volatile("" : "+r"(p));
        OPERATION;
    }
    __asm__ volatile("mov x0, #0\\n\\tmov x8, #93\\n\\tsvc #0" : : : "x0", "x8");
    __builtin_unreachable();
}
"""


def executed(compiler: list[str], folder: Path, defines: dict[str, str], flags: list[str]) -> int:
    source, program, log = folder / "p.c", folder / "p", folder / "log"
    source.write_text(PROGRAM)
    subprocess.run(
        [
            *compiler,
            "-std=c11",
            "-O2",
            "-static",
            "-nostdlib",
            "-fno-pic",
            "-I",
            str(ROOT / "include"),
            *flags,
            *(f"-D{k}={v}" for k, v in defines.items()),
            str(source),
            "-o",
            str(program),
        ],
        check=True,
    )
    subprocess.run(
        [
            "qemu-aarch64",
            "-cpu",
            "max",
            "-singlestep",
            "-d",
            "exec,nochain",
            "-D",
            str(log),
            str(program),
        ],
        check=True,
    )
    return sum(1 for line in log.open() if line.startswith("Trace"))


def per_operation(compiler: list[str], folder: Path, operation: str, word: int | None) -> float:
    flags = ["-DLW_NO_POLICY", "-march=armv8-a+lse"] if word is None else []
    few, many = (
        executed(
            compiler, folder, {"WORD": str(word), "TIMES": str(n), "OPERATION": operation}, flags
        )
        for n in (100, 300)
    )
    return (many - few) / 200


def main() -> int:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    if not shutil.which("qemu-aarch64"):
        print("qemu-aarch64 is not installed: nothing was counted")
        return 0
    print(
        f"{'instructions per operation':28} {'no policy':>10}"
        + "".join(f"{name:>16}" for name in WORDS)
    )
    with tempfile.TemporaryDirectory() as temporary:
        for name, compiler in COMPILERS.items():
            if not shutil.which(compiler[0]):
                continue
            for operation, call in OPERATIONS.items():
                cells = [
                    per_operation(compiler, Path(temporary), call, word)
                    for word in (None, *WORDS.values())
                ]
                shown = "".join(f"{c:>10g} ({c - cells[0]:+g})" for c in cells[1:])
                print(f"{name:6} {operation:21} {cells[0]:>10g}{shown}")
    print(
        "two of each count are the loop; what an instruction costs on arm64 hardware is not "
        "known here"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
