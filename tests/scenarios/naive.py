"""Rules R1 to R5 for one torch build, restated as plainly as possible and sharing no code or table with cudalock.

Used to check its answers. What a build holds is read from the text in the faithful index's wheel, its CUDA version from
its own requirements or its label, triton's assemblers from the wheel list of triton. Covers GPUs on cards and GB10, not
Tegra's drivers; native and minor-version compatibility.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from cudalock.target import Target
from faithful.data import FaithfulData, Row

__all__ = ["Candidate", "admitted", "best", "candidates", "cuda_of"]

Numbers = tuple[int, ...]

FLOORS = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580, 65, 6)}
CUDA_OF_BRANCH = {
    346: (7, 0), 352: (7, 5), 367: (8, 0), 375: (8, 0), 384: (9, 0), 390: (9, 1), 396: (9, 2), 410: (10, 0), 418: (10, 1),
    440: (10, 2), 450: (11, 0), 455: (11, 1), 460: (11, 2), 465: (11, 3), 470: (11, 4), 495: (11, 5), 510: (11, 6),
    515: (11, 7), 520: (11, 8), 525: (12, 0), 530: (12, 1), 535: (12, 2), 545: (12, 3), 550: (12, 4), 555: (12, 5),
    560: (12, 6), 565: (12, 7), 570: (12, 8), 575: (12, 9), 580: (13, 0), 590: (13, 1), 595: (13, 2), 610: (13, 3),
    615: (13, 4), 620: (13, 5),
}  # fmt: skip
# Toolkit that first knows an architecture that triton asks its assembler for.
FIRST_KNOWN = {90: (11, 8), 100: (12, 8), 103: (12, 9), 107: (13, 4), 110: (13, 0), 120: (12, 8), 121: (12, 9)}
ONLY_THEMSELVES = {53, 62, 72, 87}
SERVED_LATE = {(70, 72), (80, 87), (86, 87)}  # from builds of CUDA 13.2 on


@dataclass(frozen=True)
class Candidate:
    """One build of torch that can be installed on a Python and platform."""

    version: Version
    main: bool
    cuda: Numbers
    text: str
    triton: str | None


@cache
def candidates(python: str, tags: frozenset[Tag], environment: tuple[tuple[str, str], ...]) -> tuple[Candidate, ...]:
    """Every CUDA build with a file for the tags, of all pages of both indexes."""
    data = FaithfulData.load()
    rows = [
        *data.main["torch"],
        *(row for label in data.labels for row in data.pytorch.get(label, {}).get("torch", ())),
    ]
    found = set()
    for row in rows:
        if row.text is None or "%2B" in row.filename or "macosx" in row.filename:
            continue
        _, version, _, wheel_tags = parse_wheel_filename(row.filename)
        entry = data.metadata[row.metadata]
        if wheel_tags.isdisjoint(tags) or not SpecifierSet(entry.requires_python or "").contains(python):
            continue
        found.add(Candidate(version, row.label is None, _cuda(row), row.text, _triton(row, dict(environment))))
    return tuple(sorted(found, key=lambda one: (one.version.public, one.main, one.cuda)))


def _cuda(row: Row) -> Numbers:
    if row.label:
        return int(row.label[2:-1]), int(row.label[-1])
    for text in FaithfulData.load().metadata[row.metadata].requires:
        if match := re.match(r"(?:nvidia-cuda-runtime-cu\d+|cuda-toolkit\[.*\])\s*\(?==(\d+)\.(\d+)", text):
            return int(match[1]), int(match[2])
    raise LookupError(row.filename)


def _triton(row: Row, environment: dict[str, str]) -> str | None:
    data = FaithfulData.load()
    for text in data.metadata[row.metadata].requires:
        requirement = Requirement(text)
        if canonicalize_name(requirement.name) == "triton" and (
            requirement.marker is None or requirement.marker.evaluate({**environment, "extra": ""})
        ):
            allowed = [v for v in data.triton if requirement.specifier.contains(v)]
            return max(allowed, key=Version)
    return None


def cuda_of(target: Target) -> Numbers:
    assert target.driver is not None
    return CUDA_OF_BRANCH[target.driver.branch]


def admitted(build: Candidate, target: Target) -> bool:
    """R1 for the driver, then R2 and R3 for every GPU by itself."""
    assert target.driver is not None
    floor = FLOORS.get(build.cuda[0])
    if floor is None or target.driver.numbers < floor:
        return False
    own = cuda_of(target)
    return all(_holds(build, gpu.compute_capability.number, own) for gpu in target.gpus) and all(
        _triton_works(build, gpu.compute_capability.number, own) for gpu in target.gpus
    )


def _holds(build: Candidate, gpu: int, own: Numbers) -> bool:
    for word in build.text.split():
        kind, number = word.split("_")
        code = int(number)
        if kind == "compute":
            if code <= gpu and own >= build.cuda:
                return True
        elif code // 10 == gpu // 10 and code <= gpu:
            late = (code, gpu) in SERVED_LATE and build.cuda >= (13, 2)
            if code == gpu or gpu not in ONLY_THEMSELVES or late:
                return True
    return False


def _triton_works(build: Candidate, gpu: int, own: Numbers) -> bool:
    if build.triton is None or gpu < 70 or own[0] < 12:
        return True
    plain, second, first = FaithfulData.load().triton[build.triton]
    assembler = second if second and gpu >= first else plain
    release = tuple(int(part) for part in assembler.split(".")[:2])
    return release[0] <= own[0] and release >= FIRST_KNOWN.get(gpu, (0, 0))


def best(builds: tuple[Candidate, ...], target: Target) -> Candidate | None:
    """R5: the newest release that is admitted, then the main index's own if native, and so on."""
    fitting = [build for build in builds if admitted(build, target)]
    if not fitting:
        return None
    newest = max(Version(build.version.public) for build in fitting)
    own = cuda_of(target)

    def rank(build: Candidate) -> tuple[int, int]:
        number = build.cuda[0] * 100 + build.cuda[1]
        if own >= build.cuda:
            return (0, 0) if build.main else (1, -number) if build.cuda[0] == own[0] else (4, -number)
        return (2, 0) if build.main else (3, number)

    return min((build for build in fitting if Version(build.version.public) == newest), key=rank)
