# SPDX-License-Identifier: MIT
"""The one list of architectures: what each is called elsewhere, and what the command must know of
it."""

from __future__ import annotations

from msgspec import Struct


class Architecture(Struct, frozen=True, kw_only=True):
    """One architecture, by the name that the probe and the records have."""

    name: str
    word_bits: int = 64
    """Width of a general register."""
    uname: tuple[str, ...] = ()
    """Machines as ``uname -m`` names them; none: no static probe is built for it."""
    elf: str = ""
    """``e_machine`` of its programs, as pyelftools names it."""
    triplet: str = ""
    """Debian's name of it, which the folders of its libraries have."""
    library_folder: str = "lib64"
    forms_differ: bool = False
    """Whether an operation has several forms in the library, among which LINEWRIGHT_ATOMICS
    chooses."""
    far_atomics: bool = False
    """Whether an atomic may be performed outside of the core, so that single lines are judged."""


ARCHITECTURES = (
    Architecture(
        name="x86_64", uname=("x86_64", "amd64"), elf="EM_X86_64", triplet="x86_64-linux-gnu"
    ),
    Architecture(
        name="i386",
        word_bits=32,
        uname=("i386", "i486", "i586", "i686"),
        elf="EM_386",
        triplet="i386-linux-gnu",
        library_folder="lib32",
    ),
    Architecture(
        name="arm64",
        uname=("aarch64", "arm64"),
        elf="EM_AARCH64",
        triplet="aarch64-linux-gnu",
        forms_differ=True,
        far_atomics=True,
    ),
    Architecture(name="generic"),
)
"""The last one stands for every architecture without an entry."""
NAMES = tuple(architecture.name for architecture in ARCHITECTURES)
PROBED = tuple(architecture.name for architecture in ARCHITECTURES if architecture.uname)
"""Those that static probes are built for."""


def of(name: str) -> Architecture:
    """The entry of a name; ``generic`` for one that is not in the list."""
    return next((a for a in ARCHITECTURES if a.name == name), ARCHITECTURES[-1])


def of_machine(machine: str) -> str:
    """The architecture of a machine as ``uname -m`` names it; empty where there is no probe for
    it."""
    return next((a.name for a in ARCHITECTURES if machine in a.uname), "")
