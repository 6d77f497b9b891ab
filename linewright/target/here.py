"""This machine and its boot, as the system describes them."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def here() -> dict:
    """Architecture, processor, kernel and boot, by the names that a trial's session has for them."""
    return dict(
        arch=platform.machine(),
        cpu_model=_cpu_model(),
        cpus=os.cpu_count() or 0,
        kernel=f"{platform.system()} {platform.release()}",
        boot_id=_text("/proc/sys/kernel/random/boot_id"),
        boot_parameters=_text("/proc/cmdline"),
    )


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def _cpu_model() -> str:
    names = (
        line.partition(":")[2].strip() for line in _text("/proc/cpuinfo").splitlines() if line.startswith("model name")
    )
    return next(names, "")
