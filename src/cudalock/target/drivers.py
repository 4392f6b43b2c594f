"""The driver of a target: what a user writes, and whether it drives the GPUs at all."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cudalock import facts
from cudalock.errors import AnswerIsNo, CudalockError, UsageError
from cudalock.target.gpus import describe
from cudalock.target.model import TargetGpu
from cudalock.versions import CudaVersion, DriverVersion

__all__ = [
    "assumed_driver",
    "branch_of",
    "cuda_of_jetson",
    "driver_from_text",
    "early_driver_notes",
    "undriven",
    "undriven_error",
]

_LOWEST_BRANCH = 100


def driver_from_text(text: str, os: facts.Os) -> tuple[DriverVersion, str | None]:
    """A driver version, and a note if the text left something open.

    A branch alone (``580``) stands for the newest driver of it that is known.

    Raises:
        UsageError: ``driver-invalid``, with what was probably meant where a CUDA version was given.
    """
    stripped = re.sub(r"^[rv]", "", text.strip().lower())
    try:
        driver = DriverVersion.parse(stripped)
    except ValueError:
        driver = None
    if driver is None or driver.branch < _LOWEST_BRANCH:
        raise UsageError(
            "driver-invalid",
            f"{text!r} is not a driver version",
            hint=_meant(stripped, os),
            details={"driver": text},
        )
    if "." not in stripped:
        known = next((branch for branch in facts.branches(os) if branch.branch == driver.branch), None)
        if known:
            return known.newest, f"driver {driver} means its branch: {known.newest} is the newest of it that is known"
    return driver, None


def _meant(text: str, os: facts.Os) -> str:
    example = "a driver version looks like 580.65.06; `nvidia-smi --query-gpu=driver_version --format=csv` prints it"
    try:
        cuda = CudaVersion.parse(text)
    except ValueError:
        return example
    first = facts.driver_native(cuda, os)
    if first is None or not 9 <= cuda.major <= 99:
        return example
    return f"this looks like a CUDA version: drivers from {first} on offer CUDA {cuda}, so use e.g. --driver {first}"


def branch_of(driver: DriverVersion, os: facts.Os) -> int:
    """The branch a driver belongs to; on Windows a branch covers several first numbers (R570: 570 to 573)."""
    if os == "linux":
        return driver.branch
    return max((branch.branch for branch in facts.branches(os) if branch.first <= driver), default=driver.branch)


def assumed_driver(gpus: Sequence[TargetGpu], os: facts.Os) -> tuple[DriverVersion, str]:
    """The newest known driver that drives all GPUs, and the note that says so.

    Raises:
        UsageError: ``driver-does-not-drive-gpu`` if no branch drives all of them.
    """
    driver = facts.newest_driver_for([gpu.compute_capability for gpu in gpus], os)
    if driver is None:
        ranges = "; ".join(f"{gpu}: {_range_text(gpu)}" for gpu in gpus)
        raise UsageError(
            "driver-does-not-drive-gpu",
            f"no driver branch drives {describe(gpus)} together",
            hint=f"lock for them one by one ({ranges})",
            details={"gpus": [str(gpu.compute_capability) for gpu in gpus]},
        )
    newest = facts.branches(os)[-1].newest
    why = "the newest known" if driver == newest else "the newest known branch that drives"
    return (
        driver,
        f"no driver was named: {driver} is assumed, {why} {'' if driver == newest else describe(gpus)}".strip(),
    )


def _range_text(gpu: TargetGpu) -> str:
    known = facts.driver_range(gpu.compute_capability)
    if known is None:
        return "drivers unknown"
    first = f"from {known.first.branch} on" if known.first else ""
    last = f"up to {known.last_branch}" if known.last_branch else ""
    return " ".join(part for part in ("driver branches", first, last) if part) if first or last else "every driver"


def undriven(gpus: Sequence[TargetGpu], driver: DriverVersion, os: facts.Os) -> tuple[TargetGpu, ...]:
    """The GPUs that a driver does not drive: too old for them, or their last branch is below it."""
    branch = branch_of(driver, os)
    found = []
    for gpu in gpus:
        known = facts.driver_range(gpu.compute_capability)
        dropped = known is not None and known.last_branch is not None and branch > known.last_branch
        too_old = known is not None and known.first is not None and branch < branch_of(known.first, "linux")
        if dropped or too_old:
            found.append(gpu)
    return tuple(found)


def undriven_error(
    gpus: Sequence[TargetGpu], driver: DriverVersion, os: facts.Os, *, everything: Sequence[TargetGpu], stated: bool
) -> CudalockError:
    """The refusal for ``gpus`` that ``driver`` does not drive; ``stated`` tells a wrong option from a wrong machine."""
    ranges = "; ".join(f"{gpu}: {_range_text(gpu)}" for gpu in gpus)
    better = facts.newest_driver_for([gpu.compute_capability for gpu in everything], os)
    if better is None:
        hint = f"no branch drives {describe(everything)} together: lock for them one by one"
    elif stated:
        hint = f"name a driver that drives every GPU, e.g. --driver {better}"
    else:
        hint = f"install a driver that drives every GPU, e.g. {better}, or leave GPUs out with CUDA_VISIBLE_DEVICES"
    kind = UsageError if stated else AnswerIsNo
    return kind(
        "driver-does-not-drive-gpu",
        f"driver {driver} does not drive {describe(gpus)} ({ranges})",
        hint=hint,
        details={"driver": str(driver), "gpus": [str(gpu.compute_capability) for gpu in gpus]},
    )


def early_driver_notes(gpus: Sequence[TargetGpu], driver: DriverVersion) -> tuple[str, ...]:
    """Notes for products that NVIDIA's READMEs list from a later driver on only: it may work, and is worth knowing."""
    notes = []
    for gpu in gpus:
        try:
            first = facts.find_product(gpu.name).min_driver if gpu.name else None
        except CudalockError:
            continue
        if first is not None and driver < first:
            notes.append(f"driver {driver} is older than {first}, the first whose documentation lists {gpu.name}")
    return tuple(notes)


def cuda_of_jetson(driver: DriverVersion) -> CudaVersion | None:
    """CUDA of a Jetson driver, whose numbers are off the ladder of branches until JetPack 7 (540.4.0: CUDA 12.6)."""
    if driver.branch == 540:
        return CudaVersion(12, 6)
    return facts.cuda_of_driver(driver, "linux") if driver.branch >= 580 else None
