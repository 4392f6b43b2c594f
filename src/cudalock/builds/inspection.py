"""What a wheel or an environment really contains, read from it and not from the tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, BinaryIO

from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from cudalock import facts
from cudalock.builds.archive import Archive
from cudalock.builds.assembler import assembler_release, read_triton
from cudalock.builds.label import cuda_of, triton_requirement, wheel_environment
from cudalock.builds.model import TritonRelease
from cudalock.builds.wheel import LIBRARIES, architectures_in_archive, scan
from cudalock.errors import AnswerIsNo, TransportError, UsageError
from cudalock.index.metadata import parse_metadata
from cudalock.index.model import CoreMetadata, IndexFile, IndexReader
from cudalock.markers import holds
from cudalock.versions import Architecture, CudaVersion

__all__ = ["Inspection", "inspect_file", "inspect_site", "inspect_venv", "inspect_wheel"]

_MAX_METADATA = 16 * 2**20
_PIECE = 1 << 20
_VERSION_PY_CUDA = re.compile(rb"^cuda(?:\s*:[^=\n]+)?\s*=\s*['\"]([\d.]+)['\"]", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What one distribution contains.

    Attributes:
        what: the file or folder that was read.
        name, version: of the distribution, local part included.
        cuda: the CUDA release it was built with, None for a CPU build or for what has none.
        architectures: machine code and PTX of a torch build, ascending.
        triton: torch's own requirement on triton, as text.
        assemblers: of a triton, file name -> release, e.g. ``ptxas`` -> ``12.8.93``.
        blackwell_from: lowest architecture number for which triton calls ``ptxas-blackwell``.
        requires: requirements that hold on its platform, as text.
        requires_python: as declared.
        tags: of the wheel.
        size: of the file in bytes, if known.
        evidence: always ``wheel``: nothing here is from a table.
        table_agrees: whether the tables say the same; None if they do not know this build.
        requests, bytes_read: what reading it cost, if it was remote.
    """

    what: str
    name: str
    version: Version
    cuda: CudaVersion | None = None
    architectures: tuple[Architecture, ...] = ()
    triton: str | None = None
    assemblers: Mapping[str, str] | None = None
    blackwell_from: int | None = None
    requires: tuple[str, ...] = ()
    requires_python: str | None = None
    tags: tuple[str, ...] = ()
    size: int | None = None
    evidence: str = "wheel"
    table_agrees: bool | None = None
    requests: int | None = None
    bytes_read: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The inspection as it stands in the command's JSON answer."""
        return {
            "what": self.what,
            "name": self.name,
            "version": str(self.version),
            "cuda": str(self.cuda) if self.cuda else None,
            "architectures": [str(architecture) for architecture in self.architectures],
            "triton": self.triton,
            "assemblers": dict(self.assemblers) if self.assemblers else None,
            "blackwell_from": self.blackwell_from,
            "requires": list(self.requires),
            "requires_python": self.requires_python,
            "tags": list(self.tags),
            "size": self.size,
            "evidence": self.evidence,
            "table_agrees": self.table_agrees,
            "requests": self.requests,
            "bytes_read": self.bytes_read,
        }


def inspect_wheel(path: Path) -> Inspection:
    """What a wheel on disk contains.

    Raises:
        UsageError: ``wheel-not-found``, ``wheel-name-invalid``.
        AnswerIsNo: ``wheel-unreadable``.
    """
    try:
        stream = path.open("rb")
    except OSError as error:
        raise UsageError(
            "wheel-not-found",
            f"{path} cannot be read: {error.strerror}",
            hint="give an existing wheel file, its URL, or a requirement such as torch==2.9.1",
        ) from error
    with stream:
        archive = Archive(stream)
        return _inspect_archive(archive, _metadata_in(archive, path.name), path.name, what=str(path), label=None)


def inspect_file(file: IndexFile, reader: IndexReader) -> Inspection:
    """What a wheel on an index, or behind a URL, contains; read by ranges, in few requests.

    The wheel's own METADATA is read, so that nothing rests on a sidecar.

    Raises:
        UsageError: ``wheel-name-invalid``, also for a source distribution.
        AnswerIsNo: ``wheel-unreadable``.
        TransportError: the index does not deliver.
    """
    if file.kind != "wheel":
        raise UsageError("wheel-name-invalid", f"{file.filename} is not a wheel, and only a wheel shows what is in it")
    label = file.page.label if file.page.label and f"/{file.page.label}/" in file.url else None
    with reader.open(file) as stream:
        archive = Archive(stream)
        # The text of the architectures lies before the metadata: in the file's own order a running answer is read on.
        architectures = _torch_architectures(archive, file.filename)
        metadata = _metadata_in(archive, file.filename)
        return _inspect_archive(
            archive,
            metadata,
            file.filename,
            what=file.url,
            label=label,
            architectures=architectures,
            cost=_Cost.of(stream),
            on_main=file.page.index == "main",
        )


