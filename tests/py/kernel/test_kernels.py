# SPDX-License-Identifier: MIT
"""Debian's kernels for the tests: what counts as a warning against the module, and tools that bring
their libraries; and mistakes that are made in the module."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from support.places import ROOT
from support.planted import planted

sys.path.insert(0, str(ROOT / "tests/kernel"))

import kernels
from test_debug_kernels import ALONE, IN_FORMS, IN_MEMORY, RACING


def test_warnings_of_the_module_are_told_from_those_of_others():
    said = """\
warning: the compiler differs from the one used to build the kernel
warning: pahole version differs from the one used to build the kernel
/c/usr/src/linux-headers-7.3.4+deb13-common/include/linux/fs.h:2461:2: warning: anonymous structs
2 warnings generated.
dma.c:76:15: warning: unused variable
/tmp/out/module/readers.c:1:1: warning: no previous prototype
/tmp/out/module/dma.o: warning: objtool: dma_life+0x1: indirect jump found in RETPOLINE build
WARNING: modpost: missing MODULE_LICENSE()
"""
    assert [line.split(":")[0].rsplit("/", 1)[-1] for line in kernels.warnings(said)] == [
        "dma.c", "readers.c", "dma.o", "WARNING",
    ]  # fmt: skip


MISTAKES = IN_FORMS | IN_MEMORY | ALONE | RACING


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_for_the_debug_kernels_still_has_its_place(name):
    """Their own tests take minutes and are run seldom; the module's text changes more often."""
    text = (ROOT / "kmod" / MISTAKES[name].file).read_text()
    assert planted(text, MISTAKES[name].right, MISTAKES[name].wrong) != text


@pytest.mark.skipif(not shutil.which("ldd"), reason="no ldd")
def test_a_build_tool_starts_with_the_libraries_beside_it(tmp_path):
    """With a loader and a C library under another path, and under its own name, by which objtool
    finds its parts."""
    libraries = tmp_path / "libraries/usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    shell = shutil.which("sh")
    needed = subprocess.run(["ldd", shell], text=True, capture_output=True, check=True).stdout
    for word in needed.split():
        if word.startswith("/"):
            shutil.copy(os.path.realpath(word), libraries / os.path.basename(word))
    if not (libraries / "ld-linux-x86-64.so.2").exists():
        pytest.skip("not an x86-64 system")
    folder = tmp_path / "usr/lib/linux-kbuild-7/scripts"
    folder.mkdir(parents=True)
    shutil.copy(shell, folder / "sh")
    (folder / "script").write_text("#!/bin/sh\necho unchanged\n")
    kernels.run_with_libraries(tmp_path, tmp_path)
    assert (folder / "script").read_text() == "#!/bin/sh\necho unchanged\n"
    traced = subprocess.run(
        [folder / "sh", "-c", 'echo "$0"'],  # the name that it was started by
        env={"LD_DEBUG": "libs"},
        text=True,
        capture_output=True,
        check=True,
    )
    assert traced.stdout == f"{folder}/sh\n"
    assert f"{libraries}/libc.so.6" in traced.stderr


COMPILER = """\
#!/bin/sh
case " $* " in
    *" -c /dev/null "*) ;; # a question: what one option is to it
    *) printf '%s\\n' "$@"; exit ;;
esac
case " $* " in
    *" -fmin-function-alignment"* | *" -fconserve-stack "*)
        echo "unrecognized command-line option" >&2; exit 1 ;;
    *" -mcmodel=kernel "*) echo "error: code model kernel does not support PIC mode" >&2; exit 1 ;;
esac
"""


@pytest.mark.parametrize("target", [[], ["--target=x86_64-linux-gnu"]])
def test_options_that_a_compiler_does_not_know_are_left_out(tmp_path, target):
    (tmp_path / "cc").write_text(COMPILER)
    (tmp_path / "cc").chmod(0o755)
    options = [
        "-mcmodel=kernel",
        "-fconserve-stack",
        "-fmin-function-alignment=16",
        "-include",
        "/k/include/linux/kconfig.h",
    ]
    told = subprocess.run(
        [ROOT / "tests/kernel/known_options.sh", tmp_path / "cc", *target, *options, "x.c"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path)},
        text=True, capture_output=True, check=True,
    ).stdout.split()  # fmt: skip
    # What clang's configuration would be comes behind that of the kernel, and only for clang.
    clang = ["-include", f"{ROOT}/tests/kernel/clang_config.h"] if target else []
    kept = ["-mcmodel=kernel", "-falign-functions=16", "-include", "/k/include/linux/kconfig.h"]
    assert told == [*target, *kept, *clang, "x.c"]
