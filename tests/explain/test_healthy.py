"""Nothing is found where nothing of what the table knows is wrong."""

from __future__ import annotations

import pytest

from cudalock.explain import explain_text
from support.healthy_logs import HEALTHY


@pytest.mark.parametrize("name", HEALTHY)
def test_a_log_without_such_a_fault_gives_no_finding(name: str) -> None:
    explanation = explain_text(HEALTHY[name])
    found = [(one.code, one.evidence["pattern"], one.evidence["line"]) for one in explanation.findings]
    assert found == []
    assert explanation.unknown and not explanation.failed


def test_what_only_describes_the_machine_leaves_the_fault_unknown() -> None:
    explanation = explain_text("5.15.167.4-microsoft-standard-WSL2\nRuntimeError: shapes cannot be multiplied")
    assert [(one.code, one.severity) for one in explanation.findings] == [("wsl-driver", "info")]
    assert (explanation.unknown, explanation.failed, explanation.first_stage) == (True, False, None)
    assert any("cudalock detect --json" in item for item in explanation.collect)
