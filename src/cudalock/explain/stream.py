"""The lines of one rank, pod or process, and the forms of their text in which literals and expressions are sought."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from cudalock.explain.model import Line
from cudalock.explain.reading import Block, lines_of
from cudalock.explain.sieve import squashed

__all__ = ["AFTER", "BEFORE", "Joined", "Stream", "streams_of"]

BEFORE, AFTER = 6, 6  # lines around a hit that one message may be broken over
_WIDEST = 2000  # characters of the lines before a hit, and of those after it; no expression spans more
_SQUASHED_OUT = b" \t\r\x0b\x0c\x1c\x1d\x1e\x1f\"'`\\"


class Joined:
    """All lines joined by a separator, without the white space around each.

    Attributes:
        text: as they read.
        lowered: the same in lower case, letter by letter.
        starts: where each line begins in it, and one more for the end.
    """

    def __init__(self, parts: Sequence[str], separator: str) -> None:
        self.text = separator.join(parts)
        self.lowered = self.text.lower()
        if len(self.lowered) != len(self.text):  # a few letters have two in lower case
            self.lowered = "".join(char.lower() if len(char.lower()) == 1 else char for char in self.text)
        self.starts = list(accumulate((len(part) + len(separator) for part in parts), initial=0))
        self._separator = separator

    def around(self, index: int) -> tuple[int, int]:
        """The part that a message with words in that line may stand in."""
        last = min(index + AFTER + 1, len(self.starts) - 1)
        return (
            max(self.starts[max(index - BEFORE, 0)], self.starts[index] - _WIDEST),
            min(self.starts[last] - len(self._separator), self.starts[index + 1] + _WIDEST),
        )

    def line_at(self, position: int) -> int:
        """Index of the line that a place belongs to."""
        return bisect_right(self.starts, position) - 1


class Stream:
    """Lines in their order, with what is derived from all of them at once."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        parts = _squashed([line.text for line in lines])
        self.squashed = "".join(parts)
        self.starts = list(accumulate(map(len, parts), initial=0))
        self._joined: dict[str, Joined] = {}

    def line_at(self, position: int) -> int:
        """Index of the line that a place in the squashed text belongs to."""
        return bisect_right(self.starts, position) - 1

    def around(self, index: int) -> tuple[int, int]:
        """The part of the squashed text that a message with words in that line may stand in."""
        return (
            max(self.starts[max(index - BEFORE, 0)], self.starts[index] - _WIDEST),
            min(self.starts[min(index + AFTER + 1, len(self.lines))], self.starts[index + 1] + _WIDEST),
        )

    def joined(self, separator: str) -> Joined:
        """All lines joined by a separator."""
        if separator not in self._joined:
            self._joined[separator] = Joined([line.text.strip() for line in self.lines], separator)
        return self._joined[separator]


def _squashed(texts: Sequence[str]) -> Sequence[str]:
    """As :func:`squashed`, for all at once where they are plain."""
    joined = "\n".join(texts)
    if joined.isascii():
        return joined.lower().encode().translate(None, _SQUASHED_OUT).decode().split("\n")
    return [squashed(text) for text in texts]


def streams_of(block: Block) -> Iterable[Stream]:
    """The lines of each rank, pod or process; one without a prefix may go on with the line before it."""
    streams: dict[str, list[Line]] = {}
    last = ""
    for line in lines_of(block):
        streams.setdefault(line.stream, []).append(line)
        if line.stream:
            last = line.stream
        elif last:
            streams[last].append(line)
    return [Stream(lines) for lines in streams.values()]
