"""The one screen that `measure` and `show` end with: the decision first, then the figures, then their limits."""

from linewright.output.screen.page import print_screens

__all__ = ["print_screens"]
