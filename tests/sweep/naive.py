"""Rules R1 to R5 for one machine, written down once more as plainly as possible.

Typed from the design's text and the project's collected facts, sharing no code and no table with cudalock: neither its
rules nor its tables are imported here. What a wheel holds is read from the faithful copy of the indexes. Whoever
changes a rule has to change it twice; that is the point.

Left out on purpose: forward compatibility, CPU builds, musl.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from faithful.data import FaithfulData, Row

__all__ = ["Build", "Machine", "admits", "best", "builds", "driven", "majors_of_distributions", "numbers"]

Numbers = tuple[int, ...]

# R1. cuda_drivers.toml 1b: NVIDIA's minor-version compatibility document.
LINUX_FLOORS: dict[int, Numbers] = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580, 65, 6)}
WINDOWS_FLOORS: dict[int, Numbers] = {11: (452, 39), 12: (528, 33), 13: (580,)}

# cuda_drivers.toml 1d from 450 on, before that 1: the release notes' table 3.
CUDA_OF_LINUX_BRANCH: dict[int, Numbers] = {
    346: (7, 0), 352: (7, 5), 367: (8, 0), 375: (8, 0), 384: (9, 0), 390: (9, 1), 396: (9, 2), 410: (10, 0), 418: (10, 1),
    440: (10, 2), 450: (11, 0), 455: (11, 1), 460: (11, 2), 465: (11, 3), 470: (11, 4), 495: (11, 5), 510: (11, 6),
    515: (11, 7), 520: (11, 8), 525: (12, 0), 530: (12, 1), 535: (12, 2), 545: (12, 3), 550: (12, 4), 555: (12, 5),
    560: (12, 6), 565: (12, 7), 570: (12, 8), 575: (12, 9), 580: (13, 0), 590: (13, 1), 595: (13, 2), 610: (13, 3),
    615: (13, 4), 620: (13, 5),
}  # fmt: skip
# cuda_drivers.toml 1, column windows; from 13.0 on the notes print none, and the branch's number stands for it (MVC).
FIRST_ON_WINDOWS: tuple[tuple[Numbers, int], ...] = (
    ((384, 0), 384), ((410, 0), 410), ((418, 0), 418), ((441, 22), 440), ((451, 48), 450), ((456, 38), 455), ((460, 82), 460),
    ((465, 89), 465), ((471, 11), 470), ((496, 4), 495), ((511, 23), 510), ((516, 1), 515), ((520, 6), 520), ((527, 41), 525),
    ((531, 14), 530), ((536, 25), 535), ((545, 84), 545), ((551, 61), 550), ((555, 85), 555), ((560, 76), 560), ((565, 0), 565),
    ((570, 65), 570), ((576, 2), 575), ((580,), 580), ((590,), 590), ((595,), 595), ((610,), 610), ((615,), 615), ((620,), 620),
)  # fmt: skip

# arch_and_min_driver.toml: [[arch]] first_branch, or the branch of first_cuda; where [[product]] has a lower bound for
# the first product of its kind, that (H100 PCIe, B200, B300, RTX 5090).
FIRST_DRIVER: dict[int, Numbers] = {
    60: (367,), 61: (367,), 62: (367,), 70: (384,), 75: (410,), 80: (450,), 86: (455,), 89: (520,), 90: (520, 56, 6),
    100: (570, 86, 15), 103: (580, 82, 7), 107: (615,), 120: (570, 86, 16), 121: (580,),
}  # fmt: skip
# arch_and_min_driver.toml [drops].
LAST_BRANCH: dict[int, int] = {
    30: 470, 32: 470, 35: 470, 37: 470, 50: 580, 52: 580, 53: 580, 60: 580, 61: 580, 62: 580, 70: 580, 72: 580,
}  # fmt: skip

# R2. torch_arch_lists.json device_requirement (torch 2.15.0, DEVICE_REQUIREMENT).
ONLY_NAMED = {53: {53}, 62: {62}, 72: {72}, 87: {87}, 101: {101, 110}, 110: {101, 110}}  # device -> codes it takes
TAKEN_FROM_13_2 = {72: {70}, 87: {80, 86}}
# cuda_drivers.toml [family_members], measured with ptxas 13.5.
FAMILY = {100: {100, 103, 107}, 103: {103, 107}, 107: {107}, 110: {101, 110}, 120: {120, 121}, 121: {121}}
# cuda_drivers.toml 3a: PTX ISA of each CUDA; M: driver 580 (13.0) takes 9.0 and refuses 9.1.
PTX_ISA: dict[Numbers, Numbers] = {
    (11, 0): (7, 0), (11, 1): (7, 1), (11, 2): (7, 2), (11, 3): (7, 3), (11, 4): (7, 4), (11, 5): (7, 5), (11, 6): (7, 6),
    (11, 7): (7, 7), (11, 8): (7, 8), (12, 0): (8, 0), (12, 1): (8, 1), (12, 2): (8, 2), (12, 3): (8, 3), (12, 4): (8, 4),
    (12, 5): (8, 5), (12, 6): (8, 5), (12, 7): (8, 6), (12, 8): (8, 7), (12, 9): (8, 8), (13, 0): (9, 0), (13, 1): (9, 1),
    (13, 2): (9, 2), (13, 3): (9, 3), (13, 4): (9, 4), (13, 5): (9, 5),
}  # fmt: skip

# R3. triton.toml, read from the wheels: releases -> ptxas, ptxas-blackwell, lowest architecture that gets the latter.
ASSEMBLERS: tuple[tuple[str, Numbers, Numbers | None, int], ...] = (
    ("2.0.0", (12, 0), None, 0),
    ("2.1.0", (12, 1), None, 0),
    ("2.2.0 2.3.0 2.3.1", (12, 3), None, 0),
    ("3.0.0 3.1.0 3.2.0", (12, 4), None, 0),
    ("3.3.0 3.3.1", (12, 4), (12, 8), 100),
    ("3.4.0 3.5.0 3.5.1", (12, 8), None, 0),
    ("3.6.0", (12, 8), (12, 9), 100),
    ("3.7.0 3.7.1", (12, 8), (13, 1), 100),
    ("3.8.0", (12, 9), (13, 3), 100),
    ("3.9.0", (12, 9), (13, 4), 90),
)
# cuda_drivers.toml 3b: the first toolkit whose assembler knows what triton asks it for (from 9.0 up the ``a`` target).
KNOWN_FROM: dict[int, Numbers] = {
    70: (9, 0), 72: (9, 1), 75: (10, 0), 80: (11, 0), 86: (11, 1), 87: (11, 4), 89: (11, 8), 90: (12, 0), 100: (12, 8), 101: (12, 8),
    103: (12, 9), 107: (13, 4), 110: (13, 0), 120: (12, 8), 121: (12, 9),
}  # fmt: skip
LOWEST_FOR_TRITON = 70  # pytorch.md 4: torch refuses Triton below 7.0 (GPUTooOldForTriton)


@dataclass(frozen=True)
class Machine:
    """What is known of a machine: GPUs as 89 for 8.9, the driver as it is printed, Python as 3.12 or 3.14t."""

    gpus: tuple[int, ...]
    driver: str
    os: str
    cpu: str
    python: str
    jetson: bool = False

    def __str__(self) -> str:
        return f"{self.gpus} driver {self.driver} on {self.os} {self.cpu} Python {self.python}"


@dataclass(frozen=True)
class Build:
    """A build of torch for one Python and platform: ``label`` is None for the main index's own."""

    release: str
    label: str | None
    cuda: Numbers
    codes: tuple[str, ...]
    tritons: tuple[str, ...] | None  # releases that its requirement allows and that are there; None: it requires none


