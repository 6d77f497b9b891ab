# SPDX-License-Identifier: MIT
"""How far a run is, on standard error: one redrawn line on a terminal, a plain line every few
seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from linewright.plans.estimate import LAUNCH_S, cells_s
from linewright.say.words import in_words
from linewright.schema import Plan
from linewright.show.output import remark
from linewright.target import Progress
from linewright.units import duration_text

LINE_EVERY_S = 5.0
"""Least time between plain lines."""


class Meter:
    """What a display asks of a run, step by step."""

    share = 0.0
    """Of the whole run that is done, 0 to 1."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._start = clock, clock()

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._start

    def take(self, step: Any) -> None:
        """Move on."""

    def text(self) -> str:
        """How far the run is, on one line."""


class TrialMeter(Meter):
    """Share of a trial's planned runs that are done, and the longest time left: it may end
    early."""

    def __init__(
        self, total: int, done: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(clock)
        self._total, self._before, self._done, self._name = total, done, done, ""

    def take(self, name: str) -> None:
        """One more run of a setting has ended."""
        self._done, self._name = self._done + 1, name
        self.share = min(1.0, self._done / max(1, self._total))

    def text(self) -> str:
        pace = self.elapsed_s / max(1, self._done - self._before)
        left = f"at most {duration_text(pace * max(0, self._total - self._done))} left"
        return f"{self.share:4.0%}  {self._done}/{self._total} runs, {left}  {self._name}"


class PlanMeter(Meter):
    """Share of a whole run that is done, launches weighted by their estimated time, and the time
    left."""

    def __init__(
        self, launches: list[Plan], budget_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(clock)
        self._weights = {
            launch.launch: LAUNCH_S + cells_s(launch, launch.cells) for launch in launches
        }
        self._names = {cell.id: in_words(cell) for launch in launches for cell in launch.cells}
        self._budget_s = budget_s
        self._launches = max((launch.launch for launch in launches), default=0) + 1
        self._last = Progress(0, "", 0, 0, 0, 0)

    def take(self, progress: Progress) -> None:
        """Move on; the share never goes back."""
        self._last = progress
        done = sum(weight for n, weight in self._weights.items() if n < progress.launch)
        part = max(
            progress.windows_done / max(1, progress.windows_total),
            progress.cells_done / max(1, progress.cells_total),
        )
        done += self._weights.get(progress.launch, 0) * min(1.0, part)
        self.share = max(self.share, min(1.0, done / max(1e-9, sum(self._weights.values()))))

    @property
    def left_s(self) -> float | None:
        """Seconds to go, from the pace so far, at most what is left of the budget; unknown at the
        very start.

        A run that has used up its budget, as on a machine that is busy, goes on at its pace.
        """
        if self.share < 0.01:
            return None
        pace, rest = self.elapsed_s * (1 / self.share - 1), self._budget_s - self.elapsed_s
        return min(pace, rest) if rest > 0 else pace

    def text(self) -> str:
        """The share, the time left, the launch, and the cell that was measured last."""
        left, cell, launch = self.left_s, self._last.id, self._last.launch
        eta = f"{duration_text(left)} left" if left is not None else "starting"
        of = f", launch {launch + 1} of {self._launches}" if self._launches > 1 else ""
        return f"{self.share:4.0%}, {eta}{of}: {self._names.get(cell, cell)}"


class ProgressLines:
    """Progress where nothing can be redrawn: pipes, logs, CI."""

    every_s = LINE_EVERY_S

    def __init__(self, meter: Meter, next_s: float = LINE_EVERY_S) -> None:
        self._meter, self._next = meter, next_s

    def __enter__(self) -> ProgressLines:
        return self

    def __exit__(self, *failure: object) -> None:
        pass

    def show(self, step: Any) -> None:
        self._meter.take(step)
        if self._meter.elapsed_s >= self._next:
            self._next = self._meter.elapsed_s + self.every_s
            self._draw(self._meter.text())

    def _draw(self, text: str) -> None:
        remark(text)

    def say(self, line: str) -> None:
        """A line that stays."""
        remark(line)


class ProgressBar(ProgressLines):
    """Progress on a terminal: one bar with the time left and the cell being measured.

    Drawn twice a second and by no thread of its own: the CPUs belong to the measurement.  A
    terminal that is gone ends the drawing, not the run."""

    every_s = 0.5

    def __init__(self, meter: Meter, console: Console) -> None:
        super().__init__(meter, 0.0)
        self._bar = Bar(
            BarColumn(bar_width=24),
            TextColumn("{task.description}", markup=False),
            console=console,
            transient=True,
            auto_refresh=False,
        )
        self._task = self._bar.add_task("starting", total=1.0)

    def __enter__(self) -> ProgressBar:
        with suppress(OSError):
            self._bar.start()
        return self

    def __exit__(self, *failure: object) -> None:
        with suppress(OSError):
            self._bar.stop()

    def _draw(self, text: str) -> None:
        line = Text(text)
        line.truncate(max(20, self._bar.console.width - 26), overflow="ellipsis")
        self._bar.update(self._task, completed=self._meter.share, description=line.plain)
        with suppress(OSError):
            self._bar.refresh()

    def say(self, line: str) -> None:
        """A line that stays, above the bar."""
        with suppress(OSError):
            self._bar.console.print(Text(line))


def fitting(meter: Meter) -> ProgressLines:
    """The display that fits standard error."""
    console = Console(stderr=True)
    return (
        ProgressBar(meter, console)
        if console.is_terminal and not console.is_dumb_terminal
        else ProgressLines(meter)
    )
