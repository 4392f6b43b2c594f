"""From what was seen to findings: one a code, consequences below their cause, ordered by certainty, stage and time."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cudalock import facts
from cudalock.explain.model import STAGES, Match, Stage
from cudalock.facts.explanations import consequences
from cudalock.findings import Finding, Severity

__all__ = ["Cause", "causes_of", "finding_of"]

_SEVERITY = {"error": 0, "warning": 1, "info": 2}
_PLACES_SHOWN = 5
_STREAMS_SHOWN = 16


@dataclass(slots=True)
class Cause:
    """All sightings of one code, and the causes that are its consequences."""

    code: str
    matches: list[Match]
    consequences: list[Cause] = field(default_factory=list)

    @property
    def lead(self) -> Match:
        """The sighting that says most: one that pins the cause, else the first."""
        return min(self.matches, key=lambda one: (one.row.weak, one.row.open, _when(one)))

    @property
    def severity(self) -> Severity:
        """The gravest of the sightings."""
        catalogue = facts.finding_codes()[self.code].severity
        return min((one.row.severity or catalogue for one in self.matches), key=_SEVERITY.__getitem__)

    @property
    def weak(self) -> bool:
        """Whether it is but a symptom."""
        return all(one.row.weak for one in self.matches)

    @property
    def open(self) -> bool:
        """Whether several causes are possible."""
        return all(one.row.open for one in self.matches)

    @property
    def goes_on(self) -> bool:
        """Whether programs go on after it."""
        return all(one.row.goes_on for one in self.matches)

    @property
    def stage(self) -> Stage:
        """The earliest stage in which it shows."""
        return min((one.row.stage for one in self.matches), key=STAGES.index)

    @property
    def first(self) -> tuple[int, int]:
        """The first place where it shows."""
        return min(_when(one) for one in self.matches)


def _when(match: Match) -> tuple[int, int]:
    return match.place.source, match.place.line


def _order(cause: Cause) -> tuple[Any, ...]:
    return (
        _SEVERITY[cause.severity],
        cause.weak,
        cause.open,
        cause.goes_on,
        STAGES.index(cause.stage),
        cause.first,
    )


def causes_of(matches: Iterable[Match]) -> tuple[Cause, ...]:
    """The root causes in order, each with what it brings about."""
    by_code: dict[str, Cause] = {}
    for match in matches:
        by_code.setdefault(match.row.code, Cause(match.row.code, [])).matches.append(match)
    ordered = sorted(by_code.values(), key=_order)
    roots: list[Cause] = []
    below: dict[str, Cause] = {}
    for cause in ordered:
        above = _above(cause, ordered, below)
        if above is None:
            roots.append(cause)
        else:
            below[cause.code] = above
    for code, above in below.items():
        _root(above, below).consequences.append(by_code[code])
    for root in roots:
        root.consequences.sort(key=lambda one: one.first)
    return tuple(roots)


def _root(cause: Cause, below: Mapping[str, Cause]) -> Cause:
    while cause.code in below:
        cause = below[cause.code]
    return cause


def _above(cause: Cause, others: Sequence[Cause], below: Mapping[str, Cause]) -> Cause | None:
    """What brings it about: a code that the table names, or, for a mere symptom, the most certain error."""
    for other in others:
        named = cause.code in consequences().get(other.code, ())
        if other is not cause and named and not _leads_to(other, cause, below) and _may_bring(other, cause):
            return other
    if cause.weak:
        for other in others:
            certain = other.severity == "error" and not other.weak and not other.open
            if other is not cause and certain and not _leads_to(other, cause, below):
                return other
    return None


def _may_bring(other: Cause, cause: Cause) -> bool:
    """A symptom or a mere warning explains no error that pins a cause of its own."""
    return not (other.weak or other.open) and _SEVERITY[other.severity] <= _SEVERITY[cause.severity]


def _leads_to(cause: Cause, other: Cause, below: Mapping[str, Cause]) -> bool:
    """Whether ``other`` already stands above ``cause``."""
    while cause.code in below:
        cause = below[cause.code]
        if cause is other:
            return True
    return False


class _Known(string.Formatter):
    """Fills in what was captured and notes what was not."""

    def __init__(self) -> None:
        self.complete = True

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if key not in kwargs:
            self.complete = False
            return "?"
        return kwargs[str(key)]


def _filled(template: str | None, captured: Mapping[str, str], otherwise: str) -> str:
    """The template with what was captured; ``otherwise`` where there is none, or something in it is not known."""
    if template is None:
        return otherwise
    known = _Known()
    text = known.vformat(template, (), captured)
    return text if known.complete else otherwise


def finding_of(cause: Cause) -> Finding:
    """The finding that a cause is told as."""
    row = facts.finding_codes()[cause.code]
    lead = cause.lead
    captured = {key: value for one in reversed(cause.matches) for key, value in one.captured.items()} | dict(
        lead.captured
    )
    return Finding(
        code=cause.code,
        severity=cause.severity,
        message=_filled(lead.row.message, captured, row.title),
        evidence={**captured, **_evidence(cause)},
        cause=_filled(lead.row.cause, captured, row.meaning),
        fix=_filled(lead.row.fix, captured, row.fix),
    )


def _evidence(cause: Cause) -> dict[str, Any]:
    lead = cause.lead
    evidence: dict[str, Any] = {
        "line": lead.line,
        "where": lead.where,
        "file": lead.name,
        "line_number": lead.place.line,
        "stage": cause.stage,
        "pattern": lead.row.name,
        "count": sum(one.count for one in cause.matches),
    }
    if lead.time:
        evidence["time"] = lead.time
    others = sorted((one for one in cause.matches if one is not lead), key=_when)
    if others:
        evidence["also"] = [{"where": one.where, "line": one.line} for one in others[:_PLACES_SHOWN]]
    streams = sorted({stream for one in cause.matches for stream in one.streams})
    if streams:
        evidence["streams"] = streams[:_STREAMS_SHOWN]
    possible = [one for match in (lead, *others) for one in match.row.possible]
    if possible:
        evidence["possible"] = [{"cause": one.cause, "tell": one.tell} for one in dict.fromkeys(possible)]
    if cause.consequences:
        evidence["consequences"] = [
            {"code": one.code, "message": finding_of(one).message, "where": one.lead.where, "line": one.lead.line}
            for one in cause.consequences
        ]
    return evidence
