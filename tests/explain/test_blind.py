"""Logs that were written without sight of the table, each with what a person who knows the field would say first.

On first sight 78 of these 94 were told right. The table was widened for the kinds of faults that it had missed, so from
here on the two sets guard what was reached; how good the table is on logs it has never seen, only a new set can tell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cudalock import facts
from cudalock.explain import Explanation, explain

FOLDER = Path(__file__).parent / "blind"
SETS = ("first", "second")
EXPECTED: Mapping[str, Mapping[str, Any]] = {
    f"{name}/{case}": expectation
    for name in SETS
    for case, expectation in json.loads((FOLDER / name / "expected.json").read_text("utf-8")).items()
}
EXCEPTIONS: Mapping[str, str] = {
    "second/C009": (
        "'device not ready' at an operation that is not its cause; that a triton older than the GPU left it behind is"
        " knowledge of that one case, and the log does not show it: several causes are left open instead"
    ),
}
REGISTRIES = re.compile(
    r"[\w.-]*(?:\bp[y]pi\b|pythonhosted|anaconda|npmjs|crates)[\w-]*\.(?:org|com|io)", re.IGNORECASE
)


@cache
def explanation_of(case: str) -> Explanation:
    with (FOLDER / f"{case}.log").open("rb") as stream:
        return explain([(case, stream)])


def is_right(case: str) -> bool:
    """The first finding is one of those expected; where none is, nothing may be called an error."""
    explanation, codes = explanation_of(case), EXPECTED[case]["codes"]
    if not codes:
        return not explanation.failed
    return bool(explanation.findings) and explanation.findings[0].code in codes


@pytest.mark.parametrize("case", sorted(EXPECTED.keys() - EXCEPTIONS.keys()))
def test_the_first_finding_is_the_one_that_a_person_would_name(case: str) -> None:
    found = [(one.code, one.evidence["where"], one.evidence["line"]) for one in explanation_of(case).findings]
    assert is_right(case), f"expected {EXPECTED[case]['codes']} ({EXPECTED[case]['why']}), found {found}"


@pytest.mark.parametrize("case", sorted(EXCEPTIONS))
def test_an_exception_is_still_one_and_is_not_told_as_certain(case: str) -> None:
    assert not is_right(case), "it is told right by now: take it off the exceptions"
    assert explanation_of(case).unknown, "a cause that the log does not show was told as certain"


def test_nine_of_ten_are_right() -> None:
    assert len(EXPECTED) == 94
    assert sum(map(is_right, EXPECTED)) >= 0.9 * len(EXPECTED)


def test_the_sets_hold_together() -> None:
    known = facts.finding_codes()
    logs = {f"{path.parent.name}/{path.stem}" for path in FOLDER.glob("*/*.log")}
    assert logs == EXPECTED.keys()
    assert {code for expectation in EXPECTED.values() for code in expectation["codes"]} <= known.keys()
    named = [path.name for path in FOLDER.rglob("*.*") if REGISTRIES.search(path.read_text("utf-8", "replace"))]
    assert named == []
