# SPDX-License-Identifier: MIT
"""A real sshd on the loopback interface, with keys, ports and configuration of its own, as ordinary
user or root."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from support import waiting

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


class Sshd:
    """One server; `environment` is what its sessions get, and `forced` what each of them runs, with
    what was asked for in SSH_ORIGINAL_COMMAND. Called by the name `alias` through `ssh_command`."""

    def __init__(
        self,
        keys: Keys,
        alias: str,
        environment: dict[str, str],
        under: tuple[str, ...] = (),
        forced: str | Path = "none",
    ) -> None:
        self.alias, self.keys = alias, keys
        self.folder = keys.folder / alias
        self.temporary = self.folder / "tmp dir"
        self.temporary.mkdir(parents=True)
        self.port = free_port()
        environment = {"TMPDIR": str(self.temporary), **environment}
        words = " ".join(
            '"' + f"{k}={v}".replace("\\", "\\\\").replace('"', '\\"') + '"'
            for k, v in environment.items()
        )
        (self.folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {keys.folder}/host\nPidFile "
            "none\nUsePAM no\n"
            f"AuthorizedKeysFile {keys.folder}/user.pub\nStrictModes no\nPermitRootLogin yes\n"
            "PasswordAuthentication yes\nKbdInteractiveAuthentication no\nMaxStartups "
            f"100\nSetEnv {words}\nForceCommand {forced}\n"
        )
        with (keys.folder / "config").open("a") as config:
            config.write(f"Host {alias}\n  Port {self.port}\n")
        with (keys.folder / "known").open("a") as known:
            known.write(f"[127.0.0.1]:{self.port} {(keys.folder / 'host.pub').read_text()}")
        if os.getuid() == 0:
            os.makedirs(
                "/run/sshd", exist_ok=True
            )  # Debian's sshd asks for it; a service manager makes it elsewhere
        command = [*under, SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")]
        self.log = (self.folder / "log").open("wb")
        self.process = subprocess.Popen(
            command, stderr=self.log, stdin=subprocess.DEVNULL, start_new_session=True
        )
        self.wait_for_port()

    def wait_for_port(self) -> None:
        said = (self.folder / "log").read_text
        waiting.wait_for(lambda: listens("127.0.0.1", self.port), self.process, said=said)

    def sessions(self) -> list[int]:
        """The server's processes for connections that stand."""
        return children(self.process.pid)

    def cut(self) -> None:
        """Lose every connection, as a network does."""
        of_sessions = [each for pid in self.sessions() for each in (pid, *children(pid))]
        for pid in of_sessions:
            # It ends with the other one by itself.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if "sshd" in Path(f"/proc/{pid}/comm").read_text():
                    os.kill(pid, signal.SIGKILL)

    def left(self) -> list[str]:
        """What the runs left behind there."""
        return sorted(os.listdir(self.temporary))

    def stop(self) -> None:
        for pid in self.sessions():
            for each in (*children(pid), pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
        self.process.terminate()
        self.process.wait()
        self.log.close()


class Keys:
    """Keys of a host and of a user, and the client's configuration that knows them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("host", "user"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True
            )
        (folder / "config").write_text(
            f"Host *\n  HostName 127.0.0.1\n  User {getpass.getuser()}\n  IdentityFile "
            f"{folder}/user\n  IdentitiesOnly"
            " yes\n"
            f"  UserKnownHostsFile {folder}/known\n  GlobalKnownHostsFile none\n  "
            "StrictHostKeyChecking yes\n"
        )

    @property
    def ssh_command(self) -> str:
        return f"ssh -F {self.folder}/config"


def knobs(**values: object) -> dict[str, str]:
    """The environment in which the fake probe does this."""
    return {"FAKE_PROBE": json.dumps(values)}


def children(pid: int) -> list[int]:
    """Of a process that may end meanwhile, as one does whose connection only asked for the port."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 1).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