@dataclass(frozen=True, slots=True)
class _Cost:
    """What a remote stream has cost so far; the client's streams count, others do not."""

    stream: BinaryIO

    @classmethod
    def of(cls, stream: BinaryIO) -> _Cost:
        return cls(stream)

    def _count(self, name: str) -> int | None:
        value = getattr(self.stream, name, None)
        return value if isinstance(value, int) else None

    @property
    def requests(self) -> int | None:
        return self._count("requests")

    @property
    def bytes(self) -> int | None:
        return self._count("bytes")


def _name_and_version(filename: str) -> tuple[str, Version, tuple[str, ...]]:
    try:
        name, version, _, tags = parse_wheel_filename(filename)
    except ValueError as error:
        raise UsageError("wheel-name-invalid", f"{filename} is not named as a wheel must be: {error}") from error
    return name, version, tuple(sorted(map(str, tags)))


def _torch_architectures(archive: Archive, filename: str) -> tuple[Architecture, ...]:
    if _name_and_version(filename)[0] != "torch" or archive.find(*LIBRARIES) is None:
        return ()
    return architectures_in_archive(archive)


def _metadata_in(archive: Archive, filename: str) -> CoreMetadata:
    """The wheel's own METADATA, found by the project's name; foreign ones may be vendored inside."""
    project = _name_and_version(filename)[0]
    for name in archive.names:
        folder, _, rest = name.partition("/")
        if (
            rest == "METADATA"
            and canonicalize_name(folder.partition("-")[0]) == project
            and folder.endswith(".dist-info")
            and (member := archive.find(name)) is not None
        ):
            return parse_metadata(archive.read(member, limit=_MAX_METADATA), filename)
    raise AnswerIsNo("wheel-unreadable", f"{filename} holds no METADATA of {project}")


def _inspect_archive(
    archive: Archive,
    metadata: CoreMetadata,
    filename: str,
    *,
    what: str,
    label: str | None,
    architectures: tuple[Architecture, ...] | None = None,
    cost: _Cost | None = None,
    on_main: bool | None = None,
) -> Inspection:
    name, version, tags = _name_and_version(filename)
    environment = wheel_environment(filename)
    if architectures is None:
        architectures = _torch_architectures(archive, filename)
    cuda = cuda_of(metadata, filename, label)
    triton = triton_requirement(metadata, filename) if name == "torch" else None
    release, assemblers = _triton_in_archive(archive, name, version, filename)
    return Inspection(
        what=what,
        name=name,
        version=version,
        cuda=cuda,
        architectures=architectures,
        triton=str(triton) if triton else None,
        assemblers=assemblers,
        blackwell_from=release.blackwell_from if release else None,
        requires=_requirements(metadata, environment),
        requires_python=str(metadata.requires_python) or None,
        tags=tags,
        size=archive.size,
        table_agrees=_table_agrees(name, version, cuda, architectures, release, filename, on_main=on_main),
        requests=cost.requests if cost else None,
        bytes_read=cost.bytes if cost else None,
    )


def _requirements(metadata: CoreMetadata, environment: Mapping[str, str]) -> tuple[str, ...]:
    holding = [requirement for requirement in metadata.requires if holds(requirement.marker, environment)]
    return tuple(sorted(str(requirement).partition(";")[0].strip() for requirement in holding))


def _triton_in_archive(
    archive: Archive, name: str, version: Version, origin: str
) -> tuple[TritonRelease | None, dict[str, str] | None]:
    if name not in {"triton", "pytorch-triton", "triton-windows"}:
        return None, None

    def members(*names: str) -> Iterable[bytes] | None:
        member = archive.find(*names)
        return None if member is None else archive.pieces(member)

    return read_triton(version, members, origin=origin), _assemblers(archive.names, members)


