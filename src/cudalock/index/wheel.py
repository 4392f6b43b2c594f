"""METADATA of wheels, read out of the remote file."""

from __future__ import annotations

import zipfile
import zlib

from packaging.utils import canonicalize_name

from cudalock.errors import TransportError
from cudalock.index.lazy_zip import RemoteFile
from cudalock.index.metadata import MAX_METADATA_BYTES

__all__ = ["read_wheel_metadata"]

_MAX_MEMBERS = 250_000


def read_wheel_metadata(remote: RemoteFile, filename: str) -> bytes:
    """METADATA of a wheel.

    Raises:
        TransportError: ``index-invalid-wheel`` if the wheel is damaged or has no METADATA of its own.
    """
    try:
        with zipfile.ZipFile(remote) as archive:
            members = archive.infolist()
            if len(members) > _MAX_MEMBERS:
                raise _invalid_wheel(filename, f"it has {len(members)} members")
            member = _own_metadata(members, filename)
            if max(member.file_size, member.compress_size) > MAX_METADATA_BYTES:
                size = max(member.file_size, member.compress_size)
                raise _invalid_wheel(filename, f"its METADATA has {size} bytes")
            # Local header, name, extra field and the data: one request.
            remote.load(member.header_offset, member.header_offset + member.compress_size + len(member.filename) + 512)
            with archive.open(member) as stream:
                content = stream.read(MAX_METADATA_BYTES + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise _invalid_wheel(filename, " ".join(str(error).split())[:160] or type(error).__name__) from None
    if len(content) > MAX_METADATA_BYTES:
        raise _invalid_wheel(filename, "its METADATA is larger than it says")
    return content


def _own_metadata(members: list[zipfile.ZipInfo], filename: str) -> zipfile.ZipInfo:
    """The METADATA in the wheel's own ``.dist-info`` folder; vendored ones may be there too."""
    project = canonicalize_name(filename.partition("-")[0])
    for member in members:
        folder, separator, name = member.filename.partition("/")
        if not separator or name != "METADATA" or not folder.endswith(".dist-info"):
            continue
        if canonicalize_name(folder.removesuffix(".dist-info").rpartition("-")[0]) == project:
            return member
    raise _invalid_wheel(filename, "it has no METADATA of its own")


def _invalid_wheel(filename: str, reason: str) -> TransportError:
    return TransportError(
        "index-invalid-wheel",
        f"{filename} is not a usable wheel: {reason}",
        hint="require another version of this project",
        details={"file": filename},
    )
