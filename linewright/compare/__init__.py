# SPDX-License-Identifier: MIT
"""What changed between two sets of records."""
