"""Child processes that are never lost: from the moment one lives, whatever interrupts us ends it too."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["interruptions_held_back", "started"]


@contextlib.contextmanager
def started(
    command: Sequence[str], end: Callable[[subprocess.Popen[Any]], object], **options: Any
) -> Iterator[subprocess.Popen[Any]]:
    """The running ``command``; ``end`` is called with it if anything is raised before the block has ended.

    ``options`` are those of :class:`subprocess.Popen`.

    Raises:
        OSError: the program cannot be started.
    """
    process: subprocess.Popen[Any] | None = None
    try:
        with interruptions_held_back():
            process = subprocess.Popen(list(command), **options)
        yield process
    except BaseException:
        if process is not None:
            end(process)
        raise


@contextlib.contextmanager
def interruptions_held_back() -> Iterator[None]:
    """Signals wait until a process that is being started is known, so that it can be ended with us."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}
    ours = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in ours:
        signal.signal(number, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
        for number in came[:1]:
            signal.raise_signal(number)
