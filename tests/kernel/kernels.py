#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Debian's kernels for the module's tests: image, headers and build tools of a release, fetched
once and kept.

    kernels.py fetch SERIES ARCH                    prints the folder
    kernels.py build SERIES ARCH OUT [gcc|clang]    builds kmod/ for it in the folder OUT

SERIES is 6.1, 6.12 or 7 (by the Debian suite that carries it; 7 is the newest there is on the day
of the fetch), or 6.1-rt for the kernel with PREEMPT_RT; ARCH amd64, arm64 or, for 6.1 and 6.12,
i386. Nothing is installed: packages are
fetched through apt into a private state and unpacked into the cache of `run_arm64.py`. An arm64
module is built by a cross compiler and the amd64 build tools of the same release.

Exit code: 0 done; 1 the build failed; 77 something that is needed is missing here (says what).
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/system"), str(ROOT / "tests/py")]

from run_arm64 import SKIP, Unavailable, apt_options, cache_folder, call, tool  # noqa: E402

from support import waiting  # noqa: E402

SUITES = {
    "6.1": "bookworm",
    "6.1-rt": "bookworm",
    "6.12": "bookworm-backports",
    "7": "trixie-backports",
}
LIBRARIES = {"7": "trixie"}
"""The suite whose C library a series' build tools need, where it is a later one than Debian 12. So
is its compiler."""
IMAGES = {
    "amd64": "linux-image-cloud-amd64",
    "arm64": "linux-image-cloud-arm64",
    "i386": "linux-image-686-pae",
}
CROSS = {"amd64": "", "arm64": "aarch64-linux-gnu-", "i386": ""}
KERNEL_ARCH = {"amd64": "x86", "arm64": "arm64", "i386": "i386"}
TRIPLET = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu", "i386": "i686-linux-gnu"}
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def archive() -> str:
    """Where this machine's apt finds Debian's main archive."""
    found = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(SUITE) $(ORIGIN)"],
        text=True,
        capture_output=True,
        check=False,
    ).stdout.splitlines()
    for line in found:
        uri = line.split(" ", 1)[0]
        if re.fullmatch(r".*/debian/?", uri):
            return uri
    raise Unavailable("apt knows no archive of Debian's main suites")


class Apt:
    """apt with a state of its own, for one architecture and one suite."""

    def __init__(self, state: Path, architecture: str, suite: str) -> None:
        if not Path(KEYRING).exists():
            raise Unavailable(f"{KEYRING} is missing (apt install debian-archive-keyring)")
        self.state = state
        state.mkdir()
        sources = state / "sources.list"
        sources.write_text(f"deb [signed-by={KEYRING}] {archive()} {suite} main\n")
        self.options = [
            *apt_options(state, architecture),
            *("-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=/dev/null"),
        ]
        call([tool("apt-get", "apt"), *self.options, "update"], state)

    def depends(self, package: str) -> list[str]:
        """Names of what a package depends on."""
        text = call([tool("apt-cache", "apt"), *self.options, "depends", package], self.state)
        return re.findall(r"^  Depends: <?([^\s<>]+)>?$", text, re.MULTILINE)

    def unpack(self, package: str, tree: Path) -> None:
        folder = Path(tempfile.mkdtemp(dir=self.state))
        call([tool("apt-get", "apt"), *self.options, "download", package], folder)
        call([tool("dpkg-deb", "dpkg"), "-x", str(next(folder.glob("*.deb"))), str(tree)], folder)
        shutil.rmtree(folder)


def unpacked(
    name: str, suite: str, packages: Sequence[str], finish: Callable[[Path], None] | None = None
) -> Path:
    """Packages of a suite, unpacked together into the cache under that name, once; `finish` then
    changes the tree."""
    folder = cache_folder(ROOT / "build", name)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "tree").exists():
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                apt, tree = Apt(Path(scratch) / "apt", "amd64", suite), Path(scratch) / "tree"
                for package in packages:
                    apt.unpack(package, tree)
                if finish:
                    finish(tree)
                tree.replace(folder / "tree")
    return folder / "tree"


def only(names: list[str], pattern: str, of: str) -> str:
    found = next((name for name in names if re.fullmatch(pattern, name)), None)
    if found is None:
        raise Unavailable(f"{of} names no package like {pattern}")
    return found


def unpack_libraries(apt: Apt, suite: str, tool_package: str, tree: Path) -> None:
    """The libraries that a package's programs need, from `suite`, with all that these need in
    turn."""
    libraries = Apt(apt.state.with_name("libraries"), "amd64", suite)
    found: set[str] = set()
    pending = apt.depends(tool_package)
    while pending:
        name = pending.pop()
        if re.match("lib|zlib", name) and name not in found:
            found.add(name)
            libraries.unpack(name, tree)
            pending += libraries.depends(name)


def run_with_libraries(tree: Path, final: Path) -> None:
    """Put a script in the place of every build tool that starts it with the loader and the
    libraries of `tree`, which will lie at `final`."""
    place = "libraries/usr/lib/x86_64-linux-gnu"
    loader = f"{final}/{place}/ld-linux-x86-64.so.2 --library-path {final}/{place}"
    for program in [
        path for path in (tree / "usr/lib").rglob("*") if path.is_file() and not path.is_symlink()
    ]:
        with program.open("rb") as opened:
            if opened.read(4) != b"\x7fELF" or not program.stat().st_mode & 0o100:
                continue
        moved = program.rename(program.with_name(f"{program.name}.elf"))
        # objtool finds its part for an architecture by its own name.
        program.write_text(
            f'#!/bin/sh\nexec {loader} --argv0 "$0" {final / moved.relative_to(tree)} "$@"\n'
        )
        program.chmod(0o755)


