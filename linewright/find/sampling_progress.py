# SPDX-License-Identifier: MIT
"""How far sampling is, on standard error if that is a terminal: of a process that runs already one
redrawn line, of a program that is started, which may print there too, a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from linewright.units import duration_text

if TYPE_CHECKING:
    from linewright.find.live import SamplerOutput


class SamplingProgress(ExitStack):
    """Time and samples so far; shown while it is entered."""

    def __init__(
        self,
        started: bool,
        seconds: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._started, self._seconds, self._clock = started, seconds, clock
        self._began, self._display, self._text = clock(), None, ""

    def show(self, gathered: SamplerOutput) -> None:
        """What there is; the display is imported when the sampler is at work, which is not to wait
        for it."""
        if not sys.stderr.isatty():
            return
        if self._display is None:
            self._began = self._clock()
            from linewright.show import progress

            lines = progress.ProgressLines(self)
            self._display = self.enter_context(lines if self._started else progress.fitting(self))
        self._display.show(gathered)

    def take(self, gathered: SamplerOutput) -> None:
        """A step of the meter that the display asks."""
        of = f" of {duration_text(self._seconds)}" if self._seconds else ""
        self._text = (
            f"sampling: {duration_text(self.elapsed_s)}{of}, {len(gathered.samples):,} samples"
        )

    @property
    def share(self) -> float:
        return min(1.0, self.elapsed_s / self._seconds) if self._seconds else 0.0

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._began

    def text(self) -> str:
        return self._text
