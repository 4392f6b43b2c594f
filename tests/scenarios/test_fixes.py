"""What is suggested is tried: remedies of a refusal are resolved again, the doctor's fixes are judged by the naive rules.

``naive`` shares no code and no table with cudalock, and its builds are the files of the faithful indexes for the
machine's own Python and platform.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from cudalock import facts
from cudalock.doctor import evidence_from_facts, make_report
from cudalock.errors import AnswerIsNo, CudalockError, UsageError
from cudalock.findings import Finding
from cudalock.host.model import Gpu, Host
from cudalock.resolve import resolve
from cudalock.target import Target
from cudalock.versions import DriverVersion
from faithful.data import FaithfulData
from faithful.reader import FaithfulReader
from scenarios import naive
from scenarios.scenario import Scenario, load
from scenarios.test_scenarios import run

INSTALL_TORCH = re.compile(
    r"install torch (?P<version>[\d.]+)(?:\+(?P<label>\w+))?(?: and triton (?P<triton>[\d.]+))?,"
)
UPDATE_DRIVER = re.compile(r"update the driver to (?P<driver>[\d.]*\d) or newer")


# --- refusals of the resolver


def refusal(scenario: Scenario) -> AnswerIsNo | None:
    try:
        run(scenario, FaithfulReader(pytorch_reachable=scenario.get("pytorch-reachable", True)))
    except AnswerIsNo as error:
        return error
    except CudalockError:
        return None
    return None


def followed(scenario: Scenario, remedy: dict[str, Any]) -> Scenario:
    """The scenario of somebody who does what the remedy says."""
    table = dict(scenario.table)
    match remedy["kind"]:
        case "pin":
            others = [text for text in table.get("requirements", ()) if Requirement(text).name != "torch"]
            table["requirements"] = [remedy["option"], *others]
        case "cuda":
            table["cuda"] = remedy["option"].removeprefix("--cuda ")
        case "without-triton" | "assembler":
            table["without-triton"] = True
        case "driver":
            table["driver"] = remedy["facts"]["driver"]
        case "gpus":
            table["gpus"] = remedy["facts"]["gpus"]
        case "forward":
            table["compat"] = "forward"
        case "pytorch-index":
            del table["pytorch"]
        case "platform":
            table["platform"] = remedy["option"].removeprefix("--platform ")
        case other:
            raise AssertionError(f"how is {other} followed?")
    return Scenario(scenario.identifier, table)


@pytest.mark.parametrize("scenario", [one for one in load() if one.get("refuse")], ids=str)
def test_every_remedy_of_a_refusal_resolves(scenario: Scenario) -> None:
    error = refusal(scenario)
    remedies = error.details.get("remedies", ()) if error is not None else ()
    for remedy in remedies:
        assert remedy["verified_by_rules"]
        after = followed(scenario, remedy)
        triple = resolve(
            after.request(), after.target(), FaithfulReader(), policy=after.policy(), options=after.options()
        ).triple
        assert triple is not None
        assert str(triple.torch) == remedy["admits"], remedy


def test_the_scenarios_have_remedies() -> None:
    kinds = {
        remedy["kind"]
        for scenario in load()
        if scenario.get("refuse") and (error := refusal(scenario)) is not None
        for remedy in error.details.get("remedies", ())
    }
    assert kinds >= {"pin", "cuda", "without-triton", "assembler", "driver", "gpus"}


# --- the doctor on the scenarios' machines, with every build of torch installed there


def machine_of(target: Target) -> Host:
    return Host(
        os=target.platform.os,
        machine=target.platform.machine,
        libc=target.platform.libc,
        driver=target.driver,
        cuda_driver=target.cuda_driver,
        gpus=tuple(
            Gpu(index=index, name=gpu.name, compute_capability=gpu.compute_capability)
            for index, gpu in enumerate(target.gpus)
        ),
        gpus_known=True,
        python=str(target.python),
        wsl=target.wsl,
    )


def described_naively(target: Target) -> bool:
    """A machine that the naive rules cover: cards, a driver's own CUDA, no tables of their own."""
    special = target.cpu or target.jetson or target.wsl or target.forward_active
    known = target.driver is not None and target.driver.branch in naive.CUDA_OF_BRANCH
    return known and not special and target.platform.os == "linux" and bool(target.gpus)


def name_of(target: Target) -> str:
    platform = target.platform
    libc = "-".join(map(str, platform.libc[1])) if platform.libc else ""
    gpus = "+".join(map(str, target.capabilities))
    return f"{gpus} driver {target.driver} Python {target.python} {platform.machine} {libc}"


def targets() -> list[Target]:
    """The machines of all scenarios, each once."""
    found: dict[str, Target] = {}
    for scenario in load():
        try:
            target = scenario.target()
        except UsageError:
            continue
        if described_naively(target):
            found.setdefault(name_of(target), target)
    return list(found.values())


