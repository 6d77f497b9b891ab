# SPDX-License-Identifier: MIT
"""The command `persistent_log` with several processes: one appends at a time, and printing changes
nothing.

usage: command_test.py PROGRAM [EMULATOR…]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

PROGRAM: list[str] = []


def run(*arguments: str | Path, lines: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *map(str, arguments)], input=lines, capture_output=True, text=True, timeout=300
    )


class Command(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = Path(folder.name, "log")

    def test_of_two_appenders_the_second_is_refused_and_nothing_is_lost(self) -> None:
        first = subprocess.Popen(
            [*PROGRAM, "append", self.log], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.assertIn("0 records", first.stderr.readline())  # it has the log open now
        second = run("append", self.log, lines="from the second\n")
        self.assertEqual(second.returncode, 3)
        self.assertIn("another process has it open", second.stderr)
        first.communicate("".join(f"line {i}\n" for i in range(2000)))
        self.assertEqual(first.returncode, 0)
        printed = run("print", self.log).stdout.splitlines()
        self.assertEqual(printed, [f"{i + 1}\tline {i}" for i in range(2000)])

    def test_of_many_who_create_it_at_once_none_loses_a_line_that_was_taken(self) -> None:
        taken: list[str] = []

        def append(number: int) -> None:
            if run("append", self.log, lines=f"{number}\n").returncode == 0:
                taken.append(str(number))

        threads = [threading.Thread(target=append, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        printed = [line.split("\t")[1] for line in run("print", self.log).stdout.splitlines()]
        self.assertTrue(taken)
        self.assertEqual(sorted(printed), sorted(taken))
        self.assertEqual([p.name for p in self.log.parent.iterdir()], ["log"])

    def test_printing_writes_nothing(self) -> None:
        self.assertEqual(run("append", self.log, lines="one\ntwo\n").returncode, 0)
        before = self.log.read_bytes()
        self.log.chmod(0o444)
        self.assertEqual(run("print", self.log).stdout, "1\tone\n2\ttwo\n")
        self.assertEqual(self.log.read_bytes(), before)
        absent = run("print", self.log.with_name("absent"))
        self.assertEqual(absent.returncode, 3)
        self.assertFalse(self.log.with_name("absent").exists())

    def test_a_creation_that_did_not_end_is_begun_again(self) -> None:
        """A kill in the middle of it leaves a file of any length under the other name, and none
        under the log's."""
        self.log.with_name("log.new").write_bytes(os.urandom(5000))
        self.assertEqual(run("append", self.log, lines="one\n").returncode, 0)
        self.assertEqual(self.log.stat().st_size, 1 << 20)
        self.assertEqual(run("print", self.log).stdout, "1\tone\n")
        for size in (0, 4096, 5000):  # what a creation in place would have left
            self.log.write_bytes(bytes(size))
            self.assertIn("not a log", run("append", self.log, lines="two\n").stderr)
        self.log.write_bytes(bytes(8192))
        self.assertIn("not a log", run("append", self.log, lines="two\n").stderr)


if __name__ == "__main__":
    PROGRAM[:] = [*sys.argv[2:], sys.argv[1]]
    unittest.main(argv=sys.argv[:1])
