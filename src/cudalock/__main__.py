"""Entry point of the ``cudalock`` command and of ``python -m cudalock``."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]


def _prepare_streams() -> None:
    """Opens streams that the caller has closed (``2>&-``) on nothing: else the next file would take their place.

    What the others cannot encode is written in escapes: a name in a message must not undo the work that it speaks of.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - for good
        elif mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _say_version() -> int:
    from cudalock import __version__

    try:
        print(f"cudalock {__version__}", flush=True)  # noqa: T201
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 0
        sys.stderr.write(f"error: the output cannot be written: {error.strerror} [disk-write-failed]\n")
        return 2
    return 0


def main() -> None:
    """Runs the command line and exits with its status: the only call of ``sys.exit``."""
    _prepare_streams()
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):  # answered before anything heavy is imported
        sys.exit(_say_version())
    from cudalock.cli.memory import collect_seldom

    collect_seldom()
    from cudalock.cli.main import run

    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