def with_torch(target: Target, row: facts.TorchRow) -> dict[str, str]:
    label = "" if row.on_main or row.label is None else f"+{row.label}"
    packages = {"torch": f"{row.version}{label}"}
    allowed = [one.version for one in facts.triton_rows() if row.triton and one.version in SpecifierSet(row.triton)]
    if allowed:
        packages["triton"] = str(max(allowed))
    return packages


def driven_by(target: Target, driver: str) -> Target:
    version = DriverVersion.parse(driver)
    return replace(target, driver=version, cuda_driver=facts.cuda_of_driver(version, "linux"))


def drops(target: Target, capability: int) -> bool:
    """Whether the driver is of a branch after the last one that drives the GPU."""
    assert target.driver is not None
    last = 390 if capability < 30 else 470 if capability < 50 else 580 if capability < 75 else None
    return last is not None and target.driver.branch > last


class Judge:
    """Follows a fix and asks the naive rules."""

    def __init__(self, target: Target) -> None:
        self.target = target
        environment = tuple(sorted(target.marker_environment.items()))
        self.builds = naive.candidates(
            target.marker_environment["python_full_version"], frozenset(target.tags), environment
        )

    def build(self, version: str, label: str | None) -> naive.Candidate | None:
        """The build of a label, whose file names need not contain it (2.5.1 of cu124 for aarch64 does not)."""
        for one in self.builds:
            of_label = label is None or "cu{}{}".format(*one.cuda) == label
            if Version(one.version.public) == Version(version) and one.main == (label is None) and of_label:
                return one
        return None

    def objections(self, finding: Finding, packages: dict[str, str]) -> list[str]:
        fix = finding.fix or ""
        found = []
        for match in INSTALL_TORCH.finditer(fix):
            build = self.build(match["version"], match["label"])
            if build is None:
                found.append(f"there is no {match[0]} for Python {self.target.python}")
            elif build.triton is not None and match["triton"] != build.triton:
                found.append(f"{match[0]} pins triton {build.triton}")
            elif not naive.admitted(build, self.target):
                found.append(f"{match[0]} is refused")
        version, _, label = packages["torch"].partition("+")
        installed = self.build(version, label or None)
        for match in UPDATE_DRIVER.finditer(fix):
            newer = driven_by(self.target, match["driver"])
            if installed is not None and not naive.admitted(installed, newer):
                found.append(f"{match[0]} does not help {installed.version}")
            if any(drops(newer, gpu.compute_capability.number) for gpu in self.target.gpus):
                found.append(f"{match[0]} loses a GPU")
        return found


@pytest.mark.parametrize("target", targets(), ids=name_of)
def test_no_fix_of_the_doctor_is_inadmissible(target: Target) -> None:
    judge = Judge(target)
    wrong, suggested = set(), False
    for row in facts.torch_rows():
        if (row.os, row.machine) != (target.platform.os, target.platform.machine):
            continue
        packages = with_torch(target, row)
        version, _, label = packages["torch"].partition("+")
        if row.cuda is not None and judge.build(version, label or None) is None:
            continue  # there is no file of it for this Python
        for finding in make_report(evidence_from_facts(machine_of(target), {"packages": packages})).findings:
            wrong |= {(packages["torch"], finding.code, one) for one in judge.objections(finding, packages)}
            suggested |= bool(INSTALL_TORCH.search(finding.fix or "") and finding.fix_verified_by_rules)
    assert wrong == set()
    # whoever has a CPU build here is told of a build if the naive rules know one; for a Python that only single
    # builds serve, and on musl, silence is right
    libc = target.platform.libc
    common = libc is not None and libc[0] == "glibc" and str(target.python) in {"3.10", "3.11", "3.12", "3.13", "3.14"}
    admitted = naive.best(judge.builds, target) is not None
    assert suggested == admitted if common else suggested <= admitted


def test_the_pythons_of_a_release_are_those_that_all_its_cuda_builds_have() -> None:
    data = FaithfulData.load()
    pythons: dict[Version, list[set[str]]] = {}
    rows = [
        *data.main["torch"],
        *(row for label in data.labels for row in data.pytorch.get(label, {}).get("torch", ())),
    ]
    builds: dict[tuple[Version, str | None, str], set[str]] = {}
    for row in rows:
        if row.text is None or "macosx" in row.filename:
            continue
        _, version, _, tags = parse_wheel_filename(row.filename.replace("%2B", "+"))
        for tag in tags:
            system = "windows" if "win" in tag.platform else tag.platform.rpartition("linux")[2][-7:]
            builds.setdefault((Version(version.public), row.label, system), set()).add(tag.abi)
    for (version, _label, _system), abis in builds.items():
        pythons.setdefault(version, []).append({f"3.{abi.removeprefix('cp3').removesuffix('m')}" for abi in abis})
    assert len(pythons) > 25
    for version, sets in pythons.items():
        assert facts.torch_pythons(version) == frozenset.intersection(*map(frozenset, sets)), version
