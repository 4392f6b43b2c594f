"""PKG-INFO of source distributions, read without unpacking or running anything."""

from __future__ import annotations

import struct
import tarfile
import zipfile
import zlib
from typing import IO, Any

from packaging.requirements import InvalidRequirement, Requirement

from cudalock.errors import TransportError
from cudalock.index.metadata import BUILD_REQUIRES, MAX_METADATA_BYTES
from cudalock.toml import parse_toml

__all__ = ["read_sdist_metadata"]

_DAMAGED = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError,
    TypeError, LookupError, struct.error,  # tarfile and zipfile take some damage for granted not to be there
)  # fmt: skip
_MAX_MEMBERS = 100_000
_MAX_UNPACKED = 2 * 1024**3


def read_sdist_metadata(stream: IO[bytes], filename: str) -> bytes:
    """PKG-INFO of a ``.tar.gz`` or ``.zip``.

    If PKG-INFO is older than metadata version 2.2, and so promises nothing, but pyproject.toml states the dependencies
    statically, its text is marked as version 2.2: PEP 621 makes the same promise. What the build requires is put before
    it as headers of our own.

    Raises:
        TransportError: ``index-invalid-sdist``.
    """
    try:
        members = _from_zip(stream) if filename.endswith(".zip") else _from_tar(stream)
    except _DAMAGED as error:
        raise _invalid(filename, " ".join(str(error).split())[:160] or type(error).__name__) from None
    content = members.get("PKG-INFO", b"").removeprefix(b"\xef\xbb\xbf")
    if not content:
        raise _invalid(filename, "it has no PKG-INFO")
    project = members.get("pyproject.toml")
    added = "".join(f"{BUILD_REQUIRES}: {line}\n" for line in _build_requires(project)).encode()
    return added + (_promised(content) if _is_static(project) else content)


def _from_tar(stream: IO[bytes]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    # a read may inflate a thousandfold, and is held in memory
    with tarfile.open(fileobj=stream, mode="r|gz", bufsize=16 * 1024) as archive:
        total = 0
        for number, member in enumerate(archive):
            total += member.size
            if number > _MAX_MEMBERS or total > _MAX_UNPACKED:
                raise ValueError("it holds too much")
            name = _wanted(member.name)
            if name and member.isfile() and member.size <= MAX_METADATA_BYTES:
                file = archive.extractfile(member)
                found[name] = file.read() if file is not None else b""
                if len(found) == 2:
                    break
    return found


def _from_zip(stream: IO[bytes]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with zipfile.ZipFile(stream) as archive:
        for member in archive.infolist()[:_MAX_MEMBERS]:
            name = _wanted(member.filename)
            if name and member.file_size <= MAX_METADATA_BYTES:
                with archive.open(member) as file:
                    found[name] = file.read(MAX_METADATA_BYTES)
    return found


def _wanted(path: str) -> str | None:
    """Only files directly in the one top folder count."""
    _, separator, name = path.partition("/")
    return name if separator and name in {"PKG-INFO", "pyproject.toml"} else None


def _is_static(content: bytes | None) -> bool:
    if content is None:
        return False
    try:
        project: Any = parse_toml(content.decode("utf-8")).get("project")
    except ValueError:
        return False
    if not isinstance(project, dict):
        return False
    dynamic = project.get("dynamic", [])
    left_open = {str(field) for field in dynamic} if isinstance(dynamic, list) else {"dependencies"}
    return not {"dependencies", "optional-dependencies"} & left_open


def _build_requires(content: bytes | None) -> list[str]:
    """From ``[build-system]``; without one setuptools is the build backend (PEP 518)."""
    usual = ["setuptools", "wheel"]
    try:
        system: Any = parse_toml((content or b"").decode("utf-8")).get("build-system")
    except ValueError:
        return usual
    requires = system.get("requires") if isinstance(system, dict) else None
    if not isinstance(requires, list):
        return usual
    stated = [" ".join(line.split()) for line in requires if isinstance(line, str)]
    return [line for line in stated if _is_requirement(line)]


def _is_requirement(line: str) -> bool:
    try:
        return Requirement(line).url is None
    except InvalidRequirement:
        return False


def _promised(content: bytes) -> bytes:
    head, separator, rest = content.partition(b"\n")
    if not head.lower().startswith(b"metadata-version:"):
        return content
    version = head.partition(b":")[2].strip()
    return b"Metadata-Version: 2.2" + separator + rest if version < b"2.2" else content


def _invalid(filename: str, reason: str) -> TransportError:
    return TransportError(
        "index-invalid-sdist",
        f"{filename} is not a usable source distribution: {reason}",
        hint="require another version of this project",
        details={"file": filename},
    )
