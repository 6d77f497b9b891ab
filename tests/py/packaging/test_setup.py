"""Set-up: what it asks for, what it refuses, and that it leaves a machine alone that has everything."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from support.places import ROOT

TOOLS = (
    "bash",
    "cat",
    "chmod",
    "dirname",
    "env",
    "expand",
    "grep",
    "make",
    "mkdir",
    "sed",
    "sha256sum",
    "tail",
    "uname",
)


def script(path: Path, text: str) -> None:
    path.write_text(f"#!{shutil.which('bash')}\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


class Machine:
    """A pretended machine: a copy of the scripts, package lists of our own, and a PATH that holds what the test
    says."""

    def __init__(self, folder: Path, *, root: bool, apt: bool = True, python: str = "3.11.2"):
        self.checkout = folder / "checkout"
        self.bin = folder / "bin"
        self.calls = folder / "calls"
        self.bin.mkdir()
        shutil.copytree(ROOT / "scripts", self.checkout / "scripts")
        shutil.copy(ROOT / "Makefile", self.checkout)
        shutil.copy(ROOT / "pyproject.toml", self.checkout)
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        script(self.bin / "id", f"echo {0 if root else 1000}")
        self.fake_python(python)
        if apt:
            # Installing PACKAGE brings a program of that name, unless it is called broken.
            script(
                self.bin / "apt-get",
                f'echo "apt-get $*" >>"{self.calls}"\n'
                'case " $* " in *" install "*) ;; *) exit 0 ;; esac\n'
                f'for name in "$@"; do [[ $name == broken ]] && {{ echo "E: broken" >&2; exit 100; }}\n'
                f"  [[ $name == -* || $name == *=* || $name == install || $name == empty ]] || "
                f'{{ echo "#!{shutil.which("bash")}" >"{self.bin}/$name"; chmod +x "{self.bin}/$name"; }}; done',
            )
        self.packages(measure=("tool-a", "tool-b"), test=("tool-c",))

    def fake_python(self, version: str) -> None:
        """Knows its version, and makes a `.venv` whose pip notes that it was called and installs the command."""
        major_minor = tuple(int(part) for part in version.split(".")[:2])
        pip = f'echo "pip $*" >>"{self.calls}"; : >.venv/bin/linewright; chmod +x .venv/bin/linewright'
        script(
            self.bin / "python3",
            f'case "$*" in\n'
            f'  --version) echo "Python {version}" ;;\n'
            f"  *version_info*) exit {int(major_minor < (3, 11))} ;;\n"
            f'  *sys.executable*) echo "{version} {self.bin}/python3" ;;\n'
            f'  *venv*--clear*) echo "venv" >>"{self.calls}"; mkdir -p .venv/bin\n'
            f"    printf '%s\\n' '#!{shutil.which('bash')}' '{pip}' >.venv/bin/python; chmod +x .venv/bin/python ;;\n"
            f"esac",
        )

    def packages(self, **lists: tuple[str, ...]) -> None:
        for purpose, names in lists.items():
            lines = ["# a comment", ""] + [f"{name}  command:{name}" for name in names]
            (self.checkout / "scripts/packages" / f"{purpose}.txt").write_text("\n".join(lines) + "\n")

    def have(self, *programs: str) -> None:
        for program in programs:
            script(self.bin / program, "exit 0")

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command or ("scripts/setup.sh", "measure"),
            cwd=self.checkout,
            env={"PATH": str(self.bin), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=400,
        )

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


def test_not_root_and_something_missing_prints_one_apt_line(tmp_path):
    machine = Machine(tmp_path, root=False)
    machine.have("tool-a")
    done = machine.run()
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert re.search(r"apt-get install --no-install-recommends tool-b'$", done.stderr.strip())
    assert machine.called() == []
    assert not (machine.checkout / ".venv").exists()


def test_make_hands_the_refusal_on(tmp_path):
    done = Machine(tmp_path, root=False).run("make", "measure")
    assert done.returncode == 2
    assert "apt-get install --no-install-recommends tool-a tool-b'" in done.stderr


def test_not_root_and_nothing_missing_goes_on(tmp_path):
    machine = Machine(tmp_path, root=False)
    machine.have("tool-a", "tool-b")
    assert machine.run().returncode == 0
    assert [call.split()[0] for call in machine.called()] == ["venv", "pip"]


def test_root_installs_exactly_what_is_missing(tmp_path):
    machine = Machine(tmp_path, root=True)
    machine.have("tool-b")
    done = machine.run("scripts/setup.sh", "test")
    assert done.returncode == 0, done.stderr
    update, install = (call for call in machine.called() if call.startswith("apt-get"))
    assert update.endswith("update")
    assert install.endswith("install -y --no-install-recommends tool-a tool-c")


def test_second_run_sets_nothing_up_again(tmp_path):
    machine = Machine(tmp_path, root=True)
    assert machine.run().returncode == 0
    before = machine.called()
    done = machine.run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert machine.called() == before


def test_a_changed_pyproject_installs_again_but_keeps_the_venv(tmp_path):
    machine = Machine(tmp_path, root=True)
    machine.run()
    with (machine.checkout / "pyproject.toml").open("a") as file:
        file.write("# changed\n")
    machine.run()
    assert [call.split()[0] for call in machine.called()].count("pip") == 2
    assert machine.called().count("venv") == 1


def test_a_moved_checkout_gets_a_new_venv(tmp_path):
    machine = Machine(tmp_path, root=True)
    machine.run()
    machine.checkout = machine.checkout.rename(tmp_path / "moved")
    machine.run()
    assert machine.called().count("venv") == 2


def test_what_tests_need_covers_measuring_but_not_the_other_way_round(tmp_path):
    machine = Machine(tmp_path, root=True)
    machine.run("scripts/setup.sh", "measure")
    machine.run("scripts/setup.sh", "test")
    pips = [call for call in machine.called() if call.startswith("pip")]
    assert [call.split()[-1] for call in pips] == [".", ".[test]"]
    machine.run("scripts/setup.sh", "measure")
    assert [call for call in machine.called() if call.startswith("pip")] == pips


def test_without_apt_the_missing_programs_are_named(tmp_path):
    done = Machine(tmp_path, root=True, apt=False).run()
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "no apt-get" in done.stderr and "tool-a tool-b" in done.stderr


@pytest.mark.parametrize("root", [True, False])
def test_an_old_python_is_refused_before_anything_is_installed(tmp_path, root):
    machine = Machine(tmp_path, root=root, python="3.9.2")
    done = machine.run()
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "Python 3.9.2" in done.stderr and "3.11" in done.stderr
    assert machine.called() == []


def test_a_failing_installation_says_where_its_output_is(tmp_path):
    machine = Machine(tmp_path, root=True)
    machine.packages(measure=("broken",))
    done = machine.run()
    assert done.returncode == 3
    assert "E: broken" in done.stderr and "build/setup/apt.log" in done.stderr.splitlines()[-1]
    assert not (machine.checkout / ".venv").exists()


def test_an_unreachable_package_source_is_the_last_line(tmp_path):
    """apt's own: the update warns and succeeds, and the installation then knows no such package."""
    machine = Machine(tmp_path, root=True)
    warning = "W: Failed to fetch http://example.invalid/InRelease  Temporary failure resolving 'example.invalid'"
    script(
        machine.bin / "apt-get",
        f'case " $* " in *" update "*) echo "{warning}" ;; *) echo "E: Unable to locate package tool-a"; exit 100 ;;'
        " esac",
    )
    done = machine.run()
    assert done.returncode == 3
    assert ": Temporary failure resolving 'example.invalid' (" in done.stderr.splitlines()[-1]


