# SPDX-License-Identifier: MIT
"""The interposed malloc: blocks by call site, and an allocator that still allocates."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from linewright.find.addresses import (
    HEAP_BYTES,
    HEAP_COLUMNS,
    HEAP_MAGIC,
    HEAP_SLOTS,
    BlockRows,
    HeapBlock,
    HeapTable,
    empty_table,
)
from linewright.find.evidence import LineEvidence, SiteKey
from linewright.find.results import note
from linewright.find.space import Spaces
from linewright.find.stream import Sample
from support.finding import SAMPLER

LIBRARY = SAMPLER.with_name("liblinewright_find_heap.so")
PROGRAM = r"""
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define CHECK(what) do { if (!(what)) { printf("failed: %s\n", #what); return 1; } } while (0)
__attribute__((noinline)) void *site(size_t n) { void *volatile p = malloc(n); return p; }
static void *churn(void *seed) {
    void *held[64] = {0};
    for (unsigned i = 0, x = (unsigned)(uintptr_t)seed; i < 200000; i++) {
        x = x * 1664525 + 1013904223;
        void **at = &held[x >> 26];
        if (x & 1) { free(*at); *at = malloc(x >> 8 & 1023); }
        else *at = realloc(*at, x >> 8 & 2047);
    }
    for (int i = 0; i < 64; i++) free(held[i]);
    return 0;
}
int main(int argc, char **argv) {
    CHECK(calloc(SIZE_MAX / 2, 4) == NULL && errno == ENOMEM);
    void *volatile huge = malloc(SIZE_MAX - 64); CHECK(huge == NULL);
    void *p; CHECK(posix_memalign(&p, 24, 8) == EINVAL);
    CHECK(posix_memalign(&p, 4096, 100) == 0 && (uintptr_t)p % 4096 == 0); free(p);
    char *z = calloc(10, 100); for (int i = 0; i < 1000; i++) CHECK(z[i] == 0); free(z);
    char *grown = malloc(10); strcpy(grown, "kept");
    grown = realloc(grown, 100000); CHECK(!strcmp(grown, "kept")); free(grown);
    pthread_t t[4];
    for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, churn, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    char *a = site(24), *b = site(24);
    printf("%d %p %p %d\n", getpid(), (void *)a, (void *)b, (int)malloc_usable_size(a));
    fflush(stdout); _exit(0);
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if not LIBRARY.exists() or shutil.which("gcc") is None:
        pytest.skip("the preloaded library is not built, or no compiler")
    folder = tmp_path_factory.mktemp("heap")
    (folder / "blocks.c").write_text(PROGRAM)
    subprocess.run(
        [
            "gcc",
            "-O1",
            "-g",
            "-fno-builtin",
            "-pthread",
            "-o",
            folder / "blocks",
            folder / "blocks.c",
        ],
        check=True,
    )
    return folder / "blocks"


def run(program, **env: str) -> tuple[int, int, int]:
    """The process, and its two blocks' addresses."""
    done = subprocess.run(
        [program],
        capture_output=True,
        text=True,
        env=os.environ | {"LD_PRELOAD": str(LIBRARY)} | env,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pid, a, b, _ = done.stdout.split()
    return int(pid), int(a, 16), int(b, 16)


def test_living_blocks_are_found_with_their_call_site(program) -> None:
    with empty_table() as path:
        pid, a, b = run(program, LINEWRIGHT_FIND_HEAP=path)
        table = HeapTable(path, Spaces())
        table.read()
    one, two = table.find(pid, a + 8), table.find(pid, b + 23)
    assert (one.start, one.size) == (a, 24) and two.start == b
    assert one.callers[0] == two.callers[0]
    assert table.find(pid, a + 24) is None or table.find(pid, a + 24).start != a


def test_freed_blocks_are_known_with_their_times_and_make_room(program) -> None:
    with empty_table() as path:
        pid, _, _ = run(program, LINEWRIGHT_FIND_HEAP=path)
        table = HeapTable(path, Spaces())
        table.read()
    start, _, born, died = table._blocks[pid].rows[:, :4].T
    assert np.count_nonzero(died == 0) < 64 < len(start)  # 800,000 were allocated and freed
    assert np.all(born > 0) and np.all(died[died > 0] >= born[died > 0])
    assert not table.notes


def test_an_address_has_the_block_that_it_had_at_the_time() -> None:
    """One block is freed, and another allocated from its place; a third was never freed."""
    table = HeapTable("", Spaces())
    ms = 1_000_000
    columns = np.array(
        [
            (64, 96, 100 * ms, 200 * ms, 0xA, 0, 0, 0),
            (64, 128, 300 * ms, 0, 0xB, 0xC, 0, 0),
        ],
        dtype="<u8",
    )
    table._blocks = {1: BlockRows.of(columns)}
    assert table.find(1, 70, 150 * ms) == HeapBlock(64, 32, (0xA,))
    assert table.find(1, 70, 400 * ms) == table.find(1, 70) == HeapBlock(64, 64, (0xB, 0xC))
    assert table.find(1, 70, 250 * ms) is None and table.find(1, 100, 150 * ms) is None
    assert table.find(2, 70) is None


def test_who_had_a_line_is_known_where_its_bytes_were_had_by_several() -> None:
    """Two calls' blocks in one place, one after the other, a third in the line all the time, and
    one that was freed and allocated again by the same call."""
    table = HeapTable("", Spaces())
    ms = 1_000_000
    rows = [
        (64, 96, 100 * ms, 200 * ms, 0xA, 0, 0, 0),
        (64, 96, 200 * ms, 0, 0xB, 0, 0, 0),
        (96, 128, 100 * ms, 0, 0xC, 0, 0, 0),
        (128, 160, 100 * ms, 150 * ms, 0xD, 0, 0, 0),
        (128, 160, 150 * ms, 0, 0xD, 0, 0, 0),
        (0, 1 << 20, 10 * ms, 20 * ms, 0xE, 0, 0, 0),
    ]
    table._blocks = {1: BlockRows.of(np.array(rows, dtype="<u8"))}
    first, second = HeapBlock(64, 32, (0xA,)), HeapBlock(64, 32, (0xB,))
    lived = [{b for b in table.owners(1, 64, t * ms) if b.start == 64} for t in (150, 205, 300)]
    assert lived == [{first}, {first, second}, {second}]
    assert table.find(1, 64, 205 * ms) is None, "a clock that ticks cannot tell"
    assert table.find(1, 100, 205 * ms).callers == (0xC,)
    assert table.find(1, 130, 155 * ms).callers == (0xD,)
    large = {HeapBlock(0, 1 << 20, (0xE,))}
    assert table.owners(1, 128, 15 * ms) == table.owners(1, 4096, 15 * ms) | large == large
    assert table.owners(1, 4096, 15 * ms) == frozenset(), "nothing else was ever there"


@pytest.mark.parametrize("known", [8, 4, 1])
def test_uses_between_two_blocks_of_a_place_are_of_neither(known: int) -> None:
    """They were a third line, "allocating call unknown". Where most are so, they are kept: else
    a line that many short-lived blocks have in turn would be left out."""
    table, lines, ms = HeapTable("", Spaces()), LineEvidence(Spaces()), 1_000_000
    rows = [(64, 96, 0, 100 * ms, 0xA, 0, 0, 0), (64, 96, 100 * ms, 0, 0xB, 0, 0, 0)]
    table._blocks = {1: BlockRows.of(np.array(rows, dtype="<u8"))}
    lines.split_by_heap_block(table.owners)
    for at in [50 * ms] * known + [105 * ms] * 4:
        sample = Sample(time_ns=at, pid=1, tid=1, cpu=0, ip=0)
        lines.at(1, 64, at).count(SiteKey(1, 0, "write", "add"), sample)
    lines.drop_unclear()
    assert [len(e.uses()) for e in lines.known.values()] == ([known] if known > 4 else [known, 4])


def test_processes_and_addresses_of_any_size_are_kept_apart(tmp_path) -> None:
    """Linux counts processes to 2**22, and addresses of arm64 have 48 bits: a table as the library
    writes it, with two processes that differ in the uppermost bit alone."""
    path, high = tmp_path / "table", 0xAAAA_B000_0040
    table = np.memmap(path, "<u8", "w+", shape=(HEAP_BYTES // 8,))
    table[:2] = HEAP_MAGIC, HEAP_SLOTS
    keys, blocks = table[8 : 8 + HEAP_SLOTS], table[8 + 2 * HEAP_SLOTS :].reshape(-1, HEAP_COLUMNS)
    keys[:2] = 2, 3
    blocks[0] = (5, high, 24, 0xA, 0, 0, 0, 1)
    blocks[1] = (5 + (1 << 21), high, 48, 0xB, 0, 0, 0, 1)
    table.flush()
    read = HeapTable(str(path), Spaces())
    read.read()
    assert read.find(5, high + 8) == HeapBlock(high, 24, (0xA,))
    assert read.find(5 + (1 << 21), high + 40) == HeapBlock(high, 48, (0xB,))


def test_a_file_that_is_no_table_changes_nothing(program, tmp_path) -> None:
    small = tmp_path / "small"
    small.write_bytes(b"x")
    run(program, LINEWRIGHT_FIND_HEAP=str(small))
    assert small.read_bytes() == b"x"


def test_a_table_that_no_process_opened_says_so() -> None:
    with empty_table() as path:
        table = HeapTable(path, Spaces())
        table.read()
    assert table.notes == [note("not_loaded")] and table.find(1, 64) is None


def test_a_table_of_an_older_library_says_so(tmp_path) -> None:
    """Its blocks were taken for none, and every line's block was unknown without a reason."""
    path = tmp_path / "table"
    np.memmap(path, "<u8", "w+", shape=(HEAP_BYTES // 8,))[:2] = HEAP_MAGIC - 1, HEAP_SLOTS
    table = HeapTable(str(path), Spaces())
    table.read()
    assert table.notes == [note("other_version")]


def symbol(program, name: str) -> tuple[int, int]:
    """A function's address and size."""
    for line in subprocess.run(
        ["nm", "-S", program], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[3] == name:
            return int(fields[0], 16), int(fields[1], 16)
    raise AssertionError(name)


def test_blocks_of_a_named_site_get_lines_of_their_own(program) -> None:
    begin, size = symbol(program, "site")
    _, a, b = run(program, LINEWRIGHT_FIND_PAD=f"blocks+{begin:#x}-{begin + size:#x}")
    assert a % 128 == 0 and b % 128 == 0 and a != b


def test_blocks_of_other_sites_stay_as_they_were(program) -> None:
    _, a, b = run(program, LINEWRIGHT_FIND_PAD="blocks+0x1-0x2,nonsense,+-,libc.so.6+0x0-0xffffff")
    assert a % 128 or b % 128


def compiled(folder: Path, *words: str) -> Path:
    """A program that says that it ran."""
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    (folder / "said.c").write_text(SAID)
    built = [*words, "-pthread", "-o", folder / "said", folder / "said.c"]
    if subprocess.run(built, capture_output=True).returncode:
        pytest.skip(f"{' '.join(words)} makes no programs here")
    return folder / "said"


SAID = """
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    void *block = malloc(24);
    int failed = puts(block ? "it ran" : "") < 0;
    free(block);
    return failed;
}
"""


@pytest.mark.parametrize(
    "name", ["AddressSanitizer", "ThreadSanitizer", "LeakSanitizer"], ids=str.lower
)
def test_a_program_whose_sanitizer_must_be_first_is_refused_before_it_runs(
    run, tmp_path, name
) -> None:
    program = compiled(tmp_path, "gcc", f"-fsanitize={name.removesuffix('Sanitizer').lower()}")
    done = run("--heap", "--fail-new", "--", program)
    assert done.returncode == 2 and "it ran" not in done.stdout + done.stderr
    assert done.stderr.count("\n") == 1
    assert f"--heap: {program} is compiled with {name}" in done.stderr


@pytest.mark.parametrize(
    "compiler", [("musl-gcc",), ("gcc", "-m32"), ("gcc", "-fsanitize=address")], ids=" ".join
)
def test_children_that_cannot_have_the_library_run_unchanged(run, tmp_path, compiler) -> None:
    child = compiled(tmp_path, *compiler)
    done = run("--heap", "--", "sh", "-c", f"{child}; echo code $?", env=os.environ)
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert "it ran\ncode 0" in said and "ld.so" not in said and "relocating" not in said, said
