# SPDX-License-Identifier: MIT
"""Set-up: what it asks for, what it refuses, and that it leaves a machine alone that has
everything."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from support import waiting
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
    "nproc",
    "sed",
    "sha256sum",
    "tail",
    "uname",
)


def script(path: Path, text: str) -> None:
    path.write_text(f"#!{shutil.which('bash')}\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


class Machine:
    """A pretended machine: a copy of the scripts, package lists of our own, and a PATH that holds
    what the test says."""

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
                f'for name in "$@"; do [[ $name == broken ]] && {{ echo "E: broken" >&2; exit '
                "100; }\n"
                f"  [[ $name == -* || $name == *=* || $name == install || $name == empty ]] || "
                f'{{ echo "#!{shutil.which("bash")}" >"{self.bin}/$name"; chmod +x '
                f'"{self.bin}/$name"; }}; done',
            )
        self.packages(measure=("tool-a", "tool-b"), test=("tool-c",))

    def fake_python(self, version: str) -> None:
        """Knows its version, and makes a `.venv` whose pip notes that it was called and installs
        uv, where there is one, or the command."""
        major_minor = tuple(int(part) for part in version.split(".")[:2])
        bash = shutil.which("bash")
        command = ": >.venv/bin/linewright; chmod +x .venv/bin/linewright"
        script(
            self.checkout.parent / "uv",
            f'echo "uv $*" >>"{self.calls}"\n'
            f'env | grep "^UV_" >{self.checkout.parent}/told\n'
            f"[[ ! -e {self.checkout}/no-wheel ]] && {{ {command}; }}",
        )
        script(
            self.checkout.parent / "venv-python",
            'case "$*" in *" config list") printf "%s\\n" "$PIP_SETTINGS"; exit ;; esac\n'
            f'echo "pip $*" >>"{self.calls}"\n'
            'case "$*" in\n'
            f'  *" uv") [[ ! $NO_UV ]] && cat "{self.checkout.parent}/uv" >.venv/bin/uv '
            "&& chmod +x .venv/bin/uv ;;\n"
            f"  *) {command} ;;\n"
            "esac",
        )
        script(
            self.bin / "python3",
            f'case "$*" in\n'
            f'  --version) echo "Python {version}" ;;\n'
            f"  *version_info*) exit {int(major_minor < (3, 11))} ;;\n"
            f'  *sys.executable*) echo "{version} {self.bin}/python3" ;;\n'
            f'  *venv*--clear*) echo "venv" >>"{self.calls}"; mkdir -p .venv/bin\n'
            f"    printf '%s\\n' '#!{bash}' '. {self.checkout.parent}/venv-python' "
            ">.venv/bin/python; chmod +x .venv/bin/python ;;\n"
            f"esac",
        )

    def packages(self, **lists: tuple[str, ...]) -> None:
        for purpose, names in lists.items():
            lines = ["# a comment", ""] + [f"{name}  command:{name}" for name in names]
            (self.checkout / "scripts/packages" / f"{purpose}.txt").write_text(
                "\n".join(lines) + "\n"
            )

    def have(self, *programs: str) -> None:
        for program in programs:
            script(self.bin / program, "exit 0")

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return waiting.run(
            command or ("scripts/setup.sh", "measure"),
            cwd=self.checkout,
            env={"PATH": str(self.bin), **environment},
            stdin=subprocess.DEVNULL,
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
    assert not (machine.checkout / "build").exists()
    script(machine.bin / "sudo", 'shift; exec /bin/sh "$@"')
    line = done.stderr.partition("this helps: ")[2]
    assert machine.run("bash", "-c", line).returncode == 0
    assert machine.run().returncode == 0, "nothing is missing then"


BY_MAKE = (("scripts/setup.sh", "measure"), ("make", "measure"), ("make", "test"))


def said_by_us(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines of a refusal, without those that make adds about the recipe that failed."""
    return [line for line in done.stderr.splitlines() if not line.startswith("make: *** ")]


