# SPDX-License-Identifier: MIT
"""What tests of other machines share: a real sshd on loopback, and the command that finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.network import own_network
from support.sshd import SSHD, Keys, Sshd


@pytest.fixture(scope="module", autouse=True)
def apart() -> Iterator[None]:
    """A run of another test must not be the other run that is refused here."""
    with own_network():
        yield


@pytest.fixture
def keys(tmp_path_factory) -> Keys:
    if SSHD is None:
        pytest.skip("no sshd: apt install openssh-server")
    return Keys(tmp_path_factory.mktemp("k", numbered=True))


@pytest.fixture
def start(keys: Keys) -> Iterator[Callable[..., Sshd]]:
    """Starts a server whose sessions have this environment, and run this program."""
    servers: list[Sshd] = []

    def begin(
        alias: str = "far",
        under: tuple[str, ...] = (),
        forced: str | Path = "none",
        **environment: str,
    ) -> Sshd:
        servers.append(Sshd(keys, alias, environment, under, forced))
        return servers[-1]

    yield begin
    for server in servers:
        server.stop()


@pytest.fixture
def over(command, keys: Keys):
    """The command, whose ssh knows the servers."""
    before = command.environment
    command.environment = lambda: before() | {"LINEWRIGHT_SSH": keys.ssh_command}
    return command


@pytest.fixture
def out(command) -> Path:
    return command.directory / "r.jsonl"
