# SPDX-License-Identifier: MIT
"""Records on disk: read, checked, selected and stored."""
