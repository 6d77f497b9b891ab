# SPDX-License-Identifier: MIT
"""Bochs, whose processors have TPAUSE and UMWAIT, which QEMU does not emulate: fetched from
Debian 13, with the boot loader that it starts a kernel by.

Nothing is installed: the packages are unpacked into the cache, and run with their own libraries."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tty
from collections.abc import Iterator
from pathlib import Path

import kernels
from run_arm64 import QUIET_LATER, tool

from support import waiting

SUITE = "trixie"
PACKAGES = (
    *("bochs", "bochs-term", "bochsbios", "seabios", "isolinux", "syslinux-common", "genisoimage"),
    *("libc6", "libgcc-s1", "libstdc++6", "libltdl7", "libsamplerate0", "libreadline8t64"),
    *("libncurses6", "libtinfo6", "libmagic1t64", "zlib1g", "libbz2-1.0"),
)
GTK = tuple(
    f"lib{name}.so.0" for name in ("gtk-3", "gdk-3", "pango-1.0", "gobject-2.0", "glib-2.0")
)
LIMIT_S = 1200
"""Processor time of the emulator, some twenty times what it takes."""
TREE = "usr/lib/x86_64-linux-gnu"
# Time by the emulated instructions: the processor says that it has 4.2 GHz, and by that clock a
# slice of the scheduler would take millions of them.
LINE = f"console=ttyS0 panic=-1 nokaslr {QUIET_LATER} tsc=unstable lapic=notscdeadline limit_s=7200"
MACHINE = """display_library: term
cpu: model=arrow_lake, count={cpus}, ips=50000000, reset_on_triple_fault=0, ignore_bad_msrs=1
memory: guest=256, host=256
romimage: file={tree}/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file={tree}/usr/share/seabios/vgabios-stdvga.bin
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path={folder}/cd.iso, status=inserted
boot: cdrom
clock: sync=none
com1: enabled=1, mode=file, dev={folder}/console
log: {folder}/log
panic: action=fatal
error: action=ignore
"""


def without_windows(tree: Path) -> None:
    """Its debugger has a window, which nothing here opens, by GTK, which wants a hundred packages:
    libraries of these names in which every function is empty."""
    command = [tool("nm", "binutils"), "-D", "--undefined-only", f"{tree}/usr/bin/bochs-bin"]
    listed = subprocess.run(command, text=True, capture_output=True, check=True).stdout
    names = re.findall(r" ((?:gtk|gdk|pango|g)_\w+)", listed)
    text = "".join(f"void {name}(void) {{}}\n" for name in names)
    for library in GTK:
        words = ["-shared", "-w", f"-Wl,-soname,{library}", "-o", f"{tree}/{TREE}/{library}"]
        command = [tool("gcc", "gcc"), *words, "-x", "c", "-"]
        subprocess.run(command, input=text, text=True, check=True)


def fetch() -> Path:
    """The unpacked packages; Unavailable with what is missing."""
    return kernels.unpacked("bochs", SUITE, PACKAGES, without_windows)


def started(tree: Path, program: str) -> list[str]:
    """The words that start one of its programs with its own libraries."""
    libraries = tree / TREE
    return [
        f"{libraries}/ld-linux-x86-64.so.2",
        "--library-path",
        str(libraries),
        f"{tree}/{program}",
    ]


def boot(tree: Path, kernel: Path, archive: bytes, folder: Path, cpus: int) -> str:
    """What a machine with that kernel and initramfs says until it switches itself off."""
    iso = folder / "iso"
    iso.mkdir(parents=True)
    (iso / "initrd").write_bytes(archive)
    shutil.copy(kernel, iso / "linux")
    for name in ("ISOLINUX/isolinux.bin", "syslinux/modules/bios/ldlinux.c32"):
        shutil.copy(tree / "usr/lib" / name, iso)
    (iso / "isolinux.cfg").write_text(
        f"default linux\nlabel linux\nkernel linux\nappend initrd=initrd {LINE}\n"
    )
    words = ["-quiet", "-o", f"{folder}/cd.iso", "-b", "isolinux.bin", "-c", "boot.cat"]
    words += ["-no-emul-boot", "-boot-load-size", "4", "-boot-info-table", str(iso)]
    subprocess.run([*started(tree, "usr/bin/genisoimage"), *words], check=True)
    (folder / "machine").write_text(MACHINE.format(cpus=cpus, tree=tree, folder=folder))
    environment = {
        "BXSHARE": f"{tree}/usr/share/bochs",
        "LTDL_LIBRARY_PATH": f"{tree}/{TREE}/bochs/plugins",
        "TERM": "xterm",
    }
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [*started(tree, "usr/bin/bochs-bin"), "-q", "-f", str(folder / "machine")],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    try:
        with screen_of(process, folder / "said") as screen:
            waiting.wait_for(lambda: ended(process, screen))
    finally:
        process.kill()
        process.wait()
    return (folder / "console").read_text(errors="replace").replace("\r", "")


@contextlib.contextmanager
def screen_of(process: subprocess.Popen[bytes], said: Path) -> Iterator[int]:
    """The terminal that it draws its screen on: one of its own, on which it waits for a reader."""

    def found() -> re.Match[str] | None:
        return re.search(r'connected to screen "(.*)"', said.read_text(errors="replace"))

    waiting.wait_for(lambda: found() or process.poll() is not None)
    name = found()
    assert name, said.read_text(errors="replace")
    screen = os.open(name[1], os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        tty.setraw(screen)
        yield screen
    finally:
        os.close(screen)


def ended(process: subprocess.Popen[bytes], screen: int) -> bool:
    """Whether it has ended, or used more than its limit; reads on what it has drawn."""
    with contextlib.suppress(OSError):  # nothing drawn, or no one who draws
        os.read(screen, 1 << 16)
    return process.poll() is not None or waiting.cpu_s(process.pid) > LIMIT_S
