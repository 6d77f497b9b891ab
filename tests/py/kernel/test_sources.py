# SPDX-License-Identifier: MIT
"""kernel/build on sources of the user's: a git repository, a folder and a tarball of any layout
give the same change, and a patch becomes mails that `git am` takes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from support.places import ROOT

sys.path.insert(0, str(ROOT / "kernel"))

from lwkernel import mails, patches, sizes, sources
from lwkernel.errors import Refused
from lwkernel.given import Given

MAKEFILE = "# SPDX\nVERSION = 6\nPATCHLEVEL = {minor}\nSUBLEVEL = 9\nEXTRAVERSION =\n"
PATCH = '''\
"""A patch of the tests.

What: a. Why: b. Switch: c. Kernels: d. Upstream: e.
"""
from lwkernel.edits import Edit, Step

ARCHES = ("arm64",)
SERIES = ("6.1", "6.12")
CONFIG = ("CONFIG_X=y",)
COVER = ("x: two steps", "Why it is done.")
STEPS = (
    Step(
        subject="x: first",
        message="One.",
        edits=(Edit(path="a/x.c", after="^int x;$", text="int y;"),),
    ),
    Step(
        subject="x: second, with a file",
        message="Two paragraphs.\\n\\n    1  a table\\n    2  stays",
        edits=(
            Edit(path="a/x.c", after="^int y;$", text="int z;\\n", series=("6.12",)),
            Edit(path="a/x.c", after="^int y;$", text="int z1;", series=("6.1",)),
        ),
        files={"a/new.c": "new.c"},
    ),
)
'''
X_C = "// a line\nint x;\n\n"
AUTHOR = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "user.name",
    "GIT_CONFIG_VALUE_0": "A. Tester",
    "GIT_CONFIG_KEY_1": "user.email",
    "GIT_CONFIG_VALUE_1": "a@example.org",
}


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", folder, *words], text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    """A folder that looks like Linux 6.12, and one patch for it."""
    folder = tmp_path / "some where/kernel of mine"
    (folder / "a").mkdir(parents=True)
    (folder / "a/x.c").write_text(X_C)
    (folder / "sub").mkdir()
    (folder / "sub/Makefile").write_text("VERSION = 9\n")
    (folder / "Makefile").write_text(MAKEFILE.format(minor=12))
    own = tmp_path / "patches"
    own.mkdir()
    (own / "two_steps.py").write_text(PATCH)
    (own / "new.c").write_text("// SPDX-License-Identifier: GPL-2.0-only\nint n;\n")
    monkeypatch.setattr(patches, "FOLDER", own)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, value in AUTHOR.items():
        monkeypatch.setenv(name, value)
    return folder


def committed(tree: Path) -> Path:
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "as it was")
    return tree


def of_kind(tree: Path, kind: str) -> Path:
    if kind == "git":
        return committed(tree)
    if kind == "bare":
        bare = tree.with_name("bare.git")
        subprocess.run(["git", "clone", "-q", "--bare", committed(tree), bare], check=True)
        return bare
    if kind == "tarball":
        subprocess.run(
            ["tar", "-cJf", tree.with_name("l.tar.xz"), "-C", tree.parent, tree.name], check=True
        )
        return tree.with_name("l.tar.xz")
    return tree


def change(given: Given, scratch: Path) -> str:
    chosen = patches.chosen(["two_steps"], "6.12", "arm64")
    scratch.mkdir()
    given.take(scratch, patches.places(chosen))
    return patches.apply(scratch, chosen, "6.12")


@pytest.mark.parametrize("kind", ["git", "bare", "folder", "tarball"])
def test_sources_of_every_kind_give_the_same_change_and_stay_as_they_are(tree, tmp_path, kind):
    expected = change(Given(tree), tmp_path / "expected")
    assert "+int z;" in expected and "+int n;" in expected and "z1" not in expected
    path = of_kind(tree, kind)
    given = Given(path)
    assert given.kind == {"bare": "git"}.get(kind, kind)
    assert (given.version, given.rules(["two_steps"], "arm64")) == ("6.12.9", "6.12")
    assert change(given, tmp_path / "found") == expected
    assert (tree / "a/x.c").read_text() == X_C and not (tree / "a/new.c").exists()
    assert (given.whole() / "a/x.c").read_text() == X_C and given.whole().name in (
        "tree",
        tree.name,
    )


def test_what_is_not_committed_is_not_taken(tree, tmp_path):
    committed(tree)
    (tree / "a/x.c").write_text("int other;\n")
    assert "+int z;" in change(Given(tree), tmp_path / "out")


def test_a_folder_inside_a_repository_is_a_folder(tree):
    committed(tree.parent)
    assert Given(tree).kind == "folder"


def test_another_series_takes_the_nearest_edits_that_find_their_places(tree):
    (tree / "Makefile").write_text(MAKEFILE.format(minor=6))
    assert Given(tree).rules(["two_steps"], "arm64") == "6.1"
    (tree / "a/x.c").write_text("nothing\n")
    with pytest.raises(
        Refused, match=r"is Linux 6.6.9, which no patch was made for; as 6.1: a/x.c: 0 lines match"
    ):
        Given(tree).rules(["two_steps"], "arm64")


def test_what_is_no_kernel_is_refused(tmp_path):
    with pytest.raises(Refused, match="no Linux sources"):
        assert Given(tmp_path).version
    (tmp_path / "file").write_text("no tarball")
    with pytest.raises(Refused, match="no Linux sources"):
        assert Given(tmp_path / "file").version


@pytest.mark.parametrize("signoff", [False, True])
def test_the_mails_make_the_patched_tree_step_by_step(tree, tmp_path, signoff):
    """`git am` takes them, with the configured author, and the result is what kernel/build makes.
    They are signed only where that was asked for."""
    committed(tree)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    patch = patches.load("two_steps")
    Given(tree).take(scratch, patches.places([patch]))
    found = mails.series(patch, scratch, "6.12", "6.12.9", signoff=signoff)
    assert list(found) == [
        "0000-cover-letter.patch",
        "0001-x-first.patch",
        "0002-x-second-with-a-file.patch",
    ]
    cover = found.pop("0000-cover-letter.patch")
    assert "Subject: [PATCH 0/2] x: two steps" in cover and "Made for Linux 6.12.9." in cover
    assert "  x: first\n  x: second, with a file\n" in cover
    out = tmp_path / "mails"
    out.mkdir()
    for name, text in found.items():
        (out / name).write_text(text)
    git(tree, "am", "-q", *sorted(map(str, out.iterdir())))
    log = git(tree, "log", "--format=%an <%ae>|%s|%b").splitlines()
    assert log[0] == "A. Tester <a@example.org>|x: second, with a file|Two paragraphs."
    assert log.count("Signed-off-by: A. Tester <a@example.org>") == 2 * signoff
    assert "    2  stays" in log
    assert [(tree / name).read_text() for name in ("a/x.c", "a/new.c")] == [
        (scratch / name).read_text() for name in ("a/x.c", "a/new.c")
    ]
    assert git(tree, "diff", "--name-only", "HEAD~1", "HEAD").split() == ["a/new.c", "a/x.c"]


def test_a_series_is_signed_by_somebody(tree, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "")
    with pytest.raises(Refused, match=r"git knows no user.name"):
        mails.author()


def test_real_patches_that_are_series_are_named_where_another_is_asked_for(tmp_path):
    assert mails.written() == ["arm64_lse_prefetch", "srcu_fast_updown"]
    with pytest.raises(
        Refused, match="dma_one_wait is no series; those with one: arm64_lse_prefetch, srcu_fast"
    ):
        mails.series(patches.load("dma_one_wait"), tmp_path, "6.12", "6.12.1", signoff=True)


def test_a_series_that_takes_up_a_published_one_credits_its_author():
    option, test = patches.load("arm64_lse_prefetch").steps
    cover = mails.filled(patches.load("arm64_lse_prefetch").cover[1])
    assert option.tags.startswith("Suggested-by: Yicong Yang") and not test.tags
    assert any(line.startswith("Link: https://") for line in cover.splitlines()), "one line"
    assert "Nothing of this series was run on hardware" in " ".join(cover.split())


@pytest.mark.parametrize("name", mails.written())
def test_a_series_asks_for_no_kernel_version_and_has_a_test_and_a_document(name):
    patch = patches.load(name)
    for series in patch.kernels:
        texts = [*patch.files_of(series).values()]
        texts += [edit.text for edit in patch.edits if not edit.series or series in edit.series]
        assert not any("LINUX_VERSION_CODE" in text for text in texts)
        assert any("kunit_test_suite(" in text for text in texts)
        places = [edit.path for edit in patch.edits if not edit.series or series in edit.series]
        assert "Documentation/admin-guide/kernel-parameters.txt" in places


SERIES = [(name, series) for name in mails.written() for series in patches.load(name).kernels]


@pytest.mark.parametrize("name, series", SERIES)
def test_the_series_applies_to_a_repository_of_debians_sources_and_checkpatch_is_content(
    tmp_path, name, series
):
    """Default rules; only where the sources have been fetched already."""
    tree = sources.home() / sources.PACKAGES[series] / "tree"
    if not tree.exists():
        pytest.skip(f"sources of {series} are not here")
    patch, own = patches.load(name), tmp_path / "linux"
    own.mkdir()
    Given(tree).take(own, [*patches.places([patch]), "Makefile"])
    committed(own)
    out = tmp_path / "mails"
    words = [
        ROOT / "kernel/build",
        "--source",
        own,
        "arm64",
        "--series",
        name,
        "-o",
        out,
        "--signoff",
    ]
    environment = {
        **AUTHOR,
        "PATH": "/usr/bin:/bin",
        "GIT_AUTHOR_DATE": "2026-01-01",
        "HOME": str(tmp_path),
    }
    done = subprocess.run(words, text=True, capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    files = [line for line in done.stdout.splitlines() if "/0000-" not in line]
    git(own, "-c", "user.name=A. Tester", "-c", "user.email=a@example.org", "am", "-q", *files)
    check = [
        "perl",
        tree / "scripts/checkpatch.pl",
        "--show-types",
        "--terse",
        "--no-summary",
        *files,
    ]
    checked = subprocess.run(check, cwd=tree, text=True, capture_output=True)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_sizes_are_sums_over_what_is_loaded():
    listing = textwrap.dedent("""\
        vmlinux  :
        section            size      addr
        .head.text            8      4096
        .text               100      8192
        .rodata              30     16384
        .altinstructions     24     20480
        .init.text            5     24576
        .odd                  2     28672
        .comment             77         0
        Total               246
        """)
    found = sizes.grouped(listing)
    assert {name: size for name, size in found.items() if size} == {
        "code": 100, "code of the start": 13, "replacements": 24, "read-only data": 30, "other": 2
    }  # fmt: skip
    more = found | {"code": 108}
    assert "code                      100        108       +8\n" in sizes.table(found, more)
    assert sizes.table(found, more).splitlines()[-1].split() == ["all", "169", "177", "+8"]


AROUND = """\
#include <stdbool.h>
#include <stddef.h>
typedef unsigned long phys_addr_t;
enum dma_data_direction {{ DMA_TO_DEVICE }};
struct device;
bool dev_is_dma_coherent(struct device *dev);
void arch_sync_dma_for_device(phys_addr_t paddr, size_t size, enum dma_data_direction dir);
void arch_sync_dma_for_cpu(phys_addr_t paddr, size_t size, enum dma_data_direction dir);
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
{chosen}
#include "dma-one-wait.h"
bool asked(struct device *dev) {{ return dma_one_wait_for_cpu(dev, DMA_TO_DEVICE); }}
"""
"""What a kernel has around the header of dma_one_wait, which every user of the DMA interface
includes, on every architecture."""


@pytest.mark.parametrize("chosen", ["#define CONFIG_DMA_ONE_WAIT 1", ""], ids=["on", "off"])
def test_a_tree_with_the_patch_compiles_whether_the_option_is_chosen_or_not(tmp_path, chosen):
    (tmp_path / "linux").mkdir()
    for name in ("types.h", "dma-direction.h"):
        (tmp_path / "linux" / name).touch()
    (tmp_path / "x.c").write_text(AROUND.format(chosen=chosen))
    words = ["gcc", "-Wall", "-Werror", "-fsyntax-only", f"-I{tmp_path}"]
    words += [f"-I{ROOT}/kernel/patches/dma_one_wait", tmp_path / "x.c"]
    done = subprocess.run(words, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_a_count_with_interrupts_off_is_marked_for_its_reader_on_another_cpu():
    """KCSAN would report an increment that is plain: the updater's scan reads it by
    atomic_long_read()."""
    patch = patches.load("srcu_fast_updown")
    (count,) = [edit.text for edit in patch.edits if "#define __srcu_inc_irqsave" in edit.text]
    macro = count.split("#define __srcu_inc_irqsave")[1].split("while (0)")[0]
    assert "WRITE_ONCE(*__word, READ_ONCE(*__word) + 1)" in macro and "raw_cpu_inc" not in macro
    module = (ROOT / "kmod/readers.c").read_text()
    assert module.count("WRITE_ONCE(*word, READ_ONCE(*word) + ") == 2
    assert "raw_cpu_inc(" not in module and "++*word" not in module
