"""The snapshot: real project pages and real metadata, recorded once and committed compressed.

``python -m benchmarks.snapshot`` records it anew: it serves an empty snapshot on loopback, lets cudalock, uv and pip
resolve the sets of the benchmark through it, and keeps each page and each METADATA that one of them asked for. Pages
come whole, as the index that pip is configured for serves them, through cudalock's own client. Left out is what nobody
looks at and what is made anew of the same length when it is served: URLs (relative then), the hashes of files that no
tool asked for, and of METADATA all that has no part in resolving (descriptions).
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping
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


class Upstream:
    """Fetches what the snapshot lacks from the index that pip is configured for."""

    def __init__(self, snapshot: Snapshot) -> None:
        from cudalock.index import IndexSettings, main_index_url
        from cudalock.index.credentials import CredentialStore
        from cudalock.index.fetch import Fetcher
        from cudalock.progress import SILENT

        self._snapshot = snapshot
        self._main = main_index_url(None, os.environ, None)
        given = [(self._main.url, self._main.credentials)] if self._main.credentials else []
        self._fetcher = Fetcher(IndexSettings(), CredentialStore(given, os.environ), reporter=SILENT)
        self._urls: dict[str, str] = {}

    def add_page(self, project: str) -> bool:
        """Adds a project's page; False if the index does not know it."""
        from cudalock.index.simple import ACCEPT_ANY

        url = f"{self._main.url.rstrip('/')}/{project}/"
        answer = self._fetcher.get(url, headers={"Accept": ACCEPT_ANY}, limit=10**8, accept=frozenset({404}))
        if answer.status != 200:
            return False
        page = json.loads(answer.body)
        from urllib.parse import urljoin

        self._urls |= {f["hashes"]["sha256"]: urljoin(answer.url, f["url"]).partition("#")[0] for f in page["files"]}
        self._snapshot.add_page(project, page)
        return True

    def add_metadata(self, sha256: str, filename: str) -> bool:
        """Adds a wheel's METADATA: its sidecar, else by ranged reads."""
        from cudalock.index.lazy_zip import RemoteFile
        from cudalock.index.wheel import read_wheel_metadata

        url = self._urls.get(sha256)
        if url is None or not filename.endswith(".whl"):
            return False
        answer = self._fetcher.get(url + ".metadata", limit=10**8, accept=frozenset({403, 404, 410}))
        if answer.status == 200:
            content = answer.body
        else:
            with RemoteFile(url, self._fetcher) as remote:
                content = read_wheel_metadata(remote, filename)
        self._snapshot.metadata[sha256] = _for_resolving(content)
        return True


def _record() -> Iterator[str]:
    from benchmarks.server import Server
    from benchmarks.tools import SETS, tools

    snapshot = Snapshot()
    with Server(snapshot, upstream=Upstream(snapshot)) as server:
        for set_name, requirements in SETS.items():
            for tool in tools():
                for python in tool.recorded_pythons:
                    outcome = tool.run(requirements, server.index_url, python=python)
                    yield f"{set_name} {tool.name} {python}: exit {outcome.status}, {len(snapshot.pages)} pages"
                    if outcome.status:
                        yield outcome.output[-800:]
    snapshot.save()
    counts = f"{len(snapshot.pages)} pages, {len(snapshot.metadata)} METADATA"
    yield f"{SNAPSHOT.name}: {SNAPSHOT.stat().st_size} bytes, {counts}"


if __name__ == "__main__":
    for line in _record():
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