def test_a_compiler_cache_that_cannot_be_written_is_not_used(tmp_path):
    machine = Machine(tmp_path, root=True)
    show = ("bash", "-c", '. scripts/lib.sh; echo "${CCACHE_DIR-unset}"')
    script(machine.bin / "ccache", "echo /proc/no/such/home/.cache/ccache")
    assert machine.run(*show).stdout.strip() == str(machine.checkout / "build/ccache")
    script(machine.bin / "ccache", f"echo '{tmp_path}/cache'")
    assert machine.run(*show).stdout.strip() == "unset"


def test_a_checkout_that_cannot_be_written_is_refused_in_one_line(tmp_path):
    machine = Machine(tmp_path, root=True)
    (machine.checkout / "build").write_text("in the way, also of root")
    done = machine.run()
    assert (done.returncode, done.stdout, machine.called()) == (2, "", [])
    assert len(done.stderr.splitlines()) == 1 and "checkout/build cannot be written" in done.stderr


def test_installed_but_still_not_found_is_said(tmp_path):
    machine = Machine(tmp_path, root=True)
    machine.packages(measure=("empty",))
    done = machine.run()
    assert done.returncode == 3
    assert "still not found: empty" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("scripts/setup.sh", "dancing"),
        ("scripts/test.sh", "dancing"),
        ("scripts/bench.sh", "dancing"),
        ("scripts/rooms.sh", "tests/fuzz", "dancing"),
    ],
)
def test_unknown_names_are_refused_in_one_line(command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and "dancing" in done.stderr


def test_this_checkout_is_set_up_and_stays_silent():
    """True wherever these tests run by `make test`; elsewhere there is nothing to find out."""
    if not (ROOT / ".venv/linewright-test").exists():
        pytest.skip("not run by make test")
    done = subprocess.run(("scripts/setup.sh", "test"), cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_package_lists_are_well_formed_and_spare_the_cross_compilers():
    seen = set()
    for path in sorted((ROOT / "scripts/packages").glob("*.txt")):
        for line in path.read_text().splitlines():
            if not line or line.startswith("#"):
                continue
            package, witness, *only = line.split()
            assert re.fullmatch(r"(command|header|file|python):\S+", witness), line
            assert only in ([], ["amd64"]), line
            assert package not in ("gcc-multilib", "g++-multilib"), "they remove the arm64 cross compilers"
            seen.add(package)
    assert {"g++", "cmake", "g++-12-multilib", "g++-aarch64-linux-gnu"} <= seen


def test_help_lists_every_target():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.M)[1].split()
    shown = subprocess.run(("make", "-C", ROOT, "--no-print-directory"), capture_output=True, text=True, timeout=400)
    assert shown.returncode == 0
    assert re.findall(r"^  ([a-z-]+) {2,}\S", shown.stdout, re.M) == targets


def version() -> str:
    return re.search(r'^__version__ = "(.+)"$', (ROOT / "linewright/__init__.py").read_text(), re.M)[1]


def test_the_debian_changelog_agrees_on_the_version():
    assert re.match(rf"linewright \({re.escape(version())}\) ", (ROOT / "debian/changelog").read_text())
    minor = version().rpartition(".")[0]
    assert f"Package: liblinewright{minor}\n" in (ROOT / "debian/control").read_text()
    assert f"liblinewright.so.{minor} " in (ROOT / f"debian/liblinewright{minor}.symbols").read_text()


def test_cmake_and_python_agree_on_the_version():
    caches = list((ROOT / "build").glob("*/CMakeCache.txt"))
    if not caches:
        pytest.skip("nothing configured in build/")
    for cache in caches:
        found = re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.+)$", cache.read_text(), re.M)[1]
        assert found == version(), cache
