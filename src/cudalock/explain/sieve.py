"""What of a large log is worth reading closely: new lines, and of these only where a literal of the table stands."""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from cudalock.explain.reading import without_escapes

__all__ = ["Sieve", "Sifted", "squashed"]

_WHITE = b" \t\r\n\x0b\x0c\"'`\\"
_QUOTES = str.maketrans("", "", "\"'`\\")
_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
_HEXADECIMAL = re.compile(rb"0(?:x[0a-fA-F]+|[0a-fA-F]+)")
_MOST_REMEMBERED = 12 * 1024 * 1024  # bytes
_SIZE_OF_ENTRY = 250  # about what three entries of sets take beside their texts
_LONGEST_REMEMBERED = 2_000
_WORD = re.compile(r"[a-z]{4,}")
# Numbers that tell lines apart, each by a word of fixed letters, which is sought much faster than an alternative.
_NUMBERS = tuple(
    (word, re.compile(pattern))
    for word, pattern in (
        (b"rror", rb"rror\D{0,4}(\d{1,4})"),
        (b"rrno", rb"rrno\D{0,4}(\d{1,4})"),
        (b"ode", rb"ode\D{0,4}(\d{1,4})"),
        (b"urned", rb"urned\D{0,4}(\d{1,4})"),
        (b"tatus", rb"tatus\D{0,4}(\d{1,4})"),
        (b"0%", rb"(?<![\d.])0%"),
        (b"0 %", rb"(?<![\d.])0 %"),
        (b"403", rb"\b403\b"),
    )
)
_SHORTEST_PIECE = 6
_LONGEST_WORD = 64  # of a literal
_MOST_WORDS = 60_000
_SHARED_LENGTHS = (8, 6, 4, 3)
_FEWEST_SHARING = 3
_LETTERS = bytes(code if chr(code) in string.ascii_lowercase else 32 for code in range(256))


def squashed(text: str) -> str:
    """Lower case, without white space and quotes: how literals and lines are compared."""
    return "".join(text.lower().split()).translate(_QUOTES)


def _numbers_folded(lines: Sequence[bytes]) -> list[bytes]:
    """Every line with one 0 for each decimal number."""
    data = b"\n".join(lines).translate(_DIGITS)
    while b"00" in data:
        data = data.replace(b"00", b"0")
    return data.split(b"\n")


