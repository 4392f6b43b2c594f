"""All products, driver branches and Pythons: an answer that the naive rules give too, or a typed refusal where they give none."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

import pytest

from cudalock import facts
from cudalock.compat.model import Policy
from cudalock.errors import AnswerIsNo, UsageError
from cudalock.resolve import ResolveOptions, resolve
from cudalock.target import Target, TargetOptions, build_target
from cudalock.versions import ComputeCapability
from faithful.reader import FaithfulReader
from scenarios import naive
from scenarios.scenario import load

TEGRA = {ComputeCapability.parse(text) for text in ("3.2", "5.3", "6.2", "7.2", "8.7", "10.1", "11.0")}
PYTHONS = ("3.10", "3.12", "3.14t")
REQUEST = next(scenario for scenario in load() if scenario.identifier == "volta-580").request()


def kinds_of_products() -> dict[ComputeCapability, list[str]]:
    """Capability -> the products that have it. Nothing else about a product takes part without forward compatibility."""
    kinds: defaultdict[ComputeCapability, list[str]] = defaultdict(list)
    for name in facts.product_names():
        for capability in facts.find_product(name).capabilities:
            if capability not in TEGRA:
                kinds[capability].append(name)
    return dict(kinds)


def target_of(gpus: tuple[str, ...], driver: str, python: str) -> Target | None:
    """None where the driver does not drive the GPUs: refused before there is anything to resolve."""
    try:
        return build_target(TargetOptions(gpus=gpus, driver=driver, python=python, platform="linux-x86_64"))
    except UsageError as error:
        if error.code == "driver-does-not-drive-gpu" and error.hint:
            return None
        raise


def check(target: Target) -> None:
    environment = tuple(sorted(target.marker_environment.items()))
    builds = naive.candidates(target.marker_environment["python_full_version"], frozenset(target.tags), environment)
    wanted = naive.best(builds, target)
    reader = FaithfulReader()
    where = f"{[str(gpu) for gpu in target.gpus]} driver {target.driver} Python {target.python}"
    refusal: AnswerIsNo | None = None
    triple = None
    try:
        triple = resolve(REQUEST, target, reader, policy=Policy(), options=ResolveOptions()).triple
    except AnswerIsNo as error:
        refusal = error
    if refusal is not None:
        assert wanted is None, f"{where}: refused ({refusal.message}), and {wanted} is admitted"
        assert refusal.hint, where
        return
    assert triple is not None
    assert wanted is not None, f"{where}: {triple.torch} was chosen, and nothing is admitted"
    found = (
        triple.torch,
        triple.build.source == "main",
        str(triple.cuda),
        str(triple.triton) if triple.triton else None,
    )
    assert found == (wanted.version, wanted.main, ".".join(map(str, wanted.cuda)), wanted.triton), where


@pytest.mark.slow
@pytest.mark.parametrize("python", PYTHONS)
def test_every_product_and_driver_branch(python: str) -> None:
    covered = 0
    for capability, products in kinds_of_products().items():
        for branch in facts.branches("linux"):
            target = target_of((str(capability),), str(branch.newest), python)
            if target is not None:
                check(target)
            covered += len(products)
    assert covered > 15_000


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["535.216.03", "570.207", "580.173.02", "610.57.04"])
def test_every_pair_of_capabilities(driver: str) -> None:
    for pair in combinations(sorted(kinds_of_products()), 2):
        target = target_of(tuple(map(str, pair)), driver, "3.12")
        if target is not None:
            check(target)
