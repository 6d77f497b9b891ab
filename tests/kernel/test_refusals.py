# SPDX-License-Identifier: MIT
"""What the module's runner says where Debian's kernel refuses the module: signed modules only,
lockdown, another kernel, not root. And the module that DKMS has installed, loaded by its name; and
what the probe says of one that is loaded and of another version."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/kernel"))

import kernels  # noqa: E402
import small  # noqa: E402
from run_arm64 import tool  # noqa: E402
from small import or_skipped  # noqa: E402

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="builds of the module start on x86-64"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path, Path]:
    """Debian's kernel, the module's folder, and the first process."""
    out = tmp_path_factory.mktemp("refusals")
    with or_skipped():
        tree = kernels.fetch("6.1", "amd64", ROOT / "build")
        kernels.build("6.1", "amd64", out / "module")
        return tree, out / "module", small.program(ROOT / "tests/system/init.c", "x86_64", out)


def said(
    built: tuple[Path, Path, Path], options: str, change=bytes, load: str = "/linewright.ko"
) -> tuple[str, int | None]:
    """The runner's first line and exit code in a kernel booted with the options; `change` is made
    to the module's bytes."""
    tree, folder, init = built
    files = {"linewright.ko": change((folder / "linewright.ko").read_bytes())}
    boot = small.boot(
        tree,
        "x86_64",
        init,
        [[str(folder / "linewright-kernel"), "--module", load]],
        options,
        files,
    )
    return next(
        (line for line in boot.output[0].splitlines() if line.startswith(("error", "ready"))), ""
    ), boot.codes[0]


@pytest.mark.parametrize(
    "options, reason",
    [
        ("module.sig_enforce=1", "the kernel takes signed modules only"),
        ("lockdown=integrity", "the kernel is locked down"),
        ("lockdown=confidentiality", "the kernel is locked down"),
    ],
)
def test_a_kernel_that_refuses_the_module_is_told_from_a_broken_one(built, options, reason):
    line, code = said(built, options)
    assert reason in line and code == 3, line


def test_a_module_of_another_kernel_says_to_build_it_again(built):
    # Releases are not compared where symbols have versions; the words behind them are.
    line, code = said(
        built,
        "",
        lambda module: module.replace(b" mod_unload modversions", b" mod_unload modversionZ"),
    )
    assert "built for another kernel" in line and code == 3, line


def test_a_module_that_is_not_there_is_named(built):
    line, code = said(built, "", load="/nowhere.ko")
    assert "/nowhere.ko: No such file" in line and code == 3, line


def by_name(built: tuple[Path, Path, Path], more: dict[str, bytes]) -> list[str]:
    """The runner's last line where it is asked for the module by its name, its exit code, and what
    is loaded behind it."""
    tree, folder, init = built
    busybox = tool("busybox", "busybox-static")
    script = "/runner --module linewright </dev/null; echo code $?; /t/0/busybox cat /proc/modules"
    files = {"runner": (folder / "linewright-kernel").read_bytes()} | more
    boot = small.boot(tree, "x86_64", init, [[busybox, "sh", "-c", script]], "", files)
    return [line for line in boot.output[0].splitlines() if line != "done"]


def test_a_module_of_dkms_is_loaded_by_its_name_and_unloaded_again(built):
    """At the place of `dkms.conf`, by Debian's busybox as modprobe, where no PATH leads to it."""
    tree, folder, _ = built
    place = f"lib/modules/{(tree / 'release').read_text().strip()}"
    more = {
        "sbin/modprobe": Path(tool("busybox", "busybox-static")).read_bytes(),
        f"{place}/modules.dep": b"updates/dkms/linewright.ko:\n",
        f"{place}/updates/dkms/linewright.ko": (folder / "linewright.ko").read_bytes(),
    }
    assert by_name(built, more)[-2:] == ["ready", "code 0"]
    del more[f"{place}/updates/dkms/linewright.ko"]
    refused = "error linewright: modprobe could not load it; dmesg says why"
    assert by_name(built, more)[-2:] == [refused, "code 3"]


def test_a_system_without_modprobe_says_so(built):
    said = by_name(built, {})
    assert said == ["error /sbin/modprobe: No such file or directory", "code 3"]


PROBE = ROOT / "build/native/probe/linewright-probe"


def probe_says(answer: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Of a runner that has answered so."""
    (folder / "answer").write_text("".join(f"{line}\n" for line in answer))
    runner = f"sh -c 'cat {folder}/answer; cat >/dev/null'"
    words = [str(PROBE), "--kernel", runner, "--list-forms"]
    return subprocess.run(words, text=True, capture_output=True, check=False)


def test_a_loaded_module_of_another_version_is_replaced_as_the_probe_says(built, tmp_path):
    if not PROBE.exists():
        pytest.skip("the probe is not built")
    tree, folder, init = built
    busybox = tool("busybox", "busybox-static")
    module = (folder / "linewright.ko").read_bytes()
    files = {
        "runner": (folder / "linewright-kernel").read_bytes(),
        "linewright.ko": module,
        "other.ko": module.replace(b"machine interface=%d", b"machine Interface=%d"),
    }
    ask = r"printf 'forms\n\n' | /runner --module /linewright.ko"
    (unload,) = re.findall(r"\(sudo (rmmod \w+)\)", probe_says(["ready", "done"], tmp_path).stderr)
    steps = f"$b insmod /other.ko; {ask}; $b {unload}; echo unloaded $?; {ask}"
    script = f"b=/t/0/busybox; {steps}"
    boot = small.boot(tree, "x86_64", init, [[busybox, "sh", "-c", script]], "", files)
    lines = [line for line in boot.output[0].splitlines() if not line.startswith("[")]
    after = lines.index("unloaded 0")
    other, own = (probe_says(answer, tmp_path) for answer in (lines[:after], lines[after + 1 :]))
    assert other.returncode == 2 and "the loaded module is of version" in other.stderr, other
    assert own.returncode == 0 and "atomic_add" in own.stdout, own
