# SPDX-License-Identifier: MIT
"""`--locks` of `run` and `trial`, and what `inspect` says of them: which programs get other
readers-writer locks, which library calls them, and who is refused."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from ctypes.util import find_library
from pathlib import Path

import pytest

from linewright.commands import run as run_command
from linewright.elf import lock_calls
from linewright.errors import UserError
from linewright.run import programs
from linewright.run.programs import find_rwlock
from linewright.trial import trial_file
from support import seccomp, waiting
from support.arm64_programs import build as build_for_arm64
from support.arm64_programs import needs_cross_compiler
from support.network import own_network

PROGRAM = """
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
void library(void);
static void read_often(int times)
{
    while (times--) {
        pthread_rwlock_rdlock(&table);
        pthread_rwlock_unlock(&table);
    }
}
int main(int count, char **words)
{
    read_often(1000);
    for (int i = 0; i < 7; i++) {
        pthread_rwlock_wrlock(&table);
        pthread_rwlock_unlock(&table);
    }
    library();
    if (count > 1)
        puts(getenv(words[1]) ? getenv(words[1]) : "unset");
    return 9;
}
"""
EMPTY = "int main(void) { return 0; }"
LIBRARY = """
#include <pthread.h>
static pthread_rwlock_t own;
void library(void)
{
    pthread_rwlock_init(&own, 0);
    for (int i = 0; i < 3; i++) {
        pthread_rwlock_tryrdlock(&own);
        pthread_rwlock_unlock(&own);
    }
}
"""


def compiled(folder: Path, name: str, text: str, *arguments: str) -> Path:
    (folder / f"{name}.c").write_text(text)
    words = ["gcc", "-O1", "-pthread", folder / f"{name}.c", *arguments, "-o", folder / name]
    waiting.run(words, check=True)
    return folder / name


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A program whose library has a lock, too; one that is linked statically; one without locks."""
    made = tmp_path_factory.mktemp("programs")
    compiled(made, "libuses.so", LIBRARY, "-shared", "-fPIC", "-Wl,-soname,libuses.so")
    compiled(made, "program", PROGRAM, str(made / "libuses.so"), "-Wl,-rpath,$ORIGIN", "-rdynamic")
    compiled(made, "static", PROGRAM + LIBRARY.partition("h>")[2], "-static")
    compiled(made, "lockless", EMPTY)
    return made


@pytest.fixture(scope="module", autouse=True)
def apart():
    """A run of another test must not be the other run that is refused here."""
    with own_network():
        yield


@pytest.fixture
def with_library():
    try:
        find_rwlock()
    except UserError:
        pytest.skip("liblinewright-rwlock.so is not built")


def test_run_replaces_the_locks_and_statistics_say_which(command, folder, with_library):
    env = command.environment() | {"LINEWRIGHT_RWLOCK_STATISTICS": "1"}
    answer = command.apart("run", "--locks", "--", str(folder / "program"), env=env)
    assert answer.returncode == 9 and answer.stdout == ""
    head, columns, *rows = answer.stderr.splitlines()
    assert re.fullmatch(r"linewright-rwlock\[\d+ program\]: 2 locks", head)
    assert columns.split()[:3] == ["reads", "writes", "revocations"]
    (reads, writes, revocations, _, where), second = (row.split()[:5] for row in rows)
    assert (reads, writes, where.partition("+")[0]) == ("1000", "7", str(folder / "program"))
    assert 1 <= int(revocations) <= 7, "a thousand reads made it biased, and a writer ended that"
    assert second[:3] == ["3", "0", "0"]
    assert Path(second[4].partition("+")[0]).name == "libuses.so", "where it was initialised"


OPENS = """
#define _GNU_SOURCE
#include <dlfcn.h>
int main(int count, char **words)
{
    void *opened =
        count > 2 ? dlmopen(LM_ID_NEWLM, words[1], RTLD_NOW) : dlopen(words[1], RTLD_NOW);
    void (*library)(void) = (void (*)(void))dlsym(opened, "library");
    library();
    return 9;
}
"""


@pytest.mark.parametrize(("own_namespace", "locks"), [([], 1), (["dlmopen"], 0)])
def test_a_library_that_is_opened_later_has_other_locks_unless_in_a_namespace_of_its_own(
    command, folder, with_library, own_namespace, locks
):
    program = compiled(command.directory, "opens", OPENS)
    env = command.environment() | {"LINEWRIGHT_RWLOCK_STATISTICS": "1"}
    words = [str(program), str(folder / "libuses.so"), *own_namespace]
    answer = command.apart("run", "--locks", "--", *words, env=env)
    assert answer.returncode == 9, answer.stderr
    (counted,) = re.findall(r"^linewright-rwlock.* (\d+) locks?$", answer.stderr, re.MULTILINE)
    assert int(counted) == locks
    assert bool(re.search(r"^ +3 +0 +0 ", answer.stderr, re.MULTILINE)) == bool(locks)


