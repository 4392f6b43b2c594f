"""Which labels of the PyTorch index are worth a request for a target and a release of torch."""

from __future__ import annotations

from packaging.version import Version

from cudalock import facts
from cudalock.builds.model import Build
from cudalock.compat import Policy, judge_without_triton
from cudalock.facts import LabelRow, TorchRow
from cudalock.target.model import Target
from cudalock.versions import Architecture, CudaVersion

__all__ = ["build_of_row", "labels_to_ask", "optimistic_build"]


def build_of_row(row: TorchRow) -> Build:
    """A row of the table as a build, without its requirement on triton (that is read from the wheel's metadata)."""
    return Build(
        version=row.version if row.on_main or row.label is None else Version(f"{row.version}+{row.label}"),
        cuda=row.cuda,
        architectures=row.architectures,
        os=row.os,
        machine=row.machine,
        source="main" if row.on_main else "pytorch",
        label=row.label,
        evidence=row.evidence,
        origin=row.source,
    )


def optimistic_build(version: Version, cuda: CudaVersion, target: Target, *, source: str, label: str | None) -> Build:
    """A build of which nothing is known but its CUDA version, as if it held code for every GPU of the target.

    It is refused only by what the driver and the user's choice say, so it tells whether reading the wheel is worth it.
    """
    return Build(
        version=version,
        cuda=cuda,
        architectures=tuple(Architecture(capability) for capability in target.capabilities),
        os=target.platform.os,
        machine=target.platform.machine,
        source=source,
        label=label,
        evidence="inferred",
        origin="not read",
    )


def labels_to_ask(target: Target, policy: Policy, release: Version | None = None) -> tuple[str, ...]:
    """The labels under which a build of torch that the target admits may lie, newest CUDA first.

    Args:
        target: the machine.
        policy: what the user allows.
        release: of torch, without a local part; None for any.
    """
    if target.cpu:
        return ("cpu",)
    rows = [row for row in facts.labels() if _may_serve(row, target, policy, release)]
    found = [row.label for row in sorted(rows, key=lambda row: row.cuda, reverse=True)]
    if policy.cuda is not None and not found:
        named = CudaVersion.parse(policy.cuda)  # a label that the table does not know yet
        if named not in {row.cuda for row in facts.labels()}:
            found = [named.label]
    return tuple(found)


def _may_serve(row: LabelRow, target: Target, policy: Policy, release: Version | None) -> bool:
    if release is not None and (release < row.first_torch or (row.last_torch is not None and release > row.last_torch)):
        return False
    version = release or row.last_torch or row.first_torch
    guess = optimistic_build(version, row.cuda, target, source="pytorch", label=row.label)
    if not judge_without_triton(guess, target, policy).admitted:
        return False
    known = [
        build
        for build in facts.torch_rows()
        if build.label == row.label
        and (build.os, build.machine) == (target.platform.os, target.platform.machine)
        and release in {None, build.version}
    ]
    if not known:
        return True
    newest = max(build.version for build in known)
    if row.last_torch is None and _newer_gpu_than(target, [build for build in known if build.version == newest]):
        return True  # the table's builds are too old for this GPU; a later one may not be
    return any(judge_without_triton(build_of_row(build), target, policy).admitted for build in known)


def _newer_gpu_than(target: Target, rows: list[TorchRow]) -> bool:
    newest_code = max(
        (architecture.capability for row in rows for architecture in row.architectures),
        default=None,
    )
    return newest_code is not None and any(gpu.compute_capability > newest_code for gpu in target.gpus)
