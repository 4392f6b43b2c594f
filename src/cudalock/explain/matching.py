"""Finds the rows of the table in a log: by literals in whole blocks, then by expressions around the hits only."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from cudalock.explain.model import Line, Match, Place
from cudalock.explain.reading import Block, Source, blocks_of, lines_of
from cudalock.explain.sieve import Sieve, squashed
from cudalock.facts.explanations import Pattern

__all__ = ["Scan"]

_ENOUGH = 500  # after so many sightings a row tells nothing new
_BEFORE, _AFTER = 6, 6  # lines around a hit that one message may be broken over
_LONGEST_TEXT = 4000  # characters that an expression sees at most
_CONTEXT_LINES = 40  # before a hit
_CONTEXT_AFTER = 15
_TRIES = 20
_MOST_FAILURES = 2_000
_NO_DIGITS = str.maketrans("123456789", "0" * 9)
_LINE_SHOWN = 300
_VALUE_SHOWN = 200


class Scan:
    """Reads sources and keeps, for every row of the table, the first place where it was seen, and how often.

    Memory is bounded by the table and one block, whatever the size of the sources.
    """

    def __init__(self, rows: Sequence[Pattern]) -> None:
        self._rows = rows
        self._by_literal: dict[str, list[Pattern]] = {}
        for row in rows:
            for text in row.literals:
                self._by_literal.setdefault(squashed(text), []).append(row)
        self._sieve = Sieve({text for row in rows for text in row.literals})
        self._tried: dict[str, int] = {}
        self._failures: dict[tuple[int, str], int] = {}
        self._counted: dict[str, set[tuple[int, int]]] = {}
        self.matches: dict[str, Match] = {}
        self.bytes_read = 0

    def read(self, number: int, name: str, source: Source) -> Iterator[int]:
        """Scans one source; yields the bytes read so far after every block."""
        for block in blocks_of(name, source):
            self.bytes_read += len(block.data)
            fresh = self._sieve.fresh_lines(block.data)
            hits = self._sieve.literals_in(fresh) if fresh else []
            telling = self._examine(hits, block, number, name) if hits else frozenset()
            self._sieve.learn(block, telling)
            yield self.bytes_read

    def _examine(self, literals: Sequence[str], block: Block, number: int, name: str) -> set[int]:
        """Numbers of the lines that told something, or may do so another time."""
        telling: set[int] = set()
        counted: dict[str, set[tuple[int, int]]] = {}
        for lines in _streams_of(block):
            spoken: dict[str, int] = {}  # group -> index of the last line that its last speaker covers
            candidates = self._candidates(literals, lines)
            for position, (index, row) in enumerate(candidates):
                if row.context is not None and self._tried.get(row.name, 0) < _ENOUGH:
                    self._tried[row.name] = self._tried.get(row.name, 0) + 1
                    telling.add(lines[index].number)
                if row.group and index <= spoken.get(row.group, -1):
                    continue
                mark = (number, lines[index].number)
                if mark in counted.get(row.name, ()):
                    continue
                for rival in _rivals(row, index, candidates, position):
                    found = self._look(rival, lines, index)
                    if found is not None:
                        break
                else:
                    continue
                if (known := self.matches.get(rival.name)) is None or known.count < _ENOUGH:
                    telling.update(line.number for line in lines[max(index - _BEFORE, 0) : found.last + 1])
                if rival.group:
                    spoken[rival.group] = found.last
                if mark in counted.setdefault(rival.name, set()):
                    continue
                counted[rival.name].add(mark)
                if mark not in self._counted.get(rival.name, ()):  # else the block before told it
                    self._keep(rival, Place(*mark), name, lines[index], found.match)
        self._counted = counted
        self._retire()
        return telling

    def _candidates(self, literals: Sequence[str], lines: Sequence[Line]) -> list[tuple[int, Pattern]]:
        """(index of the line where a literal begins, a row of that literal), by line and then in the table's order."""
        texts = [squashed(line.text) for line in lines]
        starts = list(accumulate(map(len, texts), initial=0))
        whole = "".join(texts)
        found: set[tuple[int, int]] = set()
        for text in literals:
            position = whole.find(text)
            while position >= 0:
                index = bisect_right(starts, position) - 1
                found.update((index, row.place) for row in self._by_literal.get(text, ()))
                # one hit a line is enough: go on where the next line begins
                position = whole.find(text, max(starts[index + 1], position + 1))
        return [(index, self._rows[place]) for index, place in sorted(found)]

    def _keep(self, row: Pattern, place: Place, name: str, line: Line, found: re.Match[str]) -> None:
        captured = {
            key: " ".join(value.split())[:_VALUE_SHOWN] for key, value in found.groupdict().items() if value is not None
        }
        known = self.matches.get(row.name)
        if known is None:
            shown = line.text if found.string == line.text else found.string[max(found.start() - 80, 0) :]
            shown = " ".join(shown.split())
            if len(shown) > _LINE_SHOWN:
                start = max(found.start() - 100, 0)
                shown = " ".join(found.string[start : start + _LINE_SHOWN].split())
            self.matches[row.name] = known = Match(row, place, name, shown, line.time, captured)
        else:
            known.count += 1
            known.captured = {**captured, **known.captured}
        if line.stream and len(known.streams) < 64:
            known.streams.add(line.stream)

    def _look(self, row: Pattern, lines: Sequence[Line], index: int) -> _Found | None:
        """As :func:`_look`, but not again and again where lines like this one never told anything."""
        key = (row.place, lines[index].text[:_LONGEST_TEXT].translate(_NO_DIGITS))
        failures = self._failures.get(key, 0)
        if failures >= _TRIES:
            return None
        found = _look(row, lines, index)
        if found is None:
            if len(self._failures) > _MOST_FAILURES:
                self._failures.clear()
            self._failures[key] = failures + 1
        return found

    def _retire(self) -> None:
        """Stops looking for what has been seen often enough: a log of one repeated line stays cheap."""
        for text, rows in list(self._by_literal.items()):
            wanting = [row for row in rows if (match := self.matches.get(row.name)) is None or match.count < _ENOUGH]
            if wanting:
                self._by_literal[text] = wanting
            else:
                del self._by_literal[text]
                self._sieve.drop(text)


