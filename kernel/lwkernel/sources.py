# SPDX-License-Identifier: GPL-2.0-only
"""Debian's kernel sources: fetched once by apt under the package's name, unpacked into the user's
cache, never changed there. A series that this machine's suites do not carry is fetched from the
suite that does, through a state of its own: apt's lists of the system stay as they are."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .errors import Failed, Missing, Refused

PACKAGES = {series: f"linux-source-{series}" for series in ("6.1", "6.12", "7.3")}
SUITES = {"7.3": "trixie-backports"}
"""Where a series is that the machine's own suites are not asked for."""
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def tool(name: str, package: str) -> str:
    """A program's path."""
    path = shutil.which(name)
    if path is None:
        raise Missing(f"{name} is not installed (apt install {package})")
    return path


def call(command: list[str], cwd: Path) -> None:
    """Run a short step; Failed with its last line when it does not end well."""
    done = subprocess.run(command, cwd=cwd, text=True, capture_output=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Failed(f"{Path(command[0]).name} {command[-1]}: {' '.join(last)}")


def home() -> Path:
    """Where sources are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "linewright"


def known(series: str) -> str:
    """The series, if it is one of those here."""
    if series not in PACKAGES:
        raise Refused(f"no kernel {series}; there are {', '.join(PACKAGES)}")
    return series


def cache(series: str) -> Path:
    """Where the sources of a series are kept."""
    folder = home() / PACKAGES[known(series)]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def archive() -> str:
    """Where this machine's apt finds Debian's main archive."""
    words = [tool("apt-get", "apt"), "indextargets", "--format", "$(REPO_URI)"]
    found = subprocess.run(words, text=True, capture_output=True, check=False).stdout
    for line in found.splitlines():
        if line.rstrip("/").endswith("/debian"):
            return line
    raise Missing("apt knows no archive of Debian's main suites")


def options(suite: str | None, scratch: Path) -> list[str]:
    """Options of apt-get: for a suite, a state of its own under `scratch`, whose lists are fetched
    here."""
    found = ["-o", "APT::Sandbox::User=root"]
    if suite is None:
        return found
    if not KEYRING.exists():
        raise Missing(f"{KEYRING} is missing (apt install debian-archive-keyring)")
    for part in ("lists/partial", "cache/archives/partial"):
        (scratch / part).mkdir(parents=True)
    (scratch / "status").touch()
    (scratch / "sources.list").write_text(f"deb [signed-by={KEYRING}] {archive()} {suite} main\n")
    places = {
        "State": scratch,
        "State::lists": scratch / "lists",
        "State::status": scratch / "status",
        "Cache": scratch / "cache",
        "Etc::sourcelist": scratch / "sources.list",
        "Etc::sourceparts": "/dev/null",
    }
    found += [word for place, path in places.items() for word in ("-o", f"Dir::{place}={path}")]
    call([tool("apt-get", "apt"), *found, "update"], scratch)
    return found


def unpack_into(folder: Path, package: str, suite: str | None) -> None:
    """Fetch the package and put its sources at folder/tree, whole or not at all."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        scratch = Path(name)
        call(
            [tool("apt-get", "apt"), *options(suite, scratch / "apt"), "download", package], scratch
        )
        deb = next(scratch.glob("*.deb"))
        call([tool("dpkg-deb", "dpkg"), "-x", str(deb), "deb"], scratch)
        version = subprocess.run(
            ["dpkg-deb", "-f", str(deb), "Version"], text=True, capture_output=True, check=True
        )
        tarball = next((scratch / "deb/usr/src").glob("linux-source-*.tar.xz"))
        tool("xz", "xz-utils")
        (scratch / "tree").mkdir()
        call([tool("tar", "tar"), "--strip-components=1", "-xf", str(tarball)], scratch / "tree")
        (scratch / "version").write_text(version.stdout)
        (scratch / "version").replace(folder / "version")
        (scratch / "tree").replace(folder / "tree")


def fetch(series: str) -> tuple[Path, str]:
    """The unpacked tree of a series, to be read only, and the version of Debian's package."""
    folder = cache(series)
    with open(folder / "lock", "w") as lock:  # several builds may start at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "tree").exists():
            unpack_into(folder, PACKAGES[series], SUITES.get(series))
    return folder / "tree", (folder / "version").read_text().strip()


def copy(tree: Path, target: Path, how: str = "-a") -> None:
    """A copy of a tree, which may be worked in."""
    scratch = target.with_name(target.name + ".part")
    shutil.rmtree(scratch, ignore_errors=True)
    call(["cp", how, str(tree), str(scratch)], target.parent)
    scratch.replace(target)


def linked_copy(tree: Path, target: Path) -> None:
    """A copy of a tree whose files are hard links, which nothing may write to; real copies where
    the file system does not allow that."""
    try:
        copy(tree, target, "-al")
    except Failed:
        copy(tree, target)