@pytest.mark.parametrize("command", BY_MAKE)
@pytest.mark.parametrize(
    ("program", "says", "expected"),
    [
        ("uname", "Darwin", "Darwin is not supported"),
        ("cmake", "cmake version 3.22.1", "CMake 3.22.1; 3.25 or newer is needed"),
    ],
)
def test_what_is_not_supported_is_said_before_anything_is_made(
    tmp_path, program, says, expected, command
):
    machine = Machine(tmp_path, root=True)
    machine.have("tool-a", "tool-b")
    (machine.bin / program).unlink(missing_ok=True)
    script(machine.bin / program, f'echo "{says}"')
    for tool in ("sort", "head"):
        (machine.bin / tool).symlink_to(shutil.which(tool))
    machine.have("tool-c")
    done = machine.run(*command)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = said_by_us(done)
    assert expected in line
    assert machine.called() == [] and not (machine.checkout / ".venv").exists()


def test_cmake_refuses_another_kernel_before_anything_is_built(tmp_path):
    """As by pip, which runs none of our scripts."""
    words = ("cmake", "-S", ROOT, "-B", tmp_path, "-DCMAKE_SYSTEM_NAME=FreeBSD")
    done = waiting.run([str(word) for word in words])
    assert done.returncode == 1
    assert "FreeBSD is not supported: Linewright runs on Linux alone\n" in done.stderr
    assert not list(tmp_path.glob("**/*.ninja")) and not list(tmp_path.glob("**/Makefile"))


OLD = ("3.10", "3.9", "3.8")


@pytest.mark.slow
def test_pip_refuses_an_old_python_before_anything_is_built(tmp_path):
    interpreters = [
        str(path)
        for version in OLD
        for folder in (Path("/usr/bin"), *Path.home().glob(f".pyenv/versions/{version}.*/bin"))
        if (path := folder / f"python{version}").exists()
    ]
    if not interpreters:
        pytest.skip("no Python older than 3.11 here")
    pip = (interpreters[0], "-m", "pip", "install", "--no-deps", "--target", tmp_path / "into")
    done = waiting.run([str(word) for word in (*pip, ROOT)])
    assert done.returncode == 1
    (line,) = [text for text in done.stderr.splitlines() if text.startswith("ERROR")]
    assert "requires a different Python" in line and ">=3.11" in line
    assert "Building wheel" not in done.stdout and not (tmp_path / "into").exists()


def test_what_a_distribution_lacks_is_left_out_of_the_tests_set_up(tmp_path):
    machine = Machine(tmp_path, root=True)
    machine.have("tool-a", "tool-b")
    machine.packages(test=("tool-c", "clang-0", "browser", "other-name"))
    # Has the first; knows another package for each of the last two names, of which one is a snap.
    script(
        machine.bin / "apt-cache",
        'case "$*" in "show tool-c") echo "Package: tool-c" ;;\n'
        '"showpkg "*) printf "Package: $2\\nReverse Provides: \\n" ;; esac\n'
        'case "$*" in "showpkg browser") echo "x-browser 2:1snap1-0 (= )" ;;\n'
        '"showpkg other-name") echo "other-namet64 1 (= 1)" ;; esac',
    )
    if not list(Path("/var/lib/apt/lists").glob("*Packages*")):
        pytest.skip("this machine's apt has no lists, without which nothing is known to be lacking")
    done = machine.run("scripts/packages.sh", "test")
    assert done.returncode == 0, done.stderr
    assert "this distribution has no clang-0 browser:" in done.stderr
    assert [call for call in machine.called() if "clang-0" in call or "browser" in call] == []
    assert [call for call in machine.called() if call.endswith("tool-c other-name")]


def test_make_hands_the_refusal_on(tmp_path):
    done = Machine(tmp_path, root=False).run("make", "measure")
    assert done.returncode == 2
    assert "apt-get install --no-install-recommends tool-a tool-b'" in done.stderr


def test_not_root_and_nothing_missing_goes_on(tmp_path):
    machine = Machine(tmp_path, root=False)
    machine.have("tool-a", "tool-b")
    assert machine.run().returncode == 0
    assert [call.split()[0] for call in machine.called()] == ["venv", "pip", "uv"]


