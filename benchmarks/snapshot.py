"""The snapshot: real project pages and real metadata, recorded once and committed compressed.

``python -m benchmarks.record`` records it anew. Left out is what nobody looks at and what is made anew of the same
length when it is served: URLs (relative then), the hashes of files that no tool asked for, and of METADATA all that has
no part in resolving (descriptions).
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

__all__ = ["Snapshot", "SNAPSHOT"]

SNAPSHOT = Path(__file__).with_name("snapshot.json.xz")
_KEPT = ("filename", "hashes", "requires-python", "size", "upload-time", "yanked")
_HEADERS = frozenset(
    {"metadata-version", "name", "version", "requires-python", "requires-dist", "provides-extra", "dynamic"}
)
_WHEEL_TAIL = 64 * 1024


class Snapshot:
    """Pages by project and METADATA by the sha256 of its wheel."""

    def __init__(self, pages: dict[str, dict[str, Any]] | None = None, metadata: dict[str, str] | None = None) -> None:
        self.pages = pages or {}
        self.metadata = metadata or {}

    @classmethod
    def load(cls, path: Path = SNAPSHOT) -> Snapshot:
        """Reads what :meth:`save` wrote."""
        content = json.loads(lzma.decompress(path.read_bytes()))
        return cls(content["pages"], content["metadata"])

    def save(self, path: Path = SNAPSHOT) -> None:
        """Writes it sorted, so that recording the same things again changes as little as possible."""
        pages = {project: self._without_spare_hashes(page) for project, page in sorted(self.pages.items())}
        content = {"pages": pages, "metadata": dict(sorted(self.metadata.items()))}
        text = json.dumps(content, ensure_ascii=True, separators=(",", ":"))
        path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))

    def _without_spare_hashes(self, page: Mapping[str, Any]) -> dict[str, Any]:
        files = [
            file if _sha256(file) in self.metadata else {key: value for key, value in file.items() if key != "hashes"}
            for file in page["files"]
        ]
        return {**page, "files": files}

    def add_metadata(self, sha256: str, content: bytes) -> None:
        """Keeps a wheel's METADATA, as far as it takes part in resolving."""
        self.metadata[sha256] = _for_resolving(content)

    def add_page(self, project: str, page: Mapping[str, Any]) -> None:
        """Keeps a page as an index served it (PEP 691), without its URLs."""
        files = [{key: file[key] for key in _KEPT if file.get(key) not in (None, False)} for file in page["files"]]
        self.pages[project] = {"files": files, "versions": page.get("versions", [])}

    def page(self, project: str, *, sidecars: bool, recording: bool = False) -> bytes:
        """The page as it is served; while recording nobody knows yet what the sidecars hold."""
        kept = self.pages[project]
        files = [self._entry(file, sidecars=sidecars, recording=recording) for file in kept["files"]]
        page = {"files": files, "meta": {"api-version": "1.1"}, "name": project, "versions": kept["versions"]}
        return json.dumps(page, separators=(",", ":")).encode()

    def _entry(self, file: Mapping[str, Any], *, sidecars: bool, recording: bool) -> dict[str, Any]:
        sha256 = _sha256(file)
        url = f"../../files/{sha256[:2]}/{sha256[2:4]}/{sha256[4:]}/{file['filename']}"
        entry = {"yanked": False, **file, "hashes": {"sha256": sha256}, "url": url}
        if sidecars and file["filename"].endswith(".whl"):
            if recording:
                return {**entry, "core-metadata": True, "data-dist-info-metadata": True}
            content = self.metadata.get(sha256, sha256).encode()
            entry["core-metadata"] = entry["data-dist-info-metadata"] = {"sha256": hashlib.sha256(content).hexdigest()}
        return entry

    def sidecar(self, sha256: str) -> bytes | None:
        """The METADATA of a wheel, if it was recorded."""
        text = self.metadata.get(sha256)
        return None if text is None else text.encode()

    def wheel(self, sha256: str, filename: str) -> SparseWheel | None:
        """A wheel of the real size that holds its METADATA where wheels have it, and zeros before it."""
        content = self.sidecar(sha256)
        files = [file for page in list(self.pages.values()) for file in page["files"]]
        size = next((file.get("size") for file in files if _sha256(file) == sha256), 0)
        return None if content is None else SparseWheel(filename, content, size or 0)


def _sha256(file: Mapping[str, Any]) -> str:
    """The announced hash, or one in its place where it was not worth keeping."""
    hashes = file.get("hashes")
    return str(hashes["sha256"]) if hashes else hashlib.sha256(file["filename"].encode()).hexdigest()


def _for_resolving(metadata: bytes) -> str:
    """The headers that decide what is resolved; the rest is replaced by as many bytes of nothing in particular."""
    kept: list[str] = []
    wanted = False
    for line in metadata.decode("utf-8", "replace").splitlines():
        if not line.strip():
            break
        if not line.startswith((" ", "\t")):
            wanted = line.partition(":")[0].lower() in _HEADERS
        if wanted:
            kept.append(line)
    head = "\n".join(kept) + "\n\n"
    return head + ("." * 79 + "\n") * ((len(metadata) - len(head)) // 80)


class SparseWheel:
    """Zeros and, at the end, a zip archive with METADATA, WHEEL and RECORD: enough for ranged reads."""

    def __init__(self, filename: str, metadata: bytes, size: int) -> None:
        name, version = filename.split("-")[:2]
        folder = f"{name}-{version}.dist-info"
        skipped = max(size - len(metadata) - _WHEEL_TAIL, 0)
        out = _Shifted(skipped)
        with zipfile.ZipFile(cast("Any", out), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{folder}/METADATA", metadata)
            archive.writestr(f"{folder}/WHEEL", "Wheel-Version: 1.0\nGenerator: benchmark\nRoot-Is-Purelib: true\n")
            archive.writestr(f"{folder}/RECORD", "")
        self.skipped, self.tail = skipped, out.getvalue()
        self.size = skipped + len(self.tail)

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from ``start`` up to ``stop``."""
        zeros = max(min(stop, self.skipped) - start, 0)
        return bytes(zeros) + self.tail[max(start - self.skipped, 0) : max(stop - self.skipped, 0)]


class _Shifted(io.BytesIO):
    """A file whose positions begin at ``shift``, so that a zip archive in it believes that much lies before it."""

    def __init__(self, shift: int) -> None:
        super().__init__()
        self._shift = shift

    def tell(self) -> int:
        return super().tell() + self._shift

    def seek(self, offset: int, whence: int = 0) -> int:
        return super().seek(offset - self._shift if whence == 0 else offset, whence) + self._shift
