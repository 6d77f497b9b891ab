# SPDX-License-Identifier: MIT
"""Linewright: what cache-line ownership costs on a machine, and which form of each operation is
right there."""

__version__ = "0.1.0"
