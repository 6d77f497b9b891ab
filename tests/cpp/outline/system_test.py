# SPDX-License-Identifier: MIT
"""The auditing library under a real arm64 kernel, in an emulated machine: edits through the kernel,
filters, set-user-id.

Exit code 77 (skipped) where the emulator or the kernel is missing.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path

from emulated import AUDIT, PROGRAMS, SYSROOT, Emulated, audited, helper_symbols

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "system"))
import run_arm64

INIT = Path(os.environ["LW_SYSTEM_INIT"])
WORDS_PER_HELPER = 3


class UnderAKernel(Emulated):
    def outputs(self, commands: list[str], files: dict[str, tuple[int, bytes]]) -> list[str]:
        """What each command printed in one boot; every one must end with 0. `files` lie beside the
        programs, with their mode."""
        words = [command.split() for command in commands]
        folders = sorted({str(Path(name).parent) for name in files})
        extra = b"".join(
            run_arm64.cpio_entry(name, 0o040755, b"", i) for i, name in enumerate(folders, 5000)
        )
        extra += b"".join(
            run_arm64.cpio_entry(name, mode, data, i)
            for i, (name, (mode, data)) in enumerate(files.items(), 6000)
        )
        archive = (
            run_arm64.initramfs(INIT, words) + extra + run_arm64.cpio_entry("TRAILER!!!", 0, b"", 0)
        )
        with tempfile.NamedTemporaryFile(suffix=".cpio") as file:
            file.write(archive)
            file.flush()
            console = run_arm64.boot(
                run_arm64.kernel(INIT.parent), Path(file.name), 2, 400, 1500
            ).replace("\r", "")
        printed = io.StringIO()
        with redirect_stdout(printed):
            self.assertEqual(run_arm64.report(console, words), 0, console[-6000:])
        return [m[1] for m in re.finditer(r"^@@run \d+\n(.*?)(?=^@@|\Z)", console, re.M | re.S)]

    def test_everything(self) -> None:
        tell = str(PROGRAMS / "tell.c")
        sums = self.link("gcc", "bfd", "sums.c", tell, "-DTELL", output="sums")
        opens = self.link("gcc", "bfd", "opens_sums.c", output="opens_sums")
        filters = self.link("gcc", "bfd", "filters_itself.c", output="filters_itself")
        nobody = self.link("gcc", "bfd", "as_nobody.c", "-static", output="as_nobody")
        library = self.link(
            "gcc",
            "bfd",
            "sums.c",
            tell,
            "-DSUMS_IN_A_LIBRARY",
            "-shared",
            "-fPIC",
            output="libsums.so",
        )
        here, there = (WORDS_PER_HELPER * len(helper_symbols(path)) for path in (sums, library))
        files = {
            f"lib/{name}": (0o100755, (SYSROOT / "lib" / name).read_bytes())
            for name in ("ld-linux-aarch64.so.1", "libc.so.6")
        }
        files |= {
            "a/audit.so": (0o100755, AUDIT.read_bytes()),
            "a/libsums.so": (0o100755, library.read_bytes()),
        }
        files["a/rights"] = (0o104755, sums.read_bytes())

        audit = "LD_AUDIT=/a/audit.so LINEWRIGHT_VERBOSE=1 LINEWRIGHT_ATOMICS="
        expected = (
            (f"{sums}", 0, 1, 1),
            (f"{audit}default {sums}", 0, 1, 1),
            (f"{audit}prefetch {sums}", here, 1, 1),
            (f"{audit}llsc {sums}", 0, 0, 1),
            (f"{audit}llsc,prefetch {sums}", here, 1, 1),
            (f"{audit}prefetch {opens} -r 5 /a/libsums.so", there, 1, 5),
            (f"{audit}llsc {opens} -r 5 /a/libsums.so", 0, 0, 5),
            (f"{audit}prefetch {filters} /a/libsums.so", 0, 1, 1),
            (f"{audit}llsc {filters} /a/libsums.so", 0, 0, 1),
            (f"{audit}prefetch {filters} -t /a/libsums.so", 0, 1, 1),
            (f"{audit}prefetch {nobody} /a/rights", 0, 1, 1),
        )
        answers = self.outputs([command for command, *_ in expected], files)
        self.assertEqual(len(answers), len(expected))
        for (command, words, byte, times), answer in zip(expected, answers, strict=False):
            with self.subTest(command=command):
                said = [
                    line
                    for line in answer.splitlines()
                    if line and not line.startswith("linewright:")
                ]
                self.assertEqual(
                    said, [f"words changed {words}, lse byte {byte}", "sums exact"] * times
                )
        edited, filtered, in_a_thread, rights = answers[2], answers[7], answers[9], answers[10]
        self.assertTrue(all(entry.changed == entry.found for entry in audited(edited).values()))
        for answer in (filtered, in_a_thread):
            self.assertEqual(
                audited(answer)["/a/libsums.so"].note, "the program has restricted its system calls"
            )
        self.assertNotIn("linewright:", rights)


if __name__ == "__main__":
    try:
        run_arm64.tool("qemu-system-aarch64", "qemu-system-arm")
        run_arm64.kernel(INIT.parent)
    except run_arm64.Unavailable as missing:
        print(f"skipped: {missing}", file=sys.stderr)
        sys.exit(run_arm64.SKIP)
    unittest.main()
