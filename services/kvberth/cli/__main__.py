"""Entry point of the `kvberth` command. Imports nothing at first, so that Ctrl-C is minded from the beginning on."""

import sys

INTERRUPTED = 130
"""Exit status of what Ctrl-C ended, as of a shell."""


def main() -> None:
    """Run the command line. Ctrl-C ends it without a word, also while it is still being imported."""
    try:
        from kvberth.cli.application import run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
