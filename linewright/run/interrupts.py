# SPDX-License-Identifier: MIT
"""Ctrl-C and termination while a target runs: noted and passed on, never raised in the middle of a
write."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