def test_root_installs_exactly_what_is_missing(tmp_path):
    machine = Machine(tmp_path, root=True)
    machine.have("tool-b")
    done = machine.run("scripts/setup.sh", "test")
    assert done.returncode == 0, done.stderr
    update, install = (call for call in machine.called() if call.startswith("apt-get"))
    assert update.endswith("update")
    assert install.endswith("install -y --no-install-recommends tool-a tool-c")


@pytest.mark.parametrize(
    ("words", "asked"), [("check", False), ("check tsan", True), ("all", True)]
)
def test_what_only_the_long_lane_needs_is_asked_for_there(tmp_path, words: str, asked: bool):
    machine = Machine(tmp_path, root=False)
    machine.have("tool-a", "tool-b", "tool-c")
    machine.packages(bench=("tool-c",), rest=("browser",))
    done = machine.run("make", "test", f"ARGS={words}")
    assert ("apt-get install --no-install-recommends browser" in done.stderr) == asked
    assert (machine.called() == []) == asked, "refused before anything is set up"


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
    assert [call.split()[0] for call in machine.called()].count("uv") == 2
    assert machine.called().count("venv") == 1


def test_a_set_up_that_did_not_end_is_begun_anew(tmp_path):
    """Killed, pip may leave half a library, which it takes for a whole one the next time."""
    machine = Machine(tmp_path, root=True)
    (machine.checkout / "no-wheel").touch()
    whole = (tmp_path / "venv-python").read_text()
    (tmp_path / "venv-python").write_text(f"[[ $* != *editable* ]] || exit 1\n{whole}")
    assert machine.run().returncode != 0
    (tmp_path / "venv-python").write_text(whole)
    assert machine.run().returncode == 0
    assert machine.called().count("venv") == 2
    before = machine.called()
    assert machine.run().returncode == 0 and machine.called() == before


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
    before = machine.called()
    installed = [call.split()[-1] for call in before if call.startswith("uv")]
    assert installed == [".[images]", ".[test]"]
    machine.run("scripts/setup.sh", "measure")
    assert machine.called() == before


def installers(machine: Machine) -> list[str]:
    return [f"{call.split()[0]} {call.split()[-1]}" for call in machine.called()[1:]]


def test_uv_takes_wheels_only_and_builds_nothing_but_the_command(tmp_path):
    machine = Machine(tmp_path, root=True)
    machine.have("tool-a", "tool-b")
    assert machine.run(PIP_SETTINGS="global.timeout='180'").returncode == 0
    assert installers(machine) == ["pip uv", "uv .[images]"]
    assert " --only-binary :all: --no-binary linewright " in machine.called()[-1]
    assert told(machine) == {"UV_SYSTEM_CERTS=true", "UV_FIND_LINKS="}


def told(machine: Machine) -> set[str]:
    """What uv gets in its environment."""
    return {*(machine.checkout.parent / "told").read_text().split("\n")} - {""}


@pytest.mark.parametrize(
    ("environment", "more"), [(None, ""), ("", ""), ("/opt/b /opt/d", ",/opt/b,/opt/d")]
)
def test_uv_looks_into_the_folders_that_pip_looks_into(tmp_path, environment, more):
    """As pip lists them: those of a file on lines, those of the environment with spaces."""
    machine = Machine(tmp_path, root=True)
    machine.have("tool-a", "tool-b")
    settings = r"global.find-links='\n/opt/a\n/srv/c'"
    if environment is not None:
        settings += f"\n:env:.find-links='{environment}'"
    assert machine.run(PIP_SETTINGS=settings).returncode == 0
    assert installers(machine) == ["pip uv", "uv .[images]"]
    assert f"UV_FIND_LINKS=/opt/a,/srv/c{more}" in told(machine)


