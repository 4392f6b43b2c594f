"""Entry point of the ``cudalock`` command and of ``python -m cudalock``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Runs the command line and exits with its status: the only call of ``sys.exit``."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):  # answered before anything heavy is imported
        from cudalock import __version__

        print(f"cudalock {__version__}")  # noqa: T201
        sys.exit(0)
    from cudalock.cli.memory import collect_seldom

    collect_seldom()
    from cudalock.cli.main import run

    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
