#!/usr/bin/env python3
"""Debian's kernels for the module's tests: image, headers and build tools of a release, fetched once and kept.

    kernels.py fetch SERIES ARCH                    prints the folder
    kernels.py build SERIES ARCH OUT [gcc|clang]    builds kmod/ for it in the folder OUT, prints what the build said

SERIES is 6.1 or 6.12 (by the Debian suite that carries it), ARCH amd64, arm64 or i386. Nothing is installed: packages
are fetched through apt into a private state and unpacked into the cache of `run_arm64.py`. An arm64 module is built by
a cross compiler and the amd64 build tools of the same release.

Exit code: 0 done; 1 the build failed; 77 something that is needed is missing here (says what).
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/system"))

from run_arm64 import SKIP, Unavailable, apt_options, cache_folder, call, tool  # noqa: E402

SUITES = {"6.1": "bookworm", "6.12": "bookworm-backports"}
IMAGES = {"amd64": "linux-image-cloud-amd64", "arm64": "linux-image-cloud-arm64", "i386": "linux-image-686-pae"}
CROSS = {"amd64": "", "arm64": "aarch64-linux-gnu-", "i386": ""}
KERNEL_ARCH = {"amd64": "x86", "arm64": "arm64", "i386": "i386"}
TRIPLET = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu", "i386": "i686-linux-gnu"}
PROGRAMS = {"i386": ["-m32", "-I/usr/include/x86_64-linux-gnu"]}
"""What a compiler needs besides its name to make a program of the architecture."""
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


def only(names: list[str], pattern: str, of: str) -> str:
    found = next((name for name in names if re.fullmatch(pattern, name)), None)
    if found is None:
        raise Unavailable(f"{of} names no package like {pattern}")
    return found


def fetch_into(folder: Path, series: str, architecture: str, scratch: Path) -> None:
    apt = Apt(scratch / "apt", architecture, SUITES[series])
    tree = scratch / "tree"
    image = only(apt.depends(IMAGES[architecture]), r"linux-image-\d.*", "the kernel's package")
    headers = image.replace("linux-image-", "linux-headers-").replace("-unsigned", "")
    needed = apt.depends(headers)
    common = only(needed, r"linux-headers-.*-common", headers)
    kbuild = only(needed, r"linux-kbuild-.*", headers)
    for package in (image, headers, common):
        apt.unpack(package, tree)
    # The tools run here, whatever the kernel is for.
    tools = apt if architecture == "amd64" else Apt(scratch / "tools", "amd64", SUITES[series])
    tools.unpack(kbuild, tree)
    release = headers.removeprefix("linux-headers-")
    (tree / "release").write_text(release + "\n")
    makefile = tree / f"usr/src/linux-headers-{release}/Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src/", f"{folder}/tree/usr/src/"))
    next((tree / "boot").glob("vmlinuz-*")).replace(tree / "vmlinuz")
    shutil.rmtree(tree / "lib/modules")
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


def builder(architecture: str, compiler: str) -> list[str]:
    """Words of `make` that choose the compiler. A distribution's headers carry the options of the gcc that built the
    kernel, which is this machine's for its own Debian's kernels: `known_options.sh` leaves out those that another
    compiler does not know."""
    words = [f"ARCH={KERNEL_ARCH[architecture]}"]
    if CROSS[architecture]:
        words.append(f"CROSS_COMPILE={CROSS[architecture]}")
    real = f"{CROSS[architecture]}gcc" if compiler == "gcc" else "clang-19"
    tool(real, f"gcc-{CROSS[architecture]}".rstrip("-") if compiler == "gcc" else "clang-19")
    if compiler == "gcc":
        return [*words, f"CC={real}"]
    wrapper = Path(__file__).with_name("known_options.sh")
    return [*words, f"CC={wrapper} {real} --target={TRIPLET[architecture]}"]


def build(series: str, architecture: str, out: Path, compiler: str = "gcc") -> str:
    """Build module and runner in `out`; what make said. Raises CalledProcessError when it fails."""
    tree = fetch(series, architecture, ROOT / "build")
    release = (tree / "release").read_text().strip()
    command = ["make", "-C", str(ROOT / "kmod"), f"KERNEL={release}", f"OUT={out}", "W=1"]
    command.append(f"KDIR={tree}/usr/src/linux-headers-{release}")
    done = subprocess.run(
        [*command, *builder(architecture, compiler)],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=900,
        check=False,
    )
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout)
    return done.stdout


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