def numbers(text: str) -> Numbers:
    """``580.65.06`` as (580, 65, 6)."""
    return tuple(int(part) for part in text.split("."))


# -- R1


def branch(machine: Machine) -> int:
    if machine.os == "linux":
        return numbers(machine.driver)[0]
    return max(known for first, known in FIRST_ON_WINDOWS if first <= numbers(machine.driver))


def own_cuda(machine: Machine) -> Numbers:
    if machine.jetson and numbers(machine.driver)[0] == 540:
        return 12, 6  # JetPack 6 (cases.jsonl, Orin: 540.4.0 with CUDA 12.6)
    return CUDA_OF_LINUX_BRANCH[branch(machine)]


def driven(machine: Machine) -> bool:
    """Whether the driver drives every GPU of the machine, as far as its branch says."""
    here = branch(machine)
    return all(FIRST_DRIVER.get(gpu, (0,))[0] <= here <= LAST_BRANCH.get(gpu, 9999) for gpu in machine.gpus)


def runs(cuda: Numbers, machine: Machine) -> bool:
    """Rule R1: the floor of the build's major, and a driver that knows the GPUs."""
    if machine.jetson:
        return own_cuda(machine)[0] >= cuda[0]
    floor = (LINUX_FLOORS if machine.os == "linux" else WINDOWS_FLOORS).get(cuda[0])
    if floor is None or numbers(machine.driver) < floor:
        return False
    if machine.os == "linux":
        return driven(machine) and all(numbers(machine.driver) >= FIRST_DRIVER.get(gpu, ()) for gpu in machine.gpus)
    return driven(machine)


