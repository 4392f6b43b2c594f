"""The faithful indexes over HTTP: a WSGI application for ``httpx.WSGITransport`` and for a loopback port.

Paths: ``/simple/`` and ``/packages/`` are the main index (JSON), ``/whl/`` the PyTorch index (its HTML, with all its
quirks) and ``/r2/whl/`` its second host. In-process the pages name the hosts as they really are; on a loopback port
(``serve``) every link leads back to the port, so that real uv and pip can follow them.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from wsgiref.simple_server import WSGIRequestHandler, make_server

from faithful.data import MAIN_FILES, PYTORCH_R2, FaithfulData, Row

__all__ = ["Asked", "FaithfulIndexes"]

_JSON = "application/vnd.pypi.simple.v1+json"
StartResponse = Callable[[str, list[tuple[str, str]]], Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as the log keeps it; ``project`` is set for pages, ``index`` is ``main`` or ``pytorch``."""

    method: str
    host: str
    path: str
    status: int
    index: str
    project: str | None = None


@dataclass
class FaithfulIndexes:
    """The WSGI application.

    Args:
        true_hashes: announce the hash of the small wheel that is really sent instead of the recorded one, so that uv
            and pip can install it.

    Attributes:
        log: every request, in order.
    """

    true_hashes: bool = False
    log: list[Asked] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.data = FaithfulData.load()
        self._loopback: str | None = None
        self._files: dict[str, Row] = {}
        for rows in self.data.main.values():
            self._files.update({row.path: row for row in rows})
        for pages in self.data.pytorch.values():
            for rows in pages.values():
                self._files.update({row.path: row for row in rows})

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Serves on a loopback port; gives the base URL (``BASE/simple/`` and ``BASE/whl``)."""
        with make_server("127.0.0.1", 0, self, handler_class=_Quiet) as server:
            self._loopback = f"http://127.0.0.1:{server.server_port}"
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield self._loopback
            finally:
                server.shutdown()
                thread.join()
                self._loopback = None

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path = quote(environ["PATH_INFO"].encode("latin-1"), safe="/!-_.~")
        path = path.removeprefix("/r2")
        status, headers, body, project = self._answer(path, environ)
        index = "pytorch" if path.startswith("/whl") else "main"
        host = environ.get("HTTP_HOST", "")
        self.log.append(Asked(environ["REQUEST_METHOD"], host, path, int(status[:3]), index, project))
        headers.append(("Content-Length", str(len(body))))
        start_response(status, headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, path: str, environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes, str | None]:
        if match := re.fullmatch(r"/simple/([a-z0-9-]+)/", path):
            rows = self.data.main.get(match[1])
            if rows is None:
                return "404 Not Found", [], b"not found", match[1]
            return "200 OK", [("Content-Type", _JSON), *_fresh()], self._main_page(match[1], rows), match[1]
        if match := re.fullmatch(r"/whl/(?:([a-z]+[0-9.]*)/)?([a-z0-9_.-]+)/", path):
            label, project = match[1], match[2]
            body = self._pytorch_page(label, project)
            if body is None:  # S3 answers so for a key that does not exist
                return (
                    "403 Forbidden",
                    [("Content-Type", "application/xml")],
                    b"<Error><Code>AccessDenied</Code></Error>",
                    project,
                )
            return "200 OK", [("Content-Type", "text/html"), *_fresh()], body, project
        row = self._files.get(path.removesuffix(".metadata"))
        if row is None:
            return ("403 Forbidden" if path.startswith("/whl") else "404 Not Found"), [], b"not found", None
        if path.endswith(".metadata"):
            if row.sidecar == "no":
                return "404 Not Found", [], b"not found", None
            return "200 OK", [("Content-Type", "binary/octet-stream")], self.data.sidecar_text(row), None
        return (*_ranged(self.data.body(row), environ.get("HTTP_RANGE")), None)

    def _hash(self, row: Row) -> str | None:
        if self.true_hashes and row.sha256 is not None:
            return hashlib.sha256(self.data.body(row)).hexdigest()
        return row.sha256

    def _sidecar_hash(self, row: Row) -> str:
        return hashlib.sha256(self.data.metadata_text(row)).hexdigest()

    def _main_page(self, project: str, rows: tuple[Row, ...]) -> bytes:
        base = f"{self._loopback}/packages" if self._loopback else MAIN_FILES
        files = []
        for row in rows:
            digest, requires_python = self._hash(row), self.data.metadata[row.metadata].requires_python
            entry: dict[str, Any] = {
                "filename": row.filename,
                "url": f"{base}/{row.path.rsplit('/', 1)[1]}",
                "hashes": {"sha256": digest} if digest else {},
                "requires-python": requires_python,
                "size": len(self.data.body(row)) if self.true_hashes else 1_000_000,
                "yanked": False,
                "core-metadata": {"sha256": self._sidecar_hash(row)} if row.sidecar != "no" else False,
            }
            if row.time:
                entry["upload-time"] = _time(row.time)
            files.append(entry)
        versions = sorted({row.version for row in rows})
        page = {"meta": {"api-version": "1.4"}, "name": project, "versions": versions, "files": files}
        return json.dumps(page).encode()

    def _pytorch_page(self, label: str | None, project: str) -> bytes | None:
        rows = self.data.pytorch_rows(label, project)
        linked = self.data.linked_rows(label or "", project)
        if not rows and not linked:
            return None
        lines = ["<!DOCTYPE html>", "<html>", "  <body>", f"    <h1>Links for {project}</h1>"]
        lines += [self._pytorch_link(row) for row in rows] + [self._copied_link(row) for row in linked]
        lines += ["  </body>", "</html>", "<!--TIMESTAMP 1790000000-->"]
        return "\n".join(lines).encode()

    def _pytorch_link(self, row: Row) -> str:
        second = f"{self._loopback}/r2" if self._loopback else PYTORCH_R2
        digest = self._hash(row)
        attributes = ""
        if row.sidecar != "no":
            sidecar = f"sha256={self._sidecar_hash(row)}"
            attributes = f' data-dist-info-metadata="{sidecar}" data-core-metadata="{sidecar}"'
        if row.time:
            attributes += f' data-upload-time="{_time(row.time)}"'
        href = f"{second if row.r2 else ''}{row.path}{f'#sha256={digest}' if digest else ''}"
        return f'    <a href="{href}"{attributes}>{html.escape(row.filename)}</a><br/>'

    def _copied_link(self, row: Row) -> str:
        """A line of a mirrored page of the main index: absolute, with the attributes that such pages have."""
        base = f"{self._loopback}/packages" if self._loopback else MAIN_FILES
        requires_python = self.data.metadata[row.metadata].requires_python
        extra = f' data-requires-python="{html.escape(requires_python)}"' if requires_python else ""
        url = f"{base}/{row.path.rsplit('/', 1)[1]}#sha256={self._hash(row)}"
        return f'<a href="{url}"{extra}>{html.escape(row.filename)}</a><br />'


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        pass


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _fresh() -> list[tuple[str, str]]:
    return [("Cache-Control", "max-age=600, public, must-revalidate")]


def _ranged(body: bytes, header: str | None) -> tuple[str, list[tuple[str, str]], bytes]:
    headers = [("Content-Type", "binary/octet-stream"), ("Accept-Ranges", "bytes")]
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", header or "")
    if match is None or match.group() == "bytes=-":
        return "200 OK", headers, body
    if match[1]:
        start, end = int(match[1]), min(int(match[2]) if match[2] else len(body) - 1, len(body) - 1)
    else:
        start, end = max(len(body) - int(match[2]), 0), len(body) - 1
    if start > end:
        return "416 Range Not Satisfiable", [("Content-Range", f"bytes */{len(body)}")], b""
    headers.append(("Content-Range", f"bytes {start}-{end}/{len(body)}"))
    return "206 Partial Content", headers, body[start : end + 1]
