"""An emulated machine with linewright.ko in it: boots one of Debian's kernels and hands cells to the module's runner in
there."""

from __future__ import annotations

import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/system"), str(ROOT / "tests/kernel")]

import kernels  # noqa: E402
from run_arm64 import initramfs, tool  # noqa: E402

CPUS = 2
"""As many as the machines have that run the tests: a lock whose next owner waits for a host CPU takes seconds."""
# The kernel tests its timer by a busy loop: with no host CPU at hand for the emulated timer that ends in a panic.
CONSOLE = {"amd64": "ttyS0 no_timer_check", "arm64": "ttyAMA0", "i386": "ttyS0 no_timer_check"}
# CMPXCHG16B without LOCK, which allocators of 6.12 use, comes out of QEMU 7.2 with flags that hold part of RAX: a panic
# in some boots. A kernel for 32 bits cannot do without CMPXCHG8B, of which the same was seen (all flags set, behind
# an addition of -1): blocks of one instruction, which leave no flags to be made up later, have not shown it.
QEMU = {
    "amd64": ("qemu-system-x86_64", "qemu-system-x86", ["-M", "q35", "-cpu", "max,-cx16"]),
    "arm64": ("qemu-system-aarch64", "qemu-system-arm", ["-M", "virt", "-cpu", "max,pauth-impdef=on"]),
    "i386": ("qemu-system-i386", "qemu-system-x86", ["-M", "q35", "-cpu", "max,vendor=GenuineIntel", "-singlestep"]),
}
CONSOLE["x86_64"], QEMU["x86_64"] = CONSOLE["amd64"], QEMU["amd64"]  # the kernel's name beside Debian's
BOOT_S = 240
ANSWER_S = 240
"""Far above what a cell takes under emulation on a machine that does other things, too."""


class Machine:
    """A booted kernel. `ask` is a request to the module's runner; `log` is everything that the console has said,
    `build_warnings` what the compilers said against the module."""

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
        """`guest`, a program or a command, runs before the runner, `options` end the kernel's command line, `more`
        words go to the emulator."""
        self.architecture, self.built = architecture, built
        module = (built / "linewright.ko").read_bytes()
        runner = [str(built / "linewright-kernel"), "--module", "/linewright.ko"]
        commands = [guest if isinstance(guest, list) else [str(guest), "/linewright.ko"]] if guest else []
        commands.append(runner)
        self._archive = tempfile.NamedTemporaryFile(suffix=".cpio")
        self._archive.write(initramfs(init, commands, {"linewright.ko": module}))
        self._archive.flush()
        name, package, machine = QEMU[architecture]
        command = [tool(name, package), *machine, "-smp", str(CPUS), "-m", "1024", "-nographic", "-nic", "none"]
        command += [*more, "-no-reboot", "-kernel", str(vmlinuz), "-initrd", self._archive.name, "-append"]
        # Warnings and worse go to the console, and a warning ends the test that caused it.
        command.append(f"console={CONSOLE[architecture]} loglevel=5 panic=-1 limit_s=3000 {options}")
        self.log: list[str] = []
        self.build_warnings: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        threading.Thread(target=self._read, daemon=True).start()
        self.before = self._until("ready", BOOT_S)

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line.decode(errors="replace").replace("\r", "").rstrip("\n"))
        self._lines.put(None)

    def _until(self, last: str, seconds: float) -> list[str]:
        """The lines up to one that is `last`; AssertionError with the console's end when it does not come."""
        found: list[str] = []
        deadline = time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:
                raise AssertionError(
                    f"no {last!r} from the machine; its console ends with:\n" + "\n".join(self.log[-60:])
                )
            self.log.append(line)
            if line == last:
                return found
            found.append(line)

    def ask(self, request: str) -> list[str]:
        """The lines of the runner's answer to a request."""
        self.process.stdin.write((request.strip() + "\n\n").encode())
        self.process.stdin.flush()
        return self._until("done", ANSWER_S)

    def serve(self, path: Path) -> None:
        """Answer one client of a socket as the runner would: relay.py, in the place of linewright-kernel."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(1)
            stream = listener.accept()[0].makefile("rwb")
        stream.write(b"ready\n")
        stream.flush()
        request = b""
        for line in stream:
            request += line
            if line == b"\n":
                answer = self.ask(request.decode())
                stream.write("".join(f"{word}\n" for word in [*answer, "done"]).encode())
                stream.flush()
                request = b""
        stream.close()

    def warnings(self) -> list[str]:
        """What the kernel complained about since it booted."""
        signs = ("WARNING:", "BUG:", "Oops", "INFO: rcu", "soft lockup", "INFO: task", "Call trace", "Call Trace")
        return [line for line in self.log if any(sign in line for sign in signs)]

    def end(self) -> None:
        """End the runner's input; the machine switches itself off, and the emulator's plugins write what they have."""
        self.process.stdin.write(b"\x04")
        self.process.stdin.flush()
        self.process.wait(timeout=BOOT_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._archive.close()


def cell(**fields: object) -> str:
    """A cell as the module reads it: short windows, which show no time but everything else."""
    chosen = {"windows": 2, "window_us": 2000, "limit_ms": 20000} | fields
    return "\n".join(f"{key}={value}" for key, value in chosen.items())


def parsed(line: str) -> dict[str, str]:
    """The words of a line behind the first, by key."""
    return dict(word.split("=", 1) for word in line.split(" ")[1:] if "=" in word)


def program(source: Path, architecture: str, out: Path) -> Path:
    """A static program for the machine, built from one C file."""
    compiler = f"{kernels.CROSS[architecture]}gcc"
    target = out / source.stem
    subprocess.run(
        [
            tool(compiler, f"gcc-{compiler}"),
            *kernels.PROGRAMS.get(architecture, []),
            *("-O2", "-Wall", "-static", "-o", str(target), str(source)),
        ],
        check=True,
    )
    return target


def boot(series: str, architecture: str, out: Path, compiler: str = "gcc") -> Machine:
    """Fetch the kernel, build the module, boot. Raises run_arm64.Unavailable with what is missing."""
    name, package, _ = QEMU[architecture]
    tool(name, package)
    tree = kernels.fetch(series, architecture, ROOT / "build")
    built = out / "module"
    said = kernels.build(series, architecture, built, compiler)
    init = program(ROOT / "tests/system/init.c", architecture, out)
    guest = program(ROOT / "tests/kernel/guest.c", architecture, out)
    machine = Machine(tree / "vmlinuz", architecture, built, init, guest)
    machine.build_warnings = kernels.warnings(said)
    return machine
