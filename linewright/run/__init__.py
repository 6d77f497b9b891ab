# SPDX-License-Identifier: MIT
"""Where a plan runs: the probe on this machine, and signals while it runs."""
