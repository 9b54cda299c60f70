"""Where the command line prints: as wide as the terminal, or as the text where nobody's terminal wraps it."""

import sys

from rich.console import Console

NO_TERMINAL_WIDTH = 10_000
"""Columns of a pipe or a file: names are long, and a wrapped one can't be searched or cut."""


def output() -> Console:
    """Give standard output. In a pipe or a file no line is ever wrapped."""
    return Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else NO_TERMINAL_WIDTH)
