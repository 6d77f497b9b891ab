# SPDX-License-Identifier: MIT
"""The built-in plans, one module each with `PLAN`."""
