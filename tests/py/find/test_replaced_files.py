# SPDX-License-Identifier: MIT
"""A program's file that was replaced while the program runs: names come from the file that it
mapped, or from none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from linewright.find import mapped_files
from linewright.find.addresses import Names
from linewright.find.line_words import note_text
from linewright.find.mapped_files import Files
from linewright.find.results import note
from linewright.find.space import Spaces
from linewright.find.stream import Map
from support.finding import sampled

PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static long NAME_counter __attribute__((aligned(128)));
__attribute__((noinline)) static void *NAME_work(void *none) {
    for (;;) __atomic_fetch_add(&NAME_counter, 1, __ATOMIC_SEQ_CST);
    return none;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, NAME_work, NULL);
    puts("runs"), fflush(stdout);
    NAME_work(NULL);
}
"""


def compiled(path, name: str, *options: str) -> None:
    source = path.with_name(f"{name}.c")
    source.write_text(PROGRAM.replace("NAME", name))
    subprocess.run(["gcc", "-O1", "-g", *options, "-pthread", "-o", path, source], check=True)


@pytest.fixture
def running(tmp_path) -> Iterator[subprocess.Popen]:
    """A running program, with another build of it beside its file."""
    if shutil.which("gcc") is None:
        pytest.skip("no compiler")
    compiled(tmp_path / "server", "old")
    compiled(tmp_path / "other", "new")
    with subprocess.Popen([tmp_path / "server"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "runs\n"
        yield process
        process.kill()


def replace(directory) -> None:
    os.replace(directory / "other", directory / "server")


@pytest.fixture
def replaced(running, tmp_path) -> subprocess.Popen:
    """The same, whose file is the other build by now."""
    replace(tmp_path)
    return running


def mapped(pid: int) -> list[Map]:
    """What the sampler says of the files that a process has mapped."""
    found = []
    for line in open(f"/proc/{pid}/maps"):
        span, mode, offset, device, inode, *path = line.split(maxsplit=5)
        start, end = (int(at, 16) for at in span.split("-"))
        major, minor = (int(part, 16) for part in device.split(":"))
        found.append(
            Map(
                time_ns=0,
                pid=pid,
                start=start,
                length=end - start,
                offset=int(offset, 16),
                device=major << 32 | minor,
                inode=int(inode),
                path=path[0].strip() if path else "",
                executable="x" in mode,
                writable="w" in mode,
                shared="s" in mode,
            )
        )
    return found


def functions_of(names: Names, code: Map) -> set[str]:
    """What the addresses of a mapping are named."""
    inside = range(code.start, code.start + code.length, 4)
    return {names.name(code.pid, at).function for at in inside}


def test_a_program_whose_file_was_replaced_is_named_by_the_old_one(
    sampling, replaced, found
) -> None:
    result = sampled(lambda seconds: found("--pid", replaced.pid, "--for", seconds))
    line = result["lines"][0]
    assert line["object"] == "old_counter"
    assert {site["function"] for site in line["sites"]} == {"old_work"}
    assert not any("replaced" in note for note in result["notes"])


@pytest.mark.parametrize("goes", [replace, lambda folder: (folder / "server").unlink()])
@pytest.mark.parametrize("seen", ["before", "after", "never"])
def test_a_file_that_goes_during_the_run_is_named_or_missed_in_words(
    running, tmp_path, goes, seen
) -> None:
    """Replaced or deleted, before names are asked for, at which the process has ended: what it
    mapped is known where its mapping was heard of in time, and no other file names it."""
    program, spaces, lines = tmp_path / "server", Spaces(Files()), mapped(running.pid)

    def end() -> None:
        running.kill()
        running.wait()

    def hear() -> None:
        for line in lines:
            spaces.take(line)

    steps = {
        "before": (hear, lambda: goes(tmp_path), end),
        "after": (lambda: goes(tmp_path), hear, end),
        "never": (lambda: goes(tmp_path), end, hear),
    }
    for step in steps[seen]:
        step()
    spaces.store.look_anew()
    code = next(m for m in lines if m.executable and m.path == str(program))
    functions = functions_of(Names(spaces), code)
    assert "new_work" not in functions and ("old_work" in functions) == (seen != "never")
    gone = {} if seen != "never" else {str(program): "replaced"}
    assert spaces.store.left_out == gone
    assert not gone or "replaced or deleted" in note_text(note("replaced", str(program)))


def test_files_beyond_those_held_open_are_read_by_their_names(running, monkeypatch) -> None:
    monkeypatch.setattr(mapped_files, "MOST_OPEN", 0)
    spaces, lines = Spaces(Files()), mapped(running.pid)
    for line in lines:
        spaces.take(line)
    spaces.store.look_anew()
    code = next(m for m in lines if m.executable and "server" in m.path)
    assert "old_work" in functions_of(Names(spaces), code)
    assert spaces.store.left_out == {}


def test_two_files_of_one_path_keep_their_names_apart(replaced, tmp_path) -> None:
    """A server that was upgraded: the old process still runs beside the new one."""
    with subprocess.Popen([tmp_path / "server"], stdout=subprocess.PIPE, text=True) as second:
        assert second.stdout.readline() == "runs\n"
        spaces = Spaces(Files())
        pids = (replaced.pid, second.pid)
        for line in [line for pid in pids for line in mapped(pid)]:
            spaces.take(line)
        names, seen = Names(spaces), []
        for pid in pids:
            code = next(m for m in mapped(pid) if m.executable and "server" in m.path)
            seen.append(functions_of(names, code))
        second.kill()
    assert "old_work" in seen[0] and "new_work" not in seen[0]
    assert "new_work" in seen[1] and "old_work" not in seen[1]


def test_a_file_with_another_number_is_read_where_its_build_id_is_in_memory(
    replaced, tmp_path, monkeypatch
) -> None:
    """As in a file system that numbers files otherwise in mappings."""
    code = next(m for m in mapped(replaced.pid) if m.executable and "server" in m.path)
    again, wrong = tmp_path / "again", tmp_path / "server"
    shutil.copy(f"/proc/{replaced.pid}/exe", again)
    monkeypatch.setattr(os, "stat", without_links(os.stat))
    for path, right in ((again, True), (wrong, False)):
        files = Files()
        line = Map(**{f: getattr(code, f) for f in code.__struct_fields__} | {"path": str(path)})
        files.mapped(line)
        assert files.here(str(path)) == (str(path) if right else "")
        assert files.left_out == ({} if right else {str(path): "replaced"})


def without_links(stat):
    """os.stat where the kernel does not let us follow its links to mapped files."""

    def refusing(path, *rest, **more):
        if str(path).startswith("/proc/") and ("/exe" in str(path) or "/map_files" in str(path)):
            raise PermissionError(path)
        return stat(path, *rest, **more)

    return refusing


def test_a_program_of_another_root_is_read_there(sampling, found, tmp_path) -> None:
    """The path of a program in a chroot leads to another file out here, or to none."""
    if os.geteuid() != 0 or shutil.which("gcc") is None:
        pytest.skip("only root can change its root")
    root = tmp_path / "root"
    root.mkdir()
    compiled(tmp_path / "inside", "old", "-static")
    compiled(tmp_path / "server", "new")
    shutil.move(tmp_path / "inside", root / "server")
    (root / str(tmp_path)[1:]).mkdir(parents=True)
    shutil.move(root / "server", root / str(tmp_path)[1:] / "server")
    words = ["chroot", root, tmp_path / "server"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "runs\n"
        result = sampled(lambda seconds: found("--pid", process.pid, "--for", seconds))
        process.kill()
    assert result["lines"][0]["object"] == "old_counter"


IN_MEMORY = """
import os, sys
with open(sys.argv[1], "rb") as file:
    whole = file.read()
server = os.memfd_create("server")
os.write(server, whole)
os.execve(server, ["server"], os.environ)
"""


@pytest.mark.parametrize("way", ["memory", "deleted name"])
def test_programs_in_memory_and_with_the_kernels_word_in_their_name_are_named(tmp_path, way):
    """runc and self-extracting servers execute a memfd; "server (deleted)" may be a file's name."""
    if shutil.which("gcc") is None:
        pytest.skip("no compiler")
    program = tmp_path / "server (deleted)"
    compiled(program, "old")
    command = [sys.executable, "-c", IN_MEMORY, program] if way == "memory" else [program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "runs\n"
            spaces = Spaces(Files())
            lines = mapped(process.pid)
            for line in lines:
                spaces.take(line)
            names = Names(spaces)
            codes = [m for m in lines if m.executable and "server" in m.path]
            seen = {name for code in codes for name in functions_of(names, code)}
        finally:
            process.kill()
    assert "old_work" in seen
    assert not spaces.store.left_out