def fetch_into(folder: Path, series: str, architecture: str, scratch: Path) -> None:
    apt = Apt(scratch / "apt", architecture, SUITES[series])
    tree = scratch / "tree"
    meta = IMAGES[architecture].replace("cloud", "rt" if series.endswith("-rt") else "cloud")
    image = only(apt.depends(meta), r"linux-image-\d.*", "the kernel's package")
    headers = image.replace("linux-image-", "linux-headers-").replace("-unsigned", "")
    needed = apt.depends(headers)
    common = only(needed, r"linux-headers-.*-common(-rt)?", headers)
    kbuild = only(needed, r"linux-kbuild-.*", headers)
    # In 7.x the image's package is empty: the kernel is in another one, and its modules in a third.
    binary = [name for name in apt.depends(image) if name.startswith("linux-binary-")]
    for package in (image, *binary, headers, common):
        apt.unpack(package, tree)
    # The tools run here, whatever the kernel is for.
    tools = apt if architecture == "amd64" else Apt(scratch / "tools", "amd64", SUITES[series])
    tools.unpack(kbuild, tree)
    if series in LIBRARIES:
        unpack_libraries(tools, LIBRARIES[series], kbuild, tree / "libraries")
        run_with_libraries(tree, folder / "tree")
    release = headers.removeprefix("linux-headers-")
    (tree / "release").write_text(release + "\n")
    makefile = tree / f"usr/src/linux-headers-{release}/Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src/", f"{folder}/tree/usr/src/"))
    image_file = next(
        path for at in ("boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz") for path in tree.glob(at)
    )
    image_file.replace(tree / "vmlinuz")
    shutil.rmtree(tree / "lib/modules", ignore_errors=True)
    tree.replace(folder / "tree")  # the last step: what is in the cache is whole


def fetch(series: str, architecture: str, beside: Path) -> Path:
    """The unpacked tree of a kernel: `vmlinuz`, `release`, and usr/src with its headers."""
    folder = cache_folder(beside, f"kernel-{series}-{architecture}")
    with open(folder / "lock", "w") as lock:  # several tests may start at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "tree").exists():
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                fetch_into(folder, series, architecture, Path(scratch))
    return folder / "tree"


# ---- the module ----


CLANG = ("CONFIG_CC_IS_GCC=", "CONFIG_CC_IS_CLANG=y")
"""What the configuration would say to make if clang had built the kernel: its words for retpolines,
and no warnings that the headers cause. `clang_config.h` says it to the preprocessor."""
CLANG_UNTRACED = {"amd64": ("CC_FLAGS_FTRACE=",)}
"""clang does not list a module's calls for the tracer, as gcc does there, so that they would never
be patched out."""


def builder(series: str, architecture: str, compiler: str) -> list[str]:
    """Words of `make` that choose the compiler. A distribution's headers carry the options of the
    gcc that built the kernel, which is this machine's for the kernels of its own release:
    `known_options.sh` leaves out those that another compiler does not know."""
    words = [f"ARCH={KERNEL_ARCH[architecture]}"]
    if CROSS[architecture]:
        words.append(f"CROSS_COMPILE={CROSS[architecture]}")
    gcc, triplet = f"{CROSS[architecture]}gcc", TRIPLET[architecture]
    wrapper = Path(__file__).with_name("known_options.sh")
    if compiler == "clang":
        tool("clang-19", "clang-19")
        return [
            *words,
            *CLANG,
            *CLANG_UNTRACED.get(architecture, ()),
            f"CC={wrapper} clang-19 --target={triplet}",
        ]
    tool(gcc, f"gcc-{CROSS[architecture]}".rstrip("-"))
    return [*words, f"CC={wrapper} {gcc}" if series in LIBRARIES else f"CC={gcc}"]


def build(series: str, architecture: str, out: Path, compiler: str = "gcc") -> str:
    """Build module and runner in `out`; what make said. Raises CalledProcessError when it fails."""
    tree = fetch(series, architecture, ROOT / "build")
    release = (tree / "release").read_text().strip()
    command = ["make", "-C", str(ROOT / "kmod"), f"KERNEL={release}", f"OUT={out}", "W=1"]
    command.append(f"KDIR={tree}/usr/src/linux-headers-{release}")
    done = waiting.run(
        [*command, *builder(series, architecture, compiler)], stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout)
    return done.stdout


def warnings(said: str) -> list[str]:
    """What a build said against the module: not against the kernel's headers, nor that other tools
    built the kernel."""
    return [
        line
        for line in said.splitlines()
        if re.search("warning:", line, re.IGNORECASE)
        and "/linux-headers-" not in line
        and not re.match(
            r"warning: (the compiler|pahole version) differs from the one used to build the kernel",
            line,
        )
    ]


def main(argv: list[str]) -> int:
    try:
        if len(argv) == 3 and argv[0] == "fetch":
            print(fetch(argv[1], argv[2], ROOT / "build"))
        elif len(argv) in (4, 5) and argv[0] == "build":
            print(build(argv[1], argv[2], Path(argv[3]).absolute(), *argv[4:]), end="")
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except Unavailable as missing:
        print(f"kernels: {missing}", file=sys.stderr)
        return SKIP
    except subprocess.CalledProcessError as failed:
        print(failed.output, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
