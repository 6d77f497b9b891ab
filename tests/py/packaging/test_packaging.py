"""`make wheel`, installed in a fresh environment, brings the command and every probe; the sdist holds what a build needs."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

import pytest

from support.places import ROOT

OTHERS = ("i386", "arm64") if os.uname().machine == "x86_64" else ()


def run(*command: object, **options) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=2400, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """What `make wheel` makes."""
    folder = tmp_path_factory.mktemp("wheel")
    return Path(run(ROOT / "scripts/wheel.sh", folder).splitlines()[-1])


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The `bin` folder of a fresh environment with the wheel in it."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=True)
    run(folder / "bin/python", "-m", "pip", "install", "--no-input", "--prefer-binary", wheel)
    return folder / "bin"


@pytest.fixture
def outside(installed, tmp_path):
    """Runs an installed program where neither the checkout nor its probe is in reach."""
    environment = {"PATH": f"{installed}:/usr/bin:/bin", "HOME": str(tmp_path)}
    return lambda *command: run(*command, cwd=tmp_path, env=environment)


@pytest.mark.slow
def test_the_installed_command_knows_its_version(installed, outside):
    from linewright import __version__

    assert __version__ in outside(installed / "linewright", "--version")
    assert f"Version: {__version__}\n" in outside(installed / "python", "-m", "pip", "show", "linewright")


@pytest.mark.slow
def test_the_native_probe_comes_along(installed, outside):
    where = outside(installed / "python", "-c", "import linewright; print(linewright.__path__[0])").strip()
    assert not Path(where).is_relative_to(ROOT)
    probe = Path(where, "bin/linewright-probe")
    assert "lock_add" in outside(probe, "--list-forms") or os.uname().machine != "x86_64"
    others = {f"linewright-probe-{arch}" for arch in OTHERS}
    # Nothing else of the native build comes along.
    assert {path.name for path in probe.parent.iterdir()} == others | {
        probe.name,
        "linewright-workload",
        "linewright-model",
        "linewright-torture",
        "linewright-find",
        "liblinewright_find_timer.so",
        "liblinewright_find_heap.so",
        "liblinewright_find_exact.so",
    }
    assert not list(Path(where).rglob("*.a")) and not list(Path(where).rglob("*.h"))
    for arch in OTHERS:
        runner = ["qemu-aarch64"] if arch == "arm64" else []
        assert f'"arch": "{arch}"' in outside(*runner, probe.parent / f"linewright-probe-{arch}", "--topology")


@pytest.mark.slow
def test_the_wheel_says_the_oldest_platform_that_it_runs_on(wheel):
    """By objdump, which the script that named it does not use; and the record of its files is right."""
    from linewright import __version__

    tag = re.fullmatch(
        rf"linewright-{re.escape(__version__)}-py3-none-manylinux_2_(\d+)_{os.uname().machine}\.whl", wheel.name
    )
    assert tag, wheel.name
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        archive.extractall(folder)
        needed = set()
        for path in Path(folder).rglob("*"):
            if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
                said = subprocess.run(["objdump", "-p", path], capture_output=True, text=True).stdout
                needed |= {int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", said)}
        assert max(needed) <= int(tag[1])
        lines = archive.read(f"linewright-{__version__}.dist-info/RECORD").decode().splitlines()
        for name, digest, size in (line.rsplit(",", 2) for line in lines):
            data = archive.read(name.strip('"'))
            if digest:
                found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                assert (digest, int(size)) == (f"sha256={found}", len(data)), name
        assert {line.split(",")[0].strip('"') for line in lines} == set(archive.namelist())


@pytest.mark.slow
def test_manual_pages_come_along(installed):
    assert (installed.parent / "share/man/man1/linewright-measure.1").exists()
    assert (installed.parent / "share/man/man3/linewright_percpu.3").exists()


@pytest.mark.slow
def test_the_installed_command_finds_its_probe(installed, outside):
    assert re.search(r"\bcpus?\b", outside(installed / "linewright", "topology"), re.I)


@pytest.mark.slow
def test_the_sdist_holds_what_the_build_needs_and_no_more(tmp_path):
    script = "import sys, scikit_build_core.build as b; print(b.build_sdist(sys.argv[1]))"
    builder = tmp_path / "builder"
    venv.create(builder, with_pip=True)
    run(builder / "bin/python", "-m", "pip", "install", "--no-input", "scikit-build-core>=0.12")
    name = run(builder / "bin/python", "-c", script, tmp_path, cwd=ROOT).split()[-1]
    with tarfile.open(tmp_path / name) as archive:
        members = [Path(*Path(member.name).parts[1:]) for member in archive.getmembers() if member.isfile()]
    tops = {member.parts[0] for member in members}
    needed = {
        "CMakeLists.txt",
        "LICENSE",
        "PACKAGE.md",
        "cmake",
        "find",
        "include",
        "linewright",
        "machines",
        "model",
        "probe",
        "pyproject.toml",
        "src",
        "torture",
        "wire",
        "workload",
    }
    assert needed <= tops
    assert tops <= needed | {"PKG-INFO", ".gitignore"}
    assert not [member for member in members if member.suffix in (".pyc", ".o", ".a")]
