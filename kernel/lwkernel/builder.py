# SPDX-License-Identifier: GPL-2.0-only
"""Configures and compiles one kernel: a patched copy of the sources, our fragments, and make with
ccache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from . import configuration, edits, patches, sources
from .errors import Failed, Refused
from .given import Given

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 44
"""Characters for patches and fragments in a kernel's release, beside its version."""


@dataclass(frozen=True)
class Arch:
    """How an architecture is built on x86-64 or at home."""

    make: str
    """The kernel's name of it."""
    machine: str
    """What `uname -m` says where no cross compiler is needed."""
    cross: str
    package: str
    image: str
    targets: tuple[str, ...]


ARCHES = {
    "arm64": Arch(
        "arm64", "aarch64", "aarch64-linux-gnu-", "gcc-aarch64-linux-gnu", "Image", ("Image",)
    ),
    "x86_64": Arch(
        "x86_64", "x86_64", "x86_64-linux-gnu-", "gcc-x86-64-linux-gnu", "bzImage", ("bzImage",)
    ),
    "i386": Arch(
        "i386", "x86_64", "i686-linux-gnu-", "gcc-i686-linux-gnu", "bzImage", ("bzImage",)
    ),
    "riscv": Arch(
        "riscv", "riscv64", "riscv64-linux-gnu-", "gcc-riscv64-linux-gnu", "Image", ("Image",)
    ),
}


@dataclass(frozen=True)
class Request:
    """One kernel."""

    series: str
    arch: str
    patches: tuple[str, ...] = ()
    fragments: tuple[str, ...] = ()
    jobs: int = field(default_factory=lambda: os.cpu_count() or 1)
    source: Given | None = None
    """Sources of the user's, to which the series' edits are made; Debian's otherwise."""

    @property
    def name(self) -> str:
        """The folder's name."""
        own = (
            f"-own{hashlib.sha256(self.source.identity.encode()).hexdigest()[:8]}"
            if self.source
            else ""
        )
        return f"{self.series}{own}-{self.arch}{self.additions}"

    def sources(self) -> tuple[Path, str]:
        """The unpatched tree, to be read only, and what names its contents."""
        return (
            (self.source.whole(), self.source.identity)
            if self.source
            else sources.fetch(self.series)
        )

    @property
    def additions(self) -> str:
        """Patches and fragments."""
        shorter = (name.removeprefix(f"{self.arch}_") for name in sorted(self.patches))
        return "".join(f"+{name}" for name in (*shorter, *self.fragments))

    @property
    def release(self) -> str:
        """The end of the kernel's release, by which records of two boots are kept apart. A release
        has 64 characters at most: what is longer is named by a digest."""
        if len(self.additions) <= LONGEST:
            return f"-lw{self.additions}"
        return f"-lw+{hashlib.sha256(self.additions.encode()).hexdigest()[:12]}"


def prefix(arch: Arch) -> str:
    """What stands before the names of the compiler and its tools."""
    return "" if os.uname().machine == arch.machine else arch.cross


def compiler(arch: Arch) -> list[str]:
    """Words of make that choose the compiler, behind ccache where there is one."""
    cross = prefix(arch)
    sources.tool(f"{cross}gcc", arch.package if cross else "gcc")
    sources.tool(f"{cross}ld", arch.package if cross else "binutils")
    cached = "ccache " if shutil.which("ccache") else ""
    words = [f"ARCH={arch.make}", f"CC={cached}{cross}gcc", f"HOSTCC={cached}gcc"]
    return [*words, f"CROSS_COMPILE={cross}"] if cross else words


def step(words: list[str], source: Path, out: Path, log: Path) -> None:
    """One make in the sources, its output in a log."""
    environment = os.environ | {
        # The same input gives the same objects, so that ccache and a reader can compare them.
        "KBUILD_BUILD_TIMESTAMP": "1970-01-01",
        "KBUILD_BUILD_USER": "linewright",
        "KBUILD_BUILD_HOST": "linewright",
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_BASEDIR": str(source),
    }
    command = ["make", "-C", str(source), f"O={out}", *words]
    with open(log, "a") as stream:
        stream.write(" ".join(command) + "\n")
        stream.flush()
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=environment,
            check=False,
        )
    if done.returncode:
        lines = log.read_text(errors="replace").splitlines()
        wrong = [line for line in lines if re.search(r"\berror:|\*\*\*|undefined reference", line)]
        raise Failed(
            "\n".join([*wrong[:12], f"make {words[-1]} failed; the whole output is in {log}"])
        )


