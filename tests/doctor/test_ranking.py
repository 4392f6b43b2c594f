"""The order of findings, and what is folded into what."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from cudalock import facts
from cudalock.doctor.rules.ranking import EXPLAINS, merge, rank
from cudalock.doctor.rules.situation import make_finding
from cudalock.findings import Finding


def found(code: str, severity: str = "error", **evidence: object) -> Finding:
    return Finding(code=code, severity=severity, message=code, evidence=evidence)  # type: ignore[arg-type]


def codes(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.code for finding in findings]


def test_order_does_not_depend_on_the_order_of_the_rules() -> None:
    findings = [
        found("triton-off-pin"),
        found("driver-library-mismatch"),
        found("nvml-unavailable", "warning"),
        found("gpu-not-in-wheel"),
    ]
    answers = {tuple(codes(rank(order))) for order in permutations(findings)}
    assert answers == {("driver-library-mismatch", "gpu-not-in-wheel", "triton-off-pin")}


def test_what_a_program_said_comes_first() -> None:
    words = found("gpu-not-in-wheel", line="no kernel image")
    merged = merge([found("driver-too-old"), found("gpu-not-in-wheel")], [words])
    ranked = rank(merged)
    assert codes(ranked) == ["gpu-not-in-wheel", "driver-too-old"]
    assert ranked[0].evidence["reported"] == "no kernel image"


def test_words_that_leave_several_causes_open_confirm_none() -> None:
    words = found("library-shadowed", line="unexpected EOF", possible=[{"cause": "a", "tell": "b"}])
    assert codes(rank(merge([found("torch-is-cpu-build")], [words]))) == ["torch-is-cpu-build", "library-shadowed"]


def test_a_confirmed_consequence_confirms_its_cause() -> None:
    words = found("undeclared-needed-library", line="libcudart.so.13: cannot open shared object file")
    (finding,) = rank(merge([found("missing-nvidia-dependency")], [words]))
    assert finding.evidence["reported"]
    assert [one["code"] for one in finding.evidence["consequences"]] == ["undeclared-needed-library"]


def test_a_warning_explains_no_error() -> None:
    ranked = rank([found("libcuda-shadowed", "warning"), found("driver-library-mismatch")])
    assert codes(ranked) == ["driver-library-mismatch"]
    assert codes(rank([found("triton-missing", "info"), found("lock-drift")])) == ["lock-drift", "triton-missing"]


def test_a_refused_torch_is_why_another_build_is_there() -> None:
    words: dict[str, Any] = {"line": "No matching distribution found", "possible": [{"cause": "a", "tell": "b"}]}
    cpu = found("torch-is-cpu-build")
    (finding,) = rank(merge([cpu], [found("no-wheel-for-python", requirement="torch==2.9.1", **words)]))
    assert finding.code == "no-wheel-for-python"
    assert [one["code"] for one in finding.evidence["consequences"]] == ["torch-is-cpu-build"]
    for other in ("torchsde", "torch-scatter", "xformers", None):
        refused = found("no-wheel-for-python", requirement=other, **words)
        assert codes(rank(merge([cpu], [refused]))) == ["torch-is-cpu-build", "no-wheel-for-python"]


def test_every_code_is_in_the_catalogue() -> None:
    named = set(EXPLAINS) | {code for some in EXPLAINS.values() for code in some}
    assert named <= facts.finding_codes().keys()


def test_the_catalogue_fills_what_a_rule_leaves_open() -> None:
    finding = make_finding("libcuda-not-found", "the loader finds no libcuda.so.1")
    row = facts.finding_codes()["libcuda-not-found"]
    assert (finding.severity, finding.cause, finding.fix) == (row.severity, row.meaning, row.fix)
