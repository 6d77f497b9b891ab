#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run static arm64 programs under a real arm64 kernel, in an emulated machine, and report each
one's exit code.

    run_arm64.py --init INIT [--limit S] [--timeout S] [--kernel OPTIONS] COMMAND [COMMAND…]

A COMMAND is one argument in shell quoting: ``path/to/program arg…``, with ``NAME=value`` words in
front for its environment. INIT is the static program built from init.c.  The kernel is Debian's
cloud kernel, fetched once through apt into a private state (the system's own package lists are not
touched) and kept in ``${XDG_CACHE_HOME:-~/.cache}/linewright``, or beside INIT where that cannot be
written.

Exit code: 0 every command ended with 0; 1 one did not; 2 the request was wrong; 3 the machine did
not come to its end; 77 skipped, because qemu-system-aarch64 or the kernel is missing here (says
which)."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

PACKAGE = "linux-image-cloud-arm64"
SKIP = 77
SILENT_S = 60.0
"""A kernel's first line comes within seconds."""
KERNEL_LINE = re.compile(r"^\[ *\d+\.\d+\] ", re.MULTILINE)
QUIET_LATER = "console_level=4"
"""On the kernel's command line: it says how far it comes, and init.c keeps it from talking into
what the commands say."""


class Unavailable(Exception):
    """Something this test needs is missing on this machine."""


# ---- the kernel ----


