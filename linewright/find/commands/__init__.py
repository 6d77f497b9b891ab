# SPDX-License-Identifier: MIT
"""The command of this wing."""
