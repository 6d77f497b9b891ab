# SPDX-License-Identifier: MIT
"""Many machines at once: one `measure` for each, a bounded number at a time, and groups of machines
that behave alike."""
