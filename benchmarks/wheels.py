"""Wheels made on the fly that resemble torch's closure, and a server for them on loopback, in its own process.

``python -m benchmarks.wheels FOLDER`` serves the folder as an index serves files: HTML pages by project, wheels with
their METADATA beside them, and the word that a file never changes, so that a warm cache asks for nothing.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import http.server
import random
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.process import IndexProcess

__all__ = ["ROOT", "FolderServer", "make_index"]

ROOT = "closure"
"""The project that requires all the others."""

_VERSION = "1.0"
# Small files and MB in large ones: the framework, two compilers, a dozen toolkit parts (headers and a library), and
# pure packages of a few to some thousand modules.
_SHAPES: tuple[tuple[str, int, tuple[int, ...]], ...] = (
    (ROOT, 4000, (50, 20)),
    ("compiler", 500, (40,)),
    ("algebra", 1500, ()),
    ("graphs", 600, ()),
    ("packager", 400, ()),
    *((f"toolkit-{i:02}", 120, (10,) if i % 3 == 0 else (2,)) for i in range(15)),
    *((f"module-{i:02}", 30, ()) for i in range(10)),
)
_WHEEL = b"Wheel-Version: 1.0\nGenerator: benchmark\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_EPOCH = (2020, 1, 1, 0, 0, 0)


def make_index(folder: Path) -> int:
    """Writes pages and wheels below ``folder``; returns how many files the wheels hold."""
    chance = random.Random(5)  # noqa: S311 - bytes that cannot be compressed, the same in every run
    total = 0
    for name, small, large in _SHAPES:
        requires = [other for other, _, _ in _SHAPES if other != ROOT] if name == ROOT else []
        members = dict(_members(name, small, large, chance))
        total += len(members)
        _write_project(folder / "simple" / name, name, requires, members)
    return total


def _members(name: str, small: int, large: tuple[int, ...], chance: random.Random) -> Iterator[tuple[str, bytes]]:
    package = name.replace("-", "_")
    yield f"{package}/__init__.py", b""
    for number in range(small):
        size = chance.choice((200, 900, 2500, 6000, 18000))
        yield (
            f"{package}/part_{number % 40}/module_{number}.py",
            f"# {name} {number}\n".encode() + b"x = 1\n" * (size // 6),
        )
    for number, megabytes in enumerate(large):
        yield f"{package}/lib/lib{package}_{number}.so", chance.randbytes(megabytes * 1_000_000)


def _write_project(folder: Path, name: str, requires: list[str], members: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True)
    stem = f"{name.replace('-', '_')}-{_VERSION}"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {_VERSION}\n"
    metadata += "".join(f"Requires-Dist: {other}=={_VERSION}\n" for other in requires)
    contents = {
        **members,
        f"{stem}.dist-info/METADATA": metadata.encode(),
        f"{stem}.dist-info/WHEEL": _WHEEL,
    }
    record = "".join(f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in contents.items())
    contents[f"{stem}.dist-info/RECORD"] = f"{record}{stem}.dist-info/RECORD,,\n".encode()
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path, data in contents.items():
            archive.writestr(zipfile.ZipInfo(path, _EPOCH), data, zipfile.ZIP_STORED if path.endswith(".so") else None)
    with wheel.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    wheel.with_name(wheel.name + ".metadata").write_text(metadata)
    core = hashlib.sha256(metadata.encode()).hexdigest()
    link = f'<a href="{wheel.name}#sha256={sha256}" data-core-metadata="sha256={core}">{wheel.name}</a>'
    (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{link}</body></html>\n")


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


class FolderServer(IndexProcess):
    """A folder on loopback, served from a process of its own; use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        super().__init__("benchmarks.wheels", str(folder))


class _Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def end_headers(self) -> None:
        if self.path.endswith((".whl", ".metadata")):
            self.send_header("Cache-Control", "max-age=365000000, immutable")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the base class gives it
        """Says nothing."""


def _main() -> None:
    handler = functools.partial(_Handler, directory=sys.argv[1])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        sys.stdout.write(f"{server.server_address[1]}\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    _main()
