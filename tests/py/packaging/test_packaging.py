# SPDX-License-Identifier: MIT
"""The wheel of `make wheel` in a fresh environment brings the command, the programs for other
machines and the manual. Its platform tag is right, and the sdist holds what building it needs."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tarfile
import venv
from pathlib import Path

import pytest

from support import waiting
from support.compiled import compiled_again
from support.places import ROOT


def run(*command: object, **options) -> str:
    done = waiting.run([str(part) for part in command], **options)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """What `make wheel` makes, by `pip wheel .` and more."""
    return Path(run(ROOT / "scripts/wheel.sh", tmp_path_factory.mktemp("wheel")).strip())


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The `bin` folder of a fresh environment with the wheel in it."""
    folder = tmp_path_factory.mktemp("a folder") / "with spaces"
    venv.create(folder, with_pip=True)
    run(folder / "bin/python", "-m", "pip", "install", "--no-input", "--prefer-binary", wheel)
    return folder / "bin"


def package_of(installed: Path, outside) -> Path:
    return Path(
        outside(
            installed / "python", "-c", "import linewright; print(linewright.__path__[0])"
        ).strip()
    )


@pytest.fixture
def outside(installed, tmp_path):
    """Runs an installed program where neither the checkout nor its probe is in reach."""
    environment = {"PATH": f"{installed}:/usr/bin:/bin", "HOME": "/absent", "LANG": "C"}
    return lambda *command: run(*command, cwd=tmp_path, env=environment)


@pytest.mark.slow
def test_the_installed_command_knows_its_version(installed, outside):
    from linewright import __version__

    assert __version__ in outside(installed / "linewright", "--version")
    assert f"Version: {__version__}\n" in outside(
        installed / "python", "-m", "pip", "show", "linewright"
    )


def sent_elsewhere(arch: str) -> list[str]:
    """Names of what the command sends to other machines of an architecture."""
    return [line.split()[1] for line in run(ROOT / "scripts/for_others.sh", arch).splitlines()]


FOREIGN = {"i386": [], "arm64": ["qemu-aarch64"]} if os.uname().machine == "x86_64" else {}
"""The other architectures whose programs come along, and what starts them here."""


PLATFORMS = (
    ("x86_64", "haswell", "xeon_phi", "i686") if os.uname().machine == "x86_64" else ("aarch64",)
)
"""Folders of what is preloaded, by dynamic linkers' names for this machine."""


@pytest.mark.slow
def test_the_native_programs_come_along(installed, outside):
    where = package_of(installed, outside)
    assert not where.is_relative_to(ROOT)
    probe = where / "bin/linewright-probe"
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
        "liblinewright-rwlock.so",
        *PLATFORMS,
        *(name for arch in FOREIGN for name in sent_elsewhere(arch)),
    }
    assert not list(where.rglob("*.a")) and not list(where.rglob("*.h"))


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "form"), [("i386", "lock_xadd"), ("arm64", "ldadd")])
def test_the_programs_for_other_machines_come_along(
    installed, outside, tmp_path, arch: str, form: str
):
    if arch not in FOREIGN or not all(map(shutil.which, FOREIGN[arch])):
        pytest.skip(f"nothing here makes or starts programs for {arch}")
    outside(installed / "linewright", "probe", "--arch", arch, "--output", "copy")
    assert form in outside(*FOREIGN[arch], tmp_path / "copy", "--list-forms")
    programs = [name for name in sent_elsewhere(arch) if not name.endswith(".so")]
    assert {f"linewright-probe-{arch}", f"linewright-workload-{arch}"} <= set(programs)
    for name in programs:
        assert "--help" in outside(
            *FOREIGN[arch], package_of(installed, outside) / "bin" / name, "--help"
        )


@pytest.mark.slow
def test_the_platform_tag_is_what_auditwheel_finds(wheel):
    said = " ".join(run(sys.executable, "-m", "auditwheel", "show", wheel).split())
    found = re.search(r'consistent with the following platform tag: "([^"]+)"', said)[1]
    assert wheel.stem.rpartition("-")[2] in found.split("."), said


@pytest.mark.slow
def test_what_the_native_build_compiled_is_not_compiled_again(wheel):
    assert compiled_again("pip") == []


@pytest.mark.slow
def test_the_manual_comes_along(installed):
    pages = {path.name for path in (installed.parent / "share/man").rglob("*.[13]")}
    assert {"linewright.1", "linewright-measure.1", "linewright_percpu.3"} <= pages


@pytest.mark.slow
def test_the_installed_command_finds_its_probe(installed, outside):
    assert re.search(r"\bcpus?\b", outside(installed / "linewright", "topology"), re.I)


@pytest.mark.slow
def test_the_installed_command_measures(installed, outside, tmp_path):
    words = (
        "measure",
        "--plan",
        "quick",
        "--budget",
        "5s",
        "--format",
        "none",
        "--only",
        "plain_add",
        "--set",
        "launches=1",
    )
    outside(installed / "linewright", *words, "--output", "here.jsonl")
    assert "plain_add" in (tmp_path / "here.jsonl").read_text()
    assert "cpu" in outside(installed / "linewright", "show", "here.jsonl").lower()


@pytest.mark.slow
def test_the_sdist_holds_what_the_build_needs_and_no_more(tmp_path):
    script = "import sys, scikit_build_core.build as b; print(b.build_sdist(sys.argv[1]))"
    builder = tmp_path / "builder"
    venv.create(builder, with_pip=True)
    run(builder / "bin/python", "-m", "pip", "install", "--no-input", "scikit-build-core>=0.12")
    name = run(builder / "bin/python", "-c", script, tmp_path, cwd=ROOT).split()[-1]
    with tarfile.open(tmp_path / name) as archive:
        members = [
            Path(*Path(member.name).parts[1:]) for member in archive.getmembers() if member.isfile()
        ]
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


@pytest.mark.slow
def test_the_timed_loops_are_linked_where_the_linker_compiles_again(tmp_path):
    """As Ubuntu builds packages: they are compiled once, and stand at four places. The smallest
    family is linked; no other file of the probe is left to the linker either."""
    choose = [f"-DCMAKE_{language}_FLAGS_RELEASE=-O1 -flto=auto" for language in ("C", "CXX")]
    build = tmp_path / "build"
    run("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *choose)
    commands = {
        Path(one["file"]).name: re.findall(r" (-fno-lto|-flto\S*)", one["command"])
        for one in json.loads((build / "compile_commands.json").read_text())
        if " -o probe/CMakeFiles/linewright_" in one["command"]
    }
    assert len(commands) > 10
    assert [file for file, said in commands.items() if said != ["-flto=auto", "-fno-lto"]] == []
    places = [f"probe/handoff_{place}.o" for place in range(4)]
    run("cmake", "--build", build, "--target", *places)
    said = run("c++", "-flto=auto", "-r", "-nostdlib", *places, "-o", "all.o", cwd=build)
    assert "multiple" not in said
