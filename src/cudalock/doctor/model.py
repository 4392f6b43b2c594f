"""What a diagnosis rests on: frozen values that the collector or a facts file fills, and that the rules only read.

None and absent keys mean *unknown*, never a default: a rule that needs them stays silent. What is known to be missing
says so (a tool that maps to None, a library whose path is None).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from packaging.requirements import Requirement
from packaging.utils import NormalizedName
from packaging.version import Version

from cudalock.findings import Finding
from cudalock.host.model import Host
from cudalock.versions import Architecture, CudaVersion

__all__ = [
    "Assemblers",
    "CacheFolder",
    "DistributionFacts",
    "DoctorReport",
    "Evidence",
    "ExtensionFacts",
    "FoundLibrary",
    "LoadPath",
    "Override",
    "TorchFacts",
]

LoadPath = Literal[
    "LD_PRELOAD", "LD_LIBRARY_PATH", "RPATH", "RUNPATH", "ld.so.cache", "default", "conda", "facts", "already-loaded"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionFacts:
    """One installed distribution.

    Attributes:
        name: normalized.
        version: as installed; None where a report names no release (``torch: cu124``).
        label: local part or label, e.g. ``cu126`` or ``cpu``.
        origin: URL of its ``direct_url.json``, None if it came from an index.
        place: ``environment`` or ``user-site``.
        requires: requirements whose markers hold here; None if its metadata was not read.
        files: path -> recorded hash (empty text if none); None if its RECORD was not read.
        missing_files: recorded files of it that are not there (a sample).
    """

    name: NormalizedName
    version: Version | None
    label: str | None = None
    origin: str | None = None
    place: Literal["environment", "user-site"] = "environment"
    requires: tuple[Requirement, ...] | None = None
    files: Mapping[str, str] | None = None
    missing_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchFacts:
    """What the installed torch is, by its own files.

    Attributes:
        version: None if unknown.
        cuda: CUDA release of the build, None for a CPU build (then ``cpu``) or if unknown.
        cpu: True for a CPU build, False for a CUDA build, None if unknown.
        architectures: None if unknown.
        evidence: ``wheel`` (read from its files), ``table`` or ``inferred``.
    """

    version: Version | None
    cuda: CudaVersion | None = None
    cpu: bool | None = None
    architectures: tuple[Architecture, ...] | None = None
    triton: Requirement | None = None
    evidence: Literal["wheel", "table", "inferred"] = "wheel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assemblers:
    """The assemblers in the installed triton, read from its files."""

    ptxas: CudaVersion | None = None
    ptxas_blackwell: CudaVersion | None = None
    blackwell_from: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """An assembler named by an environment variable; ``release`` None: it is not there or tells no version."""

    variable: str
    path: str
    exists: bool
    release: CudaVersion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLibrary:
    """Which file the loader takes for a library.

    Attributes:
        soname: e.g. ``libcudnn.so.9``.
        path: symbolic links resolved; None if the loader finds none.
        how: by which step of the loader's search.
        asked_by: the file that needs it, None if it is opened by name.
        expected: the file that it should be (the wheel's own, or the driver's), where that is another one.
        expected_owner: distribution of ``expected``.
        version: release of the file, where its name or ELF notes tell it.
        expected_version: the same of ``expected``.
    """

    soname: str
    path: str | None
    how: LoadPath | None = None
    asked_by: str | None = None
    expected: str | None = None
    expected_owner: str | None = None
    version: str | None = None
    expected_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionFacts:
    """One compiled file of a distribution that is built against torch or CUDA.

    Attributes:
        path: below site-packages.
        distribution: its owner.
        needed: its ELF NEEDED entries.
        unresolved: those of them that the loader does not find.
        missing_symbols: undefined C++ symbols of torch's namespaces that no library of the installed torch defines.
        glibc, glibcxx: highest symbol version that it needs, e.g. (2, 38), (3, 4, 32).
        code: machine code and PTX in its ``.nv_fatbin``; None if it has no such section.
        ptx_isa: highest PTX version in it.
        module: whether Python imports it (and not another library opens it).
    """

    path: str
    distribution: str
    needed: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()
    missing_symbols: tuple[str, ...] = ()
    glibc: tuple[int, ...] | None = None
    glibcxx: tuple[int, ...] | None = None
    code: tuple[Architecture, ...] | None = None
    ptx_isa: tuple[int, int] | None = None
    module: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFolder:
    """A folder of compiled kernels.

    Attributes:
        kind: ``triton`` or ``inductor``.
        writable, executable: None if unknown; a folder that will be made is judged by its parent.
        filesystem: type of the mount, e.g. ``nfs4``.
        foreign: entries that this environment cannot load, with the reason (a sample).
    """

    kind: Literal["triton", "inductor"]
    path: str
    writable: bool | None = None
    executable: bool | None = None
    filesystem: str | None = None
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that a diagnosis rests on.

    Attributes:
        host: the machine; fields that no probe answered are None.
        complete: the environment was read from its files, so that what is not in it is not there. Without it
            (a facts file) only what is named is known.
        python: version of the environment's Python.
        environment: what was examined, None if only the machine was.
        distributions: by name; several of one name are a fault of their own.
        torch, assemblers: None if there is none, or it is unknown.
        variables: environment variables that matter and are set; ``variables_known`` says that the others are unset.
        libraries: by soname.
        glibcxx: highest GLIBCXX version of the system's libstdc++.
        tools: ``cc``, ``nvcc``, ``python_headers``: path (or version for nvcc); None if missing; absent if unknown.
        nvcc, cuda_home: release of the toolkit found on PATH and by CUDA_HOME.
        errors: texts that programs printed; ``reported`` what explain's patterns make of them.
        lock: findings of a lock that was given (`check`'s own).
        driver_packages: packages of the driver inside a container image.
        seconds: what each part of the collection took.
        gaps: what could not be read, in words.
    """

    host: Host
    complete: bool = False
    python: str | None = None
    environment: str | None = None
    distributions: tuple[DistributionFacts, ...] = ()
    torch: TorchFacts | None = None
    assemblers: Assemblers | None = None
    overrides: tuple[Override, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    variables_known: bool = False
    libraries: tuple[FoundLibrary, ...] = ()
    extensions: tuple[ExtensionFacts, ...] = ()
    glibcxx: tuple[int, ...] | None = None
    tools: Mapping[str, str | None] = field(default_factory=dict)
    nvcc: CudaVersion | None = None
    cuda_home: CudaVersion | None = None
    caches: tuple[CacheFolder, ...] = ()
    files: Mapping[str, Any] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    reported: tuple[Finding, ...] = ()
    lock: tuple[Finding, ...] = ()
    driver_packages: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()

    def named(self, name: str) -> DistributionFacts | None:
        """The distribution of this normalized name; of several the environment's own."""
        found = [one for one in self.distributions if one.name == name]
        return min(found, key=lambda one: one.place != "environment") if found else None

    def library(self, prefix: str) -> FoundLibrary | None:
        """The first library whose soname starts with ``prefix``."""
        return next((one for one in self.libraries if one.soname.startswith(prefix)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """A diagnosis: findings, most probable root cause first, and what to look at next."""

    findings: tuple[Finding, ...]
    next: tuple[str, ...] = ()
    examined: Mapping[str, Any] = field(default_factory=dict)

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong as far as is known."""
        return not any(finding.severity == "error" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The report as it stands in the command's JSON answer."""
        return {
            "healthy": self.healthy,
            "findings": [finding.to_json() for finding in self.findings],
            "next": list(self.next),
            "examined": dict(self.examined),
        }