# -- R2


def holds_code(build: Build, gpu: int, machine: Machine) -> bool:
    """Rule R2 for one GPU."""
    for code in build.codes:
        kind, number, suffix = re.fullmatch(r"(sm|compute)_(\d+)([af]?)", code).groups()  # type: ignore[union-attr]
        if kind == "sm" and _machine_code_runs(int(number), suffix, gpu, build.cuda):
            return True
        if (
            kind == "compute"
            and not suffix
            and int(number) <= gpu
            and PTX_ISA[own_cuda(machine)] >= PTX_ISA[build.cuda]
        ):
            return True
    return False


def _machine_code_runs(code: int, suffix: str, gpu: int, cuda: Numbers) -> bool:
    if suffix == "f":
        return gpu in FAMILY[code]
    if suffix == "a":
        return gpu in ONLY_NAMED.get(code, {code})
    if gpu in ONLY_NAMED:
        return code in ONLY_NAMED[gpu] or (cuda >= (13, 2) and code in TAKEN_FROM_13_2.get(gpu, ()))
    return code // 10 == gpu // 10 and code % 10 <= gpu % 10


# -- R3


def triton_works(triton: str, gpu: int, machine: Machine) -> bool:
    """Rule R3 for one GPU; one that no torch could give a working triton takes it as a passenger."""
    own = own_cuda(machine)
    if gpu < LOWEST_FOR_TRITON or own[0] < 12:
        return True
    plain, second, first = next(row[1:] for row in ASSEMBLERS if triton in row[0].split())
    assembler = second if second is not None and gpu >= first else plain
    return assembler[0] <= own[0] and assembler >= KNOWN_FROM[gpu]


def admits(build: Build, machine: Machine, triton: str | None = None) -> bool:
    """R1 to R3; with the release of triton that was taken, or with any that the build's requirement allows."""
    if not runs(build.cuda, machine) or not all(holds_code(build, gpu, machine) for gpu in machine.gpus):
        return False
    if build.tritons is None:
        return triton is None
    offered = build.tritons if triton is None else [one for one in build.tritons if one == triton]
    return any(all(triton_works(one, gpu, machine) for gpu in machine.gpus) for one in offered)


# -- R4


def majors_of_distributions(pins: dict[str, str]) -> dict[str, int]:
    """The CUDA major of every pinned distribution whose name or version says one."""
    found = {}
    for name, version in pins.items():
        if match := re.search(r"-cu(\d\d)$", name):
            found[name] = int(match[1])
        elif name in {"cuda-toolkit", "cuda-bindings", "nvidia-cuda-runtime", "nvidia-cuda-nvrtc", "nvidia-cuda-cupti"}:
            found[name] = int(version.split(".")[0])
        elif match := re.search(r"\+cu(\d\d)\d$", version):
            found[name] = int(match[1])
    return found


# -- R5


def best(machine: Machine) -> Build | None:
    """The newest release that is admitted at all, and of its builds the one that R5 puts first."""
    fitting = [build for build in builds(machine.python, machine.os, machine.cpu) if admits(build, machine)]
    if not fitting:
        return None
    newest = max(Version(build.release) for build in fitting)
    places = [(place(build, machine), build) for build in fitting if Version(build.release) == newest]
    return min(places, key=lambda pair: pair[0])[1]


