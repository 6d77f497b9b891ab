# SPDX-License-Identifier: MIT
"""Where things lie in the checkout."""

from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parents[1]
EXAMPLES = HERE / "examples"
DATA = HERE / "data"
FAKE_PROBE = HERE / "support" / "fake_probe.py"
REAL = ROOT / "build/native/probe/linewright-probe"
"""The probe that was built for this machine."""