@pytest.mark.parametrize("setting", ["global.index-url", ":env:.no-index", "install.proxy"])
def test_pip_installs_where_it_has_settings_that_uv_does_not_read(tmp_path, setting):
    machine = Machine(tmp_path, root=True)
    machine.have("tool-a", "tool-b")
    settings = f"global.timeout='180'\n{setting}='x'"
    assert machine.run(PIP_SETTINGS=settings).returncode == 0
    assert installers(machine) == ["pip pip>=22.1", "pip .[images]"]


def test_pip_installs_where_uv_cannot_be_had(tmp_path):
    machine = Machine(tmp_path, root=True)
    machine.have("tool-a", "tool-b")
    assert machine.run(NO_UV="1").returncode == 0
    assert installers(machine) == ["pip uv", "pip pip>=22.1", "pip .[images]"]


def test_pip_builds_what_has_no_wheel(tmp_path):
    machine = Machine(tmp_path, root=True)
    machine.have("tool-a", "tool-b")
    (machine.checkout / "no-wheel").touch()
    assert machine.run().returncode == 0
    assert installers(machine) == ["pip uv", "uv .[images]", "pip pip>=22.1", "pip .[images]"]


def beside(machine: Machine, venv: str, command: str) -> None:
    """`make measure`'s two jobs: what making .venv does, and the command beside it."""
    for tool in ("sleep", "touch"):
        (machine.bin / tool).symlink_to(shutil.which(tool))
    machine.have("tool-a", "tool-b")
    script(machine.checkout / "scripts/venv.sh", venv)
    script(machine.checkout / "command", command)


# Waits until the other one has begun; run one after the other they would wait for ever.
MEET = "touch {}; until [[ -e {} ]]; do sleep 0.01; done; "
BOTH = (MEET.format("venv-began", "command-began"), MEET.format("command-began", "venv-began"))


def test_the_command_runs_while_the_venv_is_made(tmp_path):
    machine = Machine(tmp_path, root=False)
    beside(machine, *BOTH)
    assert machine.run("scripts/setup.sh", "measure", "./command").returncode == 0


def wait_for_the_end(pid: Path) -> None:
    waiting.wait_for(lambda: not waiting.lives(int(pid.read_text())))


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("code", [3, 7])
def test_what_fails_ends_the_other_and_hands_its_code_on(tmp_path, failing, code):
    machine = Machine(tmp_path, root=False)
    jobs = [f"{meet} echo $$ >pid; exec sleep 3000" for meet in BOTH]
    # 3 is the code of a script that has said why.
    jobs[failing] = f"{BOTH[failing]} until [[ -s pid ]]; do sleep 0.01; done; exit {code}"
    beside(machine, *jobs)
    done = machine.run("scripts/setup.sh", "measure", "./command")
    assert done.returncode == code
    said = "linewright: making .venv or ./command ended with exit code 7\n" if code == 7 else ""
    assert done.stderr == said
    wait_for_the_end(machine.checkout / "pid")


