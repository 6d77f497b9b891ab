# SPDX-License-Identifier: GPL-2.0-only
"""What patches add to a kernel's image: the sections of vmlinux, with the patches and without
them."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

from . import builder

GROUPS = {
    "code": r"\.text|\.rodata\.text",
    "code of the start": r"\.init\.text|\.head\.text",
    "replacements": r"\.altinstr(uctions|_replacement)|\.subsection",
    "read-only data": r"\.rodata|__ksymtab.*|__param|__modver|__ex_table|\.notes|__bug_table",
    "data": r"\.data|\.init\.data|__jump_table|\.(data\.\.|init\.)ro_after_init|\.data\.\.percpu",
    "zeroed data": r"\.bss|\.sbss",
}
"""Sections by what they hold; others with memory are "other"."""


def sections(request: builder.Request) -> dict[str, int]:
    """Bytes of a built kernel by group, without what is not loaded."""
    arch = builder.ARCHES[request.arch]
    image = builder.ROOT / "build/kernel" / request.name / "source/out/vmlinux"
    return grouped(_listing(image, arch))


def _listing(image: Path, arch: builder.Arch) -> str:
    words = [f"{builder.prefix(arch)}size", "-A", "-d", str(image)]
    return subprocess.run(words, text=True, capture_output=True, check=True).stdout


def grouped(listing: str) -> dict[str, int]:
    """Bytes by group of what `size -A -d` prints. What has no address is not loaded."""
    found = dict.fromkeys([*GROUPS, "other"], 0)
    for name, size, address in re.findall(r"^(\S+)\s+(\d+)\s+(\d+)$", listing, re.MULTILINE):
        if int(address):
            group = next(
                (title for title, names in GROUPS.items() if re.fullmatch(names, name)), "other"
            )
            found[group] += int(size)
    return found


def added(request: builder.Request) -> str:
    """A table of both kernels; the unpatched one is built for it, with the same fragments."""
    plain = replace(request, patches=())
    builder.build(plain)
    return table(sections(plain), sections(request))


def table(without: dict[str, int], with_patches: dict[str, int]) -> str:
    """Bytes by group, and their sum."""
    rows = [*without, "all"]
    before, after = ({**side, "all": sum(side.values())} for side in (without, with_patches))
    lines = [f"{'bytes of':18} {'without':>10} {'with':>10} {'added':>8}"]
    lines += [
        f"{row:18} {before[row]:10} {after[row]:10} {after[row] - before[row]:+8}" for row in rows
    ]
    return "".join(line + "\n" for line in lines)
