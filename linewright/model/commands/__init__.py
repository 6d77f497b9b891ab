# SPDX-License-Identifier: MIT
"""The commands of this wing."""
