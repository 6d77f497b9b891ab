# SPDX-License-Identifier: MIT
"""`trial --pad`: the padding happens in the padded setting alone, and both settings run with the
interposed malloc."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from linewright.trial import heap_padding
from support import waiting
from support.finding import SAMPLER
from support.network import own_network
from support.places import ROOT

LIBRARY = SAMPLER.with_name("liblinewright_find_heap.so")
PROGRAM = r"""
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static uint64_t *words[2];
__attribute__((noinline)) uint64_t *counter(void) { void *volatile p = calloc(1, 24); return p; }
static void *count(void *which) {
    uint64_t *mine = words[(uintptr_t)which];
    for (int i = 0; i < 3000000; i++) __atomic_fetch_add(mine, 1, __ATOMIC_SEQ_CST);
    return 0;
}
int main(int argc, char **argv) {
    pthread_t t[2];
    words[0] = counter();
    words[1] = strcmp(argv[1], "true") ? counter() : words[0];
    for (long i = 0; i < 2; i++) pthread_create(&t[i], 0, count, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
    printf("apart %d\n", (uintptr_t)words[0] / 128 == (uintptr_t)words[1] / 128 ? 1 : 2);
    return words[0][0] >= 3000000 ? 0 : 1;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if not LIBRARY.exists() or shutil.which("gcc") is None:
        pytest.skip("the preloaded library is not built, or no compiler")
    folder = tmp_path_factory.mktemp("pad")
    (folder / "pair.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-pthread", "-o", folder / "pair", folder / "pair.c"], check=True)
    return folder / "pair"


def trial(folder, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "linewright", "trial", "--json", *map(str, words)]
    return waiting.run(command, cwd=folder, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"})


def values(done: subprocess.CompletedProcess[str]) -> dict[str, float]:
    """Median of each setting."""
    assert done.returncode == 0, done.stderr
    return {s["name"]: s["median"] for s in json.loads(done.stdout)["verdict"]["settings"]}


@pytest.mark.parametrize(
    ("sharing", "lines"),
    [
        pytest.param("false", 2.0, id="neighbours are moved apart"),
        pytest.param("true", 1.0, id="a decoy of true sharing stays on one line"),
    ],
)
def test_what_the_padded_setting_alone_changes(program, tmp_path, sharing, lines) -> None:
    words = ["--pad", "counter", "--runs", 3, "--metric", r"apart (\d)", "--", program, sharing]
    assert values(trial(tmp_path, *words)) == {"unpadded": 1.0, "pad counter": lines}


def test_the_same_on_another_machine(program, tmp_path) -> None:
    """The library goes there, the function is looked up in the program's file from there, and the
    marks are read there."""
    words = [
        "--on",
        "exec:env",
        "--pad",
        "counter",
        "--pad",
        "count",
        "--runs",
        2,
        "--metric",
        r"apart (\d)",
    ]
    with own_network():
        done = trial(tmp_path, *words, "--", program, "false")
    assert values(done) == {"unpadded": 1.0, "pad counter": 2.0, "pad count": 1.0}
    said = [line for line in done.stderr.splitlines() if "nothing was padded" in line]
    assert len(said) == 1 and "pad count:" in said[0]


def test_a_site_that_allocates_nothing_is_said(program, tmp_path) -> None:
    done = trial(tmp_path, "--pad", "counter", "--pad", "count", "--runs", 2, "--", program, "true")
    said = [line for line in done.stderr.splitlines() if "nothing was padded" in line]
    assert len(said) == 1 and "pad count:" in said[0]


PLUGIN = r"""
#include <stdlib.h>
void *make(void) { void *volatile p = malloc(24); return p; }
"""
HOST = r"""
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
int main(int argc, char **argv) {
    void *library = dlopen(argv[1], RTLD_NOW);
    void *(*make)(void) = (void *(*)(void))dlsym(library, "make");
    uintptr_t one = (uintptr_t)make(), two = (uintptr_t)make();
    printf("lines %d\n", one % 128 == 0 && two % 128 == 0 ? 2 : 1);
}
"""


def test_blocks_of_a_library_loaded_later_are_padded(program, tmp_path) -> None:
    (tmp_path / "plugin.c").write_text(PLUGIN)
    (tmp_path / "host.c").write_text(HOST)
    library, host = tmp_path / "libplugin.so", tmp_path / "host"
    subprocess.run(
        ["gcc", "-O1", "-shared", "-fPIC", "-o", library, tmp_path / "plugin.c"], check=True
    )
    subprocess.run(["gcc", "-o", host, tmp_path / "host.c", "-ldl"], check=True)
    table = subprocess.run(["nm", "-S", library], capture_output=True, text=True, check=True).stdout
    begin, size = next(line.split()[:2] for line in table.splitlines() if line.endswith(" make"))
    site = f"libplugin.so+{int(begin, 16):#x}-{int(begin, 16) + int(size, 16):#x}"
    done = trial(
        tmp_path, "--pad", site, "--runs", 2, "--metric", r"lines (\d)", "--", host, library
    )
    assert (
        values(done) == {"unpadded": 1.0, f"pad {site}": 2.0}
        and "nothing was padded" not in done.stderr
    )


def test_the_settings_environments_are_equally_long_and_find_the_same_blocks(program) -> None:
    """Padding alone may differ: the length of the environment moves the stack, and a search for
    callers takes time."""
    settings = heap_padding.settings(
        ["counter", "main", "lib.so+0x20-0x40"], str(program), "/x/heap.so", {}
    )
    sizes = {sum(len(k) + len(v) for k, v in s.environment.items()) for s in settings}
    assert len(sizes) == 1 and all("LINEWRIGHT_FIND_PAD" in s.environment for s in settings)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pad", "words"], "static variable"),
        (["--pad", "no_such"], "no function"),
        (["--pad", "counter", "--env", "A=1"], "other settings"),
    ],
)
def test_wrong_requests_are_one_line(program, tmp_path, words: list[str], said: str) -> None:
    done = trial(tmp_path, *words, "--", program, "false")
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1
