"""`pip install .` in a fresh environment brings the command and the native probe; the sdist holds what that needs."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
import venv
from pathlib import Path

import pytest

from support.places import ROOT


def run(*command: object, **options) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=2400, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The `bin` folder of a fresh environment with `pip install .` done in it."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=True)
    run(folder / "bin/python", "-m", "pip", "install", "--no-input", "--prefer-binary", ROOT)
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
    # Nothing else of the native build comes along.
    assert {path.name for path in probe.parent.iterdir()} == {
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
