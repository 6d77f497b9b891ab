# SPDX-License-Identifier: MIT
"""Trying settings on a program of the user's: what is kept, how it is run, and what may be said of
it."""
