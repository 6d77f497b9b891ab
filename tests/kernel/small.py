# SPDX-License-Identifier: MIT
"""Small kernels of ours for tests: built by kernel/build, booted in an emulated machine, each
command's output and exit code read back."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / room) for room in ("system", "kernel", "py")]

from run_arm64 import Unavailable, guest_words, initramfs, outcomes, tool  # noqa: E402

from support import waiting  # noqa: E402

# The kernel tests its timer by a busy loop: with no host CPU at hand for the emulated timer that
# ends in a panic. CMPXCHG16B without LOCK, which allocators of 6.12 use, comes out of QEMU 7.2 with
# flags that hold part of RAX: a panic in some boots. A kernel for 32 bits cannot do without
# CMPXCHG8B, of which the same was seen (all flags set, behind an addition of -1): blocks of one
# instruction, which leave no flags to be made up later, have not shown it.
QEMU = {
    "arm64": (
        "qemu-system-aarch64",
        "qemu-system-arm",
        ["-M", "virt", "-cpu", "max,pauth-impdef=on"],
        "ttyAMA0",
    ),
    "x86_64": (
        "qemu-system-x86_64",
        "qemu-system-x86",
        ["-M", "q35", "-cpu", "max,-cx16"],
        "ttyS0 no_timer_check",
    ),
    "i386": (
        "qemu-system-i386",
        "qemu-system-x86",
        ["-M", "q35", "-cpu", "max,vendor=GenuineIntel", "-singlestep"],
        "ttyS0 no_timer_check",
    ),
    "riscv": ("qemu-system-riscv64", "qemu-system-misc", ["-M", "virt"], "ttyS0"),
}
QEMU["amd64"] = QEMU["x86_64"]  # Debian's name beside the kernel's
COMPILER = {
    "arm64": (["aarch64-linux-gnu-gcc"], "gcc-aarch64-linux-gnu"),
    "x86_64": (["gcc"], "gcc"),
    "i386": (["gcc-12", "-m32", "-I/usr/include/x86_64-linux-gnu"], "gcc-12-multilib"),
    "riscv": (["riscv64-linux-gnu-gcc"], "gcc-riscv64-linux-gnu"),
}
COMPILER["amd64"] = COMPILER["x86_64"]
LIMIT_S = 600
"""Processor time of the emulator for one command, far above what it takes."""
GUEST_LIMIT_S = 7200
"""By the guest's clock, which runs on while the emulator waits for a processor."""


@contextlib.contextmanager
def or_skipped() -> Iterator[None]:
    """A test whose kernel or tools are missing here is skipped, and names them."""
    import pytest  # a program that counts needs none

    try:
        yield
    except Unavailable as missing:
        pytest.skip(str(missing))


def built(series: str, arch: str, *words: str) -> Path:
    """The folder of a kernel; what kernel/build says is shown when it fails."""
    done = subprocess.run(
        [str(ROOT / "kernel/build"), series, arch, *words],
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode == 77:
        raise Unavailable(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def program(source: Path, arch: str, out: Path, *words: str) -> Path:
    """A static program for the machine, built from one C file."""
    compiler, package = COMPILER[arch]
    tool(compiler[0], package)
    target = out / f"{source.stem}-{arch}"
    subprocess.run(
        [*compiler, "-O2", "-Wall", "-static", "-o", str(target), str(source), *words], check=True
    )
    return target


CROSS = {
    "arm64": ["ARCH=arm64", "CROSS_COMPILE=aarch64-linux-gnu-"],
    "i386": ["ARCH=i386"],
    "riscv": ["ARCH=riscv", "CROSS_COMPILE=riscv64-linux-gnu-"],
    "x86_64": [],
}


def _made(command: list[str]) -> None:
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def module(kernel: Path, arch: str, out: Path) -> Path:
    """linewright.ko and its runner against a small kernel; the folder with both."""
    _made(
        [
            "make",
            "-C",
            f"{ROOT}/kmod",
            "KERNEL=small",
            f"OUT={out}",
            f"KDIR={kernel}/source/out",
            *CROSS[arch],
        ]
    )
    return out


def small_module(kernel: Path, arch: str, source: Path, out: Path) -> bytes:
    """A module of one C file, named as its folder, against a small kernel."""
    copy = out / source.name
    shutil.copytree(source, copy)
    _made(["make", "-C", f"{kernel}/source/out", f"M={copy}", *CROSS[arch], "modules"])
    return (copy / f"{source.name}.ko").read_bytes()


SIGNS = (
    "WARNING:",
    "BUG:",
    "Oops",
    "INFO: rcu",
    "INFO: task",
    "soft lockup",
    "Call trace",
    "Call Trace",
)


def complaints(lines: list[str]) -> list[str]:
    """Lines in which the kernel complains."""
    return [line for line in lines if re.search("|".join(SIGNS), line)]


@dataclass(frozen=True)
class Boot:
    """What a machine said and did."""

    console: str
    output: list[str]
    """Of each command."""
    codes: list[int | None]
    """Exit code of each command; None for one that did not end."""

    @property
    def ended(self) -> bool:
        return "@@end" in self.console

    def complaints(self) -> list[str]:
        return complaints(self.console.splitlines())


def _console(command: list[str], limit_s: float) -> str:
    """What the machine wrote until it ended, or had used more processor time than `limit_s`;
    AssertionError when it stands still."""
    with tempfile.TemporaryFile() as stream:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream)
        try:
            waiting.wait_for(
                lambda: process.poll() is not None or waiting.cpu_s(process.pid) > limit_s
            )
        finally:
            process.kill()
            process.wait()
        stream.seek(0)
        return stream.read().decode(errors="replace").replace("\r", "")


def boot(
    kernel: Path,
    arch: str,
    init: Path,
    commands: list[list[str]],
    options: str = "",
    files: dict[str, bytes] | None = None,
    machine: tuple[str, ...] = (),
    cpus: int = 2,
    emulator: tuple[str, ...] = (),
) -> Boot:
    """Boot a kernel with `options` on its command line, run the commands, switch it off. `machine`
    are words for the emulator; `emulator` is the command of another one than Debian 12's."""
    name, package, words, console = QEMU[arch]
    with tempfile.NamedTemporaryFile(suffix=".cpio") as archive:
        archive.write(initramfs(init, commands, files))
        archive.flush()
        line = f"console={console} panic=-1 nokaslr limit_s={GUEST_LIMIT_S} {options}"
        command = [*(emulator or (tool(name, package),)), *words]
        command += guest_words(kernel / "vmlinuz", archive.name, line, cpus, 1024)
        said = _console([*command, *machine], LIMIT_S * (len(commands) + 1))
    found = outcomes(said, len(commands))
    return Boot(said, [output for output, _ in found], [code for _, code in found])