def _assemblers(names: Iterable[str], members: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        file = name.rpartition("/")[2].removesuffix(".exe")
        pieces = members(name) if file in {"ptxas", "ptxas-blackwell"} else None
        if pieces is not None and (release := assembler_release(pieces)) is not None:
            found[file] = release
    return dict(sorted(found.items()))


def _table_agrees(
    name: str,
    version: Version,
    cuda: CudaVersion | None,
    architectures: tuple[Architecture, ...],
    release: TritonRelease | None,
    filename: str,
    *,
    on_main: bool | None,
) -> bool | None:
    if name == "torch" and cuda is not None:
        environment = wheel_environment(filename)
        os = "windows" if environment["platform_system"] == "Windows" else "linux"
        row = facts.torch_row(version, cuda=cuda, os=os, machine=environment["platform_machine"], on_main=on_main)
        return None if row is None else set(row.architectures) == set(architectures)
    if release is not None and (known := facts.triton_row(version)) is not None:
        return (known.ptxas, known.ptxas_blackwell, known.blackwell_from) == (
            release.ptxas,
            release.ptxas_blackwell,
            release.blackwell_from,
        )
    return None


def inspect_venv(path: Path) -> tuple[Inspection, ...]:
    """What an environment contains of torch, triton and CUDA-versioned companions, without importing any of it.

    Args:
        path: of the environment, the folder with ``pyvenv.cfg``.

    Returns:
        One inspection per distribution, torch and triton first, then by name.

    Raises:
        UsageError: ``venv-invalid`` if it is no environment.
    """
    return inspect_site(_site_packages(path))


def inspect_site(site: Path, names: Iterable[str] | None = None) -> tuple[Inspection, ...]:
    """The same of one folder of packages; ``names``: only distributions of these normalized names."""
    wanted = None if names is None else frozenset(names)
    found = []
    for distribution in distributions(path=[str(site)]):
        name = canonicalize_name(distribution.metadata["Name"] or "")
        if _is_interesting(name) if wanted is None else name in wanted:
            found.append(_inspect_installed(name, distribution, site))
    return tuple(sorted(found, key=lambda one: ({"torch": 0, "triton": 1}.get(one.name, 2), one.name)))


def _site_packages(path: Path) -> Path:
    if not (path / "pyvenv.cfg").is_file():
        raise UsageError("venv-invalid", f"{path} is not a virtual environment", hint="name the folder with pyvenv.cfg")
    for site in (*sorted(path.glob("lib/python*/site-packages")), path / "Lib" / "site-packages"):
        if site.is_dir():
            return site
    raise UsageError("venv-invalid", f"{path} has no site-packages folder", hint="create it anew")


def _is_interesting(name: str) -> bool:
    if name in {"torch", "triton", "pytorch-triton", "triton-windows", "cuda-toolkit", "cuda-bindings"}:
        return True
    return name in facts.companions() or (name.startswith("nvidia-") and name != "nvidia-ml-py")


def _pieces_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while piece := stream.read(_PIECE):
            yield piece


def _inspect_installed(name: str, distribution: Distribution, site: Path) -> Inspection:
    metadata, version = _installed_metadata(name, distribution, site)
    wheel = distribution.read_text("WHEEL") or ""
    tags = tuple(sorted(line.partition(":")[2].strip() for line in wheel.splitlines() if line.startswith("Tag:")))
    filename = f"{name.replace('-', '_')}-{version}-{tags[0] if tags else 'py3-none-any'}.whl"
    architectures: tuple[Architecture, ...] = ()
    cuda = cuda_of(metadata, filename, None)
    release, assemblers = None, None
    if name == "torch":
        library = next((site / file for file in LIBRARIES if (site / file).is_file()), None)
        architectures = scan(_pieces_of(library)) if library else ()
        cuda = _cuda_of_installed_torch(site) or cuda
    elif name in {"triton", "pytorch-triton", "triton-windows"}:

        def members(*names: str) -> Iterable[bytes] | None:
            file = next((site / member for member in names if (site / member).is_file()), None)
            return None if file is None else _pieces_of(file)

        with suppress(AnswerIsNo):  # no assembler in it: the empty `assemblers` says so
            release = read_triton(version, members, origin=str(site / "triton"))
        files = (str(file.relative_to(site).as_posix()) for file in (site / "triton").rglob("ptxas*") if file.is_file())
        assemblers = _assemblers(files, members)
    requirement = triton_requirement(metadata, filename) if name == "torch" else None
    return Inspection(
        what=str(site),
        name=name,
        version=version,
        cuda=cuda,
        architectures=architectures,
        triton=str(requirement) if requirement else None,
        assemblers=assemblers,
        blackwell_from=release.blackwell_from if release else None,
        requires=_requirements(metadata, wheel_environment(filename)),
        requires_python=str(metadata.requires_python) or None,
        tags=tags,
        table_agrees=_table_agrees(name, version, cuda, architectures, release, filename, on_main=None),
    )


def _installed_metadata(name: str, distribution: Distribution, site: Path) -> tuple[CoreMetadata, Version]:
    try:
        content = (distribution.read_text("METADATA") or "").encode()
        return parse_metadata(content, f"{name} in {site}"), Version(distribution.version)
    except (TransportError, ValueError, OSError) as error:
        hint = "install it anew"
        raise UsageError(
            "venv-invalid", f"the metadata of {name} in {site} cannot be used: {error}", hint=hint
        ) from error


def _cuda_of_installed_torch(site: Path) -> CudaVersion | None:
    """Torch's own word in ``torch/version.py``, read as text: it tells even where the name has no local version."""
    try:
        text = (site / "torch" / "version.py").read_bytes()
    except OSError:
        return None
    match = _VERSION_PY_CUDA.search(text)
    return CudaVersion.parse(match[1].decode()) if match else None