def _numbers_kept(line: bytes, numbers: Sequence[tuple[bytes, re.Pattern[bytes]]]) -> bytes:
    """What of a line's numbers counts: those of errors, and all where capabilities are told."""
    if b"apability" in line:
        return line
    kept = b""
    for word, expression in numbers:
        if word in line:
            kept += word + b" ".join(expression.findall(line[:_LONGEST_REMEMBERED]))
    return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A squashed part of a literal, and the words in it: without all of them it is not there."""

    text: bytes
    words: frozenset[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Literal:
    """How one literal is looked for: by its halves, as a prefix may stand in the middle where a line was broken.

    What is but one word may be part of a longer one in the text, so it is looked for as it is.
    """

    squashed: str
    pieces: tuple[_Piece, ...]


def _literal(text: str) -> _Literal:
    pieces = [text]
    if " " in text and len(_WORD.findall(text.lower())) > 1:
        middle = len(squashed(text)) // 2
        at = next(at for at in range(len(text)) if len(squashed(text[:at])) == middle)
        if middle >= _SHORTEST_PIECE:
            pieces = [text[:at], text[at:]]
    return _Literal(
        squashed=squashed(text),
        pieces=tuple(
            _Piece(
                text=squashed(piece).encode(),
                words=frozenset(word.encode() for word in _WORD.findall(piece.lower())),
            )
            for piece in pieces
        ),
    )


def _shared_parts(texts: Collection[bytes]) -> Mapping[bytes, bytes]:
    """What several of the texts have in common, for each of these: where that is not, none of them is."""
    left = set(texts)
    shared: dict[bytes, bytes] = {}
    for length in _SHARED_LENGTHS:
        sharing: dict[bytes, set[bytes]] = {}
        for text in left:
            for at in range(len(text) - length + 1):
                sharing.setdefault(text[at : at + length], set()).add(text)
        for part, those in sorted(sharing.items(), key=lambda item: (-len(item[1]), item[0])):
            if len(those & left) >= _FEWEST_SHARING:
                shared.update(dict.fromkeys(those & left, part))
                left -= those
    return shared


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """Literals, their words, and what pieces and words have in common."""

    literals: tuple[_Literal, ...]
    words: tuple[bytes, ...]
    shared_by_pieces: Mapping[bytes, bytes]
    shared_by_words: Mapping[bytes, bytes]


@lru_cache(maxsize=8)
def _prepared(texts: frozenset[str]) -> _Prepared:
    literals = tuple(map(_literal, sorted(texts)))
    pieces = [piece for literal in literals for piece in literal.pieces]
    words = sorted({word for piece in pieces for word in piece.words})
    return _Prepared(
        literals=literals,
        words=tuple(words),
        shared_by_pieces=_shared_parts({piece.text for piece in pieces}),
        shared_by_words=_shared_parts(words),
    )


class _Searched:
    """A text, asked for others: for each once, and for what several of these share before them."""

    def __init__(self, text: bytes, shared: Mapping[bytes, bytes]) -> None:
        self._text = text
        self._shared = shared
        self._known: dict[bytes, bool] = {}

    def has(self, text: bytes) -> bool:
        known = self._known.get(text)
        if known is None:
            part = self._shared.get(text)
            known = (part is None or part == text or self.has(part)) and text in self._text
            self._known[text] = known
        return known


class _Vocabulary:
    """Which words of literals stand in a text, as words or parts of words; looks through every word but once."""

    def __init__(self, words: Sequence[bytes], shared: Mapping[bytes, bytes]) -> None:
        self._words = words
        self._shared = shared
        self._dull: set[bytes] = set()
        self._telling: dict[bytes, set[bytes]] = {}

    def words_in(self, text: bytes) -> set[bytes]:
        """The words that stand in a text in lower case; those that a line break cuts do as well."""
        words = set(b"".join(map(bytes.strip, text.split(b"\n"))).translate(_LETTERS).split())
        for word in [word for word in words if len(word) > 2 * _LONGEST_WORD]:
            words.remove(word)
            words.update(word[at : at + 2 * _LONGEST_WORD] for at in range(0, len(word), _LONGEST_WORD))
        if len(self._dull) + len(self._telling) > _MOST_WORDS:
            self._dull.clear()
            self._telling.clear()
        self._look_through((words - self._dull).difference(self._telling))
        return set().union(*(self._telling[word] for word in words & self._telling.keys()))

    def _look_through(self, words: set[bytes]) -> None:
        text = b"\n%b\n" % b"\n".join(words)
        searched = _Searched(text, self._shared)
        for one in self._words:
            at = text.find(one) if searched.has(one) else -1
            while at >= 0:
                start, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
                self._telling.setdefault(text[start:end], set()).add(one)
                at = text.find(one, end)
        self._dull.update(words.difference(self._telling))


@dataclass(frozen=True, slots=True)
class Sifted:
    """The lines of a block that are like none before: their offsets in it, what they are, and what they are like."""

    offsets: list[int]
    lines: list[bytes]
    keys: list[tuple[bytes, bytes]]


class Sieve:
    """Tells in which blocks of a log a literal stands, and remembers lines that told nothing, a bounded number."""

    def __init__(self, literals: Collection[str]) -> None:
        prepared = _prepared(frozenset(literals))
        self._shared = prepared.shared_by_pieces
        self._vocabulary = _Vocabulary(prepared.words, prepared.shared_by_words)
        self._pieces: dict[str, tuple[_Piece, ...]] = {}
        for literal in prepared.literals:  # several may be the same when squashed
            self._pieces[literal.squashed] = (*self._pieces.get(literal.squashed, ()), *literal.pieces)
        self._known: set[bytes] = set()
        self._bytes = 0

    def fresh(self, data: bytes) -> Sifted:
        """The lines of the block that are like none before, numbers and hexadecimal names aside."""
        lines = data.split(b"\n")
        known = self._known
        left = [offset for offset, line in enumerate(lines) if line not in known]
        folded = _numbers_folded([lines[offset] for offset in left]) if left else []
        numbers = [number for number in _NUMBERS if number[0] in data]
        numbered = bool(numbers) or b"apability" in data
        sifted = Sifted([], [], [])
        for offset, key in zip(left, folded, strict=True):
            line = lines[offset]
            keys = [line]
            if b"0" in key:  # there are numbers; a line break keeps such a key apart from lines that read like it
                kept = b"\n" + (_numbers_kept(line, numbers) if numbered else b"")
                keys = [key + kept]
                if keys[0] not in known and len(key) < _LONGEST_REMEMBERED:
                    keys.append(_HEXADECIMAL.sub(b"0", key) + kept)
                if not known.isdisjoint(keys):
                    continue
            sifted.offsets.append(offset)
            sifted.lines.append(line)
            sifted.keys.append((keys[0], keys[-1]))
        return sifted

    def literals_in(self, data: bytes) -> list[str]:
        """The literals, squashed, that stand in the text, white space and line breaks aside."""
        lowered = without_escapes(data).lower()
        words = self._vocabulary.words_in(lowered)
        text = _Searched(lowered.translate(None, _WHITE), self._shared)
        return [
            name
            for name, pieces in self._pieces.items()
            if any(piece.words <= words and text.has(piece.text) for piece in pieces)
        ]

    def learn(self, sifted: Sifted, first: int, telling: Collection[int]) -> None:
        """Remembers the lines, but for those with the given numbers; ``first`` is the number of the block's first."""
        if self._bytes > _MOST_REMEMBERED:
            self._known.clear()
            self._bytes = 0
        for offset, line, keys in zip(sifted.offsets, sifted.lines, sifted.keys, strict=True):
            if keys[1] in self._known or first + offset in telling or len(line) >= _LONGEST_REMEMBERED:
                continue  # of lines that differ in numbers one is enough
            self._known.update((line, *keys))
            self._bytes += _SIZE_OF_ENTRY + (len(line) if keys[0] == line else 3 * len(line))

    def drop(self, name: str) -> None:
        """Looks for a literal no more."""
        self._pieces.pop(name, None)
