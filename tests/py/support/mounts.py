# SPDX-License-Identifier: MIT
"""Tests that mount something in a namespace of their own."""

from __future__ import annotations

import subprocess

import pytest


def _allowed() -> bool:
    """A container may forbid it; in a chroot whose root is no mount it cannot be made private."""
    try:
        return not subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode
    except FileNotFoundError:
        return False


own_mounts = pytest.mark.skipif(
    not _allowed(), reason="a mount namespace asks for root, and for a root that is a mount"
)