def test_what_is_preloaded_already_stays(command, folder, with_library):
    other = compiled(command.directory, "other.so", "int other;", "-shared", "-fPIC")
    env = command.environment() | {"LD_PRELOAD": str(other)}
    answer = command.apart("run", "--locks", str(folder / "program"), "LD_PRELOAD", env=env)
    named = programs.name_of(find_rwlock())
    assert answer.stdout == f"{named}:{other}\n" and answer.stderr == ""


def test_atomics_stay_as_they_are_unless_they_are_asked_for(command, folder, with_library):
    answer = command.apart("run", "--locks", str(folder / "program"), "LINEWRIGHT_ATOMICS")
    assert (answer.stdout, answer.stderr) == ("unset\n", "")
    both = command.apart("run", "--locks", "--atomics", "llsc", str(folder / "program"))
    refused = os.uname().machine != "aarch64"
    assert both.returncode == 2 * refused and ("nothing to switch" in both.stderr) == refused


@pytest.mark.parametrize("words", [("run",), ("trial", "--runs", "2")])
def test_a_program_that_can_take_no_such_lock_is_refused(command, folder, with_library, words):
    said = command.refused(*words, "--locks", "--", str(folder / "lockless"))
    assert f"{folder}/lockless and its libraries call no pthread_rwlock_*" in said


BRINGS = ("dlopen", "execve", "posix_spawnp", "system", "popen", "syscall")


@pytest.mark.parametrize("function", BRINGS)
def test_a_program_that_may_bring_such_calls_runs_and_is_named(
    command, tmp_path, with_library, function
):
    source = f"extern int {function}();\nint main(int n) {{ return n > 9 ? {function}() : 7; }}\n"
    flags = "-Wno-builtin-declaration-mismatch"
    program = compiled(tmp_path, "starter", source, flags)
    answer = command.apart("run", "--locks", str(program))
    assert answer.returncode == 7 and answer.stderr.count("\n") == 1
    assert f"neither {program} nor a library loaded with it calls" in answer.stderr


SANITIZED = [
    ("address", "AddressSanitizer"),
    ("thread", "ThreadSanitizer"),
    ("leak", "LeakSanitizer"),
]


@pytest.mark.parametrize(("sanitizer", "name"), SANITIZED)
def test_a_program_whose_sanitizer_must_be_first_is_refused(
    command, tmp_path, with_library, sanitizer, name
):
    program = compiled(tmp_path, "program", EMPTY, f"-fsanitize={sanitizer}")
    for before in (["run", "--locks"], ["trial", "--locks", "--runs", "2"]):
        said = command.refused(*before, "--", str(program))
        assert f"{program} is compiled with {name}, whose library must be the first" in said
    said = " ".join(command("inspect", str(program)).stdout.split())
    assert f"`linewright run --locks` refuses it: it is compiled with {name}" in said


def test_a_sanitizer_that_is_linked_statically_finds_the_functions_behind_its_own(
    command, tmp_path, with_library
):
    """It asks dlsym() for them before any function of the program or the C library can run."""
    text = PROGRAM + LIBRARY.partition("h>")[2]
    program = compiled(tmp_path, "program", text, "-fsanitize=address", "-static-libasan")
    env = command.environment() | {"LINEWRIGHT_RWLOCK_STATISTICS": "1"}
    answer = command.apart("run", "--locks", str(program), env=env)
    assert answer.returncode == 9 and "program]: 2 locks" in answer.stderr


@pytest.mark.parametrize("compiler", [["musl-gcc"], ["gcc", "-m32"]])
def test_children_that_cannot_have_the_library_run_unchanged(
    command, folder, tmp_path, with_library, compiler
):
    child = tmp_path / "child"
    (tmp_path / "child.c").write_text(PROGRAM + LIBRARY.partition("h>")[2])
    words = [*compiler, "-pthread", str(tmp_path / "child.c"), "-o", str(child)]
    if shutil.which(compiler[0]) is None or waiting.run(words).returncode:
        pytest.skip(f"{' '.join(compiler)} makes no programs here")
    script = f"{folder}/program; echo $?; {child} LD_PRELOAD; echo $?"
    env = command.environment() | {"LINEWRIGHT_RWLOCK_STATISTICS": "1"}
    answer = command.apart("run", "--locks", "--", "sh", "-c", script, env=env)
    named = programs.name_of(find_rwlock())
    assert answer.stdout == f"9\n{named}\n9\n", answer.stderr
    assert answer.stderr.count("program]: 2 locks") == 1 and "child]" not in answer.stderr
    assert "ERROR" not in answer.stderr and "Error" not in answer.stderr


