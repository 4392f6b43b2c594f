"""What must stand in every text that an expression of the table matches, so that most texts need no expression."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["in_lower_case", "Needed", "needed_by", "stands_in"]

Clause = tuple[str, ...]
"""Texts of which one must be there."""
Needed = tuple[Clause, ...]
"""Clauses that must all hold; none: the expression demands nothing that can be named."""

_SHORTEST = 2
_REMOVED = frozenset(" \t\r\n\x0b\x0c\"'`\\")  # what squashing takes out of a text
_WHITE_ESCAPES = frozenset("sntrfv\\")
_ZERO_WIDTH = frozenset("bBAZ")
_QUANTIFIER = re.compile(r"(?:[?*+]|\{(\d*)(?:,\d*)?\})\??")
_GROUP = re.compile(r"\((?:\?(?:(?P<around><?[=!])|:|P<\w+>))?")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_ATOM_OR_NAME = re.compile(r"\\.|\(\?P<\w+>|[^\\(]+|\(")


class _NotUnderstoodError(Exception):
    """The expression uses more than this reader knows; nothing is demanded then."""


class _Reader:
    """Reads an expression from left to right; in the squashed text white space and quotes are not there."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Needed:
        found = self._alternatives()
        if self._at != len(self._text):
            raise _NotUnderstoodError
        return found

    def _alternatives(self) -> Needed:
        found = [self._sequence()]
        while self._text.startswith("|", self._at):
            self._at += 1
            found.append(self._sequence())
        if len(found) == 1:
            return found[0]
        if not all(found):  # one of the alternatives demands nothing
            return ()
        strongest = [max(clauses, key=lambda clause: min(map(len, clause))) for clauses in found]
        return (tuple(dict.fromkeys(text for clause in strongest for text in clause)),)

    def _sequence(self) -> Needed:
        clauses: list[Clause] = []
        run = ""
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            literal, inner = self._atom()
            least = self._least()
            if literal is not None and least is None:
                run += literal
                continue
            if literal == "":  # white space and anchors, however often
                continue
            clauses.append((run,))
            run = ""
            if least != 0:
                clauses.extend(inner if literal is None else [(literal,)])
        clauses.append((run,))
        return tuple(clause for clause in clauses if min(map(len, clause)) >= _SHORTEST)

    def _atom(self) -> tuple[str | None, Needed]:
        """(the character in the squashed text, empty if it has none, None if it is not known; what a group demands)."""
        char = self._text[self._at]
        if char == "(":
            return self._group()
        if char == "[":
            match = _CLASS.match(self._text, self._at)
            if match is None:
                raise _NotUnderstoodError
            self._at = match.end()
            return None, ()
        self._at += 1
        if char == "\\":
            char = self._text[self._at]
            self._at += 1
            if char in _WHITE_ESCAPES or char in _ZERO_WIDTH:
                return "", ()
            if char.isalnum():
                return None, ()
        elif char in "^$":
            return "", ()
        elif char == ".":
            return None, ()
        return ("" if char in _REMOVED else char.lower()), ()

    def _group(self) -> tuple[str | None, Needed]:
        match = _GROUP.match(self._text, self._at)
        if match is None or self._text.startswith("?", match.end()):
            raise _NotUnderstoodError
        self._at = match.end()
        inner = self._alternatives()
        if not self._text.startswith(")", self._at):
            raise _NotUnderstoodError
        self._at += 1
        return ("", ()) if match["around"] else (None, inner)

    def _least(self) -> int | None:
        """How often the atom must be there at least; None where no quantifier stands."""
        match = _QUANTIFIER.match(self._text, self._at)
        if match is None:
            return None
        self._at = match.end()
        return int(match[1] or 0) if match[0][0] == "{" else int(match[0][0] == "+")


@lru_cache(maxsize=4096)
def needed_by(pattern: str) -> Needed:
    """What the squashed form of every text has that the expression matches, case aside."""
    try:
        return _Reader(pattern).whole()
    except (_NotUnderstoodError, IndexError):
        return ()


def stands_in(needed: Needed, text: str, start: int, end: int) -> bool:
    """Whether that part of a squashed text has all that is needed."""
    for clause in needed:
        for one in clause:
            if text.find(one, start, end) >= 0:
                break
        else:
            return False
    return True


@lru_cache(maxsize=4096)
def in_lower_case(pattern: str) -> re.Pattern[str]:
    """The expression for texts in lower case: where case counts, the search for literals is several times faster."""
    parts = (part if part[0] == "\\" or part[:2] == "(?" else part.lower() for part in _ATOM_OR_NAME.findall(pattern))
    return re.compile("".join(parts))
