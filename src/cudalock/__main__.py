"""Entry point of the ``cudalock`` command and of ``python -m cudalock``."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]


def _open_closed_streams() -> None:
    """Opens streams that the caller has closed (``2>&-``) on nothing: else the next file would take their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - for good


def main() -> None:
    """Runs the command line and exits with its status: the only call of ``sys.exit``."""
    _open_closed_streams()
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