def tools() -> None:
    """What every build needs besides a compiler."""
    for name, package in (
        ("make", "make"),
        ("flex", "flex"),
        ("bison", "bison"),
        ("bc", "bc"),
        ("perl", "perl"),
    ):
        sources.tool(name, package)


def patched_source(request: Request, folder: Path) -> tuple[Path, list[patches.Patch]]:
    """The tree of a request: a copy of the sources by hard links, with its patches; patched again
    when a patch has changed."""
    wanted = patches.chosen(list(request.patches), request.series, request.arch)
    tree, version = request.sources()
    source, stamp, diff = folder / "source", folder / "applied", folder / "patches.diff"
    inputs = version + "".join(_contents(patch, request.series) for patch in wanted)
    if source.exists() and stamp.exists() and stamp.read_text() == inputs:
        return source, wanted
    stamp.unlink(missing_ok=True)
    (folder / "log").unlink(missing_ok=True)
    if source.exists() and diff.exists():
        _undo(source, tree, diff.read_text())
    else:
        shutil.rmtree(source, ignore_errors=True)
        sources.linked_copy(tree, source)
    change = patches.apply(source, wanted, request.series)
    diff.write_text(change)
    stamp.write_text(inputs)
    return source, wanted


def _undo(source: Path, tree: Path, diff: str) -> None:
    """Give files that a patch touched their old contents, as new files: what was compiled from them
    is older."""
    for place in re.findall(r"^\+\+\+ b/(.*)$", diff, re.MULTILINE):
        (source / place).unlink(missing_ok=True)
        if (tree / place).exists():
            edits.written(source / place, (tree / place).read_text())


def _contents(patch: patches.Patch, series: str) -> str:
    """What a patch does to a tree; its page head is no part of that."""
    return repr((patch.files_of(series), patch.edits))


def configure(
    request: Request, wanted: list[patches.Patch], source: Path, out: Path, words: list[str]
) -> None:
    """Write out/.config from the fragments, or say which line was not granted."""
    groups = [
        configuration.read(name, request.series)
        for name in ("base", request.arch, *request.fragments)
    ]
    groups += [patch.config(request.series) for patch in wanted]
    if "kunit" in request.fragments:
        groups += [list(patch.tests) for patch in wanted]
    asked = configuration.merged(groups)
    out.mkdir(parents=True, exist_ok=True)
    config = out / "asked.config"
    text = "\n".join([*asked, f'CONFIG_LOCALVERSION="{request.release}"', ""])
    if (out / ".config").exists() and config.exists() and config.read_text() == text:
        return
    config.unlink(missing_ok=True)
    (out.parents[1] / "log").unlink(missing_ok=True)
    scratch = out / "asking.config"
    scratch.write_text(text)
    step(
        [*words, f"KCONFIG_ALLCONFIG={scratch}", "allnoconfig"], source, out, out.parents[1] / "log"
    )
    missing = configuration.refused(asked, (out / ".config").read_text())
    if missing:
        (out / ".config").unlink()
        raise Refused(f"{request.name}: Kconfig does not grant: " + "; ".join(missing))
    scratch.replace(config)


def build(request: Request, folder: Path | None = None) -> Path:
    """Build a kernel; the folder that holds vmlinuz, patches.diff, source/, source/out/ (vmlinux,
    .config, modules) and log: what every make has said since the sources or the configuration last
    changed."""
    if request.arch not in ARCHES:
        raise Refused(f"no architecture {request.arch}; there are {', '.join(ARCHES)}")
    arch = ARCHES[request.arch]
    folder = folder or ROOT / "build/kernel" / request.name
    folder.mkdir(parents=True, exist_ok=True)
    tools()
    words = compiler(arch)
    with open(
        folder / "lock", "w"
    ) as lock:  # a second build of the same kernel waits, and then finds it made
        fcntl.flock(lock, fcntl.LOCK_EX)
        source, wanted = patched_source(request, folder)
        out = (
            source / "out"
        )  # below the sources, so that paths in commands are relative and ccache finds them again
        configure(request, wanted, source, out, words)
        step([*words, f"-j{request.jobs}", *arch.targets, "modules"], source, out, folder / "log")
        image = (
            out
            / "arch"
            / ("x86" if arch.make in ("x86_64", "i386") else arch.make)
            / "boot"
            / arch.image
        )
        shutil.copyfile(image, folder / "vmlinuz")
    return folder