def test_ctrl_c_ends_both(tmp_path):
    machine = Machine(tmp_path, root=False)
    jobs = [
        f"{meet} echo $$ >{name}; exec sleep 3000"
        for meet, name in zip(BOTH, ("a", "b"), strict=True)
    ]
    beside(machine, *jobs)
    whole = subprocess.Popen(
        ("scripts/setup.sh", "measure", "./command"),
        cwd=machine.checkout,
        env={"PATH": str(machine.bin)},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        # Tests that were started in the background ignore it, and so would the script.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    pids = [machine.checkout / name for name in ("a", "b")]
    try:
        waiting.wait_for(
            lambda: all(pid.exists() and pid.read_text().strip() for pid in pids), whole
        )
    finally:
        os.killpg(whole.pid, signal.SIGINT)  # as the terminal does
    assert whole.wait() == 130
    for pid in pids:
        wait_for_the_end(pid)


def test_without_apt_the_missing_programs_are_named(tmp_path):
    done = Machine(tmp_path, root=True, apt=False).run()
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "no apt-get" in done.stderr and "tool-a tool-b" in done.stderr


@pytest.mark.parametrize("command", BY_MAKE)
@pytest.mark.parametrize("root", [True, False])
def test_an_old_python_is_refused_before_anything_is_installed(tmp_path, root, command):
    machine = Machine(tmp_path, root=root, python="3.9.2")
    done = machine.run(*command)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = said_by_us(done)
    assert "Python 3.9.2" in line and "3.11" in line
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
    warning = (
        "W: Failed to fetch http://example.invalid/InRelease  Temporary failure resolving "
        "'example.invalid'"
    )
    script(
        machine.bin / "apt-get",
        f'case " $* " in *" update "*) echo "{warning}" ;; *) echo "E: Unable to locate package '
        'tool-a"; exit 100 ;;'
        " esac",
    )
    done = machine.run()
    assert done.returncode == 3
    assert ": Temporary failure resolving 'example.invalid' (" in done.stderr.splitlines()[-1]


def test_a_compiler_cache_that_cannot_be_written_is_not_used(tmp_path):
    machine = Machine(tmp_path, root=True)
    show = ("bash", "-c", '. scripts/lib.sh; echo "${CCACHE_DIR-unset}"')
    (tmp_path / "home").write_text("in the way, also of root")
    script(machine.bin / "ccache", f"echo '{tmp_path}/home/.cache/ccache'")
    assert machine.run(*show).stdout.strip() == str(machine.checkout / "build/ccache")
    script(machine.bin / "ccache", f"echo '{tmp_path}/cache'")
    assert machine.run(*show).stdout.strip() == "unset"
    assert not (tmp_path / "cache").exists(), "only what is built may make it"


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
    done = waiting.run(command, cwd=ROOT)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and "dancing" in done.stderr


def test_this_checkout_is_set_up_and_stays_silent():
    """True wherever these tests run by `make test`; elsewhere there is nothing to find out, and an
    environment that is another checkout's would be made anew."""
    if (ROOT / ".venv").is_symlink() or not (ROOT / ".venv/linewright-test").exists():
        pytest.skip("not run by make test")
    done = waiting.run(("scripts/setup.sh", "test"), cwd=ROOT)
    lacking = r"linewright: this distribution has no [^\n]*: what needs them is left out\n"
    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch(f"({lacking})?", done.stderr), "silent but for what no package brings"


def test_package_lists_are_well_formed_and_spare_the_cross_compilers():
    seen = set()
    for path in sorted((ROOT / "scripts/packages").glob("*.txt")):
        for line in path.read_text().splitlines():
            if not line or line.startswith("#"):
                continue
            package, witness, *only = line.split()
            assert re.fullmatch(r"(command|header|file|python):\S+", witness), line
            assert only in ([], ["amd64"]), line
            assert package not in ("gcc-multilib", "g++-multilib"), (
                "they remove the arm64 cross compilers"
            )
            seen.add(package)
    assert {"g++", "cmake", "g++-12-multilib", "g++-aarch64-linux-gnu"} <= seen


def test_help_lists_every_target():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.M)[1].split()
    shown = waiting.run(("make", "-C", ROOT, "--no-print-directory"))
    assert shown.returncode == 0
    assert re.findall(r"^  ([a-z-]+) {2,}\S", shown.stdout, re.M) == targets


def version() -> str:
    return re.search(
        r'^__version__ = "(.+)"$', (ROOT / "linewright/__init__.py").read_text(), re.M
    )[1]


def test_the_debian_changelog_agrees_on_the_version():
    assert re.match(
        rf"linewright \({re.escape(version())}\) ", (ROOT / "debian/changelog").read_text()
    )
    minor = version().rpartition(".")[0]
    assert f"Package: liblinewright{minor}\n" in (ROOT / "debian/control").read_text()
    assert (
        f"liblinewright.so.{minor} " in (ROOT / f"debian/liblinewright{minor}.symbols").read_text()
    )


def test_cmake_and_python_agree_on_the_version():
    caches = list((ROOT / "build").glob("*/CMakeCache.txt"))
    if not caches:
        pytest.skip("nothing configured in build/")
    for cache in caches:
        found = re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.+)$", cache.read_text(), re.M)[1]
        assert found == version(), cache
