# SPDX-License-Identifier: MIT
"""What commands print and write: the console, tables, export formats and progress."""
