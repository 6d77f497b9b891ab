# SPDX-License-Identifier: MIT
"""Which cache lines of a program travel: samples in, lines with their bytes, threads, sites and
kind out."""
