# SPDX-License-Identifier: MIT
"""Completing a wheel: probes and pages are added, the platform tag is what the programs need, and
RECORD is right."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from platform import libc_ver

import pytest

from support.places import FAKE_PROBE, ROOT

INFO = "linewright-0.1.0.dist-info"
MACHINE = os.uname().machine


def plain_wheel(folder: Path, *programs: Path) -> Path:
    """What pip's build makes, in small."""
    wheel = folder / f"linewright-0.1.0-py3-none-linux_{MACHINE}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("linewright/__init__.py", '__version__ = "0.1.0"\n')
        for program in programs:
            archive.write(program, f"linewright/bin/{program.name}")
        archive.writestr(
            f"{INFO}/WHEEL",
            f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_{MACHINE}\n\n",
        )
        archive.writestr(
            f"{INFO}/METADATA", "Metadata-Version: 2.1\nName: linewright\nVersion: 0.1.0\n"
        )
        archive.writestr(f"{INFO}/RECORD", "")
    return wheel


def complete(folder: Path, wheel: Path, *others: str) -> subprocess.CompletedProcess[str]:
    man = folder / "man/man1"
    man.mkdir(parents=True)
    (man / "linewright.1").write_text(".TH X 1\n")
    return subprocess.run(
        [
            sys.executable,
            ROOT / "scripts/wheel.py",
            wheel,
            folder,
            "--man",
            folder / "man",
            *others,
        ],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
    )


def glibc_minor(path: Path) -> int:
    said = subprocess.run(
        ["objdump", "-p", path], capture_output=True, text=True, check=True
    ).stdout
    return max(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", said))


def test_tag_files_and_record(tmp_path):
    program = Path("/bin/true").resolve()
    done = complete(
        tmp_path, plain_wheel(tmp_path, program), f"linewright-probe-arm64={FAKE_PROBE}"
    )
    assert done.returncode == 0, done.stderr
    wheel = Path(done.stdout.strip())
    assert (
        wheel.name
        == f"linewright-0.1.0-py3-none-manylinux_2_{max(17, glibc_minor(program))}_{MACHINE}.whl"
    )
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert archive.read("linewright/bin/linewright-probe-arm64") == FAKE_PROBE.read_bytes()
        assert "linewright-0.1.0.data/data/share/man/man1/linewright.1" in names
        modes = {info.filename: info.external_attr >> 16 & 0o777 for info in archive.infolist()}
        assert (
            modes["linewright/bin/linewright-probe-arm64"] == 0o755
            and modes["linewright/__init__.py"] == 0o644
        )
        tags = re.findall(r"^Tag: (.*)$", archive.read(f"{INFO}/WHEEL").decode(), re.MULTILINE)
        assert tags == [wheel.stem.partition("0.1.0-")[2]]
        lines = [
            line.rsplit(",", 2) for line in archive.read(f"{INFO}/RECORD").decode().splitlines()
        ]
        assert {name for name, _, _ in lines} == set(names)
        for name, digest, size in lines:
            data = archive.read(name)
            found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (digest, size) == (
                ("", "") if name.endswith("/RECORD") else (f"sha256={found}", str(len(data)))
            ), name


def test_pip_takes_it_and_programs_can_be_run(tmp_path):
    program = Path("/bin/true").resolve()
    wheel = complete(
        tmp_path, plain_wheel(tmp_path, program), f"linewright-probe-arm64={FAKE_PROBE}"
    ).stdout.strip()
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--target",
        tmp_path / "there",
        wheel,
    ]
    done = subprocess.run(pip, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    subprocess.run([tmp_path / "there/linewright/bin" / program.name], check=True)
    assert os.access(tmp_path / "there/linewright/bin/linewright-probe-arm64", os.X_OK)


def test_the_same_input_gives_the_same_wheel(tmp_path):
    made = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        made.append(
            Path(
                complete(folder, plain_wheel(folder, Path("/bin/true").resolve())).stdout.strip()
            ).read_bytes()
        )
    assert made[0] == made[1]


def test_a_program_that_needs_more_than_every_platform_has_is_refused(tmp_path):
    source = tmp_path / "x.c"
    source.write_text("int x(void) { return 1; }\n")
    library = tmp_path / "libneeds.so"
    other = tmp_path / "libother.so"
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", other], check=True)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-Wl,--no-as-needed", source, "-o", library, other], check=True
    )
    done = complete(tmp_path, plain_wheel(tmp_path, library))
    assert done.returncode == 1 and "which not every platform has" in done.stderr


@pytest.mark.parametrize(
    ("version", "minor"), [("3.4.11", 17), ("3.4.19", 17), ("3.4.29", 34), ("3.4.32", 39)]
)
def test_the_platform_of_a_cxx_library(version: str, minor: int):
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import wheel
    finally:
        sys.path.pop(0)
    assert wheel.cxx_minor(version) == minor
    assert f"2.{wheel.cxx_minor('3.4.99')}" == libc_ver()[1], "the wheel was built here"
