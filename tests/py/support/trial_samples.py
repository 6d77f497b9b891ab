# SPDX-License-Identifier: MIT
"""Sessions of trials that were never run."""

from __future__ import annotations

from collections.abc import Sequence

from linewright.trial.trial_file import Session, TrialSetting


def session(settings: Sequence[TrialSetting], **changes) -> Session:
    """A session of these settings on a machine with two CPUs."""
    fields = dict(
        linewright_trial=1,
        session="00000000000000aa",
        started_utc="2026-01-01T00:00:00Z",
        tool_version="0",
        command=["p"],
        metric="wall",
        unit="s",
        higher_is_better=False,
        settings=settings,
        planned_rounds=20,
        precision=1e-9,
        warmup_rounds=1,
        seed=1,
        arch="x86_64",
        cpu_model="m",
        cpus=2,
        kernel="k",
        boot_id="boot",
        boot_parameters="",
    )
    return Session(**(fields | changes))
