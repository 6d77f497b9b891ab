# SPDX-License-Identifier: MIT
"""An emulated machine with linewright.ko in it: boots one of Debian's kernels and hands cells to
the module's runner in there."""

from __future__ import annotations

import contextlib
import queue
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / room) for room in ("system", "kernel", "py")]

import kernels  # noqa: E402
from run_arm64 import guest_words, initramfs, tool  # noqa: E402
from small import QEMU, complaints, program  # noqa: E402

from support import waiting  # noqa: E402

CPUS = 2
"""As many as the machines have that run the tests: a lock whose next owner waits for a host CPU
takes seconds."""
# Opening the first counter patches the scheduler's code while the other CPU runs it. With a host
# thread for each CPU, 3 of 9 boots of 7.3.4 in QEMU 7.2 ended in "Oops: int3" in __schedule,
# probably by a translation that kept the breakpoint which stood there meanwhile. One host thread
# for all CPUs translates nothing while another CPU stores.
MORE = {("7", "amd64"): ("-accel", "tcg,thread=single")}


KERNELS = re.compile(r"\[ *\d+\.\d{6}\] .*")
"""What the kernel itself says on the console, by `printk.time=1`."""


def untangled(console: Iterable[bytes]) -> Iterator[str]:
    """The console's lines: what the kernel says in the middle of a program's line stands before
    it."""
    begun = ""
    for line in console:
        line = begun + line.decode(errors="replace").replace("\r", "").rstrip("\n")
        said = KERNELS.search(line)
        begun = line[: said.start()] if said else ""
        yield said[0] if said else line


class Machine:
    """A booted kernel. `ask` is a request to the module's runner; `log` is everything that the
    console has said, `build_warnings` what the compilers said against the module."""

    def __init__(
        self,
        vmlinuz: Path,
        architecture: str,
        built: Path,
        init: Path,
        guest: Path | list[str] | None,
        options: str = "",
        more: tuple[str, ...] = (),
    ) -> None:
        """`guest`, a program or a command, runs before the runner, `options` end the kernel's
        command line, `more` words go to the emulator."""
        self.architecture, self.built = architecture, built
        module = (built / "linewright.ko").read_bytes()
        runner = [str(built / "linewright-kernel"), "--module", "/linewright.ko"]
        commands = (
            [guest if isinstance(guest, list) else [str(guest), "/linewright.ko"]] if guest else []
        )
        commands.append(runner)
        self._archive = tempfile.NamedTemporaryFile(suffix=".cpio")
        self._archive.write(initramfs(init, commands, {"linewright.ko": module}))
        self._archive.flush()
        name, package, machine, console = QEMU[architecture]
        # Warnings and worse go to the console, and a warning ends the test that caused it.
        line = f"console={console} loglevel=5 printk.time=1 panic=-1 limit_s=7200"
        line += f" {options}"
        words = guest_words(vmlinuz, self._archive.name, line, CPUS, 1024)
        command = [tool(name, package), *machine, *words, *more]
        self.log: list[str] = []
        self.build_warnings: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        threading.Thread(target=self._read, daemon=True).start()
        self.before = self._until("ready")

    def _read(self) -> None:
        for line in untangled(self.process.stdout):
            self._lines.put(line)
        self._lines.put(None)

    def _until(self, last: str) -> list[str]:
        """The lines up to one that is `last`; AssertionError with the console's end when the
        machine ends before it, or stands still."""
        found: list[str] = []
        while (line := self._line()) != last:
            if line is None:
                raise AssertionError(f"no {last!r} from the machine; {self._end_of_log()}")
            self.log.append(line)
            found.append(line)
        self.log.append(last)
        return found

    def _line(self) -> str | None:
        """The console's next line; None when the machine has ended."""
        if self._lines.empty():
            with contextlib.suppress(queue.Empty):
                return self._lines.get(timeout=1)
            waiting.wait_for(lambda: not self._lines.empty(), said=self._end_of_log)
        return self._lines.get()

    def _end_of_log(self) -> str:
        return "its console ends with:\n" + "\n".join(self.log[-60:])

    def say(self, request: str) -> list[str]:
        """The lines of the runner's answer to a request as it is. What the kernel says on the
        console meanwhile is in `log` alone."""
        self.process.stdin.write((request.strip() + "\n\n").encode())
        self.process.stdin.flush()
        answer = self._until("done")
        return [line for line in answer if not KERNELS.match(line)]

    def ask(self, request: str | dict[str, object]) -> list[str]:
        """The answer to a request, or to all that a cell of `cell()` takes: it is prepared, each
        window runs with its baseline, and it is forgotten.

        Of a cell, a line ``window`` for each window, a line ``sum`` over all of them and ``end
        stop=length`` or ``time``; or the line ``error``.
        """
        if isinstance(request, str):
            return self.say(request)
        fields = dict(request)
        windows = int(fields.pop("windows"))
        window = {key: fields.pop(key) for key in WINDOW & fields.keys()}
        refused = self.say("prepare 0\n" + lines_of(fields))
        answer = refused or self._windows(windows, int(fields.get("lines", 1)), window)
        self.say("forget 0")
        return answer

    def forms(self) -> list[dict[str, str]]:
        """The rows of the module's list that can run on this machine."""
        rows = [parsed(line) for line in self.ask("forms") if line.startswith("form ")]
        return [row for row in rows if not row["missing"]]

    def _windows(self, count: int, lines: int, window: dict[str, object]) -> list[str]:
        answer, totals, stops = [], dict.fromkeys(("expected", "found", "wrong"), 0), set()
        for number in range(count):
            asked = window | {"line": number % lines}
            timed = self.say("window 0\n" + lines_of(asked))
            if timed[0].startswith("error "):
                return timed
            empty = self.say("window 0\n" + lines_of(asked | {"baseline": 1}))
            if empty[0].startswith("error "):
                return empty
            said = parsed(timed[0])
            threads = [parsed(line) for line in timed if line.startswith("thread ")]
            beside = parsed(next(line for line in empty if line.startswith("thread ")))
            answer.append(
                f"window line={number % lines} ns={threads[0]['ns']} ops={threads[0]['ops']}"
                f" batch={said['batch']} baseline_ns={beside['ns']} baseline_ops={beside['ops']}"
                f" threads={','.join(thread['ops'] for thread in threads)}"
            )
            totals = {key: totals[key] + int(said[key]) for key in totals}
            stops.add(said["stop"])
        total = " ".join(f"{key}={value % 2**64}" for key, value in totals.items())
        return [*answer, f"sum {total}", f"end stop={'time' if 'time' in stops else 'length'}"]

    def serve(self, path: Path) -> None:
        """Answer clients of a socket, one after the other, as the runner would: relay.py, in the
        place of linewright-kernel. Returns when the socket's file is gone."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(1)
            listener.settimeout(0.2)
            while path.exists():
                try:
                    client = listener.accept()[0]
                except TimeoutError:
                    continue
                client.settimeout(None)
                with client:
                    self._serve(client.makefile("rwb"))

    def _serve(self, stream: BinaryIO) -> None:
        stream.write(b"ready\n")
        stream.flush()
        request = b""
        with contextlib.suppress(BrokenPipeError):
            for line in stream:
                request += line
                if line == b"\n":
                    answer = self.say(request.decode())
                    stream.write("".join(f"{word}\n" for word in [*answer, "done"]).encode())
                    stream.flush()
                    request = b""
            stream.close()

    def warnings(self) -> list[str]:
        """What the kernel complained about since it booted."""
        return complaints(self.log)

    def end(self) -> None:
        """End the runner's input; the machine switches itself off, and the emulator's plugins write
        what they have."""
        self.process.stdin.write(b"\x04")
        self.process.stdin.flush()
        waiting.wait_for(lambda: self.process.poll() is not None, said=self._end_of_log)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._archive.close()


@contextlib.contextmanager
def quiet(machine: Machine) -> Iterator[Machine]:
    """The machine, switched off when it is left; AssertionError where its kernel has complained."""
    with contextlib.closing(machine):
        yield machine
    assert not machine.warnings(), "\n".join(machine.log[-200:])


WINDOW = {"line", "cpus", "window_us", "limit_ms", "batch", "batch_ns", "baseline"}
"""Keys that belong to a window; the others are the cell's."""