def cache_folder(beside: Path, name: str = "arm64-kernel") -> Path:
    """The user's cache; where that cannot be written (a service's account, a read-only home), a
    folder in `beside`."""
    folder = (
        Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
        / "linewright"
        / name
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    folder = beside / name
    folder.mkdir(exist_ok=True)
    return folder


def tool(name: str, package: str) -> str:
    path = shutil.which(name, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
    if path is None:
        raise Unavailable(f"{name} is not installed (apt install {package})")
    return path


def apt_options(state: Path, architecture: str) -> list[str]:
    """Options that keep apt inside `state`, for that architecture, whatever the machine's own
    is."""
    for folder in ("lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True)
    (state / "status").touch()
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures::": architecture,
        "APT::Sandbox::User": "root",
        "Dir::State": state,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Acquire::Languages": "none",
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def call(command: list[str], cwd: Path) -> str:
    try:
        done = subprocess.run(
            command, cwd=cwd, text=True, capture_output=True, timeout=600, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(command[:1] + command[-2:])}: no answer in 600 s") from None
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Unavailable(f"{' '.join(command[:1] + command[-2:])} failed: {' '.join(last)}")
    return done.stdout


def unpacked_kernel(meta_package: str, architecture: str, state: Path) -> Path:
    """The folder tree of the kernel image that a package of Debian's depends on, under the empty
    folder `state`."""
    apt_get, apt_cache, dpkg_deb = (
        tool(n, p) for n, p in (("apt-get", "apt"), ("apt-cache", "apt"), ("dpkg-deb", "dpkg"))
    )
    options = apt_options(state, architecture)
    call([apt_get, *options, "update"], state)
    depends = call([apt_cache, *options, "depends", meta_package], state)
    image = re.search(r"Depends: (linux-image-\S+)", depends)
    if image is None:
        raise Unavailable(f"{meta_package} names no kernel image")
    call([apt_get, *options, "download", image[1]], state)
    package = next(state.glob("linux-image-*.deb"))
    call([dpkg_deb, "-x", str(package), str(state / "tree")], state)
    return state / "tree"


def fetch_kernel(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        tree = unpacked_kernel(PACKAGE, "arm64", Path(scratch))
        kernel = next((tree / "boot").glob("vmlinuz-*"))
        kernel.replace(target)  # the last step: a cached kernel is always a whole one


def kernel(beside: Path) -> Path:
    folder = cache_folder(beside)
    target = folder / "vmlinuz"
    with open(folder / "lock", "w") as lock:  # several tests may start at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            fetch_kernel(target)
    return target


# ---- the initial file system ----


def cpio_entry(name: str, mode: int, data: bytes, inode: int) -> bytes:
    """One file of a "newc" archive: a header of hexadecimal fields, the name and the data, each
    padded to four bytes."""
    fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def initramfs(init: Path, commands: list[list[str]], more: dict[str, bytes] | None = None) -> bytes:
    """The archive: /init, one program per command (under its own name in /t/N), /commands with
    tab-separated words, and `more` files, by name, at the top or in folders of their own."""
    folders = ["dev", "proc", "sys", "tmp", "t"]
    for name in more or {}:
        parents = (str(at) for at in reversed(Path(name).parents[:-1]))
        folders += [at for at in parents if at not in folders]
    files = [("init", init.read_bytes()), *(more or {}).items()]
    lines = []
    for number, words in enumerate(commands):
        at = program_index(words)
        name = f"t/{number}/{Path(words[at]).name}"
        folders.append(f"t/{number}")
        files.append((name, Path(words[at]).read_bytes()))
        lines.append("\t".join([*words[:at], "/" + name, *words[at + 1 :]]))
    archive = b"".join(cpio_entry(name, 0o040755, b"", i) for i, name in enumerate(folders, 1))
    archive += b"".join(
        cpio_entry(name, 0o100755, data, i) for i, (name, data) in enumerate(files, 1000)
    )
    archive += cpio_entry("commands", 0o100644, ("\n".join(lines) + "\n").encode(), 999)
    return archive + cpio_entry("TRAILER!!!", 0, b"", 0)


def program_index(words: list[str]) -> int:
    return next((i for i, word in enumerate(words) if "=" not in word), len(words))


# ---- the machine ----


def boot(image: Path, archive: Path, cpus: int, limit_s: int, total_s: int, more: str = "") -> str:
    """What the machine wrote; `more` ends the kernel's command line."""
    qemu = tool("qemu-system-aarch64", "qemu-system-arm")
    options = f"console=ttyAMA0 {QUIET_LATER} panic=-1 limit_s={limit_s} {more}".rstrip()
    command = [qemu, "-M", "virt", "-cpu", "max,pauth-impdef=on"]
    return console_of([*command, *guest_words(image, archive, options, cpus, 768)], total_s)


def guest_words(
    kernel: Path, archive: Path | str, options: str, cpus: int, memory_mib: int
) -> list[str]:
    """Words for any emulator: a kernel with its initramfs and command line, whose console is
    standard output, without a network and a second start."""
    words = ["-smp", str(cpus), "-m", str(memory_mib), "-nographic", "-nic", "none", "-no-reboot"]
    return [*words, "-kernel", str(kernel), "-initrd", str(archive), "-append", options]


def console_of(command: list[str], total_s: float, silent_s: float = SILENT_S) -> str:
    """What the machine wrote until it ended, or until the time was over. One that shows no line of
    a kernel within `silent_s` seconds is started again, twice at most: an emulated machine was seen
    to stand behind its firmware for a quarter of an hour."""
    end = time.monotonic() + total_s
    for last in (False, False, True):
        with tempfile.TemporaryFile() as console:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.DEVNULL
            )
            try:
                said = _said(process, console, silent_s)
                if process.returncode is None and (last or KERNEL_LINE.search(said)):
                    said = _said(process, console, end - time.monotonic())
                    last = True
                if last or process.returncode is not None:
                    return said
            finally:
                process.kill()
                process.wait()
        print(f"no line of a kernel in {silent_s:g} s: started again; it wrote\n{said}", flush=True)
    raise AssertionError("the third machine has the whole time")


def _said(process: subprocess.Popen, console: BinaryIO, seconds: float) -> str:
    """What it has written by the time that it ends, or that the seconds are over."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(seconds, 0))
    return os.pread(console.fileno(), os.fstat(console.fileno()).st_size, 0).decode(
        errors="replace"
    )


def outcomes(console: str, commands: int) -> list[tuple[str, int | None]]:
    """What each command wrote, and its exit code: none where it did not end."""
    codes = {
        int(m[1]): int(m[2]) for m in re.finditer(r"^@@exit (\d+) (\d+)$", console, re.MULTILINE)
    }
    found = []
    for number in range(commands):
        part = re.search(rf"^@@run {number}\n(.*?)(?=^@@|\Z)", console, re.MULTILINE | re.DOTALL)
        found.append((part[1].strip() if part else "", codes.get(number)))
    return found


def report(console: str, commands: list[list[str]]) -> int:
    console = console.replace("\r", "")
    found = outcomes(console, len(commands))
    for words, (output, code) in zip(commands, found, strict=True):
        print(f"--- {shlex.join(words)}: {'did not end' if code is None else f'exit {code}'}")
        print(output)
    if "@@end" not in console:
        print(
            "the machine did not come to its end; its console ends with:\n" + console[-2000:],
            file=sys.stderr,
        )
        return 3
    return int(any(code != 0 for _, code in found))


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Run static arm64 programs under a real arm64 kernel (emulated machine)."
    )
    parser.add_argument(
        "--init",
        type=Path,
        required=True,
        help="static arm64 program built from tests/system/init.c",
    )
    parser.add_argument("--cpus", type=int, default=2, help="CPUs of the machine (default 2)")
    parser.add_argument(
        "--limit", type=int, default=400, help="seconds each command may run (default 400)"
    )
    parser.add_argument(
        "--timeout",
        type=int,
        default=1500,
        help="seconds for the machine as a whole (default 1500)",
    )
    parser.add_argument(
        "--kernel", default="", metavar="OPTIONS", help="more of the kernel's command line"
    )
    parser.add_argument(
        "commands", nargs="+", metavar="COMMAND", help="'[NAME=value …] program [argument …]'"
    )
    options = parser.parse_args(argv)
    options.commands = [shlex.split(command) for command in options.commands]
    for words in options.commands:
        at = program_index(words)
        if at == len(words) or not Path(words[at]).is_file():
            parser.error(f"command {shlex.join(words)!r}: no such program file")
        if any("\t" in word or "\n" in word for word in words):
            parser.error(f"command {shlex.join(words)!r}: words may not hold tabs or line ends")
    if not options.init.is_file():
        parser.error(f"--init {options.init}: no such file")
    if not 1 <= options.cpus <= 8:
        parser.error(f"--cpus {options.cpus}: 1 to 8")
    return options


def main(argv: list[str]) -> int:
    options = parse(argv)
    try:
        tool("qemu-system-aarch64", "qemu-system-arm")
        image = kernel(options.init.parent)
    except Unavailable as missing:
        print(f"run_arm64: skipped: {missing}", file=sys.stderr)
        return SKIP
    with tempfile.NamedTemporaryFile(suffix=".cpio") as archive:
        archive.write(initramfs(options.init, options.commands))
        archive.flush()
        return report(
            boot(
                image,
                Path(archive.name),
                options.cpus,
                options.limit,
                options.timeout,
                options.kernel,
            ),
            options.commands,
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
