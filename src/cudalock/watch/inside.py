"""A program that watches itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cudalock.watch import hook
from cudalock.watch.model import THRESHOLD, WatchReport
from cudalock.watch.report import make_report

__all__ = ["Watch", "watching"]


class Watch:
    """What has been seen so far; grows while the program runs."""

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self._events: list[dict[str, Any]] = []

    def report(self) -> WatchReport:
        """The report up to now; what torch.compile says of itself is in it only after the end of the block."""
        return make_report(list(self._events), threshold=self._threshold)

    def _take(self, event: dict[str, Any]) -> None:
        self._events.append(event)


@contextmanager
def watching(*, threshold: int = THRESHOLD) -> Iterator[Watch]:
    """Watches the Triton compilations of this process during a ``with`` block.

    Kernels that were compiled before the block are not counted; compilations in other processes (Inductor's workers)
    are not seen, only that their results are loaded: ``cudalock watch`` sees both.

    Example:
        ::

            with watching() as watch:
                train_one_epoch()
            for finding in watch.report().findings:
                print(finding.message)
    """
    watch = Watch(threshold)
    sink = watch._take  # noqa: SLF001 - one object: `remove` must find what was added
    hook.install(sink)
    try:
        yield watch
    finally:
        hook.uninstall(sink)
