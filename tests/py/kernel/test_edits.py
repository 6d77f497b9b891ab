# SPDX-License-Identifier: MIT
"""The edits of kernel/: they land where they say, or not at all, and never in a file that other
trees share."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.places import ROOT

sys.path.insert(0, str(ROOT / "kernel"))

from lwkernel import builder, configuration, edits, patches, sources
from lwkernel.edits import Edit
from lwkernel.errors import Refused

HEADER = """\
#include <a.h>
#define OP(x)						\\
	asm volatile(					\\
	PREAMBLE					\\
	"	op " #x)

static int f(void)
{
	return one;
}

static int g(void)
{
	return one;
}
"""


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "h.h").write_text(HEADER)
    return tmp_path


def after(tree, **fields) -> list[str]:
    edits.apply(tree, (Edit(path="h.h", **fields),), "6.12")
    return (tree / "h.h").read_text().split("\n")


def test_a_line_is_put_behind_its_anchor(tree):
    lines = after(tree, after="^#include <a", text="#include <b.h>")
    assert (
        lines[:2] == ["#include <a.h>", "#include <b.h>"]
        and "\n".join(lines).replace("#include <b.h>\n", "") == HEADER
    )


def test_a_line_of_a_macro_gets_its_backslash(tree):
    lines = after(tree, after="PREAMBLE", text="\tOURS")
    assert lines[4] == "\tOURS" + "\t" * 8 + "\\" and len(lines[4].expandtabs(8)) == 73


def test_a_long_line_of_a_macro_gets_its_backslash_behind_a_blank(tree):
    assert after(tree, before="PREAMBLE", text="x" * 90)[3] == "x" * 90 + " \\"


def test_a_changed_line_of_a_macro_keeps_the_column_of_its_backslash(tree):
    lines = after(tree, replace="asm volatile", text="asm volatile goto")
    assert lines[2].startswith("\tasm volatile goto(\t") and lines[2].endswith("\t\\")
    assert len(lines[2].expandtabs(8)) == len(HEADER.split("\n")[2].expandtabs(8))


def test_a_place_is_looked_for_in_one_function_alone(tree):
    lines = after(tree, inside=r"^static int g\(", replace="one", text="two")
    assert lines.count("\treturn one;") == 1 and lines.index("\treturn two;") > lines.index(
        "\treturn one;"
    )


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"after": "no such line"}, r"h.h: 0 lines match 'no such line', 1 expected in 6.12"),
        ({"after": "return one"}, r"h.h: 2 lines match"),
        (
            {"after": "return one", "times": {"6.1": 2, "6.12": 3}},
            r"h.h: 2 lines match 'return one', 3 expected",
        ),
        ({"after": "one", "inside": "static int"}, r"h.h: 2 lines match 'static int'"),
    ],
)
def test_a_place_that_is_not_as_expected_stops_the_patch(tree, fields, reason):
    with pytest.raises(Refused, match=reason):
        after(tree, text="x", **fields)
    assert (tree / "h.h").read_text() == HEADER


def test_a_missing_file_stops_the_patch(tree):
    with pytest.raises(Refused, match="gone.h: there is no such file in 6.1"):
        edits.apply(tree, (Edit(path="gone.h", after="x", text="y"),), "6.1")


def test_an_edit_for_another_series_is_left_out(tree):
    assert "\n".join(after(tree, after="nothing", text="x", series=("6.1",))) == HEADER


def test_a_shared_file_keeps_its_contents_elsewhere(tree, tmp_path):
    other = tmp_path / "other.h"
    os.link(tree / "h.h", other)
    after(tree, after="^#include <a", text="#include <b.h>")
    assert other.read_text() == HEADER


def test_a_release_is_never_longer_than_a_kernel_allows():
    some = builder.Request("6.12", "arm64", ("dma_one_wait",), ("dma",))
    assert some.release == "-lw+dma_one_wait+dma" and some.name == "6.12-arm64+dma_one_wait+dma"
    every = tuple(patches.names())
    many = [
        builder.Request("6.12", "arm64", every[:count], ("dma", "iommu", "torture"))
        for count in range(len(every) + 1)
    ]
    assert all(len(f"6.12.1234{request.release}") <= 64 for request in many)
    assert len({request.release for request in many}) == len(many)


def test_sources_to_work_in_share_no_file_with_the_cache(tree, tmp_path):
    cached, own = tmp_path / "cached", tmp_path / "own"
    cached.mkdir()
    (tree / "h.h").rename(cached / "h.h")
    sources.copy(cached, own)
    with open(own / "h.h", "a") as stream:
        stream.write("changed in place")
    assert (cached / "h.h").read_text() == HEADER


@pytest.mark.parametrize("name", patches.names())
def test_a_patch_says_what_why_switch_kernels_and_upstream(name):
    patch = patches.load(name)
    for word in ("What: ", "Why: ", "Switch: ", "Kernels: "):
        assert f"\n{word}" in patch.head, word
    assert "Upstream" in patch.head
    assert patch.edits and patch.configs and patch.kernels and all(patch.kernels.values())
    texts = [text for series in patch.kernels for text in patch.files_of(series).values()]
    assert texts and all(
        "SPDX-License-Identifier: GPL-2.0-only" in text.split("\n", 1)[0] for text in texts
    )


def test_a_patch_may_have_other_architectures_and_files_in_another_series():
    patch = patches.load("dma_one_wait")
    assert patch.kernels["6.1"] == ("arm64",) and patch.kernels["7.3"] == ("riscv",)
    place = "include/linux/dma-one-wait.h"
    assert (
        patch.files_of("6.1")[place]
        == patch.files_of("6.12")[place]
        != patch.files_of("7.3")[place]
    )
    assert "arch/riscv/mm/dma-one-wait.c" not in patch.files_of("6.1")


def test_a_bounce_buffer_that_6_1_maps_behind_an_iommu_is_not_zeroed():
    """6.1's iommu_dma_map_page() zeroes what it maps without a sync by the CPU: mapping such a list
    stays its own."""
    mapping = [
        edit.series
        for edit in patches.load("dma_one_wait").edits
        if "iommu_dma_map_sg" in edit.inside
    ]
    assert mapping and set(mapping) == {("6.12",)}


@pytest.mark.parametrize("name", configuration.fragments())
def test_a_fragment_has_settings_and_comments_only(name):
    assert configuration.read(name, "6.12")


def test_a_setting_may_be_for_some_series_only(tmp_path, monkeypatch):
    (tmp_path / "x.config").write_text(
        "# a comment\nCONFIG_A=y # 6.12\n# CONFIG_B is not set\nCONFIG_C=m # 6.1 6.12\n"
    )
    monkeypatch.setattr(configuration, "FOLDER", tmp_path)
    assert configuration.read("x", "6.1") == ["# CONFIG_B is not set", "CONFIG_C=m"]
    assert configuration.read("x", "6.12") == ["CONFIG_A=y", "# CONFIG_B is not set", "CONFIG_C=m"]


def test_what_kconfig_does_not_grant_is_found():
    asked = ["CONFIG_A=y", "CONFIG_B=m", "# CONFIG_C is not set", "# CONFIG_D is not set"]
    assert configuration.refused(asked, "CONFIG_A=y\nCONFIG_B=y\nCONFIG_C=y\n") == [
        "CONFIG_B=m",
        "# CONFIG_C is not set",
    ]


@pytest.mark.parametrize(
    "words, reason",
    [
        (["5.4", "arm64"], "no kernel 5.4"),
        (["6.12", "sparc"], "no architecture sparc"),
        (["6.12", "arm64", "--patch", "nothing"], "no patch nothing; there are arm64_"),
        (
            ["6.12", "x86_64", "--patch", "arm64_lse_prefetch"],
            "is for arm64, not for x86_64, in 6.12",
        ),
        (["7.3", "arm64", "--patch", "dma_one_wait"], "is for riscv, not for arm64, in 7.3"),
        (["7.3", "arm64", "--patch", "arm64_percpu_form"], "is for 6.1, 6.12, not for 7.3"),
        (["6.12"], "SERIES and ARCH"),
        (
            ["6.12", "arm64", "--series", "arm64_lse_prefetch"],
            "--series NAME and -o FOLDER go together",
        ),
        (["--source", "/nowhere", "arm64"], "--source /nowhere: there is no such folder or file"),
        (["6.12", "arm64", "--source", "/"], "ARCH alone with --source"),
    ],
)
def test_a_wrong_request_is_refused_with_its_reason(words, reason):
    done = subprocess.run([str(ROOT / "kernel/build"), *words], text=True, capture_output=True)
    assert done.returncode == 2 and reason in done.stderr
