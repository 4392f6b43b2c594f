"""The matrix and the resolution are one: the chosen build is the first admitted one in rule R5's order."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from cudalock.compat import Policy
from cudalock.requirements.model import AskedRequirement, Request
from cudalock.resolve import resolve
from cudalock.resolve.matrix import columns, matrix
from cudalock.target import Target
from faithful.reader import FaithfulReader
from support.world import make_target

REQUEST = Request(requirements=(AskedRequirement(requirement=Requirement("torch"), origin="argument"),))
TARGETS = {
    "H100 with 580": (("H100",), "580.65.06", "linux-x86_64"),
    "RTX 5090 with 570": (("RTX 5090",), "570.86.16", "linux-x86_64"),
    "V100 with 580": (("V100",), "580.65.06", "linux-x86_64"),
    "A100 with 450": (("A100",), "450.80.02", "linux-x86_64"),
    "GH200 on aarch64": (("GH200",), "580.65.06", "linux-aarch64"),
    "GB10": (("GB10",), "580.95.05", "linux-aarch64"),
    "T4 on Windows": (("T4",), "581.29", "win-amd64"),
    "V100 and B200": (("V100", "B200"), "580.65.06", "linux-x86_64"),
}


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    gpus, driver, platform = TARGETS[request.param]
    return make_target(*gpus, driver=driver, platform=platform)


def test_the_chosen_build_is_the_one_that_resolution_takes(target: Target) -> None:
    result = matrix(target, FaithfulReader())
    answer = resolve(REQUEST, target, FaithfulReader(), policy=Policy()).triple
    assert answer is not None
    assert result.chosen is not None
    assert (result.chosen.version, result.chosen.file.page.index) == (answer.torch, answer.build.source)
    assert result.chosen.build is not None
    assert result.chosen.build.cuda == answer.cuda
    assert result.chosen.triton is None or result.chosen.triton.version == answer.triton


def test_cells_stand_in_order_and_every_refusal_has_a_reason(target: Target) -> None:
    cells = matrix(target, FaithfulReader()).cells
    releases = [cell.release for cell in cells]
    assert releases == sorted(releases, reverse=True)
    for cell in cells:
        assert cell.verdict is not None
        assert cell.admitted or all(reason.sentence and reason.code for reason in cell.verdict.refusals)
    by_release: dict[str, list[bool]] = {}
    for cell in cells:
        by_release.setdefault(str(cell.release), []).append(cell.admitted)
    assert all(row == sorted(row, reverse=True) for row in by_release.values()), "admitted builds come first"


def test_specifiers_narrow_it_and_columns_are_labels() -> None:
    cells = matrix(make_target("9.0", driver="580.65.06"), FaithfulReader(), specifiers=SpecifierSet("==2.11.*")).cells
    assert {str(cell.release) for cell in cells} == {"2.11.0"}
    assert set(columns(cells)) >= {"cu126", "cu128", "cu130"}


def test_without_a_target_nothing_is_judged() -> None:
    result = matrix(make_target("9.0", driver="580.65.06"), FaithfulReader(), judged=False)
    assert result.chosen is None
    assert all(cell.verdict is None for cell in result.cells)
    assert all(cell.build.architectures or cell.build.is_cpu for cell in result.cells if cell.build is not None)


def test_the_pytorch_index_may_be_missing() -> None:
    result = matrix(make_target("9.0", driver="580.65.06"), FaithfulReader(pytorch_reachable=False))
    assert result.missing
    assert result.chosen is not None
    assert {cell.file.page.index for cell in result.cells} == {"main"}
