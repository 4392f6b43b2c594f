"""Every product, driver branch, Python and platform: what the naive rules give too, or a typed refusal where they give none."""

from __future__ import annotations

from functools import cache

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from cudalock import facts
from cudalock.compat import Mode, Policy
from cudalock.errors import CudalockError, UsageError
from cudalock.requirements.model import AskedRequirement, Request
from cudalock.resolve import Resolution, resolve
from cudalock.target import Target, TargetOptions, build_target
from faithful.reader import FaithfulReader
from sweep import naive

PLATFORMS = {
    "linux-x86_64": ("linux", "x86_64"),
    "linux-aarch64": ("linux", "aarch64"),
    "win-amd64": ("windows", "x86_64"),
}
TEGRA = frozenset({32, 53, 62, 72, 87, 101, 110})
CARDS = (30, 35, 37, 50, 52, 60, 61, 70, 75, 80, 86, 89, 90, 100, 103, 107, 120, 121)
SERVERS = (70, 75, 80, 86, 89, 90, 100, 103, 107, 120, 121)  # what one meets beside an aarch64 processor, and older
JETSONS = {87: ("540.4.0", "580.00", "595.71.05"), 110: ("580.00", "595.71.05")}
MIXED = (
    (70, 100), (61, 120), (70, 90), (75, 120), (80, 90), (86, 89), (60, 80), (50, 120), (37, 60), (90, 120), (80, 121), (61, 70, 80),
    (70, 80, 100), (75, 86, 89, 120), (100, 103), (89, 107),
)  # fmt: skip
# One below each floor of rule R1, and the floors.
FLOORS = ("450.80.01", "450.80.02", "525.60.12", "525.60.13", "580.65.05", "580.65.06")
WINDOWS = (
    "452.38", "452.39", "466.11", "472.12", "511.65", "517.00", "522.25", "528.32", "528.33", "531.14", "537.13", "546.12", "551.61",
    "556.12", "561.17", "566.36", "572.61", "576.57", "580", "581.29", "582.28", "591.44", "596.21", "610.47",
)  # fmt: skip
REQUEST = Request(requirements=(AskedRequirement(requirement=Requirement("torch"), origin="argument"),))
FAMILY = frozenset({
    "torch", "torchvision", "torchaudio", "torchcodec", "torchao", "xformers", "triton", "pytorch-triton",
})  # fmt: skip


def complete(error: CudalockError) -> bool:
    """Whether a refusal has all that a user needs."""
    return bool(error.code and error.message and error.hint)


def written(gpu: int) -> str:
    """89 as 8.9."""
    return f"{gpu // 10}.{gpu % 10}"


@cache
def linux_drivers() -> tuple[str, ...]:
    """The newest driver of every branch, the floors of rule R1 and what is one below them."""
    return tuple(sorted({*(str(branch.newest) for branch in facts.branches("linux")), *FLOORS}, key=naive.numbers))


# -- targets


@cache
def target_of(gpus: tuple[str, ...], driver: str, python: str, platform: str) -> Target | None:
    """None where the driver does not drive the GPUs: refused before there is anything to resolve."""
    try:
        return build_target(TargetOptions(gpus=gpus, driver=driver, python=python, platform=platform))
    except UsageError as error:
        if error.code == "driver-does-not-drive-gpu" and error.message and error.hint:
            return None
        raise


def test_every_product_becomes_a_target_of_every_driver_branch_that_drives_it() -> None:
    covered, wrong = 0, []
    for name in facts.product_names():
        try:
            target = build_target(TargetOptions(gpus=(name,), python="3.12", platform="linux-aarch64"))
        except UsageError as error:
            if error.code != "gpu-ambiguous" or not complete(error):
                wrong.append(f"{name}: {error!r}")
            continue
        (gpu,) = (one.compute_capability.number for one in target.gpus)
        assert target.jetson == (gpu in TEGRA - {32}), name
        for branch in facts.branches("linux"):
            found = target_of((name,), str(branch.newest), "3.12", "linux-aarch64")
            machine = naive.Machine((gpu,), str(branch.newest), "linux", "aarch64", "3.12")
            covered += 1
            if (found is not None) != (naive.driven(machine) or target.jetson):
                wrong.append(f"{name} ({gpu}) with driver {branch.newest}")
    assert not wrong
    assert covered > 20_000


# -- answers


def faults(target: Target, machine: naive.Machine) -> list[str]:
    """What the naive rules have against the answer for a machine."""
    reader = FaithfulReader()
    wanted = naive.best(machine)
    try:
        answer = resolve(REQUEST, target, reader, policy=Policy())
    except CudalockError as error:
        found = [] if complete(error) else [f"a refusal without code, message or hint: {error!r}"]
        return [*found, f"refused ({error.message}), and {wanted} is admitted"] if wanted is not None else found
    asked = {str(ref.project) for ref in reader.log if ref.index == "pytorch"} - FAMILY
    return [*against(answer, machine, wanted), *(f"{name} was asked of the PyTorch index" for name in asked)]


