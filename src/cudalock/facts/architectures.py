"""Architectures: which drivers drive them, which code serves them, what assemblers know (R1, R2, R3).

``data/architectures.toml`` and ``data/ptx.toml``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cudalock.facts.drivers import Os, branches
from cudalock.facts.loader import Row, cached, table
from cudalock.versions import ComputeCapability, CudaVersion, DriverVersion

__all__ = [
    "driver_range",
    "driver_ranges",
    "DriverRange",
    "family_members",
    "newest_driver_for",
    "ptx_isa",
    "ptxas_targets",
    "serving_rule",
    "ServingRule",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverRange:
    """Which drivers and toolkits support a compute capability.

    Attributes:
        name: of the architecture, e.g. ``Volta``.
        first: lowest Linux driver that may drive it; None if unknown. Single products may need a later one.
        last_branch: last driver branch that drives it; None while it is supported.
        last_cuda: last CUDA toolkit that compiles for it; None while it is supported.
        first_cuda: first CUDA toolkit that compiles for it; None if unknown.
        module: which kernel module drives it: ``proprietary``, ``open``, ``either`` or ``jetson``.
        source: where it was read.
    """

    name: str
    first: DriverVersion | None
    last_branch: int | None
    last_cuda: CudaVersion | None
    first_cuda: CudaVersion | None = None
    module: str = "either"
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRule:
    """The exceptions to "same major, minor not above the GPU's" for plain machine code (R2).

    Numbers are those of architecture names (8.7 is 87).

    Attributes:
        exact: number of the code -> the only GPUs it serves (87 serves 87 alone; 101 and 110 serve both).
        exclude: number of the code -> GPUs that it does not serve although the general rule says so.
        lifted_from: CUDA version of a build from which the exclusions of ``lifted_codes`` no longer hold.
        lifted_codes: numbers of the code whose exclusions are lifted.
        source: where it was read.
    """

    exact: Mapping[int, frozenset[int]]
    exclude: Mapping[int, frozenset[int]]
    lifted_from: CudaVersion
    lifted_codes: frozenset[int]
    source: str

    def serves(self, code: ComputeCapability, device: ComputeCapability, cuda: CudaVersion) -> bool:
        """Whether plain machine code (no ``a`` or ``f``) of a build with ``cuda`` runs on a GPU."""
        if code.number in self.exact:
            return device.number in self.exact[code.number]
        if code.major != device.major or code.minor > device.minor:
            return False
        lifted = cuda >= self.lifted_from and code.number in self.lifted_codes
        return lifted or device.number not in self.exclude.get(code.number, frozenset())


def _driver_range(row: Row) -> DriverRange:
    module = row.text("module")
    if module not in {"proprietary", "open", "either", "jetson"}:
        row.fail(f"unknown kernel module {module!r}")
    return DriverRange(
        name=row.text("name"),
        first=row.parsed_or_none("first", DriverVersion.parse),
        last_branch=row.number_or_none("last_branch"),
        last_cuda=row.parsed_or_none("last_cuda", CudaVersion.parse),
        first_cuda=row.parsed_or_none("first_cuda", CudaVersion.parse),
        module=module,
        source=row.source,
    )


@cached
def driver_ranges() -> Mapping[ComputeCapability, DriverRange]:
    """Every known compute capability with the drivers and toolkits that support it, ascending."""
    found: dict[ComputeCapability, DriverRange] = {}
    for row in table("architectures").rows("architecture"):
        for capability in row.parsed_list("capabilities", ComputeCapability.parse):
            if capability in found:
                row.fail(f"{capability} stands in two rows")
            found[capability] = _driver_range(row)
    return dict(sorted(found.items()))


def driver_range(cc: ComputeCapability) -> DriverRange | None:
    """Which drivers and toolkits support a compute capability; None if it is unknown.

    Source: NVIDIA's toolkit, driver and architecture matrix, see ``data/architectures.toml``.
    """
    return driver_ranges().get(cc)


def newest_driver_for(ccs: Iterable[ComputeCapability], os: Os) -> DriverVersion | None:
    """The newest known driver of the newest branch that drives every one of ``ccs``; None if no branch does.

    Capabilities that are unknown bound nothing.
    """
    ranges = [found for cc in ccs if (found := driver_range(cc)) is not None]
    for branch in reversed(branches(os)):
        if all(
            (known.last_branch is None or branch.branch <= known.last_branch)
            and (known.first is None or known.first.branch <= branch.branch)
            for known in ranges
        ):
            return branch.newest
    return None


@cached
def serving_rule() -> ServingRule:
    """The exceptions of R2 for integrated GPUs.

    Source: ``torch/cuda/__init__.py`` of torch 2.15.0, see ``[[serving]]`` of ``data/architectures.toml``.
    """
    exact: dict[int, frozenset[int]] = {}
    exclude: dict[int, frozenset[int]] = {}
    for code, row in table("architectures").by_key("serving", lambda row: row.number("code")).items():
        for key, target in (("only", exact), ("not", exclude)):
            if key in row:
                target[code] = frozenset(row.numbers(key))
    lifted = table("architectures").section("serving_lifted")
    return ServingRule(
        exact=exact,
        exclude=exclude,
        lifted_from=lifted.parsed("from", CudaVersion.parse),
        lifted_codes=frozenset(lifted.numbers("codes")),
        source=lifted.source_of(lifted.text("source")),
    )


@cached
def _ptx_table() -> dict[CudaVersion, tuple[int, int]]:
    def isa(text: str) -> tuple[int, int]:
        major, _, minor = text.partition(".")
        return int(major), int(minor)

    rows = table("ptx").by_key("isa", lambda row: row.parsed("cuda", CudaVersion.parse))
    return {cuda: row.parsed("isa", isa) for cuda, row in rows.items()}


def ptx_isa(cuda: CudaVersion) -> tuple[int, int] | None:
    """The PTX ISA that a toolkit writes and a driver of that CUDA version reads, e.g. 13.0 -> (9, 0); None if unknown.

    Source: release history in NVIDIA's PTX ISA manual, see ``[[isa]]`` of ``data/ptx.toml``.
    """
    return _ptx_table().get(cuda)


@cached
def _target_table() -> dict[CudaVersion, frozenset[str]]:
    rows = table("ptx").by_key("ptxas", lambda row: row.parsed("cuda", CudaVersion.parse))
    return {cuda: frozenset(f"sm_{name}" for name in row.text("targets").split()) for cuda, row in rows.items()}


def ptxas_targets(cuda: CudaVersion) -> frozenset[str]:
    """What the assembler of a toolkit can assemble for (``sm_90``, ``sm_90a`` ...); empty means unknown.

    Source: measured with the ptxas of each toolkit from 11.7 on, LLVM's table before, see ``data/ptx.toml``.
    """
    return _target_table().get(cuda, frozenset())


@cached
def _families() -> dict[str, frozenset[ComputeCapability]]:
    rows = table("ptx").by_key("family", lambda row: row.text("target"))
    return {name: frozenset(row.parsed_list("members", ComputeCapability.parse)) for name, row in rows.items()}


def family_members(suffixed: str) -> frozenset[ComputeCapability]:
    """The GPUs that a family target such as ``100f`` (or ``sm_100f``) serves; empty if it is unknown.

    Source: measured with ptxas 13.5, see ``[[family]]`` of ``data/ptx.toml``.
    """
    return _families().get(suffixed.removeprefix("sm_").removeprefix("compute_"), frozenset())
