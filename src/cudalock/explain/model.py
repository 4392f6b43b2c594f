"""The values that an explanation is made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cudalock.facts.explanations import STAGES, Pattern, Stage
from cudalock.findings import Finding

__all__ = ["Explanation", "Line", "Match", "Place", "STAGES", "Stage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a text says.

    Attributes:
        findings: root causes, most certain and earliest first; what they bring about stands in the ``consequences`` of
            their evidence. ``line``, ``where`` (``file:number``) and ``stage`` are in every evidence.
        first_stage: the first stage that broke, None if nothing in the text is known.
        unknown: no finding pins a cause: nothing is known but the machine (info), or several causes stay open.
        collect: what to collect or try next.
    """

    findings: tuple[Finding, ...]
    first_stage: Stage | None
    unknown: bool
    collect: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether an error was recognised."""
        return any(finding.severity == "error" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The explanation as it stands in the command's JSON answer."""
        first = self.findings[0].evidence if self.findings else {}
        return {
            "unknown": self.unknown,
            "first_stage": self.first_stage,
            "first_line": first.get("where"),
            "findings": [finding.to_json() for finding in self.findings],
            "collect": list(self.collect),
        }


class Line(NamedTuple):
    """One line of a log as it is read: without timestamps, prefixes, escape sequences and JSON around it.

    A tuple, as there is one for every line of a log: it is made several times faster than a frozen dataclass.

    Attributes:
        number: from 1, in its file; several lines of one JSON record share it.
        stream: what its prefix says of where it comes from (rank, pod, process); empty if nothing.
        text: what remains.
        time: its timestamp in a sortable form, empty if it has none.
    """

    number: int
    stream: str
    text: str
    time: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line stands: number of the source in the order given, and number of the line."""

    source: int
    line: int


@dataclass(slots=True)
class Match:
    """The first place where a row's text was seen, with what was captured, and how often in all."""

    row: Pattern
    place: Place
    name: str
    line: str
    time: str
    captured: Mapping[str, str]
    count: int = 1
    streams: set[str] = field(default_factory=set)

    @property
    def where(self) -> str:
        """``file:number``."""
        return f"{self.name}:{self.place.line}"


def first_group(match: re.Match[str], name: str) -> str | None:
    """A named group, None if the pattern has no such group."""
    return match.groupdict().get(name)
