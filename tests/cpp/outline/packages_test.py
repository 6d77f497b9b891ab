# SPDX-License-Identifier: MIT
"""Debian's own arm64 programs under the auditing library, answering a real load; and the helpers of
other compilers.

The packages are downloaded once through an apt state of their own, which leaves the system's alone,
and kept in the build folder. Exit code 77 (skipped, saying why) where apt cannot reach its
packages."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emulated import AUDIT, OLD_CLANG, PROGRAMS, TRIPLET, Emulated, audited, helper_symbols, run

CACHE = Path(
    os.environ.get("LW_PACKAGES_DIR")
    or Path(__file__).resolve().parents[3] / "build" / "arm64-packages"
)
SERVERS = ("memcached", "redis-server")
COMPILER_LIBRARIES = ("libclang-rt-14-dev", "libclang-rt-19-dev", "libgcc-11-dev", "libgcc-12-dev")
THREADS, ROUNDS = 4, 150
WORDS_PER_HELPER = 3
# As `linewright run` sets it: under any auditing library the dynamic linker has little room for
# jemalloc's thread-locals.
TLS_ROOM = "glibc.rtld.optional_static_tls=16384"


class Unavailable(Exception):
    """The packages are not available here."""


class Apt:
    """A private apt state for arm64."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for part in ("lists/partial", "cache/archives/partial", "debs"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        self.options = [
            f"-o{name}={value}"
            for name, value in {
                "APT::Architecture": "arm64",
                "APT::Architectures::": "arm64",
                "APT::Install-Recommends": "0",
                "APT::Sandbox::User": "root",
                "Acquire::Retries": "3",
                "Dir::State": folder,
                "Dir::State::lists": folder / "lists",
                "Dir::State::status": folder / "status",
                "Dir::Cache": folder / "cache",
            }.items()
        ]

    def get(self, *words: str) -> str:
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            raise Unavailable("apt-get or dpkg is not installed")
        command = ["apt-get", *self.options, *words]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=600, cwd=self.folder / "debs"
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"apt-get {words[0]}: no answer in 600 s") from None
        if done.returncode != 0:
            raise Unavailable(
                f"apt-get {words[0]}: "
                f"{(done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]}"
            )
        return done.stdout


def fetched() -> Path:
    """The folder with everything unpacked; filled on first use."""
    root = CACHE / "root"
    stamp = CACHE / "complete"
    wanted = " ".join((*SERVERS, *COMPILER_LIBRARIES))
    if stamp.exists() and stamp.read_text() == wanted:
        return root
    shutil.rmtree(CACHE, ignore_errors=True)
    apt = Apt(CACHE)
    apt.get("update")
    plan = apt.get("--simulate", "install", *SERVERS)
    packages = re.findall(r"^Inst (\S+)", plan, re.M)
    apt.get("download", *packages, *COMPILER_LIBRARIES)
    for package in sorted((CACHE / "debs").glob("*.deb")):
        run("dpkg", "-x", package, root)
    shutil.rmtree(CACHE / "lists")
    shutil.rmtree(CACHE / "debs")
    stamp.write_text(wanted)
    return root


