"""From a resolution to a lock: pure and deterministic, and checked by reading it back with ``packaging``'s own eyes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from packaging.markers import Environment, Marker
from packaging.pylock import (
    Package,
    PackageArchive,
    PackageSdist,
    PackageWheel,
    Pylock,
    PylockSelectError,
    PylockValidationError,
)
from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from cudalock.compat.model import Policy
from cudalock.errors import InternalError, UsageError
from cudalock.index.model import IndexFile, IndexReader
from cudalock.lock.canonical import digest_of
from cudalock.lock.contract import build_contract
from cudalock.lock.document import tool_table
from cudalock.lock.file import dump_document, parse_text
from cudalock.lock.inputs import recorded_inputs, without_credentials
from cudalock.lock.model import Lock, LockedTarget, LockedTriple
from cudalock.requirements.model import Request
from cudalock.resolve.model import Pin, Resolution, Triple
from cudalock.target.model import Target

__all__ = ["build_lock", "complete_hashes", "locked_target"]

_CREATED_BY = "cudalock"


def complete_hashes(resolution: Resolution, reader: IndexReader) -> Resolution:
    """The resolution with a sha256 for every file (rule R8): what its index does not announce, the reader works out.

    Raises:
        TransportError: if a file without a hash cannot be downloaded.
    """
    pins = tuple(pin if pin.file.sha256 else _with_hash(pin, reader.sha256(pin.file)) for pin in resolution.pins)
    return resolution if pins == resolution.pins else replace(resolution, pins=pins)


def _with_hash(pin: Pin, sha256: str) -> Pin:
    return replace(pin, file=replace(pin.file, hashes={**pin.file.hashes, "sha256": sha256}))


def build_lock(
    resolution: Resolution,
    target: Target,
    request: Request,
    policy: Policy,
    *,
    index_urls: Mapping[str, str] | None = None,
) -> Lock:
    """Makes the lock of a resolution.

    Args:
        resolution: every file with its sha256 (see :func:`complete_hashes`).
        target: what it was resolved for; its Python and platform become the lock's own conditions.
        request: what was asked for, recorded.
        policy: the user's choices, recorded.
        index_urls: name of an index (``main``, ``pytorch``, a source) -> base URL, for each package's ``index``;
            credentials are taken off. Without it the packages name no index.

    Raises:
        InternalError: if the lock does not give the resolution back when it is read as uv and pip read it.
    """
    direct = {canonicalize_name(asked.requirement.name) for asked in request.requirements if asked.requirement.url}
    names = {pin.name for pin in resolution.pins}
    direct |= {pin.name for pin in resolution.pins if pin.file.page.index == "direct"}  # asked for by a package
    packages = [_package(pin, names, pin.name in direct, index_urls or {}) for pin in resolution.pins]
    triple = _locked_triple(resolution.triple)
    where = locked_target(target)
    contract = build_contract(resolution.triple, target, policy) if resolution.triple else None
    inputs = recorded_inputs(request, policy)
    table = tool_table(
        inputs=inputs, indexes=resolution.indexes, triple=triple, target=where, contract=contract
    )  # fmt: skip
    pylock = Pylock(
        lock_version=Version("1.0"),
        environments=[_environment(target)],
        requires_python=SpecifierSet(f"=={target.python.major}.{target.python.minor}.*"),
        created_by=_CREATED_BY,
        packages=sorted(packages, key=lambda package: package.name),
        tool={"cudalock": table},
    )
    document = dict(pylock.to_dict())
    document["tool"] = {"cudalock": _with_digest(table, digest_of(document))}
    # exactly as a reader will see it, so that what is checked and returned is what the file says
    lock = parse_text(dump_document(document), "the new lock")
    _check(lock, resolution, target)
    return lock


def _with_digest(table: Mapping[str, object], digest: str) -> dict[str, object]:
    """The digest before ``indexes``, where the document has it."""
    result: dict[str, object] = {}
    for key, value in table.items():
        if key == "indexes":
            result["digest"] = digest
        result[key] = value
    return result


def _locked_triple(triple: Triple | None) -> LockedTriple | None:
    if triple is None:
        return None
    # PyPI's own wheels carry no label in their version; the CUDA release then says what they are
    return LockedTriple(torch=str(triple.torch), triton=str(triple.triton) if triple.triton else None, cuda=triple.cuda)


def locked_target(target: Target) -> LockedTarget:
    """The target as a lock records it."""
    libc = target.platform.libc
    return LockedTarget(
        platform=str(target.platform),
        libc=f"{libc[0]}-{libc[1][0]}.{libc[1][1]}" if libc else None,
        python=str(target.python),
        driver=target.driver,
        gpus=target.capabilities,
        cpu=target.cpu,
    )


def _environment(target: Target) -> Marker:
    """The platform as a marker, so that uv and pip refuse another by themselves; Python stands in requires-python."""
    environment = target.marker_environment
    system = environment.get("sys_platform") or ("win32" if target.platform.os == "windows" else "linux")
    machine = environment.get("platform_machine") or target.platform.machine
    implementation = environment.get("implementation_name") or "cpython"
    return Marker(
        f"sys_platform == '{system}' and platform_machine == '{machine}' and implementation_name == '{implementation}'"
    )


def _package(pin: Pin, names: set[NormalizedName], direct: bool, index_urls: Mapping[str, str]) -> Package:
    file = pin.file
    hashes = {"sha256": _sha256(pin)}
    url = without_credentials(file.url)
    archive = PackageArchive(url=url, size=file.size, upload_time=file.upload_time, hashes=hashes) if direct else None
    wheel = sdist = None
    if not direct and file.kind == "wheel":
        wheel = PackageWheel(
            name=file.filename, url=url, size=file.size, upload_time=file.upload_time, hashes=hashes
        )  # fmt: skip
    elif not direct:
        sdist = PackageSdist(
            name=file.filename, url=url, size=file.size, upload_time=file.upload_time, hashes=hashes
        )  # fmt: skip
    required = sorted({canonicalize_name(requirement.name) for requirement in pin.requires} & names - {pin.name})
    return Package(
        name=pin.name,
        version=pin.version,
        requires_python=_requires_python(pin),
        dependencies=[{"name": str(name)} for name in required] or None,
        index=None if direct else _index_of(file, index_urls),
        archive=archive,
        sdist=sdist,
        wheels=[wheel] if wheel else None,
    )


def _sha256(pin: Pin) -> str:
    sha256 = pin.file.sha256
    if not sha256:
        raise InternalError("lock-hash-missing", f"{pin.file.filename} has no sha256 and cannot be locked")
    return sha256


def _requires_python(pin: Pin) -> SpecifierSet | None:
    """What the package says of Python; old releases say it in forms that no reader of a lock would take."""
    if not pin.requires_python:
        return None
    try:
        return SpecifierSet(pin.requires_python)
    except ValueError:
        return None


def _index_of(file: IndexFile, index_urls: Mapping[str, str]) -> str | None:
    base = index_urls.get(file.page.index)
    if not base:
        return None
    base = without_credentials(base)
    return f"{base.rstrip('/')}/{file.page.label}" if file.page.label else base


def _check(lock: Lock, resolution: Resolution, target: Target) -> None:
    """Selects from the lock as an installer does; what comes out must be the resolution, file for file."""
    wanted = {(pin.name, pin.version, _sha256(pin)) for pin in resolution.pins}
    environment = cast("Environment", dict(target.marker_environment))
    try:
        selected = {
            (package.name, package.version, file.hashes["sha256"])
            for package, file in lock.pylock.select(environment=environment, tags=target.tags)
            if isinstance(file, (PackageWheel, PackageSdist, PackageArchive))
        }
    except (PylockSelectError, PylockValidationError, UsageError, ValueError, KeyError) as error:
        raise InternalError("lock-self-check", f"the new lock does not fit its own target: {error}") from error
    if selected != wanted:
        lost = ", ".join(sorted(str(name) for name, _, _ in selected ^ wanted))
        raise InternalError("lock-self-check", f"the new lock does not give the resolution back: {lost}")
