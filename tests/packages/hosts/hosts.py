# SPDX-License-Identifier: MIT
"""What the installed command does on an arm64 and on an i386 machine over ssh; hosts.py FOLDER,
with the environment in FOLDER/env."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(ROOT / "tests/py")]

from arm64_machine import Arm64Machine  # noqa: E402

from support.sshd import SSHD, Keys, Sshd  # noqa: E402

COMPILERS = {
    "arm64": (["aarch64-linux-gnu-gcc"], ["aarch64-linux-gnu-g++", "-fno-pie"]),
    "i386": (
        ["gcc-12", "-m32", "-I/usr/include/x86_64-linux-gnu"],
        ["g++-12", "-m32", "-I/usr/include/x86_64-linux-gnu"],
    ),
}
MEASURED = {"arm64": "ldadd", "i386": "lock_xadd"}


def programs(folder: Path, arch: str) -> dict[str, Path]:
    """`program`, which trials run, and `planted`, whose shared lines are known: static, and so at
    home anywhere."""
    c, cxx = COMPILERS[arch]
    made = {name: folder / f"{arch}-{name}" for name in ("program", "planted")}
    flags = ["-O2", "-g", "-pthread"]
    subprocess.run([*c, *flags, HERE / "program.c", "-o", made["program"]], check=True)
    planted = ROOT / "tests/cpp/find/planted.cpp"
    # It calls dlopen, of which the linker warns in a static program; the kinds tried here do not
    # come there.
    subprocess.run(
        [*cxx, *flags, "-std=c++20", "-static", planted, "-o", made["planted"]],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return made


class Command:
    """The installed command, in a folder where the checkout is out of reach."""

    def __init__(self, folder: Path, keys: Keys) -> None:
        self._cwd = folder / "work"
        self._cwd.mkdir()
        self._program = folder / "env/bin/linewright"
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._cwd),
            "LINEWRIGHT_SSH": keys.ssh_command,
        }

    def __call__(self, *words: str) -> str:
        began = time.monotonic()
        done = subprocess.run(
            [self._program, *words], cwd=self._cwd, env=self._environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=1200,
        )  # fmt: skip
        print(f"{' '.join(words)}: {time.monotonic() - began:.0f} s", flush=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def records(self, name: str) -> list[dict]:
        return [json.loads(line) for line in (self._cwd / name).read_text().splitlines()]


def sampled(command: Command, host: str, arch: str, there: str) -> None:
    """Planted lines are found by samples, and by watchpoints where only plain stores touch them."""
    for kind, name in (("true", "true_counter"), ("false_plain", "plain_counters")):
        for _ in range(
            3
        ):  # on a busy machine an emulated clock runs on without its CPUs, and few samples come
            found = json.loads(
                command(
                    "find",
                    "--on",
                    f"ssh://{host}",
                    "--json",
                    "--",
                    f"{there}planted",
                    kind,
                    "2",
                    "10",
                )
            )
            if found["lines"]:
                break
        assert (found["arch"], found["source"]) == (arch, "timer") and found["lines"], found
        first = found["lines"][0]
        assert name in first["object"] and first["kind"] == kind.partition("_")[0], found
        # An atomic's site on arm64 is the compiler's helper, which has no line of the program's.
        assert kind == "true" or "planted.cpp" in first["sites"][0]["source"], first["sites"]


def tried(command: Command, host: str, arch: str, there: str) -> None:
    """All four commands on one machine whose programs lie in the folder `there`."""
    on = ("--on", f"ssh://{host}")
    command(
        "measure",
        *on,
        "--only",
        MEASURED[arch],
        "--set",
        "launches=1",
        "--budget",
        "20s",
        "--format",
        "none",
        "-o",
        f"{host}.jsonl",
    )
    lines = command.records(f"{host}.jsonl")
    assert {line["arch"] for line in lines if "arch" in line} == {arch}
    # A busy machine disturbs every window of an emulated one, and the records say so.
    assert {line["status"] for line in lines if "status" in line} <= {"ok", "unreliable"}, lines
    sampled(command, host, arch, there)
    settings = (
        ["--settings", "default/llsc"] if arch == "arm64" else ["--env", "A=1", "--env", "A=2"]
    )
    said = command(
        "trial",
        *on,
        *settings,
        "--runs",
        "3",
        "--set",
        "warmup=0",
        "--metric",
        r"rate (\d+)",
        "--output",
        f"{host}-t.jsonl",
        "--json",
        "--",
        f"{there}program",
    )
    assert json.loads(said)["session"]["target"] == f"ssh://{host}"
    samples = [line for line in command.records(f"{host}-t.jsonl") if line.get("value")]
    assert len(samples) == 6, samples
    command("workload", *on, "ticket", "--threads", "2")


def arm64(command: Command, folder: Path, keys: Keys) -> None:
    machine = Arm64Machine(folder, keys.folder / "user.pub", programs(folder, "arm64"))
    with (keys.folder / "config").open("a") as config:  # its own key is made when it boots
        config.write(f"Host arm\n  Port {machine.port}\n  HostKeyAlgorithms ssh-ed25519\n")
    known = subprocess.run(
        ["ssh-keyscan", "-p", str(machine.port), "-t", "ed25519", "127.0.0.1"],
        capture_output=True,
        check=True,
    ).stdout
    with (keys.folder / "known").open("ab") as file:
        file.write(known)
    try:
        tried(command, "arm", "arm64", "./")
    finally:
        machine.close()


def i386(command: Command, folder: Path, keys: Keys) -> None:
    """This machine as a 32-bit one: `uname` says i686, and what is started there is i386
    throughout."""
    made = programs(folder, "i386")
    there = folder / "there"
    there.mkdir()
    for name, path in made.items():
        shutil.copy2(path, there / name)
    server = Sshd(keys, "old", {}, ("setarch", "i686"))
    try:
        tried(command, "old", "i386", f"{there}/")
        assert server.left() == [], "nothing stays there"
    finally:
        server.stop()


def main() -> None:
    folder = Path(sys.argv[1])
    assert SSHD, "no sshd: apt install openssh-server"
    (folder / "keys").mkdir()
    keys = Keys(folder / "keys")
    command = Command(folder, keys)
    i386(command, folder, keys)
    arm64(command, folder, keys)


if __name__ == "__main__":
    main()