def test_a_child_whose_sanitizer_must_be_first_runs_with_the_users_options(
    command, tmp_path, with_library
):
    """It would end itself at its start."""
    text = PROGRAM + LIBRARY.partition("h>")[2]
    child = compiled(tmp_path, "child", text, "-fsanitize=address")
    env = command.environment() | {"ASAN_OPTIONS": "exitcode=23"}
    script = f"{child} ASAN_OPTIONS; echo $?"
    answer = command.apart("run", "--locks", "--", "sh", "-c", script, env=env)
    assert answer.stdout == "exitcode=23:verify_asan_link_order=0\n9\n", answer.stderr


@pytest.mark.parametrize("before", [["run", "--locks"], ["trial", "--locks", "--runs", "2"]])
def test_programs_that_nothing_is_preloaded_into_are_refused(command, folder, tmp_path, before):
    said = command.refused(*before, "--", str(folder / "static"))
    assert f"{folder}/static: it is statically linked" in said
    musl = shutil.copy(folder / "lockless", tmp_path / "musl")
    at = musl.read_bytes().index(
        b"/lib64/ld-linux" if b"/lib64/ld" in musl.read_bytes() else b"/lib/ld-linux"
    )
    name = musl.read_bytes()[at : musl.read_bytes().index(b"\0", at)]
    musl.write_bytes(musl.read_bytes().replace(name, b"/lib/ld-musl".ljust(len(name), b"x"), 1))
    assert f"{musl}: it is made for musl" in command.refused(*before, "--", str(musl))
    if os.geteuid() == 0:
        rights = shutil.copy(folder / "lockless", tmp_path / "rights")
        shutil.chown(rights, "nobody")
        rights.chmod(0o4755)
        said = command.refused(*before, "--", str(rights))
        assert f"{rights} takes other rights (set-user-ID)" in said


def test_the_switch_of_the_statistics_is_1_or_0(command, folder, with_library, monkeypatch):
    given = command.environment() | {"LINEWRIGHT_RWLOCK_STATISTICS": "yes"}
    monkeypatch.setattr(command, "environment", lambda: given)
    said = command.refused("run", "--locks", str(folder / "program"))
    assert "LINEWRIGHT_RWLOCK_STATISTICS: 'yes' is no setting" in said
    for value, lines in (("yes", 1), ("0", 0), ("", 0)):
        by_hand = {"LD_PRELOAD": str(find_rwlock()), "LINEWRIGHT_RWLOCK_STATISTICS": value}
        done = waiting.run([folder / "program"], env=os.environ | by_hand)
        assert (done.returncode, done.stderr.count("\n")) == (9, lines), done.stderr
        assert lines == 0 or "LINEWRIGHT_RWLOCK_STATISTICS=yes counts nothing" in done.stderr


@pytest.mark.skipif(find_library("seccomp") is None, reason="libseccomp is not installed")
def test_a_sandbox_that_refuses_membarrier_leaves_locks_plain_and_says_so_once(
    command, folder, with_library
):
    env = command.environment() | {"LINEWRIGHT_RWLOCK_STATISTICS": "1"}
    words = ["run", "--locks", str(folder / "program")]
    options = {"env": env, "preexec_fn": seccomp.refusing("membarrier")}
    answer = command.apart(*words, **options)
    assert answer.returncode == 9
    head, _, first, _ = answer.stderr.splitlines()
    assert head.endswith("2 locks; all stayed plain: membarrier is not available")
    assert first.split()[:3] == ["1000", "7", "0"], "no writer had a bias to end"
    said = command.apart(*words, **options | {"env": env | {"LINEWRIGHT_VERBOSE": "1"}}).stderr
    assert said.count("membarrier is not available: readers-writer locks stay plain") == 1


def test_the_library_must_be_one_that_can_be_named(command, folder, tmp_path, monkeypatch):
    odd = tmp_path / "with space"
    odd.mkdir()
    (odd / "a.so").write_bytes(b"")
    monkeypatch.setenv("LINEWRIGHT_RWLOCK_LIBRARY", str(odd / "a.so"))
    with pytest.raises(UserError, match="or a space"):
        find_rwlock()
    monkeypatch.setenv("LINEWRIGHT_RWLOCK_LIBRARY", str(tmp_path / "absent.so"))
    with pytest.raises(UserError, match="no such file"):
        find_rwlock()


