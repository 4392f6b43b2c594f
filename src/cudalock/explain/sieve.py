"""What of a large log is worth reading closely: new lines, and of these only where a literal of the table stands."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from cudalock.explain.reading import Block, without_escapes

__all__ = ["Sieve", "squashed"]

_WHITE = b" \t\r\n\x0b\x0c\"'`\\"
_QUOTES = str.maketrans("", "", "\"'`\\")
# Lines that differ in numbers and hexadecimal names only are one line as far as the table is concerned.
_ALIKE = bytes.maketrans(b"0123456789abcdefABCDEF", b"0" * 22)
_MOST_REMEMBERED = 50_000
_LONGEST_REMEMBERED = 2_000
_WORD = re.compile(rb"[a-z]{4,}")
_NUMBER = re.compile(rb"(?:rror|ode|urned|tatus)\D{0,4}(\d{1,4})")
_DIGIT = re.compile(r"\d")
_SHORTEST_PIECE = 6


def squashed(text: str) -> str:
    """Lower case, without white space and quotes: how literals and lines are compared."""
    return "".join(text.lower().split()).translate(_QUOTES)


def _keys_of(data: bytes) -> list[bytes]:
    """For every line what it has in common with lines like it; numbers of errors and capabilities stay in it."""
    keys = data.translate(_ALIKE).split(b"\n")
    if b"rror" in data or b"apability" in data:
        for place, line in enumerate(data.split(b"\n")):
            if b"apability" in line:
                keys[place] = line
            elif b"rror" in line:
                keys[place] += b"".join(_NUMBER.findall(line[:_LONGEST_REMEMBERED]))
    return keys


class _Literal:
    """How one literal is looked for: if one of its two longest words is there, then by its halves.

    Halves, because a prefix may stand in the middle where a line was broken. What is but one word may be part of a
    longer one in the text, so it is looked for as it is.
    """

    def __init__(self, text: str) -> None:
        self.squashed = squashed(text)
        words = sorted(_WORD.findall(text.lower().encode()), key=len, reverse=True) if " " in text else []
        self.words = frozenset(words[:2] if len(words) > 1 or _DIGIT.search(text) else ())
        middle = len(self.squashed) // 2
        halves = middle >= _SHORTEST_PIECE and len(words) > 1
        parts = (self.squashed[:middle], self.squashed[middle:]) if halves else (self.squashed,)
        self.pieces = tuple(part.encode() for part in parts)

    def may_be_in(self, words: Collection[bytes], text: bytes) -> bool:
        return (not self.words or not self.words.isdisjoint(words)) and any(piece in text for piece in self.pieces)


class Sieve:
    """Tells in which blocks of a log a literal stands, and remembers lines that told nothing, a bounded number."""

    def __init__(self, literals: Iterable[str]) -> None:
        self._literals = {squashed(text): _Literal(text) for text in literals}
        self._known: set[bytes] = set()

    def fresh_lines(self, data: bytes) -> bytes:
        """The lines of the block that are like none before."""
        known = self._known
        pairs = zip(data.split(b"\n"), _keys_of(data), strict=True)
        return b"\n".join(line for line, key in pairs if key not in known)

    def literals_in(self, data: bytes) -> list[str]:
        """The literals, squashed, that stand in the text, white space and line breaks aside."""
        lowered = without_escapes(data).lower()
        words = frozenset(_WORD.findall(lowered))
        text = lowered.translate(None, _WHITE)
        return [name for name, literal in self._literals.items() if literal.may_be_in(words, text)]

    def learn(self, block: Block, telling: Collection[int]) -> None:
        """Remembers the lines of a block, but for those with the given numbers."""
        if len(self._known) > _MOST_REMEMBERED:
            self._known.clear()
        for offset, key in enumerate(_keys_of(block.data)):
            if len(key) < _LONGEST_REMEMBERED and block.first + offset not in telling:
                self._known.add(key)

    def drop(self, name: str) -> None:
        """Looks for a literal no more."""
        self._literals.pop(name, None)
