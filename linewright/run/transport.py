# SPDX-License-Identifier: MIT
"""Ways to run a shell script elsewhere: over ssh, or behind a command such as `docker exec -i
NAME`."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from linewright.errors import UserError, one_line
from linewright.run.process import die_with_parent
from linewright.units import shell_words

SSH = "LINEWRIGHT_SSH"
"""Environment variable with the ssh command and options of the user's own, which count before
ours."""
OPTIONS = (
    *("-T", "-x", "-oClearAllForwardings=yes", "-oForwardAgent=no", "-oRemoteCommand=none"),
    *("-oPermitLocalCommand=no", "-oConnectTimeout=20", "-oLogLevel=ERROR"),
    *("-oServerAliveInterval=15", "-oServerAliveCountMax=3"),
)
"""A host that stops answering is given up after 45 s."""
CONNECT_S = 90.0
"""Longest wait for a connection where ssh cannot ask the user anything."""
LONGEST_SOCKET = 80
"""Characters of a socket's path that leave room for what ssh appends; the kernel allows 107."""
CLOSE_S = 10.0


class Transport:
    """A command that runs another one elsewhere: a container, a batch system, another user.

    `name` is what messages and records call the machine.
    """

    may_emulate = True
    """Whether the command may be an emulator, which runs programs of another architecture, but no
    shell."""

    def __init__(self, command: str) -> None:
        where = "--on exec:COMMAND"
        self.words = shell_words(command, where, "quoted as in a shell")
        if not self.words:
            raise UserError("no command named", where, "for example 'exec:docker exec -i NAME'")
        if shutil.which(self.words[0]) is None:
            what = f"no such program: {self.words[0]}"
            raise UserError(what, where, "a command that can be run here")
        self.name = f"exec:{command.strip()}"

    def shell(self, script: str) -> list[str]:
        """The command here that runs a POSIX shell script there, with its three standard
        streams."""
        return [*self.words, "sh", "-c", script]

    def reason(self, said: str) -> str:
        """Why the connection failed, from what was said on standard error; empty if it stands."""
        return ""

    def close(self) -> None:
        """End the connection, where there is one."""


class Ssh(Transport):
    """One connection to a host, shared by every script. Configuration, host keys and credentials
    are ssh's own.

    Raises UserError where the connection cannot be made.
    """

    may_emulate = False

    def __init__(self, address: str) -> None:
        user, host, port = parse_address(address)
        self.name = "ssh:" + (f"{user}@" if user else "") + host + (f":{port}" if port else "")
        self._folder = tempfile.mkdtemp(prefix="linewright-")
        if len(self._folder) > LONGEST_SOCKET:
            os.rmdir(self._folder)
            self._folder = tempfile.mkdtemp(prefix="linewright-", dir="/tmp")
        self._socket = os.path.join(self._folder, "ssh")
        self._errors = Path(self._folder, "errors")
        self._may_ask = sys.stdin is not None and sys.stdin.isatty()
        batch = () if self._may_ask else ("-oBatchMode=yes",)
        target = (*(("-l", user) if user else ()), *(("-p", port) if port else ()), host)
        ssh = shell_words(os.environ.get(SSH) or "ssh", SSH, "allowed: a command and its options")
        begin = [*ssh, *OPTIONS, *batch, f"-oControlPath={self._socket}"]
        # Only through the connection that stands: a new one could ask for a password, or lead to
        # another machine.
        self.words = [*begin, "-oControlMaster=no", "-oProxyCommand=false", *target]
        self._connect([*begin, "-oControlMaster=yes", "-N", *target])

    def _connect(self, command: list[str]) -> None:
        try:
            with self._errors.open("wb") as errors:
                self._master = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    preexec_fn=_deaf_to_ctrl_c(),
                )
        except OSError as error:
            self._remove()
            what = f"cannot run {command[0]}: {error.strerror}"
            raise UserError(what, self.name, "ssh is needed here") from None
        end = time.monotonic() + CONNECT_S
        try:
            while not os.path.exists(self._socket):
                late = not self._may_ask and time.monotonic() > end
                if late or self._master.poll() is not None:
                    raise self._refused()
                time.sleep(0.02)
        except BaseException:
            self.close()
            raise

    def _refused(self) -> UserError:
        own = last_line(self._errors.read_text(errors="replace"))
        said = own or f"no connection after {CONNECT_S:g} s"
        allowed = ""
        if "Permission denied" in said and not self._may_ask:
            allowed = "without a terminal ssh cannot ask for a password: use a key or an agent"
        if "Host key verification failed" in said and not self._may_ask:
            allowed = "connect once with ssh, which asks whether the key is right"
        return UserError(said, self.name, allowed)

    def shell(self, script: str) -> list[str]:
        return [*self.words, f"sh -c {shlex.quote(script)}"]

    def reason(self, said: str) -> str:
        if self._master.poll() is None:
            return ""
        own = last_line(self._errors.read_text(errors="replace"))
        return own or last_line(said) or "the connection was lost"

    def close(self) -> None:
        if self._master.poll() is None:
            self._master.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._master.wait(CLOSE_S)
        if self._master.poll() is None:
            self._master.kill()
            self._master.wait()
        self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def parse_address(address: str) -> tuple[str, str, str]:
    """User, host and port of ``//user@host:port``; user and port may be empty. IPv6 addresses stand
    in brackets."""
    allowed = "allowed: ssh://HOST, ssh://USER@HOST:PORT; an IPv6 address in brackets"
    parts = re.fullmatch(
        r"//(?:([^@/:\s]+)@)?(\[[0-9A-Fa-f:.%\w]+\]|[^@/:\s\[\]]+)(?::([0-9]{1,5}))?/?", address
    )
    if parts is None:
        raise UserError(f"not an address: 'ssh:{address}'", "--on", allowed)
    user, host, port = parts[1] or "", parts[2].strip("[]"), parts[3] or ""
    if host.startswith("-") or user.startswith("-"):
        raise UserError(f"not an address: 'ssh:{address}'", "--on", allowed)
    if port and not 0 < int(port) < 65536:
        raise UserError(f"no port {port}", "--on", "allowed: 1 to 65535")
    return user, host, port


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line for line in text.splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else ""


def run(
    command: Sequence[str], data: bytes, timeout_s: float
) -> subprocess.CompletedProcess[bytes]:
    """Run a command of a transport to its end."""
    return subprocess.run(
        command,
        input=data,
        capture_output=True,
        timeout=timeout_s,
        start_new_session=True,
        preexec_fn=die_with_parent(),
    )


def _deaf_to_ctrl_c() -> Callable[[], None]:
    """For the connection: it ends with the command, and not by what the terminal sends to all,
    which the command answers."""
    die = die_with_parent()

    def prepare() -> None:
        die()
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    return prepare