def place(build: Build, machine: Machine) -> tuple[int, int]:
    """Where R5 puts a build among the admitted ones of its release."""
    own = own_cuda(machine)
    number = build.cuda[0] * 100 + build.cuda[1]
    if own >= build.cuda:
        if build.label is None:
            return 1, 0
        return (2, -number) if build.cuda[0] == own[0] else (5, -number)
    return (3, 0) if build.label is None else (4, number)


# -- what there is


@cache
def builds(python: str, os: str, cpu: str) -> tuple[Build, ...]:
    """Every CUDA build of torch, on all pages of both indexes, with a wheel for the Python and platform."""
    data = FaithfulData.load()
    pages: list[tuple[str | None, tuple[Row, ...]]] = [(None, data.main["torch"])]
    pages += [(label, data.pytorch[label].get("torch", ())) for label in data.pytorch if re.fullmatch(r"cu\d+", label)]
    found = set()
    for label, rows in pages:
        for row in rows:
            if row.text and _installable(row, python, os, cpu) and not Version(row.version).is_prerelease:
                release = Version(row.version).public
                found.add(Build(release, label, _cuda(row), tuple(row.text.split()), _tritons(row, python, os, cpu)))
    return tuple(sorted(found, key=str))


def _cuda(row: Row) -> Numbers:
    if row.label:
        return int(row.label[2:-1]), int(row.label[-1])
    requires = "\n".join(FaithfulData.load().metadata[row.metadata].requires)
    match = re.search(r"^(?:nvidia-cuda-runtime-cu\d+|cuda-toolkit\[.*?\]) *\(?==(\d+)\.(\d+)", requires, re.MULTILINE)
    assert match is not None, row.filename
    return int(match[1]), int(match[2])


def _installable(row: Row, python: str, os: str, cpu: str) -> bool:
    """A wheel for this Python on glibc 2.28 or Windows."""
    interpreters, abis, platforms = (part.split(".") for part in row.filename.removesuffix(".whl").split("-")[-3:])
    plain = "cp" + python.removesuffix("t").replace(".", "")
    minor = int(plain[3:])
    for_python = any(
        (interpreter == plain and abi in ({f"{plain}t"} if python.endswith("t") else {plain, "abi3"}))
        or (abi == "none" and interpreter in {plain, "py3"})
        or (abi == "abi3" and not python.endswith("t") and int(interpreter[3:]) <= minor)
        for interpreter in interpreters
        for abi in abis
    )
    requires_python = SpecifierSet(FaithfulData.load().metadata[row.metadata].requires_python or "")
    return (
        for_python
        and any(_runs_on(platform, os, cpu) for platform in platforms)
        and requires_python.contains(f"{python.removesuffix('t')}.0")
    )


def _runs_on(platform: str, os: str, cpu: str) -> bool:
    if os == "windows":
        return platform == "win_amd64"
    if not platform.endswith(f"_{cpu}"):
        return False
    if match := re.fullmatch(rf"manylinux_2_(\d+)_{cpu}", platform):
        return int(match[1]) <= 28
    return platform.removesuffix(f"_{cpu}") in {"linux", "manylinux1", "manylinux2010", "manylinux2014"}


def _tritons(row: Row, python: str, os: str, cpu: str) -> tuple[str, ...] | None:
    data = FaithfulData.load()
    environment = {
        "platform_system": "Linux" if os == "linux" else "Windows",
        "platform_machine": cpu if os == "linux" else "AMD64",
        "python_version": python.removesuffix("t"),
        "python_full_version": f"{python.removesuffix('t')}.0",
        "sys_platform": "linux" if os == "linux" else "win32",
        "extra": "",
    }
    for text in data.metadata[row.metadata].requires:
        requirement = Requirement(text)
        if requirement.name != "triton":
            continue
        if requirement.marker is None or requirement.marker.evaluate(environment):
            files = [
                *data.main["triton"],
                *(one for label in data.pytorch for one in data.pytorch[label].get("triton", ())),
            ]
            there = {
                one.version for one in files if one.filename.endswith(".whl") and _installable(one, python, os, cpu)
            }
            return tuple(sorted(version for version in there if requirement.specifier.contains(version)))
    return None
