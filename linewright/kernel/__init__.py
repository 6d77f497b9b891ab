# SPDX-License-Identifier: MIT
"""The inside of this machine's kernel as a target: cells run in linewright.ko."""
