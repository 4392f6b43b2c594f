"""Builds small wheels and source distributions in memory: compliant by default, every part can be overridden."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import re
import tarfile
import zipfile
from collections.abc import Iterable, Mapping

__all__ = ["make_metadata", "make_sdist", "make_wheel"]

_EPOCH = (2020, 1, 1, 0, 0, 0)


def _escaped(name: str) -> str:
    """The name as file names write it (PEP 427): ``Foo.Bar-baz`` -> ``foo_bar_baz``."""
    return re.sub(r"[-_.]+", "_", name).lower()


def make_metadata(
    name: str,
    version: str,
    *,
    requires: Iterable[str] = (),
    extras: Mapping[str, Iterable[str]] | None = None,
    requires_python: str | None = None,
    overrides: Mapping[str, str | None] | None = None,
) -> bytes:
    """METADATA text.

    Args:
        requires: Requires-Dist lines, written as they are.
        extras: extra -> its requirements; the marker ``extra == "..."`` is added here.
        overrides: header -> replacement, None removes it, a new header is appended.
    """
    headers: list[tuple[str, str]] = [("Metadata-Version", "2.1"), ("Name", name), ("Version", version)]
    if requires_python is not None:
        headers.append(("Requires-Python", requires_python))
    headers += [("Requires-Dist", line) for line in requires]
    for extra, lines in (extras or {}).items():
        headers.append(("Provides-Extra", extra))
        headers += [("Requires-Dist", _with_extra(line, extra)) for line in lines]
    for header, value in (overrides or {}).items():
        headers = [pair for pair in headers if pair[0] != header]
        if value is not None:
            headers.append((header, value))
    return "".join(f"{header}: {value}\n" for header, value in headers).encode() + b"\nMade for a test.\n"


def _with_extra(line: str, extra: str) -> str:
    requirement, _, marker = line.partition(";")
    condition = f'({marker.strip()}) and extra == "{extra}"' if marker.strip() else f'extra == "{extra}"'
    return f"{requirement.strip()}; {condition}"


def make_wheel(
    name: str,
    version: str,
    *,
    requires: Iterable[str] = (),
    python_tag: str = "py3",
    abi: str = "none",
    platform: str = "any",
    files: Mapping[str, bytes] | None = None,
    extras: Mapping[str, Iterable[str]] | None = None,
    requires_python: str | None = None,
    metadata_overrides: Mapping[str, str | None] | None = None,
    metadata: bytes | None = None,
    build: str | None = None,
    stored: bool = False,
) -> tuple[str, bytes]:
    """A wheel that uv and pip install; returns (file name, bytes).

    Args:
        files: path inside the wheel -> content; without it the wheel holds ``NAME/__init__.py``.
        metadata: the whole METADATA instead of the generated one.
        build: build tag, e.g. ``3``.
        stored: True leaves the members uncompressed.
    """
    stem = f"{_escaped(name)}-{version}"
    tag = f"{python_tag}-{abi}-{platform}"
    dist_info = f"{stem}.dist-info"
    pure = platform == "any"
    if metadata is None:
        metadata = make_metadata(
            name, version, requires=requires, extras=extras, requires_python=requires_python,
            overrides=metadata_overrides,
        )  # fmt: skip
    tags = [
        f"Tag: {one_python}-{one_abi}-{one_platform}\n"
        for one_python in python_tag.split(".")
        for one_abi in abi.split(".")
        for one_platform in platform.split(".")
    ]
    wheel_text = f"Wheel-Version: 1.0\nGenerator: cudalock-tests\nRoot-Is-Purelib: {str(pure).lower()}\n"
    wheel_text += "".join(tags) + (f"Build: {build}\n" if build else "")
    members = dict(
        files if files is not None else {f"{_escaped(name)}/__init__.py": f"__version__ = {version!r}\n".encode()}
    )
    members[f"{dist_info}/METADATA"] = metadata
    members[f"{dist_info}/WHEEL"] = wheel_text.encode()
    record = "".join(f"{path},sha256={_record_digest(data)},{len(data)}\n" for path, data in members.items())
    members[f"{dist_info}/RECORD"] = (record + f"{dist_info}/RECORD,,\n").encode()

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED) as archive:
        for path, data in members.items():
            info = zipfile.ZipInfo(path, _EPOCH)
            info.external_attr = 0o644 << 16
            info.compress_type = archive.compression
            archive.writestr(info, data)
    filename = f"{stem}-{build}-{tag}.whl" if build else f"{stem}-{tag}.whl"
    return filename, buffer.getvalue()


def _record_digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def make_sdist(
    name: str,
    version: str,
    *,
    files: Mapping[str, bytes] | None = None,
    requires: Iterable[str] = (),
    extras: Mapping[str, Iterable[str]] | None = None,
    requires_python: str | None = None,
    dynamic: Iterable[str] = (),
    pkg_info: bytes | None = None,
) -> tuple[str, bytes]:
    """A source distribution; returns (file name, bytes).

    PKG-INFO has metadata version 2.2 (so its fields are reliable except those in ``dynamic``); with ``files`` the
    archive holds those under ``NAME-VERSION/``, else a minimal pyproject.toml and package.
    """
    stem = f"{_escaped(name)}-{version}"
    if pkg_info is None:
        pkg_info = make_metadata(
            name, version, requires=requires, extras=extras, requires_python=requires_python,
            overrides={"Metadata-Version": "2.2"},
        )  # fmt: skip
        lines = "".join(f"Dynamic: {field}\n" for field in dynamic).encode()
        pkg_info = pkg_info.replace(b"\n\n", b"\n" + lines + b"\n", 1)
    if files is None:
        project = f'[project]\nname = "{name}"\nversion = "{version}"\n'
        system = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        files = {"pyproject.toml": (system + project).encode(), f"{_escaped(name)}/__init__.py": b""}
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for path, data in {"PKG-INFO": pkg_info, **files}.items():
            info = tarfile.TarInfo(f"{stem}/{path}")
            info.size = len(data)
            info.mode = 0o644
            archive.addfile(info, io.BytesIO(data))
    return f"{stem}.tar.gz", gzip.compress(raw.getvalue(), mtime=0)
