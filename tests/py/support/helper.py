# SPDX-License-Identifier: MIT
"""The helper that runs a trial's programs on this machine, and what it says of it."""

from __future__ import annotations

from functools import cache
from typing import Any

from linewright.run.place import Place
from linewright.run.process import Interrupts
from linewright.trial.runner import Helper, Runs
from linewright.trial.trial_file import TrialSetting
from support.places import ROOT

PROBE = ROOT / "build/native/probe/linewright-probe"


def helper() -> Helper:
    return Helper(Place(probe_path=PROBE))


@cache
def here() -> dict[str, Any]:
    """This machine and its boot, by the names that a trial's session has for them."""
    asked = helper()
    asked.close()
    return asked.about


def runs(
    command: list[str],
    metric: str = "wall",
    limit_s: float | None = None,
    interrupts: Interrupts | None = None,
) -> Runs:
    """A command that is run here."""
    return Runs(helper(), command, metric, interrupts or Interrupts(), limit_s)


def under(**environment: str) -> TrialSetting:
    """A setting that changes these variables."""
    return TrialSetting(name="", environment=environment)