def against(answer: Resolution, machine: naive.Machine, wanted: naive.Build | None) -> list[str]:
    """Rules R1 to R5 and the routing of R6, one by one."""
    triple = answer.triple
    if triple is None or triple.cuda is None:
        return ["no triple, or a CPU build"]
    release = Version(triple.torch.public)
    label = triple.build.label if triple.build.source == "pytorch" else None
    chosen = [
        build for build in naive.builds(machine.python, machine.os, machine.cpu)
        if Version(build.release) == release and build.label == label
    ]  # fmt: skip
    if len(chosen) != 1:
        return [f"{triple.torch} of {label or 'main'} is not on the index"]
    build, triton = chosen[0], str(triple.triton) if triple.triton else None
    found = []
    if build.cuda != naive.numbers(str(triple.cuda)):
        found.append(f"{triple.torch} is of CUDA {build.cuda}, not {triple.cuda}")
    if not naive.admits(build, machine, triton):
        found.append(f"{build} with triton {triton} breaks the rules")
    if wanted is None or Version(wanted.release) > release:
        found.append(f"{wanted} is newer than {triple.torch} and admitted")
    elif wanted != build:
        found.append(f"{wanted} goes before {build}")
    pins = {str(pin.name): pin for pin in answer.pins}
    majors = naive.majors_of_distributions({name: str(pin.version) for name, pin in pins.items()})
    found += [f"{name} is of CUDA {major}" for name, major in majors.items() if major != build.cuda[0]]
    if (triton is not None) != ("triton" in pins) or (triton is not None and str(pins["triton"].version) != triton):
        found.append(f"triton {triton} is not the one that is pinned")
    foreign = [name for name, pin in pins.items() if pin.file.page.index == "pytorch" and name not in FAMILY]
    return found + [f"{name} comes from the PyTorch index" for name in foreign]


def sweep(
    kinds: tuple[tuple[int, ...], ...], drivers: tuple[str, ...], python: str, platform: str
) -> tuple[int, list[str]]:
    """How many targets there are and what is wrong with the answers."""
    os, cpu = PLATFORMS[platform]
    count, wrong = 0, []
    for gpus in kinds:
        for driver in drivers:
            machine = naive.Machine(gpus, driver, os, cpu, python)
            target = target_of(tuple(map(written, gpus)), driver, python, platform)
            if (target is not None) != naive.driven(machine):
                wrong.append(f"{machine}: {'driven' if target is not None else 'not driven'}")
            if target is not None:
                count += 1
                wrong += [f"{machine}: {fault}" for fault in faults(target, machine)]
    return count, wrong


@pytest.mark.slow
@pytest.mark.parametrize("python", ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.14t", "3.15"])
def test_every_card_on_every_driver(python: str) -> None:
    drivers = linux_drivers()
    if python != "3.12":  # the floors once, and no build runs on what is below 450
        drivers = tuple(driver for driver in drivers if naive.numbers(driver) >= (440,) and driver not in FLOORS)
    count, wrong = sweep(tuple((gpu,) for gpu in CARDS), drivers, python, "linux-x86_64")
    assert not wrong
    assert count > 200


@pytest.mark.slow
@pytest.mark.parametrize("python", ["3.10", "3.12"])
def test_servers_with_arm_processors(python: str) -> None:
    drivers = tuple(str(branch.newest) for branch in facts.branches("linux"))
    count, wrong = sweep(tuple((gpu,) for gpu in SERVERS), drivers, python, "linux-aarch64")
    assert not wrong
    assert count > 100


@pytest.mark.slow
@pytest.mark.parametrize("python", ["3.12"])
def test_windows(python: str) -> None:
    count, wrong = sweep(tuple((gpu,) for gpu in CARDS if gpu not in {103, 107, 121}), WINDOWS, python, "win-amd64")
    assert not wrong
    assert count > 100


@pytest.mark.slow
def test_several_kinds_of_gpu_in_one_machine() -> None:
    drivers = tuple(str(branch.newest) for branch in facts.branches("linux") if branch.branch >= 450)
    count, wrong = sweep(MIXED, drivers, "3.12", "linux-x86_64")
    assert not wrong
    assert count > 100


def test_jetson() -> None:
    wrong = []
    for gpu, drivers in JETSONS.items():
        for driver in drivers:
            machine = naive.Machine((gpu,), driver, "linux", "aarch64", "3.12", jetson=True)
            target = target_of((written(gpu),), driver, "3.12", "linux-aarch64")
            assert target is not None and target.jetson
            wrong += [f"{machine}: {fault}" for fault in faults(target, machine)]
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    ("product", "lifted"),
    [("H100", True), ("L4", True), ("B200", True), ("RTX 4090", False), ("RTX 2080", False), ("RTX 5090", False)],
)
def test_forward_compatibility_lifts_only_what_may_be_lifted(product: str, lifted: bool) -> None:
    policy = Policy(modes=frozenset(Mode))
    modes = set()
    incomplete: list[CudalockError] = []
    for branch in facts.branches("linux"):
        target = target_of((product,), str(branch.newest), "3.12", "linux-x86_64")
        if target is None:
            continue
        try:
            triple = resolve(REQUEST, target, FaithfulReader(), policy=policy).triple
        except CudalockError as error:
            incomplete += [] if complete(error) else [error]
            continue
        assert triple is not None and triple.verdict.mode is not None
        modes.add(triple.verdict.mode)
        assert triple.verdict.mode is not Mode.FORWARD or target.gpus[0].forward_compatible is not False
    assert not incomplete
    assert (Mode.FORWARD in modes) == lifted
