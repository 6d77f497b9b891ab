# SPDX-License-Identifier: MIT
"""The commands of this wing."""

ABOUT = "Simulated machines: show one, fit one to measurements, explain a cell on one."
