"""Background work and answers that are computed once.

Threads are daemons: an interrupted program ends at once, whatever a server is doing.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["Once", "Workers"]

T = TypeVar("T")


class Once:
    """Computes each key's answer once; whoever comes while it is computed waits for it. Errors are remembered too."""

    def __init__(self) -> None:
        self._futures: dict[Hashable, Future[Any]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The answer for the key, computed here and now by the first who asks."""
        with self._lock:
            future = self._futures.get(key)
            mine = future is None
            if future is None:
                future = self._futures[key] = Future()
        if mine:
            try:
                future.set_result(compute())
            except BaseException as error:  # noqa: BLE001 - raised again from the future
                if not isinstance(error, Exception):  # Ctrl-C is not an answer for those who come later
                    with self._lock:
                        self._futures.pop(key, None)
                future.set_exception(error)
        answer: T = future.result()
        return answer

    def claimed(self, key: Hashable) -> bool:
        """Whether somebody computes the answer, or it is there."""
        with self._lock:
            return key in self._futures


class Workers:
    """A few daemon threads, started when needed, that run tasks in order. Tasks must not raise."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tasks: deque[Callable[[], object]] = deque()
        self._condition = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._closed = False

    def submit(self, task: Callable[[], object]) -> None:
        """Runs the task in the background; dropped if closed."""
        with self._condition:
            if self._closed:
                return
            self._tasks.append(task)
            if len(self._tasks) <= self._idle:  # who was woken before and has not run yet still counts as idle
                self._condition.notify()
            elif self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._run, name=f"index-{self._threads}", daemon=True).start()

    def close(self) -> None:
        """Drops what has not begun and lets the threads end; waits for nobody."""
        with self._condition:
            self._closed = True
            self._tasks.clear()
            self._condition.notify_all()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._tasks and not self._closed:
                    self._idle += 1
                    self._condition.wait()
                    self._idle -= 1
                if self._closed:
                    return
                task = self._tasks.popleft()
            try:
                task()
            except KeyboardInterrupt:  # the main thread's, handed on by an answer for which both were waiting
                return
