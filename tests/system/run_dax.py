#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run static x86-64 programs on an ext4 in DAX mode, in an emulated machine with persistent memory.

    run_dax.py --init INIT --setup SETUP COMMAND [COMMAND…]

The machine's kernel takes part of its memory for persistent memory (boot parameter memmap). SETUP
is built from dax_setup.c: it loads the modules and mounts the file system at /dax. The kernel is
Debian's cloud kernel, fetched and kept as by run_arm64.py; the file system is made by mkfs.ext4.
COMMANDs and exit codes are those of run_arm64.py, too."""

from __future__ import annotations

import argparse
import fcntl
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import run_arm64
from run_arm64 import SKIP, Unavailable, guest_words, tool

PACKAGE = "linux-image-cloud-amd64"
MODULES = ("libnvdimm", "nd_btt", "nd_pmem", "nd_e820")
"""In the order in which they need each other."""
PMEM_MB, PMEM_AT_MB, IMAGE_MB = 64, 192, 32


def kernel(beside: Path) -> Path:
    """The folder with vmlinuz and the modules."""
    folder = run_arm64.cache_folder(beside, "amd64-kernel")
    with open(folder / "lock", "w") as lock:  # several tests may start at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "vmlinuz").exists():
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                tree = run_arm64.unpacked_kernel(PACKAGE, "amd64", Path(scratch))
                for name in MODULES:
                    next(tree.glob(f"lib/modules/*/kernel/drivers/nvdimm/{name}.ko")).replace(
                        folder / f"{name}.ko"
                    )
                next((tree / "boot").glob("vmlinuz-*")).replace(folder / "vmlinuz")
    return folder


def file_system() -> bytes:
    """An empty ext4; its blocks have the size of a page, which DAX needs."""
    with tempfile.NamedTemporaryFile(suffix=".ext4") as image:
        image.truncate(IMAGE_MB << 20)
        subprocess.run(
            [tool("mkfs.ext4", "e2fsprogs"), "-q", "-F", "-b", "4096", image.name], check=True
        )
        return Path(image.name).read_bytes()


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description="Run static x86-64 programs on an ext4 in DAX mode (emulated machine)."
    )
    parser.add_argument(
        "--init", type=Path, required=True, help="static program built from tests/system/init.c"
    )
    parser.add_argument(
        "--setup",
        type=Path,
        required=True,
        help="static program built from tests/system/dax_setup.c",
    )
    parser.add_argument(
        "--limit", type=int, default=300, help="seconds each command may run (default 300)"
    )
    parser.add_argument(
        "--timeout", type=int, default=900, help="seconds for the machine as a whole (default 900)"
    )
    parser.add_argument("commands", nargs="+", metavar="COMMAND", help="'program [argument …]'")
    options = parser.parse_args(argv)
    setup = [str(options.setup), "/ext4", *(f"/{name}.ko" for name in MODULES)]
    commands = [setup, *(shlex.split(command) for command in options.commands)]
    try:
        qemu = tool("qemu-system-x86_64", "qemu-system-x86")
        folder = kernel(options.init.parent)
        files = {f"{name}.ko": (folder / f"{name}.ko").read_bytes() for name in MODULES} | {
            "ext4": file_system()
        }
    except Unavailable as missing:
        print(f"run_dax: skipped: {missing}", file=sys.stderr)
        return SKIP
    with tempfile.NamedTemporaryFile(suffix=".cpio") as archive:
        archive.write(run_arm64.initramfs(options.init, commands, files))
        archive.flush()
        line = f"console=ttyS0 {run_arm64.QUIET_LATER} panic=-1 limit_s={options.limit}"
        line += f" memmap={PMEM_MB}M!{PMEM_AT_MB}M"
        machine = [qemu, "-M", "q35", "-cpu", "max"]
        machine += guest_words(folder / "vmlinuz", archive.name, line, 2, 512)
        return run_arm64.report(run_arm64.console_of(machine, options.timeout), commands)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
