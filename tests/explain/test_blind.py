"""Logs that were written without sight of the table, each with what a person who knows the field would say first.

Of the first and second set, 78 of 94 were told right on first sight. The table was widened for the kinds of faults that
it had missed; then the third and fourth were written, again without sight of it, and of these 87 of 94 were told right
on first sight: that is how good the table is on logs it has never seen. It was widened once more for the kinds that were
missed, so that from here on all four guard what was reached.
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
SETS = ("first", "second", "third", "fourth")
EXPECTED: Mapping[str, Mapping[str, Any]] = {
    f"{name}/{case}": expectation
    for name in SETS
    for case, expectation in json.loads((FOLDER / name / "expected.json").read_text("utf-8")).items()
}
_DEVICE_NOT_READY = (
    "'device not ready' at an operation that is not its cause; that a triton older than the GPU left it behind is"
    " knowledge of that one case, and the log does not show it: several causes are left open instead"
)
EXCEPTIONS: Mapping[str, str] = {"second/C009": _DEVICE_NOT_READY, "third/C009": _DEVICE_NOT_READY}
OTHERWISE: Mapping[str, str] = {
    "fourth/C113": (
        "that torch is a CPU build stands in the log as plainly as the unused libraries; that no GPU is wanted, only in"
        " a remark of the script: where a CUDA build was replaced, the same lines stand in a log, and it comes first"
    ),
}
REGISTRIES = re.compile(
    r"[\w.-]*(?:\bp[y]pi\b|python[h]osted|ana[c]onda|npm[j]s|c[r]ates)[\w-]*\.(?:org|com|io)", re.IGNORECASE
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


@pytest.mark.parametrize("case", sorted(EXPECTED.keys() - EXCEPTIONS.keys() - OTHERWISE.keys()))
def test_the_first_finding_is_the_one_that_a_person_would_name(case: str) -> None:
    found = [(one.code, one.evidence["where"], one.evidence["line"]) for one in explanation_of(case).findings]
    assert is_right(case), f"expected {EXPECTED[case]['codes']} ({EXPECTED[case]['why']}), found {found}"


@pytest.mark.parametrize("case", sorted(EXCEPTIONS))
def test_an_exception_is_still_one_and_is_not_told_as_certain(case: str) -> None:
    assert not is_right(case), "it is told right by now: take it off the exceptions"
    explanation = explanation_of(case)
    open_causes = all("possible" in one.evidence for one in explanation.findings if one.severity == "error")
    assert explanation.unknown or open_causes, "a cause that the log does not show was told as certain"


@pytest.mark.parametrize("case", sorted(OTHERWISE))
def test_what_is_told_otherwise_is_told_as_well(case: str) -> None:
    assert not is_right(case)
    assert {one.code for one in explanation_of(case).findings} >= set(EXPECTED[case]["codes"])


def test_nine_of_ten_are_right() -> None:
    assert len(EXPECTED) == 2 * 94
    assert sum(map(is_right, EXPECTED)) >= 0.9 * len(EXPECTED)


def test_an_expectation_that_is_not_met_has_its_reason() -> None:
    assert {case for case in EXPECTED if not is_right(case)} == EXCEPTIONS.keys() | OTHERWISE.keys()


def test_the_sets_hold_together() -> None:
    known = facts.finding_codes()
    logs = {f"{path.parent.name}/{path.stem}" for path in FOLDER.glob("*/*.log")}
    assert logs == EXPECTED.keys()
    assert {code for expectation in EXPECTED.values() for code in expectation["codes"]} <= known.keys()
    named = [path.name for path in FOLDER.rglob("*.*") if REGISTRIES.search(path.read_text("utf-8", "replace"))]
    assert named == []
