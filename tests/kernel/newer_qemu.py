# SPDX-License-Identifier: MIT
"""A newer QEMU than Debian 12's for RISC-V, whose processors have cache operations: fetched from
the backports.

Nothing is installed: the packages are unpacked into the cache. Its libraries are those of the
installed qemu-system-misc."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import counting
import kernels
from run_arm64 import Unavailable

SUITE = "bookworm-backports"
PACKAGES = (
    *("qemu-system-riscv", "qemu-system-data", "qemu-system-common", "opensbi"),
    # Modules that it would else take from the installed emulator, and then end.
    *("qemu-system-modules-opengl", "qemu-system-gui"),
)


@dataclass(frozen=True)
class Qemu:
    """The unpacked packages."""

    tree: Path

    @property
    def program(self) -> Path:
        return self.tree / "usr/bin/qemu-system-riscv64"

    @property
    def command(self) -> tuple[str, ...]:
        """How it is started: its own modules, not those of the installed one."""
        return (
            "env",
            f"QEMU_MODULE_DIR={self.tree / 'usr/lib/x86_64-linux-gnu/qemu'}",
            str(self.program),
        )

    @property
    def words(self) -> tuple[str, ...]:
        """What makes it find its own firmware."""
        return ("-L", str(self.tree / "usr/share/qemu"))

    def plugin(self, out: Path) -> Path:
        return counting.plugin(out, counting.NEWER)


def fetch() -> Qemu:
    """The emulator; Unavailable with what is missing."""
    found = Qemu(kernels.unpacked("qemu-riscv", SUITE, PACKAGES))
    done = subprocess.run(
        [str(found.program), "-cpu", "help"], text=True, capture_output=True, check=False
    )
    if "thead-c906" not in done.stdout:
        raise Unavailable(f"{found.program} does not run here: {done.stderr.strip()[-200:]}")
    return found
