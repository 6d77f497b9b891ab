# SPDX-License-Identifier: GPL-2.0-only
"""What stops a build: a wrong request, something missing on this machine, or a step that failed."""

from __future__ import annotations


class Refused(Exception):
    """The request cannot be met as it is; the text says why and what helps. Exit code 2."""


class Missing(Exception):
    """This machine lacks a program or a package; the text names the package to install. Exit code
    77."""


class Failed(Exception):
    """A step ended with an error; the text names the step and its log. Exit code 3."""