@needs_cross_compiler
@pytest.mark.skipif(os.uname().machine == "aarch64", reason="another architecture's program")
def test_the_library_is_of_the_programs_architecture(tmp_path, monkeypatch):
    program = build_for_arm64(tmp_path / "program", compiled_source(tmp_path))
    monkeypatch.setenv("LINEWRIGHT_RWLOCK_LIBRARY_ARM64", str(tmp_path / "arm64.so"))
    (tmp_path / "arm64.so").write_bytes(b"")
    taken = []
    monkeypatch.setattr(os, "execve", lambda *words: taken.append(words))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    run_command.run([str(program)], locks=True)
    assert taken[0][2]["LD_PRELOAD"] == str(tmp_path / "arm64.so")


def compiled_source(folder: Path) -> Path:
    (folder / "lone.c").write_text(
        "int system(const char *);\nint main(void) { return system(0); }"
    )
    return folder / "lone.c"


def test_inspect_says_who_calls_them(command, folder, tmp_path):
    said = " ".join(command("inspect", str(folder / "program")).stdout.split())
    assert "can replace the readers-writer locks of program, libuses.so." in said
    locks = json.loads(command("inspect", "--json", str(folder / "program")).stdout)["locks"]
    read = ["pthread_rwlock_rdlock", "pthread_rwlock_unlock", "pthread_rwlock_wrlock"]
    assert locks["calls"] == {
        str(folder / "program"): read,
        str(folder / "libuses.so"): [
            "pthread_rwlock_init", "pthread_rwlock_tryrdlock", "pthread_rwlock_unlock"],
    }  # fmt: skip
    assert (locks["missing"], locks["refusal"]) == ([], "")
    said = command("inspect", str(folder / "lockless")).stdout
    assert "Neither it nor a library loaded with it calls pthread_rwlock_*." in said
    alone = shutil.copy(folder / "program", tmp_path / "alone")
    said = " ".join(command("inspect", str(alone)).stdout.split())
    assert "the readers-writer locks of alone. Not found: libuses.so." in said
    said = " ".join(command("inspect", str(folder / "static")).stdout.split())
    assert "`linewright run --locks` refuses it: it is statically linked" in said
    assert "(it has pthread_rwlock_*)" in said


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("pthread_rwlock_rdlock", "pthread_rwlock_rdlock"),
        ("__pthread_rwlock_timedwrlock64", "pthread_rwlock_timedwrlock"),
        ("pthread_rwlock_clockrdlock", "pthread_rwlock_clockrdlock"),
        ("pthread_rwlockattr_init", None),
        ("pthread_rwlock_rdlock_np", None),
        ("my_pthread_rwlock_init", None),
    ],
)
def test_names_of_calls(name, call):
    assert lock_calls._called([name]) == ((call,) if call else ())


COUNT = "grep -c liblinewright-rwlock /proc/$$/maps | sed 's/^0$/1/;s/^/mapped /'"
"""Lines of a process's memory map that name the library; 1 where there is none."""


@pytest.mark.parametrize("on", [[], ["--on", "exec:env"]])
def test_trial_compares_the_program_as_it_is_with_other_locks(real, with_library, on):
    words = ["--runs", "7", "--set", "warmup=0", "--metric", r"mapped (\d+)", "--output", "t.jsonl"]
    done = real("trial", *on, "--locks", *words, "--json", "--", "sh", "-c", COUNT)
    assert done.returncode == 0, done.stderr
    values = {
        name: {
            s.value
            for s in trial_file.read(str(real.directory / "t.jsonl"), print).samples
            if s.setting == name
        }
        for name in ("as is", "locks")
    }
    assert values["as is"] == {1.0} and min(values["locks"]) > 1
    session = json.loads(done.stdout)["session"]
    before, after = (setting["environment"] for setting in session["settings"])
    length = lambda environment: sum(len(k + v) for k, v in environment.items())
    assert length(before) == length(after) and before.keys() == after.keys()


def test_a_trial_of_locks_goes_on(real, with_library):
    words = ["--runs", "2", "--set", "warmup=0", "--output", "t.jsonl", "--", "sh", "-c", "exit 0"]
    assert real("trial", "--on", "exec:env", "--locks", *words).returncode == 0
    lines = (real.directory / "t.jsonl").read_text().splitlines()
    (real.directory / "t.jsonl").write_text("\n".join(lines[:-1]) + "\n")
    done = real("trial", "--resume", "t.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["failures"] == [], "the library was sent again"


@pytest.mark.parametrize(
    "other", [["--pad", "main"], ["--env", "A=1"], ["--settings", "default/prefetch"]]
)
def test_locks_are_a_trial_of_their_own(command, other):
    said = command.refused("trial", "--locks", *other, "--", "true")
    assert "--locks with other settings" in said
