# SPDX-License-Identifier: MIT
"""The inside of this machine's kernel as a target: ``--on kernel`` runs a plan's cells in
linewright.ko.

The probe decides which window comes when and which ones count, as it does in user space; it hands
each to the module's runner, which alone runs as root. Module and runner are built by `make -C
kmod`. A launch loads the module anew, so that its code lies elsewhere.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from linewright.errors import UserError
from linewright.run.programs import find_probe
from linewright.run.registry import ProgramTarget
from linewright.units import shell_words

RUNNERS = [
    Path("/usr/local/libexec/linewright/linewright-kernel"),
    Path("/usr/libexec/linewright/linewright-kernel"),
]
"""Where kmod/user/install.sh puts it, and the Debian package."""
MODULES = Path("/lib/modules")
RUNNER = "LINEWRIGHT_KERNEL_RUNNER"


class KernelTarget(ProgramTarget):
    """The running kernel, or the one behind `LINEWRIGHT_KERNEL_RUNNER`."""

    def __init__(self) -> None:
        super().__init__("kernel", [find_probe(), "--kernel", shlex.join(runner_command())])


def runner_command() -> list[str]:
    """What ``LINEWRIGHT_KERNEL_RUNNER`` names, else the runner built for the running kernel, as
    root."""
    named = os.environ.get(RUNNER)
    if named:
        return shell_words(named, RUNNER, "allowed: a command and its options")
    command = installed_by_dkms() or built_here()
    return command if os.geteuid() == 0 else ["sudo", *command]


def installed_by_dkms() -> list[str]:
    """The runner that DKMS has installed with the module for the running kernel, unless
    ``LINEWRIGHT_KMOD`` names another."""
    modules = MODULES / os.uname().release / "updates/dkms"
    runner = next((path for path in RUNNERS if path.exists()), None)
    if runner is None or "LINEWRIGHT_KMOD" in os.environ or not any(modules.glob("linewright.ko*")):
        return []
    return [str(runner), "--module", "linewright"]


def built_here() -> list[str]:
    """The runner and module of ``make -C kmod``."""
    folder = module_folder()
    return [str(folder / "linewright-kernel"), "--module", str(folder / "linewright.ko")]


def module_folder() -> Path:
    """Where ``make -C kmod`` has put module and runner for the running kernel."""
    release = os.uname().release
    named = os.environ.get("LINEWRIGHT_KMOD")
    checkout = Path(__file__).resolve().parents[2]
    folder = Path(named) if named else checkout / "build" / "kmod" / release
    make = "make -C kmod" + " in a checkout of linewright" * (not (checkout / "kmod").is_dir())
    if all((folder / name).is_file() for name in ("linewright.ko", "linewright-kernel")):
        return folder
    if not Path(f"/lib/modules/{release}/build/Makefile").exists():
        raise UserError(
            f"no module for kernel {release}, and no headers to build it with",
            "--on kernel",
            f"sudo apt install linux-headers-{release}, then {make}",
        )
    raise UserError(
        f"no linewright.ko in {folder}",
        "--on kernel",
        f"{make}, or name its folder in LINEWRIGHT_KMOD",
    )


def open_kernel(rest: str) -> KernelTarget:
    """The target that ``kernel`` names."""
    if rest:
        raise UserError(f"no target 'kernel:{rest}'", "--on", "kernel takes nothing behind a colon")
    return KernelTarget()
