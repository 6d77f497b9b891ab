# SPDX-License-Identifier: MIT
"""One self-contained HTML page of record files: findings, charts, context, every number, and the
records."""