class Lines:
    """A connection that speaks in lines. Over a path: a port that is free now may be taken when the
    server wants it, and who asks often enough for a port where no server listens is at last
    connected to itself."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(400)
        try:
            self.socket.connect(str(path))
        except OSError:
            self.socket.close()
            raise
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()

    def ask(self, text: str, answers: int = 1) -> list[str]:
        self.socket.sendall(text.encode())
        return [self.file.readline().decode().rstrip("\r\n") for _ in range(answers)]


def in_threads(work) -> None:
    """Runs work(0) … work(THREADS - 1) at once; the first failure is raised."""
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as failure:  # handed on below
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def load_memcached(path: Path) -> None:
    with Lines(path) as connection:
        assert connection.ask("set total 0 0 1\r\n0\r\n") == ["STORED"]

    def work(me: int) -> None:
        with Lines(path) as connection:
            for i in range(ROUNDS):
                value = f"{me}:{i}:" + "x" * (i % 90)
                assert connection.ask(
                    f"set own{me}.{i % 10} {i} 0 {len(value)}\r\n{value}\r\n"
                ) == ["STORED"]
                assert connection.ask("incr total 3\r\n")[0].isdigit()
                got = connection.ask(f"get own{me}.{i % 10}\r\n", 3)
                assert got == [f"VALUE own{me}.{i % 10} {i} {len(value)}", value, "END"], got

    in_threads(work)
    with Lines(path) as connection:
        assert connection.ask("get total\r\n", 3)[1] == str(3 * THREADS * ROUNDS)


def load_redis(path: Path) -> None:
    def work(me: int) -> None:
        with Lines(path) as connection:
            for i in range(ROUNDS):
                # Several commands in one write, so that the threads that read and write for redis
                # get work.
                batch = (
                    f"INCRBY total 3\r\nSET own{me} {me}:{i}\r\nGET own{me}\r\nLPUSH list "
                    f"{me}.{i}\r\n"
                )
                got = connection.ask(batch, 5)
                assert (
                    got[0][0] == ":"
                    and got[1] == "+OK"
                    and got[3] == f"{me}:{i}"
                    and got[4][0] == ":"
                ), got

    in_threads(work)
    with Lines(path) as connection:
        assert connection.ask("GET total\r\n", 2)[1] == str(3 * THREADS * ROUNDS)
        assert connection.ask("LLEN list\r\n") == [f":{THREADS * ROUNDS}"]


class Packages(Emulated):
    root: Path

    @contextmanager
    def serving(
        self, program: str, arguments: list[str], setting: str | None
    ) -> Iterator[tuple[Path, Path]]:
        """A server under the emulator; gives the path of its socket and the file its standard error
        goes to."""
        path = self.dir / "socket"
        path.unlink(missing_ok=True)
        said = self.dir / "stderr"
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith(("LINEWRIGHT_", "LD_"))
        }
        audit: list[str] = []
        if setting is not None:
            environment |= {
                "LINEWRIGHT_ATOMICS": setting,
                "LINEWRIGHT_VERBOSE": "1",
                "GLIBC_TUNABLES": TLS_ROOM,
            }
            audit = ["-E", f"LD_AUDIT={AUDIT}"]
        with said.open("w") as stderr:
            process = subprocess.Popen(
                [
                    "qemu-aarch64",
                    "-cpu",
                    "max",
                    "-L",
                    self.root,
                    *audit,
                    self.root / "usr/bin" / program,
                    *[a.format(path=path) for a in arguments],
                ],
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=environment,
                cwd=self.dir,
            )
            try:
                self.wait_for(path, process, said)
                yield path, said
                self.assertIsNone(process.poll(), "the server ended by itself")
                process.terminate()
                self.assertIn(process.wait(timeout=400), (0, -15))
            finally:
                process.kill()
                process.wait()

    def wait_for(self, path: Path, process: subprocess.Popen[bytes], said: Path) -> None:
        end = time.monotonic() + 400
        while time.monotonic() < end:
            if process.poll() is not None:
                self.fail(f"exit {process.returncode}\n{said.read_text()[-3000:]}")
            try:
                with Lines(path):
                    return
            except OSError:
                time.sleep(0.05)
        self.fail("the server does not listen")

    def counted(self, path: Path) -> int:
        """Helpers in a stripped file by an independent way: the disassembler's text."""
        listing = run(f"{TRIPLET}-objdump", "-d", "--no-show-raw-insn", path).stdout
        return len(
            re.findall(
                r"adrp\tx16, .*\n.*\tldrb\tw16, \[x16.*\n.*\tcbz\tw16, .*\n"
                r".*\t(?:cas|swp|ld(?:add|clr|set|eor))\w*\t.*\n.*\tret\n",
                listing,
            )
        )

    def check(self, program: str, arguments: list[str], load) -> None:
        for setting in (None, "prefetch", "llsc", "llsc,prefetch"):
            with (
                self.subTest(setting=setting),
                self.serving(program, arguments, setting) as (path, said),
            ):
                load(path)
                if setting is None:
                    continue
                objects = audited(said.read_text())
                self.assertEqual(
                    objects["the program"].found, self.counted(self.root / "usr/bin" / program)
                )
                self.assertGreater(objects["the program"].found, 0)
                for name, entry in objects.items():
                    self.assertEqual(entry.changed, entry.found, name)
                libc = next(entry for name, entry in objects.items() if name.endswith("/libc.so.6"))
                self.assertGreater(libc.found, 0)

    def test_memcached(self) -> None:
        self.check(
            "memcached", ["-u", "root", "-s", "{path}", "-t", "4", "-m", "64"], load_memcached
        )

    def test_redis(self) -> None:
        arguments = (
            "--port 0 --unixsocket {path} --save {none} --io-threads 4 --io-threads-do-reads yes"
            " --ignore-warnings ARM64-COW-BUG"
        )
        self.check("redis-server", [a.replace("{none}", "") for a in arguments.split()], load_redis)

    def test_helpers_of_other_compilers(self) -> None:
        """compiler-rt of two LLVMs, without landing pads, and the libgcc of another gcc, put before
        the compiler's own."""
        for pattern in (
            "usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.builtins-aarch64.a",
            f"usr/lib/gcc*/{TRIPLET}/*/libgcc.a",
        ):
            libraries = sorted(self.root.glob(pattern))
            self.assertEqual(len(libraries), 2)
            for library in libraries:
                with self.subTest(library=str(library.relative_to(self.root))):
                    program = self.link(
                        OLD_CLANG,
                        "bfd",
                        "sums.c",
                        str(PROGRAMS / "tell.c"),
                        "-DTELL",
                        str(library),
                    )
                    helpers = helper_symbols(program)
                    self.assertGreater(len(helpers), 5)
                    for setting, words, byte in (
                        ("prefetch", WORDS_PER_HELPER * len(helpers), 1),
                        ("llsc", 0, 0),
                    ):
                        done = self.emulate(
                            self.stripped(program), setting=setting, verbose=True, audit=AUDIT
                        )
                        self.assertEqual(
                            done.stdout, f"words changed {words}, lse byte {byte}\nsums exact\n"
                        )
                        entry = audited(done.stderr)["the program"]
                        self.assertEqual(
                            sorted(n for n, _ in entry.helpers.values()), sorted(helpers.values())
                        )
                        self.assertEqual(entry.changed, len(helpers))


if __name__ == "__main__":
    try:
        Packages.root = fetched()
    except Unavailable as missing:
        print(f"skipped: {missing}", file=sys.stderr)
        sys.exit(77)
    unittest.main()
