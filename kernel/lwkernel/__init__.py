# SPDX-License-Identifier: GPL-2.0-only
"""Builds small kernels from Debian's sources, with and without our patches; the program is
../build."""
