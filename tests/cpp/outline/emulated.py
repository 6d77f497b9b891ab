# SPDX-License-Identifier: MIT
"""What the script tests share: compilers for arm64, the emulator, and reading what the auditing
library says."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
LIBRARIES = Path(
    os.environ.get("LW_OUTLINE_DIR")
    or Path(__file__).resolve().parents[3] / "build/arm64/src/outline"
)
AUDIT = LIBRARIES / "liblinewright_audit.so"
TRIPLET = "aarch64-linux-gnu"
SYSROOT = Path(f"/usr/{TRIPLET}")
CPUS = ("max", "cortex-a57")
# As the arm64 test preset does, for who runs a script by itself: glib's slice allocator can stop a
# child of the emulator's fork().
os.environ.setdefault("G_SLICE", "always-malloc")

# 14 is the oldest that is supported. A distribution may have none of them, or one.
_CLANGS = [str(n) for n in range(14, 40) if shutil.which(f"clang-{n}")]
OLD_CLANG, NEW_CLANG = (
    (f"clang-{n}" for n in (_CLANGS[0], _CLANGS[-1])) if _CLANGS else ("clang",) * 2
)
# Optimisation while linking wants the linker of the compiler's version.
LLD = shutil.which(NEW_CLANG.replace("clang", "ld.lld")) or shutil.which("ld.lld")


def run(*command: str | Path, **options) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, timeout=400, **options
    )
    if done.returncode != 0:
        raise AssertionError(
            f"exit {done.returncode}: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
        )
    return done


def helper_symbols(program: Path) -> dict[int, str]:
    """Outlined helpers of an unstripped object, by address."""
    found = {}
    for line in run(f"{TRIPLET}-nm", program).stdout.splitlines():
        fields = line.split()
        if (
            len(fields) == 3
            and fields[1] in "tT"
            and re.match(r"__aarch64_(cas|swp|ld[a-z]+)\d+_", fields[2])
        ):
            found[int(fields[0], 16)] = fields[2]
    return found


@dataclass
class Object:
    """One object as the auditing library reported it."""

    found: int = 0
    changed: int = 0
    note: str = ""
    helpers: dict[int, tuple[str, str]] = field(
        default_factory=dict
    )  # address of the ADRP: name, outcome


def audited(stderr: str) -> dict[str, Object]:
    objects: dict[str, Object] = {}
    for line in stderr.splitlines():
        if m := re.match(
            r"linewright: audit\[\d+ \S+\]: (.+): (__aarch64_\w+) at 0x([0-9a-f]+): (.+)$", line
        ):
            objects.setdefault(m[1], Object()).helpers[int(m[3], 16)] = (m[2], m[4])
        elif m := re.match(
            r"linewright: audit\[\d+ \S+\]: (.+): (\d+) helpers found, (\d+) changed(?:; (.*))?$",
            line,
        ):
            entry = objects.setdefault(m[1], Object())
            entry.found, entry.changed, entry.note = int(m[2]), int(m[3]), m[4] or ""
    return objects


def translated(listing: Path) -> Iterator[tuple[int, int]]:
    """Address and code of each instruction in the emulator's listing, which gives them one by one,
    or whole blocks in bytes where it was built without a disassembler, as Ubuntu's was."""
    address = 0
    for line in listing.read_text().splitlines():
        if m := re.match(r"0x([0-9a-f]+): +([0-9a-f]{8})?", line):
            address = int(m[1], 16)
            if m[2]:
                yield address, int(m[2], 16)
        elif m := re.match(r"OBJD-T: ([0-9a-f]+)$", line):
            for (code,) in struct.iter_unpack("<I", bytes.fromhex(m[1])):
                yield address, code
                address += 4


def is_adrp(code: int) -> bool:
    return code & 0x9F000000 == 0x90000000


def is_prefetch(code: int) -> bool:
    """PRFM with an address in a register."""
    return code & 0xFFC00000 == 0xF9800000


class Emulated(unittest.TestCase):
    def setUp(self) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix="outline-test."))
        self.addCleanup(shutil.rmtree, self.dir)
        if LLD:
            (self.dir / "ld.lld").symlink_to(LLD)

    def link(
        self, compiler: str, linker: str, source: str, *flags: str, output: str = "program"
    ) -> Path:
        out = self.dir / output
        if source.endswith(".cpp"):
            compiler = compiler.replace("gcc", "g++").replace("clang", "clang++")
        if compiler.startswith("clang"):
            tool = [compiler, f"--target={TRIPLET}", "-moutline-atomics"]
        else:
            tool = [f"{TRIPLET}-{compiler}"]
        if not shutil.which(tool[0]):
            self.skipTest(f"{tool[0]} is not installed")
        if linker == "lld" and not LLD:
            self.skipTest("lld is not installed")
        chosen = [] if linker == "bfd" else ["-fuse-ld=lld", f"-B{self.dir}"]
        run(*tool, "-O2", "-pthread", PROGRAMS / source, "-o", out, *chosen, *flags)
        return out

    def stripped(self, program: Path) -> Path:
        out = program.with_name(program.name + ".stripped")
        run(f"{TRIPLET}-strip", "-s", "-o", out, program)
        return out

    def emulate(
        self,
        program: Path,
        *args: str | Path,
        cpu: str = "max",
        setting: str | None = None,
        verbose: bool = False,
        audit: Path | None = None,
        wrap: tuple[str, ...] = (),
        flags: tuple[str | Path, ...] = (),
        emulator: str = "qemu-aarch64",
        **options,
    ) -> subprocess.CompletedProcess[str]:
        # The emulator hands its own environment on; LD_AUDIT there would be obeyed by its own
        # dynamic linker.
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith(("LINEWRIGHT_", "LD_"))
        }
        if setting is not None:
            environment["LINEWRIGHT_ATOMICS"] = setting
        if verbose:
            environment["LINEWRIGHT_VERBOSE"] = "1"
        audit_flags = ["-E", f"LD_AUDIT={audit}"] if audit else []
        return run(
            *wrap,
            emulator,
            "-cpu",
            cpu,
            "-L",
            SYSROOT,
            *audit_flags,
            *flags,
            program,
            *args,
            env=environment,
            **options,
        )
