"""The recorded cases, replayed as facts files (``convert_cases.py`` makes them): the right finding comes first."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from cudalock import facts
from cudalock.compat import Policy, judge
from cudalock.compat.driver import drives
from cudalock.doctor import DoctorReport, evidence_from_facts, make_report, with_reports
from cudalock.doctor.rules.fixes import torch_options
from cudalock.doctor.rules.situation import Situation
from cudalock.host import parse_facts
from cudalock.progress import Reporter
from cudalock.versions import DriverVersion

CASES = {path.stem: json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "cases").glob("*.json"))}
# What these tell is not among the facts of a machine and an environment.
MISSES = {
    "C111": "that another flavour was wanted is known to the request or the lock, which the report does not contain",
    "C112": "the lock lost its CUDA wheels; the report does not say what is installed",
}
INSTALL = re.compile(r"install torch ([\w.+]+)(?: and triton ([\d.]+))?,")
UPDATE = re.compile(r"update the driver to ([\d.]*\d) or newer")


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


@pytest.mark.parametrize("name", sorted(CASES.keys() - MISSES.keys()))
def test_the_first_error_is_the_right_one(name: str) -> None:
    report = replay(CASES[name])
    assert is_right(CASES[name], report), report.to_json()


def test_what_is_missed_is_known_and_less_than_one_in_ten() -> None:
    wrong = {name for name, case in CASES.items() if not is_right(case, replay(case))}
    assert wrong == MISSES.keys()
    assert len(wrong) < len(CASES) / 10


def test_no_fix_is_offered_as_verified_that_the_rules_refuse() -> None:
    """What a verified fix names is judged again: a build with its triton, or the installed one with another driver."""
    checked: Counter[str] = Counter()
    for case in CASES.values():
        host, environment = parse_facts(case["facts"])
        evidence = with_reports(evidence_from_facts(host, environment))
        situation = Situation(evidence)
        platform, target = situation.target.platform, situation.target
        options = torch_options(platform.os, platform.machine, evidence.python)
        for finding in make_report(evidence).findings:
            if not finding.fix_verified_by_rules:
                continue
            for version, triton in INSTALL.findall(finding.fix or ""):
                option = next(one for one in options if one.build.version == Version(version))
                assert (str(option.triton.version) if option.triton else "") == triton
                assert judge(option.build, target, triton=option.triton, policy=Policy()).admitted, finding
                checked["torch"] += 1
            for driver in UPDATE.findall(finding.fix or ""):
                number = DriverVersion.parse(driver)
                assert all(drives(number, gpu, situation.os) == "yes" for gpu in situation.gpus), finding
                if situation.build is not None:
                    newer = replace(target, driver=number, cuda_driver=facts.cuda_of_driver(number, situation.os))
                    assert judge(situation.build, newer, triton=situation.triton, policy=Policy()).admitted, finding
                checked["driver"] += 1
    assert checked["torch"] > 10
    assert checked["driver"] > 2
