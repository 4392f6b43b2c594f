"""What programs print when something is wrong, and which finding it is: ``data/explain.toml``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cudalock.facts.loader import Row, cached, table

__all__ = ["consequences", "explanations", "Pattern", "PossibleCause", "Stage", "STAGES"]

Stage = Literal["machine", "driver", "container", "index", "install", "import", "compile", "run"]
STAGES: tuple[Stage, ...] = ("machine", "driver", "container", "index", "install", "import", "compile", "run")
"""What is built on what: a stage can only work where those before it do."""

_SHORTEST_LITERAL = 4
_SPACES = re.compile(r" +[?*+]?")
_SEVERITIES: Mapping[str, Literal["error", "warning", "info"]] = {
    "error": "error",
    "warning": "warning",
    "info": "info",
}


@dataclass(frozen=True, slots=True)
class PossibleCause:
    """One of several causes of the same words, and how to tell whether it is this one."""

    cause: str
    tell: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One way in which a fault shows in a text.

    Attributes:
        name: unique among the rows.
        place: its number in the table, from 0: of two rows that fit, the first counts.
        code: the finding.
        severity: where it is not the catalogue's.
        stage: what had been reached when it broke.
        literals: one of them is in every text that matches; case, white space and quotes do not count.
        expressions: one of them matches; named groups are evidence. A space matches any white space or none, so that
            text broken over lines matches as well.
        context: if given, must match in the lines around.
        without: if given, must not match in the line.
        beside: if given, it counts only where a failure with one of these codes was seen too; what programs go on after
            is none.
        group: of the rows of one group, the first that matches a line speaks for it.
        weak: a symptom that many causes share; a consequence of whatever else is found.
        open: it pins no cause: several are possible.
        goes_on: programs go on after it, so that a fatal error weighs more.
        message, cause, fix: where they are not the catalogue's; ``{name}`` stands for a captured group.
        possible: causes that stay open.
        samples: texts that it must recognise, the first of them real.
        source: where the words were seen.
    """

    name: str
    place: int
    code: str
    severity: Literal["error", "warning", "info"] | None
    stage: Stage
    literals: tuple[str, ...]
    expressions: tuple[re.Pattern[str], ...]
    context: re.Pattern[str] | None
    without: re.Pattern[str] | None
    beside: tuple[str, ...]
    group: str | None
    weak: bool
    open: bool
    goes_on: bool
    message: str | None
    cause: str | None
    fix: str | None
    possible: tuple[PossibleCause, ...]
    samples: tuple[str, ...]
    source: str


def _expression(row: Row, text: str) -> re.Pattern[str]:
    try:
        return re.compile(_SPACES.sub(r"\\s*", text), re.IGNORECASE)
    except re.error as error:
        row.fail(f"the expression {text!r} is not valid: {error}")


def _expression_or_none(row: Row, key: str) -> re.Pattern[str] | None:
    text = row.text_or_none(key)
    return None if text is None else _expression(row, text)


def _stage(row: Row) -> Stage:
    text = row.text("stage")
    found = next((stage for stage in STAGES if stage == text), None)
    return found or row.fail(f"unknown stage {text!r}")


def _literals(row: Row) -> tuple[str, ...]:
    found = row.texts("literals")
    if not found or any(len(text.replace(" ", "")) < _SHORTEST_LITERAL for text in found):
        row.fail(f"'literals' must hold texts of at least {_SHORTEST_LITERAL} characters")
    return found


def _possible(row: Row) -> tuple[PossibleCause, ...]:
    pairs = tuple(row.lists("possible"))
    if any(len(pair) != 2 for pair in pairs):
        row.fail("'possible' must hold pairs of a cause and how to tell it")
    return tuple(PossibleCause(*pair) for pair in pairs)


def _pattern(name: str, place: int, row: Row) -> Pattern:
    severity = row.text_or_none("severity")
    if severity is not None and severity not in _SEVERITIES:
        row.fail(f"unknown severity {severity!r}")
    expressions = tuple(_expression(row, text) for text in row.texts("expressions"))
    samples = row.texts("samples")
    if not expressions or not samples:
        row.fail("'expressions' and 'samples' must not be empty")
    return Pattern(
        name=name,
        place=place,
        code=row.text("code"),
        severity=None if severity is None else _SEVERITIES[severity],
        stage=_stage(row),
        literals=_literals(row),
        expressions=expressions,
        context=_expression_or_none(row, "context"),
        without=_expression_or_none(row, "without"),
        beside=row.texts("beside"),
        group=row.text_or_none("group"),
        weak=row.flag("weak"),
        open=row.flag("open"),
        goes_on=row.flag("goes_on"),
        message=row.text_or_none("message"),
        cause=row.text_or_none("cause"),
        fix=row.text_or_none("fix"),
        possible=_possible(row),
        samples=samples,
        source=row.source,
    )


@cached
def explanations() -> tuple[Pattern, ...]:
    """All rows, in the order of the table. Source: each row names where its words were seen."""
    rows = table("explain").by_key("pattern", lambda row: row.text("name"))
    return tuple(_pattern(name, place, row) for place, (name, row) in enumerate(rows.items()))


@cached
def consequences() -> Mapping[str, frozenset[str]]:
    """Code -> codes that it brings about, so that they are told as its consequences."""
    rows = table("explain").by_key("consequence", lambda row: row.text("cause"))
    return {cause: frozenset(row.texts("brings")) for cause, row in rows.items()}
