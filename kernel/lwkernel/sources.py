"""Debian's kernel sources: fetched once by apt under the package's name, unpacked into the user's cache, never changed
there."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .errors import Failed, Missing, Refused

PACKAGES = {"6.1": "linux-source-6.1", "6.12": "linux-source-6.12"}


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


def cache(series: str) -> Path:
    """Where the sources of a series are kept."""
    if series not in PACKAGES:
        raise Refused(f"no kernel {series}; there are {', '.join(PACKAGES)}")
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    folder = home / "linewright" / PACKAGES[series]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def unpack_into(folder: Path, package: str) -> None:
    """Fetch the package and put its sources at folder/tree, whole or not at all."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        scratch = Path(name)
        call([tool("apt-get", "apt"), "-o", "APT::Sandbox::User=root", "download", package], scratch)
        deb = next(scratch.glob("*.deb"))
        call([tool("dpkg-deb", "dpkg"), "-x", str(deb), "deb"], scratch)
        version = subprocess.run(["dpkg-deb", "-f", str(deb), "Version"], text=True, capture_output=True, check=True)
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
            unpack_into(folder, PACKAGES[series])
    return folder / "tree", (folder / "version").read_text().strip()


def linked_copy(tree: Path, target: Path) -> None:
    """A copy of a tree whose files are hard links; real copies where the file system does not allow that."""
    scratch = target.with_name(target.name + ".part")
    shutil.rmtree(scratch, ignore_errors=True)
    done = subprocess.run(["cp", "-al", str(tree), str(scratch)], capture_output=True, check=False)
    if done.returncode:
        shutil.rmtree(scratch, ignore_errors=True)
        call(["cp", "-a", str(tree), str(scratch)], target.parent)
    scratch.replace(target)
