# SPDX-License-Identifier: MIT
"""Programs that answer on their standard output: begun so that they end with the command, and ended
without a rest; Ctrl-C and termination meanwhile are noted and passed on, never raised in the middle
of a write."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

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


def end_of_input(process: subprocess.Popen, patience_s: float) -> None:
    """Have a program end by the end of its input, or be ended where it does not."""
    with contextlib.suppress(OSError):
        process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(patience_s)
    end(process)


def die_with_parent() -> Callable[[], None]:
    """For the child: be terminated when the command is, even by SIGKILL, so that no program goes on
    unheard.

    Prepared before the fork; the child itself makes a single system call.
    """
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) and None


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Context manager: the first signal is kept in `caught`, and each one calls the function that
    answers it.

    A hangup that is ignored on entry (``nohup``) stays ignored.
    """

    def __init__(self) -> None:
        self.caught: signal.Signals | None = None
        self.count = 0
        self.answer: Callable[[], None] = lambda: None
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            heeded = SIGNALS[:2] if ignored else SIGNALS
            self._before = {number: signal.signal(number, self._note) for number in heeded}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def answered_by(self, answer: Callable[[], None]) -> Iterator[None]:
        """Signals are answered by a function meanwhile, one that has come already too."""
        self.answer = answer
        try:
            if self.caught:
                answer()
            yield
        finally:
            self.answer = lambda: None

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.caught = self.caught or signal.Signals(number)
        self.count += 1
        self.answer()
