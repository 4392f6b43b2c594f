"""Forward compatibility by cuda-compat packages (R1): ``data/forward_compat.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cudalock.facts.drivers import driver_native
from cudalock.facts.loader import cached, table
from cudalock.versions import CudaVersion

__all__ = ["forward_compat", "forward_compat_branches", "ForwardCompat", "ForwardState"]

ForwardState = Literal["compatible", "not-needed", "pointless", "unlisted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardCompat:
    """What is known about cuda-compat packages.

    Attributes:
        states: CUDA version of a package -> driver branch -> what NVIDIA's page says.
        library_branches: CUDA version of a package -> branches that the library itself accepts, where one was read.
        lifts_ptx: whether PTX of the package's CUDA version is read too (it is: the library brings its own compiler).
        errors: CUDA error number -> text, where it fails.
        files: names of the files it brings.
        source: where it was read.
    """

    states: Mapping[CudaVersion, Mapping[int, ForwardState]]
    library_branches: Mapping[CudaVersion, frozenset[int]]
    package_name: str
    jetson_name: str
    folder_name: str
    lifts_ptx: bool
    errors: Mapping[int, str]
    files: tuple[str, ...]
    source: str

    def state(self, cuda: CudaVersion, branch: int) -> ForwardState:
        """Whether the package of a CUDA version works on a driver branch.

        ``unlisted`` where neither NVIDIA's page nor a library that was read names the branch. This is about drivers
        only: GeForce and TITAN are refused (``ProductMatch.forward_compatible``), and so are GPUs that the package's
        own driver branch no longer drives (``DriverRange.last_branch``).
        """
        listed = self.states.get(cuda, {}).get(branch)
        if listed is not None:
            return listed
        return "compatible" if branch in self.library_branches.get(cuda, frozenset()) else "unlisted"

    def package(self, cuda: CudaVersion, *, jetson: bool = False) -> str:
        """The system package for a CUDA version, e.g. ``cuda-compat-13-0``."""
        name = self.jetson_name if jetson else self.package_name
        return name.format(major=cuda.major, minor=cuda.minor)

    def folder(self, cuda: CudaVersion) -> str:
        """Where that package puts its libraries."""
        return self.folder_name.format(major=cuda.major, minor=cuda.minor)


@cached
def forward_compat() -> ForwardCompat:
    """What is known about cuda-compat packages.

    Source: NVIDIA's forward compatibility page and ELF notes of the libraries, see ``data/forward_compat.toml``.
    """
    content = table("forward_compat")
    states: dict[CudaVersion, dict[int, ForwardState]] = {}
    kinds: tuple[tuple[str, ForwardState], ...] = (
        ("compatible", "compatible"),
        ("not_needed", "not-needed"),
        ("pointless", "pointless"),
    )
    for cuda, row in content.by_key("matrix", lambda row: row.parsed("cuda", CudaVersion.parse)).items():
        states[cuda] = {branch: state for key, state in kinds for branch in row.numbers(key)}
    libraries = content.by_key("library", lambda row: row.parsed("cuda", CudaVersion.parse))
    package = content.section("package")
    return ForwardCompat(
        states=states,
        library_branches={cuda: frozenset(row.numbers("branches")) for cuda, row in libraries.items()},
        package_name=package.text("name"),
        jetson_name=package.text("jetson"),
        folder_name=package.text("folder"),
        lifts_ptx=package.flag("lifts_ptx"),
        errors={row.number("code"): row.text("text") for row in content.rows("error")},
        files=package.texts("files"),
        source=package.source_of(package.text("source")),
    )


@cached
def forward_compat_branches(cuda: CudaVersion) -> frozenset[int]:
    """The driver branches that the cuda-compat package of a CUDA version lifts; empty if none or unknown.

    Branches that need no package (their own CUDA is at least that version) are not among them.
    """
    known = forward_compat()
    listed = known.states.get(cuda, {})
    works = {branch for branch, state in listed.items() if state == "compatible"}
    accepted = {branch for branch in known.library_branches.get(cuda, frozenset()) if branch not in listed}
    native = driver_native(cuda, "linux")
    return frozenset(branch for branch in works | accepted if native is None or branch < native.branch)
