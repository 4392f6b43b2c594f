"""A lazy sequence that remembers: the resolver asks for the same candidates again at every step back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["Replay"]

T = TypeVar("T")


class Replay(Generic[T]):
    """Iterates over ``source`` as often as one likes; each item is made once, when it is first reached."""

    def __init__(self, source: Iterator[T]) -> None:
        self._source = source
        self._made: list[T] = []

    def __iter__(self) -> Iterator[T]:
        position = 0
        while True:
            if position == len(self._made):
                try:
                    item = next(self._source)
                except StopIteration:
                    return
                self._made.append(item)
            yield self._made[position]
            position += 1
