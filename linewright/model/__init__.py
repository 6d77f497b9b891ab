# SPDX-License-Identifier: MIT
"""Described machines: their files, what the simulator is given of them, calibration, bounds and
explanations."""
