# SPDX-License-Identifier: MIT
"""The script of bench/ that knows the published tables, as a module."""

from __future__ import annotations

import importlib.util

from .places import DATA, ROOT

PROGRAM = ROOT / "bench" / "published" / "published.py"
TABLE = DATA / "rmw-arm64-server-2025.csv"
FUTEX_TABLE = DATA / "futex-arm64-server-2025.csv"

_spec = importlib.util.spec_from_file_location("published", PROGRAM)
published = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(published)
