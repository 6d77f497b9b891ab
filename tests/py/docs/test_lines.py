# SPDX-License-Identifier: MIT
"""The command lines that pages show for a reader's own programs are executed, in the order of the
page: with programs of those names, few runs and short windows, and the host itself in place of
another one. What each prints agrees with itself, and can be typed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.test_docs import FENCE, NAMES, READING, SHOWN, command_lines
from docs.test_examples import FENCE as EXAMPLE

from linewright.schema import Cell, Context, Record
from support import machines, waiting
from support.analysis_samples import record, write
from support.command_lines import COMMAND, refused
from support.finding import without_plugins
from support.network import own_network
from support.places import DATA, ROOT
from support.published import published
from support.said import check_sentences

RUN = (
    "find",
    "trial",
    "sweep",
    "workload",
    "run",
    "torture",
    "probe",
    "compare",
    "schema",
    "model explain",
    "model calibrate",
)
ELSEWHERE_RUN = {
    "measure": "docs/test_docs.py",
    **dict.fromkeys(READING, "docs/test_docs.py"),
    "--install-completion": "packaging/test_completion.py",
}
"""By how lines begin that are not executed here: where they are. What reads records, or plans a
measurement, needs no program; a Dask cluster is started there."""
SIDES = ("old", "new", "before", "after")
PROGRAMS = ("server", "server-bench", "job", "bench", "program", "Run", *SIDES)
ON_THE_PATH = ("perf", "tbench", "redis-server", "published_case")
SHORTER = (
    (r"seconds=\d+", "seconds=1"),
    (r"--for \S+", "--for 1s"),
    (r"--duration \S+", "--duration 20ms"),
    (r"workload (--on \S+ )?(\S+)(?!.*--duration)", r"workload \1\2 --duration 20ms"),
    (r"--threads \d+( .*--cpus) \S+", r"--threads 2\1 0-1"),
    (r"--cpus 0-\d+", "--cpus 0-1"),
    (r"--set threads=\S+", "--set threads=1,2"),
    (r"(--runs |--set runs=)\d+", r"\g<1>2"),
    (r"^sweep(?!.*runs=)", "sweep --set runs=2"),
    (r"^sweep", "sweep --set duration=10ms"),
    (r"^model calibrate \S+", r"\g<0> --set steps=0"),
)
RUN_ELSEWHERE = ("docs/users/first-fix.md", "PACKAGE.md")
"""A page whose lines need those before them: docs/test_examples.py runs it as a script. And one
that is made of README.md: docs/test_front_page.py."""
TABLE_ROWS = ("#", "form", "stadd", "ldadd,none", "prfm_keep_stadd,none")
CALIBRATED_FORMS = ("lock_add", "cmpxchg_loop_guess_first")
"""A test has less patience and fewer CPUs than a reader."""
ELSEWHERE = (
    r"nothing to (try|switch): on x86_64 each|for (arm64|i386): not found \(build it"
    r"|--fail-below \S+: nothing is known|not available on this kernel: time slice extensions"
)
"""Refusals that are right here: of what another architecture or kernel has, or its build, and a
limit after too few rounds."""
SPINS = "5000000"


def lines_of(name: str) -> Iterator[str]:
    """What a page shows to be typed, without its comment; a synopsis is no line."""
    for line in command_lines((ROOT / name).read_text()):
        words = COMMAND.sub("", line).partition("  #")[0].strip()
        if "…" not in words and words.startswith(RUN):
            yield words


PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static __attribute__((noinline)) long *make_node(void) { return calloc(1, sizeof(long)); }
static void *add(void *word) {
    const char *spins = getenv("SPINS");
    for (long n = atol(spins ? spins : "100000"); n > 0; n--)
        __atomic_fetch_add((long *)word, 1, __ATOMIC_RELAXED);
    return NULL;
}
int main(void) {
    static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    pthread_rwlock_rdlock(&lock);
    pthread_rwlock_unlock(&lock);
    pthread_t threads[2];
    long *nodes[2];
    for (int n = 0; n < 2; n++) nodes[n] = make_node();
    for (int n = 0; n < 2; n++) pthread_create(&threads[n], NULL, add, nodes[n]);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
    puts("rate: 12.5\nAveraged 4711 operations/sec (+- 0.1%), total secs = 10\n"
         "Wokeup 96 of 96 threads in 0.5 ms (+-1.0%)\n"
         "Requeued 96 of 96 threads in 0.7 ms (+-1.0%)\n"
         "System Benchmarks Index Score   1234.5\n"
         "Throughput 1234.5 MB/sec  96 clients  96 procs  max_latency=1.000 ms");
}
"""
"""Two threads whose words lie in neighbouring heap blocks, and the figures that pages' --metric
look for."""


@pytest.fixture(autouse=True)
def apart() -> Iterator[None]:
    """Runs of other tests are none of this host's."""
    with own_network():
        yield