def cell(**fields: object) -> dict[str, object]:
    """A cell with its windows, for `Machine.ask`: short ones, which show no time but everything
    else, below the longest limit that the module takes: on PREEMPT_RT one grace period on a loaded
    machine may take a third of it."""
    return {"windows": 2, "window_us": 2000, "limit_ms": 60000} | fields


def of_form(form: dict[str, str], **fields: object) -> dict[str, object]:
    """A cell of a form, on CPU 0 unless `fields` say otherwise."""
    own = {"operation": form["operation"], "form": form["name"], "width": form["width"]}
    return cell(**own | {"cpus": 0} | fields)


BESIDE = {"threads": 2, "cpus": "0,1", "contender": "same_line"}
"""A second thread at the same line, on the other CPU."""


def windows_of(answer: list[str]) -> list[dict[str, str]]:
    return [parsed(line) for line in answer if line.startswith("window ")]


def sum_of(answer: list[str]) -> dict[str, str]:
    """What the windows have added up to; AssertionError with the answer where they did not run."""
    found = [parsed(line) for line in answer if line.startswith("sum ")]
    assert len(found) == 1, "\n".join(answer)
    return found[0]


def lines_of(fields: dict[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in fields.items())


def parsed(line: str) -> dict[str, str]:
    """The words of a line behind the first, by key."""
    return dict(word.split("=", 1) for word in line.split(" ")[1:] if "=" in word)


def boot(series: str, architecture: str, out: Path, compiler: str = "gcc") -> Machine:
    """Fetch the kernel, build the module, boot. Raises run_arm64.Unavailable with what is
    missing."""
    tool(*QEMU[architecture][:2])
    tree = kernels.fetch(series, architecture, ROOT / "build")
    built = out / "module"
    said = kernels.build(series, architecture, built, compiler)
    init = program(ROOT / "tests/system/init.c", architecture, out)
    guest = program(ROOT / "tests/kernel/guest.c", architecture, out)
    more = MORE.get((series, architecture), ())
    machine = Machine(tree / "vmlinuz", architecture, built, init, guest, more=more)
    machine.build_warnings = kernels.warnings(said)
    return machine
