# SPDX-License-Identifier: MIT
"""`linewright run`: the program takes the command's place, with the environment that switches it;
refusals are one line."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import signal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linewright import policy
from linewright.commands import run as run_command
from linewright.errors import UserError
from linewright.run.programs import find_audit
from linewright.trial import switching
from support import waiting
from support.arm64_programs import ROOT, SOURCES, build, needs_cross_compiler, strip

on_x86 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "i686"), reason="tells what happens on x86"
)
RUN = ("run",) if platform.machine() == "aarch64" else ("run", "--locks")
"""Programs that start others, such as a shell, run here with nothing of theirs changed."""
AUDIT = ROOT / "build/arm64/src/outline/liblinewright_audit.so"


@pytest.fixture(autouse=True)
def not_these_tests(monkeypatch):
    """A program takes the command's place: in this process that would end the tests without a
    word."""

    def refuse(program, *_):
        raise AssertionError(f"{program} would have taken the place of the tests")

    monkeypatch.setattr(os, "execve", refuse)


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_is_the_programs(command, code):
    answer = command.apart(*RUN, "--", "sh", "-c", f"echo out; exit {code}")
    assert (answer.returncode, answer.stdout) == (code, "out\n")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGKILL", "SIGPIPE", "SIGUSR1"])
def test_signals_reach_the_program(command, name):
    process = command.start(*RUN, "--", "sh", "-c", "echo ready; exec sleep 600")
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(getattr(signal, name))
    assert process.wait() == -getattr(signal, name)
    process.communicate()


def test_a_handler_of_the_program_is_asked(command):
    process = command.start(
        *RUN, "sh", "-c", "trap 'exit 42' TERM; echo ready; while :; do sleep 0.05; done"
    )
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    assert process.wait() == 42
    process.communicate()


@on_x86
def test_x86_has_nothing_to_switch_and_the_program_is_not_started(command):
    for words in (("--atomics", "llsc"), ()):
        said = command.refused("run", *words, "touch", "started")
        assert "nothing to switch: on x86_64 each atomic operation has one form" in said
    assert not (command.directory / "started").exists()


@pytest.mark.parametrize(
    ("given", "before"),
    [
        ({}, RUN),
        ({"LC_CTYPE": "C"}, RUN),
        ({"LC_CTYPE": "C.UTF-8"}, RUN),
        ({}, ["trial", "--env", "A=1", "--env", "A=2", "--runs", "2", "--set", "warmup=0"]),
    ],
)
def test_the_locale_is_the_one_that_was_given(command, given, before):
    """Python writes one of its own into its environment."""
    plain = {
        key: value
        for key, value in command.environment().items()
        if not key.startswith(("LC_", "LANG"))
    }
    answer = command.apart(
        *before, "--", "sh", "-c", "env | grep ^LC_ >> seen; true", env=plain | given
    )
    assert answer.returncode == 0, answer.stderr
    assert set((command.directory / "seen").read_text().split()) == {
        f"{key}={value}" for key, value in given.items()
    }


def test_options_behind_the_program_are_its_own(command):
    echo = ("sh", "-c", 'echo "$@"', "sh")
    answer = command.apart(*RUN, *echo, "--atomics", "-x", "--help")
    assert answer.stdout == "--atomics -x --help\n"
    assert command.apart(*RUN, "--", *echo, "--", "a").stdout == "-- a\n"


def test_refusals(command, tmp_path):
    assert "'near' is unknown" in command.refused("run", "--atomics", "near", "--", "true")
    assert "no such program: /absent" in command.refused(*RUN, "--", "/absent")
    assert "no such program: absent-one" in command.refused(*RUN, "absent-one")
    assert "a directory" in command.refused(*RUN, str(tmp_path) + "/")
    (tmp_path / "data").write_text("data")
    assert "not executable" in command.refused(*RUN, str(tmp_path / "data"))
    (tmp_path / "data").chmod(0o755)
    (tmp_path / "data").write_bytes(b"\x7fELFdamaged")
    answer = command.apart(*RUN, str(tmp_path / "data"))
    assert answer.returncode == 2 and "cannot run" in answer.stderr


class Replaced(Exception):
    """Stands in for the process that would have become the program."""


@pytest.fixture
def on_arm64(monkeypatch, tmp_path):
    """Runs the command as if on arm64; gives what would have been executed and what was said."""
    library = tmp_path / "liblinewright_audit.so"
    library.write_bytes(b"")
    monkeypatch.setenv("LINEWRIGHT_AUDIT", str(library))
    monkeypatch.delenv("LD_AUDIT", raising=False)
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    taken: dict = {"library": str(library), "said": []}

    def replace(program, command, environment):
        taken.update(program=program, command=command, environment=environment)
        raise Replaced

    monkeypatch.setattr(os, "execve", replace)
    monkeypatch.setattr(run_command, "note", taken["said"].append)

    def run(*command: str, **options) -> dict:
        with pytest.raises(Replaced):
            run_command.run(list(command), **({"atomics": "prefetch"} | options))
        return taken

    return run


def test_what_arm64_programs_are_given(on_arm64, monkeypatch):
    taken = on_arm64("sh", "-c", "true")
    assert taken["command"] == ["sh", "-c", "true"] and taken["program"] == shutil.which("sh")
    assert taken["environment"]["LD_AUDIT"] == taken["library"]
    assert taken["environment"]["LINEWRIGHT_ATOMICS"] == "prefetch"
    assert taken["environment"]["GLIBC_TUNABLES"] == "glibc.rtld.optional_static_tls=16384"
    assert "LINEWRIGHT_VERBOSE" not in taken["environment"]
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=1")
    assert (
        on_arm64("sh")["environment"]["GLIBC_TUNABLES"]
        == "glibc.malloc.check=1:glibc.rtld.optional_static_tls=16384"
    )
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=99999")
    assert on_arm64("sh")["environment"]["GLIBC_TUNABLES"] == "glibc.rtld.optional_static_tls=99999"
    monkeypatch.setenv("LD_AUDIT", f"/another.so:{taken['library']}")
    monkeypatch.setenv("LINEWRIGHT_VERBOSE", "1")
    taken = on_arm64("sh", atomics="llsc")
    assert taken["environment"]["LD_AUDIT"] == f"/another.so:{taken['library']}"
    assert (
        taken["environment"]["LINEWRIGHT_ATOMICS"] == "llsc"
        and taken["environment"]["LINEWRIGHT_VERBOSE"] == "1"
    )


@needs_cross_compiler
def test_what_cannot_be_reached_is_said_beforehand(on_arm64, tmp_path, monkeypatch):
    dynamic = build(tmp_path / "dynamic", SOURCES / "sums.c")
    assert on_arm64(str(dynamic))["said"] == []
    static = build(tmp_path / "static", SOURCES / "sums.c", "-static")
    assert "statically linked" in on_arm64(str(static))["said"][-1]
    musl = build(
        tmp_path / "musl", SOURCES / "sums.c", "-Wl,--dynamic-linker=/lib/ld-musl-aarch64.so.1"
    )
    assert "made for musl" in on_arm64(str(musl))["said"][-1]
    if platform.machine() == "aarch64" and os.path.exists("/bin/true"):
        assert "no arm64 program" in on_arm64("true")["said"][-1]
    other = build(tmp_path / "other", SOURCES / "sums.c")
    with (
        monkeypatch.context() as patch
    ):  # to give a file some takes root, and a file system that keeps them
        patch.setattr(
            os,
            "getxattr",
            lambda path, name: (
                b"some" if (path, name) == (str(dynamic), "security.capability") else b""
            ),
        )
        patch.setattr(os, "getuid", lambda: 1000)
        assert "file capabilities" in on_arm64(str(dynamic))["said"][-1]
        said = len(on_arm64(str(dynamic))["said"])
        patch.setattr(os, "getuid", lambda: 0)  # root gains no rights
        assert len(on_arm64(str(dynamic))["said"]) == said
    if os.geteuid() == 0:
        shutil.chown(other, "nobody")
        other.chmod(0o4755)
        assert "takes other rights (set-user-ID)" in on_arm64(str(other))["said"][-1]
    foreign = tmp_path / "arm"
    foreign.write_bytes(b"\x7fELF\1\1\1" + bytes(100))
    foreign.chmod(0o755)
    assert "is a 32-bit program" in on_arm64(str(foreign))["said"][-1]


@pytest.fixture(scope="module")
def wants_much_tls(tmp_path_factory):
    """A program two of whose libraries want 40,000 and 15,000 bytes of thread-local memory, the
    first from the start."""
    folder = tmp_path_factory.mktemp("tls")
    for name, size, model in (
        ("first", 40_000, "initial-exec"),
        ("second", 15_000, "global-dynamic"),
    ):
        source = folder / f"{name}.c"
        source.write_text(
            f"static __thread char room[{size}]; char *{name}(void) {{ return room; }}"
        )
        build(
            folder / f"lib{name}.so",
            source,
            "-shared",
            "-fPIC",
            f"-ftls-model={model}",
            f"-Wl,-soname,lib{name}.so",
        )
    (folder / "main.c").write_text(
        "#include <stdio.h>\nchar *first(void), *second(void);\n"
        "int main(void) { first()[1] = second()[1] = 1; static int v; __atomic_fetch_add(&v, 1, "
        "5); return"
        ' !puts("runs"); }'
    )
    return build(
        folder / "program",
        folder / "main.c",
        folder / "libfirst.so",
        folder / "libsecond.so",
        "-Wl,-rpath,$ORIGIN",
    )


@needs_cross_compiler
def test_the_static_tls_that_a_program_needs_is_asked_for(
    wants_much_tls, on_arm64, tmp_path, monkeypatch
):
    taken = on_arm64(str(wants_much_tls))
    room = int(taken["environment"]["GLIBC_TUNABLES"].rpartition("=")[2])
    assert 55_000 <= room <= 64_000 and taken["said"] == []
    monkeypatch.setenv("GLIBC_TUNABLES", f"{switching.TLS_TUNABLE}=1000")
    said = on_arm64(str(wants_much_tls))["said"]
    assert "gives 1000 bytes of thread-local memory; this program may need" in said[-1]
    monkeypatch.delenv("GLIBC_TUNABLES")
    missing = tmp_path / "program"
    shutil.copy(wants_much_tls, missing)
    shutil.copy(wants_much_tls.with_name("libsecond.so"), tmp_path)
    assert (
        "not found, so their thread-local memory is not provided for: libfirst.so"
        in on_arm64(str(missing))["said"][-1]
    )
    monkeypatch.setattr(switching, "_has_tunable", lambda interpreter: False)
    assert "knows no glibc.rtld.optional_static_tls" in on_arm64(str(wants_much_tls))["said"][-1]


@needs_cross_compiler
@pytest.mark.skipif(
    shutil.which("qemu-aarch64") is None or not AUDIT.is_file(),
    reason="needs the emulator and the arm64 library",
)
def test_with_that_room_the_program_starts_and_without_it_does_not(wants_much_tls):
    room = switching.tls_room(str(wants_much_tls))
    for room_given, starts in ((switching.TLS_LEAST, False), (room, True)):
        wanted = switching.switched({}, "prefetch", AUDIT, room_given)
        emulator = ["qemu-aarch64", "-cpu", "max", "-L", "/usr/aarch64-linux-gnu"]
        for name, value in wanted.items():
            emulator += ["-E", f"{name}={value}"]
        done = waiting.run([*emulator, wants_much_tls])
        assert (done.stdout == "runs\n") == starts, done.stderr
        assert starts or "static TLS" in done.stderr


def test_the_library_must_be_one_that_can_be_named(monkeypatch, tmp_path):
    monkeypatch.setenv("LINEWRIGHT_AUDIT", str(tmp_path / "absent.so"))
    with pytest.raises(UserError, match="no such file"):
        find_audit()
    odd = tmp_path / "with:colon"
    odd.mkdir()
    (odd / "a.so").write_bytes(b"")
    monkeypatch.setenv("LINEWRIGHT_AUDIT", str(odd / "a.so"))
    with pytest.raises(UserError, match="':'"):
        find_audit()


@needs_cross_compiler
@pytest.mark.skipif(
    shutil.which("qemu-aarch64") is None or not AUDIT.is_file(),
    reason="needs the emulator and the arm64 library",
)
def test_that_environment_switches_a_program(tmp_path):
    """What the command would set, given to an emulated program."""
    program = strip(build(tmp_path / "sums", SOURCES / "sums.c"))
    wanted = switching.switched({"LINEWRIGHT_VERBOSE": "1"}, "prefetch", AUDIT)
    emulator = [
        "qemu-aarch64",
        "-cpu",
        "max",
        "-L",
        "/usr/aarch64-linux-gnu",
        "-E",
        f"LD_AUDIT={wanted.pop('LD_AUDIT')}",
    ]
    done = waiting.run([*emulator, program], env=os.environ | wanted)
    assert (done.returncode, done.stdout) == (0, "sums exact\n")
    assert re.search(
        r"^linewright: audit\[\d+ sums.stripped\]: the program: 10 helpers found, 10 changed$",
        done.stderr,
        re.M,
    )


@pytest.fixture(scope="module")
def c_parser(tmp_path_factory):
    """The library's own parser of settings."""
    compiler = shutil.which("gcc") or pytest.skip("no native compiler")
    library = tmp_path_factory.mktemp("policy") / "policy.so"
    waiting.run(
        [
            compiler,
            "-shared",
            "-fPIC",
            "-I",
            ROOT / "include",
            "-o",
            library,
            ROOT / "src/atomic/policy_parse.c",
        ],
        check=True,
        text=False,
    )
    parse = ctypes.CDLL(str(library)).lw_policy_parse

    def read(text: str) -> dict[str, policy.Policy] | None:
        """What each class does; None of what is no setting."""
        found, count = ctypes.create_string_buffer(64), len(policy.CLASSES)
        if parse(text.encode(), found, None, ctypes.c_size_t(0)) != 0:
            return None
        forms, prefetched = found.raw[:count], found.raw[count : 2 * count]
        return {
            name: policy.Policy(("", *policy.FORMS)[form], bool(prefetch))
            for name, form, prefetch in zip(policy.CLASSES, forms, prefetched, strict=True)
        }

    return read


_words = st.sampled_from(
    [
        "default",
        "store",
        "load",
        "llsc",
        "prefetch",
        "void",
        "fetch",
        "xchg",
        "cas",
        "near",
        "",
        " load",
        "LOAD",
    ]
)
_items = st.one_of(_words, st.tuples(_words, _words).map("=".join), st.text("aloc=,d", max_size=6))


@settings(max_examples=500, deadline=None)
@given(st.lists(_items, max_size=4).map(",".join))
def test_settings_are_read_as_the_library_reads_them(c_parser, text):
    try:
        found = policy.read(text, "--atomics")
    except UserError as error:
        found = None
        assert "allowed: default" in str(error)
    assert found == c_parser(text), text
    if found is not None:
        assert policy.read(policy.setting(found), "again") == found
