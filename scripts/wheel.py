# SPDX-License-Identifier: MIT
"""Completes a wheel: adds programs for other machines and manual pages, and names the oldest
manylinux that it runs on.

Usage: wheel.py WHEEL FOLDER --man MAN [NAME=PROGRAM …]
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import re
import sys
import zipfile
from pathlib import Path
from platform import libc_ver

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from linewright.elf.symbols import loadable

OLDEST = 17
"""manylinux_2_17 is the oldest platform tag that installers still meet."""
LIBRARIES = {
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libgcc_s.so.1",
    "libstdc++.so.6",
}
"""What every platform of the tag has (PEP 600), and its dynamic linker; anything else would have to
come along."""
LINKERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}
GLIBCXX = {
    "3.4.19": 17, "3.4.24": 27, "3.4.26": 31, "3.4.28": 31, "3.4.29": 34, "3.4.30": 35, "3.4.33": 39
}  # fmt: skip
"""glibc of the manylinux platform whose libstdc++ has these symbol versions, from the policies of
auditwheel."""
EPOCH = (2020, 1, 1, 0, 0, 0)
"""The files' time, so that the same input gives the same wheel."""


def needs(data: bytes) -> tuple[set[str], int]:
    """Libraries and the minor version of glibc that a program or library needs; static programs
    need nothing."""
    try:
        image = ELFFile(io.BytesIO(data))
    except ELFError:
        return set(), 0
    dynamic = image.get_section_by_name(".dynamic")
    libraries = {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")} if dynamic else set()
    versions = image.get_section_by_name(".gnu.version_r")
    names = (
        [aux.name for _, auxiliaries in versions.iter_versions() for aux in auxiliaries]
        if versions
        else []
    )
    minor = [int(name.split(".")[1]) for name in names if re.fullmatch(r"GLIBC_2\.[0-9.]+", name)]
    for name in names:
        if name.startswith("GLIBCXX_"):
            minor.append(cxx_minor(name.removeprefix("GLIBCXX_")))
    return libraries, max(minor, default=0)


def cxx_minor(version: str) -> int:
    """glibc's minor version of the oldest platform with this version of libstdc++'s symbols. Of a
    newer one than any that is known, this machine is such a platform: the wheel is built here."""

    def key(text: str) -> tuple[int, ...]:
        return tuple(map(int, text.split(".")))

    fitting = [minor for known, minor in GLIBCXX.items() if key(version) <= key(known)]
    return min(fitting, default=int(libc_ver()[1].split(".")[1]))


def platform_tag(files: dict[str, bytes], machine: str) -> str:
    """``manylinux_2_N_MACHINE`` for the least N that all files run on."""
    least = OLDEST
    for name, data in files.items():
        libraries, minor = needs(data)
        if not libraries <= LIBRARIES | {LINKERS[machine]}:
            sys.exit(
                f"wheel: {name} needs {', '.join(sorted(libraries - LIBRARIES))}, which not "
                "every platform has"
            )
        least = max(least, minor)
    return f"manylinux_2_{least}_{machine}"


def record(files: dict[str, bytes], name: str) -> bytes:
    """RECORD: every file with its digest and size, itself without."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        writer.writerow([path, f"sha256={digest}", len(data)])
    writer.writerow([name, "", ""])
    return text.getvalue().encode()


def complete(wheel: Path, folder: Path, man: Path, others: dict[str, Path]) -> Path:
    """Write the completed wheel and say where it is."""
    stem, version, python, abi, platform = wheel.stem.split("-")
    machine = re.search(r"(x86_64|aarch64)$", platform)[1]
    with zipfile.ZipFile(wheel) as archive:
        infos = {info.filename: info for info in archive.infolist()}
        files = {name: archive.read(name) for name in infos}
    programs = {name for name, info in infos.items() if info.external_attr >> 16 & 0o111}
    for program, path in others.items():
        name = f"{stem}/bin/{program}"
        files[name] = loadable(path)
        programs.add(name)
    for page in sorted(man.rglob("*.[13]")):
        files[f"{stem}-{version}.data/data/share/man/{page.parent.name}/{page.name}"] = (
            page.read_bytes()
        )
    tag = platform_tag(files, machine)
    info = f"{stem}-{version}.dist-info"
    text = files[f"{info}/WHEEL"].decode()
    files[f"{info}/WHEEL"] = (
        re.sub(r"^Tag: .*\n", "", text, flags=re.M).rstrip("\n").encode()
        + f"\nTag: {python}-{abi}-{tag}\n".encode()
    )
    del files[f"{info}/RECORD"]
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD")
    out = folder / f"{stem}-{version}-{python}-{abi}-{tag}.whl"
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = (0o100755 if name in programs else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--man", type=Path, required=True)
    parser.add_argument("others", nargs="*", metavar="NAME=PROGRAM")
    given = parser.parse_intermixed_args()
    others = {name: Path(path) for name, _, path in (text.partition("=") for text in given.others)}
    print(complete(given.wheel, given.folder, given.man, others))
    return 0


if __name__ == "__main__":
    sys.exit(main())