@dataclass(frozen=True, slots=True)
class _Found:
    """A match, and the index of the last line that it covers."""

    match: re.Match[str]
    last: int


def _streams_of(block: Block) -> Iterable[list[Line]]:
    """The lines of each rank, pod or process; one without a prefix may go on with the line before it."""
    streams: dict[str, list[Line]] = {}
    last = ""
    for line in lines_of(block):
        streams.setdefault(line.stream, []).append(line)
        if line.stream:
            last = line.stream
        elif last:
            streams[last].append(line)
    return streams.values()


def _rivals(row: Pattern, index: int, candidates: Sequence[tuple[int, Pattern]], position: int) -> Iterator[Pattern]:
    """The rows of the same group that may speak for this line, in the table's order; the row alone if it has none."""
    if row.group is None:
        yield row
        return
    near = {row.place: row}
    for other_index, other in candidates[position + 1 :]:
        if other_index > index + _AFTER:
            break
        if other.group == row.group:
            near[other.place] = other
    yield from (near[place] for place in sorted(near))


def _look(row: Pattern, lines: Sequence[Line], index: int) -> _Found | None:
    """The row's expression in the line, else in the lines around it as one."""
    match = _search(row, lines[index].text)
    found = None if match is None else _Found(match, index)
    if match is None or None in match.groups():  # what is missing may stand on the next lines
        joined = _search_joined(row, lines, index)
        if joined is not None and (match is None or _filled(joined.match) > _filled(match)):
            found = joined
    if found is None or row.context is None:
        return found
    around = lines[max(index - _CONTEXT_LINES, 0) : index + 1 + _CONTEXT_AFTER]
    texts = [line.text[:_LONGEST_TEXT] for line in around]
    return found if row.context.search("\n".join(texts)) or row.context.search("".join(texts)) else None


def _filled(match: re.Match[str]) -> int:
    return sum(value is not None for value in match.groups())


def _search(row: Pattern, text: str) -> re.Match[str] | None:
    for piece in _bounded(row, text):
        if row.without is not None and row.without.search(piece):
            continue
        for expression in row.expressions:
            if found := expression.search(piece):
                return found
    return None


def _bounded(row: Pattern, text: str) -> Iterator[str]:
    """The text, or where it is long the part around the first place that looks right."""
    if len(text) <= _LONGEST_TEXT:
        yield text
        return
    literals = [squashed(literal) for literal in row.literals]
    for start in range(0, min(len(text), 16 * _LONGEST_TEXT), _LONGEST_TEXT // 2):
        piece = text[start : start + _LONGEST_TEXT]
        plain = squashed(piece)
        if any(literal in plain for literal in literals):
            yield piece


def _search_joined(row: Pattern, lines: Sequence[Line], index: int) -> _Found | None:
    """A message broken over lines: joined by spaces, then without, as a terminal breaks words."""
    first = max(index - _BEFORE, 0)
    parts = [line.text[:_LONGEST_TEXT] for line in lines[first : index + _AFTER + 1]]
    if len(parts) == 1:
        return None
    for separator in (" ", ""):
        stripped = [part.strip() for part in parts]
        starts = list(accumulate((len(part) + len(separator) for part in stripped), initial=0))
        joined = separator.join(stripped)
        here = index - first
        for expression in row.expressions:
            for match in expression.finditer(joined):
                if match.start() >= starts[here + 1] or match.end() <= starts[here]:
                    continue
                if row.without is None or not row.without.search(match[0]):
                    return _Found(match, first + bisect_right(starts, match.end() - 1) - 1)
    return None
