"""Finds the rows of the table in a log: by literals in whole blocks, then by expressions around the hits only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cudalock.explain.model import Line, Match, Place
from cudalock.explain.reading import Block, Source, blocks_of
from cudalock.explain.required import in_lower_case, needed_by, stands_in
from cudalock.explain.sieve import Sieve, squashed
from cudalock.explain.stream import AFTER, BEFORE, Stream, streams_of
from cudalock.facts.explanations import Pattern

__all__ = ["Scan"]

_ENOUGH = 500  # after so many sightings a row tells nothing new
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
        self._groups: dict[str, list[Pattern]] = {}
        for row in rows:
            if row.group:
                self._groups.setdefault(row.group, []).append(row)
            for text in row.literals:
                self._by_literal.setdefault(squashed(text), []).append(row)
        self._sieve = Sieve({text for row in rows for text in row.literals})
        self._tried: dict[str, int] = {}
        self._failures: dict[tuple[int, str], int] = {}
        self._counted: dict[str, set[tuple[int, int]]] = {}
        self.matches: dict[str, Match] = {}
        self.bytes_read = 0
        self.searches = 0
        """How often an expression has been tried on a text: what the time goes into."""

    def read(self, number: int, name: str, source: Source) -> Iterator[int]:
        """Scans one source; yields the bytes read so far after every block."""
        for block in blocks_of(name, source):
            self.bytes_read += len(block.data)
            sifted = self._sieve.fresh(block.data)
            hits = self._sieve.literals_in(b"\n".join(sifted.lines)) if sifted.lines else []
            telling = self._examine(hits, block, number, name) if hits else frozenset()
            self._sieve.learn(sifted, block.first, telling)
            yield self.bytes_read

    def _examine(self, literals: Sequence[str], block: Block, number: int, name: str) -> set[int]:
        """Numbers of the lines that told something, or may do so another time."""
        telling: set[int] = set()
        counted: dict[str, set[tuple[int, int]]] = {}
        for stream in streams_of(block):
            lines = stream.lines
            spoken: dict[str, int] = {}  # group -> index of the last line that its last speaker covers
            silent: dict[str, int] = {}  # group -> index of the last line for which none of it spoke
            candidates = self._candidates(literals, stream)
            for position, (index, row) in enumerate(candidates):
                if row.context is not None and self._tried.get(row.name, 0) < _ENOUGH:
                    self._tried[row.name] = self._tried.get(row.name, 0) + 1
                    telling.add(lines[index].number)
                if row.group and (index <= spoken.get(row.group, -1) or index == silent.get(row.group)):
                    continue
                mark = (number, lines[index].number)
                if mark in counted.get(row.name, ()):
                    continue
                for rival in _rivals(row, index, candidates, position):
                    found = self._look(rival, stream, index)
                    if found is not None:
                        break
                else:
                    silent[row.group or ""] = index  # the rivals of its other rows at this line are among these
                    continue
                if (known := self.matches.get(rival.name)) is None or known.count < _ENOUGH:
                    telling.update(line.number for line in lines[max(index - BEFORE, 0) : found.last + 1])
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

    def _candidates(self, literals: Sequence[str], stream: Stream) -> list[tuple[int, Pattern]]:
        """(index of the line where a literal begins, a row of that literal), by line and then in the table's order."""
        whole, starts = stream.squashed, stream.starts
        possible: dict[int, bool] = {}
        found: set[tuple[int, int]] = set()
        for text in literals:
            position = whole.find(text)
            if position < 0:
                continue
            places = [row.place for row in self._by_literal.get(text, ()) if self._is_possible(row, stream, possible)]
            while places and position >= 0:
                index = stream.line_at(position)
                found.update((index, place) for place in places)
                # one hit a line is enough: go on where the next line begins
                position = whole.find(text, max(starts[index + 1], position + 1))
        return [(index, self._rows[place]) for index, place in sorted(found)]

    def _is_possible(self, row: Pattern, stream: Stream, known: dict[int, bool]) -> bool:
        """Whether what the row's expressions demand, or those of a row of its group, stands in the stream at all."""
        if row.context is not None and self._tried.get(row.name, 0) < _ENOUGH:
            return True  # a line like this one may find its context another time
        whole = stream.squashed
        for one in self._groups.get(row.group or "", [row]):
            if one.place not in known:
                known[one.place] = any(
                    stands_in(needed_by(expression.pattern), whole, 0, len(whole)) for expression in one.expressions
                )
            if known[one.place]:
                return True
        return False

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

    def _look(self, row: Pattern, stream: Stream, index: int) -> _Found | None:
        """The row's expressions around the line, but not again and again where lines like it never told anything."""
        around = stream.around(index)
        expressions = [one for one in row.expressions if stands_in(needed_by(one.pattern), stream.squashed, *around)]
        if not expressions:
            return None
        key = (row.place, stream.lines[index].text.translate(_NO_DIGITS))
        failures = self._failures.get(key, 0)
        if failures >= _TRIES:
            return None
        self.searches += len(expressions)
        found = _look(row, expressions, stream, index)
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


def _rivals(row: Pattern, index: int, candidates: Sequence[tuple[int, Pattern]], position: int) -> Iterator[Pattern]:
    """The rows of the same group that may speak for this line, in the table's order; the row alone if it has none."""
    if row.group is None:
        yield row
        return
    near = {row.place: row}
    for other_index, other in candidates[position + 1 :]:
        if other_index > index + AFTER:
            break
        if other.group == row.group:
            near[other.place] = other
    yield from (near[place] for place in sorted(near))


def _look(row: Pattern, expressions: Sequence[re.Pattern[str]], stream: Stream, index: int) -> _Found | None:
    """One of the row's expressions in the line, else in the lines around it as one."""
    lines = stream.lines
    match = _search(row, expressions, lines[index].text)
    found = None if match is None else _Found(match, index)
    if match is None or None in match.groups():  # what is missing may stand on the next lines
        joined = _search_joined(row, expressions, stream, index)
        if joined is not None and (match is None or _filled(joined.match) > _filled(match)):
            found = joined
    if found is None or row.context is None:
        return found
    around = lines[max(index - _CONTEXT_LINES, 0) : index + 1 + _CONTEXT_AFTER]
    texts = [line.text for line in around]
    return found if row.context.search("\n".join(texts)) or row.context.search("".join(texts)) else None


def _filled(match: re.Match[str]) -> int:
    return sum(value is not None for value in match.groups())


def _search(row: Pattern, expressions: Sequence[re.Pattern[str]], text: str) -> re.Match[str] | None:
    if row.without is not None and row.without.search(text):
        return None
    lowered = text.lower()
    for expression in expressions:
        if in_lower_case(expression.pattern).search(lowered) and (found := expression.search(text)):
            return found
    return None


def _search_joined(row: Pattern, expressions: Sequence[re.Pattern[str]], stream: Stream, index: int) -> _Found | None:
    """A message broken over lines: joined by spaces, then without, as a terminal breaks words."""
    if len(stream.lines) == 1:
        return None
    for separator in (" ", ""):
        joined = stream.joined(separator)
        first, last = joined.around(index)
        lowered = joined.lowered[first:last]
        begins, ends = joined.starts[index] - first, joined.starts[index + 1] - first
        for expression in expressions:
            if not in_lower_case(expression.pattern).search(lowered):
                continue
            for match in expression.finditer(joined.text[first:last]):
                if match.start() >= ends or match.end() <= begins:
                    continue
                if row.without is None or not row.without.search(match[0]):
                    return _Found(match, joined.line_at(first + match.end() - 1))
    return None