@pytest.fixture
def reader(real, tmp_path: Path):
    """The command in a folder with the programs and files that pages name."""
    for room in ("find", "workload", "model", "torture"):
        program = ROOT / "build/native" / room / f"linewright-{room}"
        if not program.exists():
            pytest.skip(f"{program.name} is not built")
    source = tmp_path / "reader.c"
    source.write_text(PROGRAM)
    made = tmp_path / "reader"
    subprocess.run(["cc", "-O1", "-g", "-pthread", "-o", made, source], check=True)
    path = tmp_path / "path"
    path.mkdir()
    for name in PROGRAMS:
        shutil.copy(made, real.directory / name)
    for name in ON_THE_PATH:
        shutil.copy(made, path / name)
    docker = path / "docker"
    docker.write_text('#!/bin/sh\nshift 3\nexec "$@"\n')
    linewright = path / "linewright"
    linewright.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m linewright "$@"\n')
    for script in (docker, linewright):
        script.chmod(0o755)
    before = real.environment
    real.environment = lambda: (
        before() | {"PATH": f"{path}:{before()['PATH']}", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    )
    lay_out(real)
    return real


def lay_out(reader) -> None:
    """The files that lines read."""
    folder = reader.directory
    (folder / "tests/py").mkdir(parents=True)
    (folder / "tests/py/data").symlink_to(DATA)
    (folder / "hosts.txt").write_text("local  # this machine\n")
    machine = (ROOT / "machines/arm64-server-2025.toml").read_text()
    (folder / "mine.toml").write_text(machine)
    rows = (DATA / "rmw-arm64-server-2025.csv").read_text().splitlines()
    few = [row for row in rows if row.startswith(TABLE_ROWS)]
    write(folder / "TABLE.jsonl", *published.from_table("\n".join(few) + "\n", "TABLE.csv"))
    values = [v for v in machines.records("x86-vm") if isinstance(v, Context) or v.launch < 2]
    contexts = [v for v in values if isinstance(v, Context)]
    records = [r for r in values if isinstance(r, Record) and r.cell.form in CALIBRATED_FORMS]
    for name, more in (("RECORDS.jsonl", []), ("both.jsonl", handoffs(contexts))):
        write(folder / name, contexts, records + more)


def handoffs(contexts: list[Context]) -> list[Record]:
    """Of CPUs that the hypervisor moved in the second launch."""
    placed = dict(contender="same_line", threads=2, placement="cpus:0,1", order="full")
    cell = Cell(operation="handoff", form="cmpxchg_blind", **placed)
    windows = ([250.0, 252.0, 248.0, 251.0, 249.0], [250.0, 60.0, 61.0, 62.0, 61.0, 60.0])
    return [record(cell, ns, contexts[n].context_id, n) for n, ns in enumerate(windows)]


def as_here(line: str) -> str:
    """A line as it can run on this host."""
    for pattern, shorter in SHORTER:
        line = re.sub(pattern, shorter, line)
    line = line.replace("ssh://user@host", "exec:env").replace("ssh://host", "exec:env")
    options = line.partition(" -- ")[0]
    if line.startswith("trial ") and "--runs" not in options:
        line = line.replace("trial ", "trial --runs 2 --set warmup=0 ", 1)
    if line.startswith("model calibrate "):  # a machine is not written over another one
        line = re.sub(r"-o \S+", f"-o found-{abs(hash(line))}.toml", line)
    return line


def made(reader, line: str) -> bool:
    """Whether lines before this one have written the files that it reads."""
    files = re.findall(r"\S+\.jsonl", line)
    return bool(files) and all((reader.directory / file).exists() for file in files)


def test_every_line_of_a_page_is_executed_somewhere() -> None:
    lines = [
        COMMAND.sub("", line)
        for name in NAMES
        for line in command_lines((ROOT / name).read_text())
        if "…" not in line
    ]
    assert [line for line in lines if not line.startswith((*RUN, *ELSEWHERE_RUN))] == []
    assert [
        file for file in ELSEWHERE_RUN.values() if not (ROOT / "tests/py" / file).exists()
    ] == []


SHELL = re.compile(
    r"(sudo|make|cmake|pip|git|cc|gcc|cd|scripts/|echo|cat|export|[A-Z_]+=\S*|if|while)\b"
)
"""How a line for a shell begins that does not call the command."""
SHELL_RUN = {
    "git clone": ("packages/roots/inside", "git init"),
    "make measure": ("packages/roots/inside", "make measure"),
    "make test": ("packages/roots/inside", "make test"),
    "pip install .": ("packages/roots/inside", "pip install"),
    "cmake --preset native": ("packages/roots/inside", "cmake --preset native"),
    "cmake --build --preset native": ("packages/roots/inside", "cmake --build --preset native"),
    "cmake -S . -B build/musl": ("packages/musl/run", "toolchain-musl.cmake"),
    "cmake --build build/musl": ("packages/musl/run", "cmake --build"),
    "cmake --preset arm64": ("py/commands/test_printed.py", "builds_a_missing_program"),
    "make -C kmod": ("packages/roots/inside", "make -C kmod"),
    "sudo apt install linux-headers": ("packages/roots/inside", "linux-headers"),
    "git -C ~/src/linux am": ("py/kernel/test_sources.py", "`git am` takes them"),
    "export DASK_SCHEDULER_ADDRESS": ("py/remote/test_dask.py", "DASK_SCHEDULER_ADDRESS"),
    "cc prog.c": ("packages/deb/run", "pkg-config --cflags --libs linewright"),
    "cc -DLW_NO_POLICY": ("cpp/installed/installed.py", "-DLW_NO_POLICY"),
    "LINEWRIGHT_ATOMICS=store,prefetch ./server": ("cpp/policy", "store,prefetch"),
    "LINEWRIGHT_WAIT=": ("cpp/wait/CMakeLists.txt", "LINEWRIGHT_WAIT="),
    "LD_AUDIT=": ("py/elf/test_run.py", "LD_AUDIT"),
    "LINEWRIGHT_ATOMICS=prefetch": ("py/elf/test_run.py", "LINEWRIGHT_ATOMICS"),
    "GLIBC_TUNABLES=": ("py/elf/test_run.py", "optional_static_tls"),
    "LINEWRIGHT_VERBOSE=1": ("py/elf/test_run.py", "LINEWRIGHT_VERBOSE"),
    "gcc -O2 -o server": ("cpp/outline/CMakeLists.txt", "linewright_outline"),
    "cat host.jsonl contended.jsonl": ("py/docs/test_lines.py", "both.jsonl"),
}
"""Where such a line is run, by how it begins, with what stands there."""
SHELL_NOT_RUN = {
    "cd ~/linux-lse": "builds a whole kernel; tests/kernel builds small ones with the same patches",
    "scripts/config -e": "the same",
    "echo 1 | sudo tee": "sets an option of the reader's own kernel; tests/kernel boots with it",
}


def shell_lines(text: str) -> Iterator[str]:
    """Lines of code blocks for a shell, but those that call the command, and those of blocks that
    tests run whole."""
    rest = EXAMPLE.sub("", text)
    blocks = [
        b.split("\n", 1)[1].rsplit("\n", 1)[0]
        for b in FENCE.findall(rest)
        if not re.search("```(c|yaml)", b)
    ]
    blocks += re.findall(r"(?:^    .*\n?)+", FENCE.sub("", rest), re.MULTILINE)
    for block in blocks:
        for line in block.split("\n"):
            if SHELL.match(line.strip()) and not COMMAND.match(line.strip()):
                yield line.strip()


@pytest.mark.parametrize("name", SHOWN)
def test_every_other_line_is_run_somewhere(name: str) -> None:
    known = (*SHELL_RUN, *SHELL_NOT_RUN)
    lines = list(shell_lines((ROOT / name).read_text()))
    assert [line for line in lines if not line.startswith(known)] == []


def test_the_places_of_other_lines_are_there() -> None:
    for file, text in SHELL_RUN.values():
        place = ROOT / "tests" / file
        files = place.rglob("*") if place.is_dir() else [place]
        assert any(text in one.read_text() for one in files if one.is_file()), (file, text)
    shown = "\n".join(line for name in SHOWN for line in shell_lines((ROOT / name).read_text()))
    assert [line for line in (*SHELL_RUN, *SHELL_NOT_RUN) if line not in shown] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in NAMES if n not in RUN_ELSEWHERE and any(lines_of(n))])
def test_the_lines_of_a_page_run(reader, name: str) -> None:
    failed = {}
    for line in lines_of(name):
        if "workers.txt" in line or (line.startswith("compare") and not made(reader, line)):
            continue  # as ELSEWHERE_RUN says
        if "--exact" in line and without_plugins("qemu-x86_64"):
            continue
        short = as_here(line)
        spins = "20000" if "--exact" in line else SPINS
        environment = reader.environment() | {"SPINS": spins}
        busy = None
        if pid := re.search(r"--pid (\d+)", short):
            busy = subprocess.Popen(
                [reader.directory / "server"], env=environment | {"SPINS": "9" * 12}
            )
            short = short.replace(pid[0], f"--pid {busy.pid}")
        done = waiting.run(
            ["sh", "-c", f"linewright {short}"], cwd=reader.directory, env=environment
        )
        if busy:
            busy.kill()
            busy.wait()
        said = done.stdout + done.stderr
        print("$", short, "\n", said)
        if done.returncode not in (0, 1):
            if not re.search(ELSEWHERE, said):
                failed[line] = said
            continue
        if "--json" not in short:
            check_sentences(said)
        why = refused(reader, said)
        if why:
            failed[line] = str(why)
    assert failed == {}
