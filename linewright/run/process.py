# SPDX-License-Identifier: MIT
"""Programs that answer on their standard output: begun so that they end with the command, and ended
without a rest."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from linewright.errors import RunError

PR_SET_PDEATHSIG = 1


def start(
    command: Sequence[str | Path], *, own_session: bool = False, **streams: object
) -> subprocess.Popen:
    """A program with pipes to its three streams, or `streams` in their place; RunError when it
    cannot be run.

    `own_session`: a Ctrl-C of the terminal does not reach it.
    """
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    try:
        return subprocess.Popen(
            command,
            preexec_fn=die_with_parent(),
            start_new_session=own_session,
            **(pipes | streams),
        )
    except OSError as error:
        raise RunError(f"cannot run {command[0]}: {error.strerror}") from None


def end(process: subprocess.Popen) -> None:
    """Leave no process and no pipe behind, whatever stopped the reading."""
    if process.poll() is None:
        process.kill()
    process.wait()
    for stream in filter(None, (process.stdin, process.stdout, process.stderr)):
        with contextlib.suppress(OSError):
            stream.close()


def die_with_parent() -> Callable[[], None]:
    """For the child: be terminated when the command is, even by SIGKILL, so that no program goes on
    unheard.

    Prepared before the fork; the child itself makes a single system call.
    """
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) and None
