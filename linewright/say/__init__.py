# SPDX-License-Identifier: MIT
"""From answers to one document of sentences: the only room with English about a measurement."""
