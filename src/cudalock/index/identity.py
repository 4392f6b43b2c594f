"""What makes a file the same file, and whether metadata speaks of the file that it came from."""

from __future__ import annotations

from urllib.parse import urlsplit

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from cudalock.errors import TransportError
from cudalock.index.model import CoreMetadata, IndexFile
from cudalock.index.simple import shown_url

__all__ = ["checked", "identity"]


def identity(file: IndexFile) -> str:
    """What makes a file the same file: its hash, else its URL with all that changes when it is replaced."""
    if file.hashes:
        algorithm = "sha256" if "sha256" in file.hashes else min(file.hashes)
        return f"{algorithm}={file.hashes[algorithm]}"
    parts = urlsplit(file.url)
    return f"{parts.netloc}{parts.path} {file.size} {file.upload_time}"


def checked(file: IndexFile, metadata: CoreMetadata) -> CoreMetadata:
    """The metadata, if it speaks of the file that it came from; else error ``index-metadata-conflict``."""
    try:
        if file.kind == "wheel":
            name, version = parse_wheel_filename(file.filename)[:2]
        else:
            name, version = parse_sdist_filename(file.filename)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return metadata
    if metadata.name == canonicalize_name(name) and _same_version(version, metadata.version):
        return metadata
    raise TransportError(
        "index-metadata-conflict",
        f"the metadata of {file.filename} says {metadata.name} {metadata.version}",
        hint="do not use this file; report it to its publisher",
        details={"file": file.filename, "url": shown_url(file.url)},
    )


def _same_version(of_file: Version, of_metadata: Version) -> bool:
    """Equal, or one of them without a local part, as in some repackaged wheels of the PyTorch index."""
    if of_file == of_metadata:
        return True
    return of_file.public == of_metadata.public and None in (of_file.local, of_metadata.local)
