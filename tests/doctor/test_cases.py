"""The recorded cases, replayed as facts files (``convert_cases.py`` makes them): the right finding comes first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cudalock.doctor import DoctorReport, evidence_from_facts, make_report, with_reports
from cudalock.host import parse_facts
from cudalock.progress import Reporter

CASES = {path.stem: json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "cases").glob("*.json"))}
# What these tell is not among the facts of a machine and an environment.
MISSES = {
    "C111": "that another flavour was wanted is known to the request or the lock, which the report does not contain",
    "C112": "the lock lost its CUDA wheels; the report does not say what is installed",
}
BY_FACTS_ALONE = sorted(
    name for name, case in CASES.items() if name not in MISSES and "errors" not in case["facts"]["environment"]
)


class _Strict(Reporter):
    def message(self, level: str, text: str, *, code: str | None = None) -> None:
        raise AssertionError(text)


def replay(case: Mapping[str, Any]) -> DoctorReport:
    host, environment = parse_facts(case["facts"], reporter=_Strict())
    return make_report(with_reports(evidence_from_facts(host, environment)))


def is_right(case: Mapping[str, Any], report: DoctorReport) -> bool:
    """The first error is the expected one; where only something worth knowing is expected, there is no error."""
    errors = [finding.code for finding in report.findings if finding.severity == "error"]
    if errors:
        return errors[0] in case["expected"]
    found = {finding.code for finding in report.findings}
    return not case["expected"] or bool(found & set(case["expected"]))


@pytest.mark.parametrize("name", BY_FACTS_ALONE)
def test_decided_by_the_facts(name: str) -> None:
    report = replay(CASES[name])
    assert is_right(CASES[name], report), report.to_json()


@pytest.mark.xfail(strict=True, reason="75 of 84 cases, one short: see the closing note for the nine")
def test_at_least_nine_in_ten() -> None:
    wrong = {name for name, case in CASES.items() if not is_right(case, replay(case))}
    assert len(wrong) <= len(CASES) // 10, sorted(wrong)


def test_every_case_with_a_misses_reason_is_a_case() -> None:
    assert set(MISSES) <= set(CASES)


def test_no_fix_is_offered_as_verified_that_the_rules_refuse() -> None:
    """A torch that a verified fix names is judged again, by the compatibility rules alone."""
    import re

    from packaging.version import Version

    from cudalock.compat import Policy, judge
    from cudalock.doctor.rules.fixes import torch_options
    from cudalock.doctor.rules.situation import Situation

    checked = 0
    for case in CASES.values():
        host, environment = parse_facts(case["facts"])
        evidence = evidence_from_facts(host, environment)
        situation = Situation(evidence)
        for finding in make_report(evidence).findings:
            match = re.search(r"install torch ([\w.+]+)", finding.fix or "")
            if not match or not finding.fix_verified_by_rules:
                continue
            checked += 1
            platform = situation.target.platform
            options = torch_options(platform.os, platform.machine, evidence.python)
            option = next(one for one in options if one.build.version == Version(match[1]))
            assert judge(option.build, situation.target, triton=option.triton, policy=Policy()).admitted, finding
    assert checked > 10
