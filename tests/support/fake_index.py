"""A package index for tests: one WSGI application that speaks both dialects.

It serves two trees, so that one server stands for the main index and for the PyTorch index:

* ``/simple/NAME/`` (``index.main_url``): PEP 691 JSON or PEP 503 HTML, as the client asks; files under ``/files/``.
* ``/whl/LABEL/NAME/`` (``index.pytorch_url``): HTML only, with the habits of the PyTorch index: root-relative hrefs
  or another host's, ``%2B`` for ``+``, sha256 in the fragment or absent, 403 for what is unknown, files of the root
  listed on every label's page, ``/whl/NAME/`` listing all labels' files.

Mount it with ``httpx.WSGITransport(app=index)`` (every host then leads here) or serve it on loopback::

    index = FakeIndex()
    index.add_wheel("demo", "1.0", requires=["torch"])
    index.add_wheel("torch", "2.9.0+cu128", label="cu128", platform="manylinux_2_28_x86_64")
    with index.serve() as url:                 # http://127.0.0.1:PORT
        ...                                    # url + "/simple/", url + "/whl"
    assert index.paths() == [...]
"""

from __future__ import annotations

import hashlib
import html
import io
import json
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, unquote

from packaging.utils import canonicalize_name
from werkzeug.exceptions import RequestedRangeNotSatisfiable
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

from support.wheels import make_wheel

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

__all__ = ["FakeFile", "FakeIndex", "LoggedRequest"]

Sidecar = Literal["present", "wrong-hash", "unhashed", "missing", "absent"]
UPLOADED = datetime(2026, 1, 1, tzinfo=UTC)
ROOT = ""  # the label of files that lie directly under /whl/


@dataclass(kw_only=True)
class FakeFile:
    """One file. ``label`` None: on the main index; ``""``: in the root of the PyTorch index; else in that label.

    ``sidecar``: ``present`` (announced with its hash), ``wrong-hash`` (announced with another's), ``unhashed``
    (announced as ``true``), ``missing`` (announced, answers 404), ``absent`` (not announced).
    """

    filename: str
    content: bytes
    project: str
    label: str | None = None
    sha256: str | None = None
    yanked: bool | str = False
    requires_python: str | None = None
    upload_time: datetime | None = UPLOADED
    sidecar: Sidecar = "present"
    sidecar_content: bytes | None = None
    host: str | None = None
    announce_size: bool = True

    @property
    def path(self) -> str:
        """The path under which it is served, not escaped."""
        if self.label is None:
            return f"/files/{self.filename}"
        return f"/whl/{self.label}/{self.filename}" if self.label else f"/whl/{self.filename}"

    @property
    def metadata(self) -> bytes | None:
        """What the sidecar holds: the wheel's own METADATA unless ``sidecar_content`` is given."""
        if self.sidecar_content is not None:
            return self.sidecar_content
        if not self.filename.endswith(".whl"):
            return None
        try:
            with zipfile.ZipFile(io.BytesIO(self.content)) as archive:
                names = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
                return archive.read(names[0]) if names else None
        except zipfile.BadZipFile:
            return None


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request that arrived: ``range`` is the raw Range header, ``authorization`` the raw header."""

    method: str
    path: str
    range: str | None
    status: int
    sent: int
    host: str
    authorization: str | None = None
    if_none_match: str | None = None


Fault = Callable[[Request], Response | None]


@dataclass
class FakeIndex:
    """See the module's text. All switches may be changed between requests.

    Attributes:
        json: False makes the main index speak HTML only.
        sidecars: False announces and serves none.
        ranges: ``all``; ``no-suffix`` refuses ``bytes=-N`` with 501; ``none`` ignores Range.
        hashes: False announces no sha256 of files.
        pytorch_host: base of the hrefs on PyTorch pages, e.g. ``https://download-r2.pytorch.org``; "" = root-relative.
        cache_control: header of pages; files are ``immutable``.
        credentials: (user, password) without which every answer is 401.
    """

    json: bool = True
    sidecars: bool = True
    ranges: Literal["all", "no-suffix", "none"] = "all"
    hashes: bool = True
    pytorch_host: str = ""
    cache_control: str = "no-cache"
    credentials: tuple[str, str] | None = None
    host: str = "https://index.example"
    files: list[FakeFile] = field(default_factory=list)
    requests: list[LoggedRequest] = field(default_factory=list)
    _faults: list[tuple[str, list[Fault]]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    # -- what it holds

    def add(self, filename: str, content: bytes, *, project: str | None = None, **options: Any) -> FakeFile:
        """Adds a file; ``options`` are the fields of :class:`FakeFile`."""
        project = canonicalize_name(project or filename.partition("-")[0])
        file = FakeFile(filename=filename, content=content, project=project, **options)
        self.files.append(file)
        return file

    def add_wheel(self, name: str, version: str, **options: Any) -> FakeFile:
        """Makes a wheel with :func:`make_wheel` and adds it; ``options`` may be those of either."""
        own = {key: options.pop(key) for key in list(options) if key in FakeFile.__dataclass_fields__}
        requires_python = own.pop("requires_python", None)
        filename, content = make_wheel(name, version, requires_python=requires_python, **options)
        return self.add(filename, content, project=name, requires_python=requires_python, **own)

    @property
    def main_url(self) -> str:
        """URL of the main index, with a final slash."""
        return f"{self.host}/simple/"

    @property
    def pytorch_url(self) -> str:
        """Base URL of the PyTorch index, without a label."""
        return f"{self.host}/whl"

    # -- what was asked of it

    def paths(self, *, containing: str = "") -> list[str]:
        """The paths of all requests so far, in order of arrival."""
        return [request.path for request in self.requests if containing in request.path]

    def misbehave(self, path_part: str, *faults: Fault | int) -> None:
        """The next requests whose path contains ``path_part`` are answered by ``faults``, one each, in order.

        A number is a status; a callable returns a response, or None to let the request through.
        """
        steps = [fault if callable(fault) else _status(fault) for fault in faults]
        self._faults.append((path_part, steps))

    # -- serving

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        request = Request(environ)
        response = self._fault(request) or self._answer(request)
        length = response.headers.get("Content-Length")
        logged = LoggedRequest(
            method=request.method,
            path=request.path,
            range=request.headers.get("Range"),
            status=response.status_code,
            sent=int(length) if length else 0,
            host=request.host,
            authorization=request.headers.get("Authorization"),
            if_none_match=request.headers.get("If-None-Match"),
        )
        with self._lock:
            self.requests.append(logged)
        return response(environ, start_response)

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Serves on 127.0.0.1 in threads and yields the base URL, which also becomes ``host``."""
        server = make_server("127.0.0.1", 0, self, threaded=True, request_handler=_QuietHandler)
        server.daemon_threads = True  # type: ignore[attr-defined] # a stalled request must not hold up the end of a test
        server.block_on_close = False  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        previous, self.host = self.host, f"http://127.0.0.1:{server.server_port}"
        try:
            yield self.host
        finally:
            self.host = previous
            server.shutdown()
            thread.join()
            server.server_close()

    def _fault(self, request: Request) -> Response | None:
        with self._lock:
            for part, steps in self._faults:
                if part in request.path and steps:
                    return steps.pop(0)(request)
        return None

    def _answer(self, request: Request) -> Response:
        if self.credentials is not None:
            given = request.authorization
            if given is None or (given.username, given.password) != self.credentials:
                return Response("who are you?", 401, {"WWW-Authenticate": 'Basic realm="index"'})
        parts = request.path.strip("/").split("/")
        if parts[0] == "simple" and len(parts) == 2:
            return self._main_page(request, parts[1])
        if parts[0] == "whl" and request.path.endswith("/") and len(parts) in (2, 3):
            return self._pytorch_page(request, parts[1] if len(parts) == 3 else None, parts[-1])
        return self._file(request)

    # -- pages

    def _main_page(self, request: Request, project: str) -> Response:
        files = [file for file in self.files if file.label is None and file.project == project]
        if not files:
            return Response("not found", 404)
        kind = "application/vnd.pypi.simple.v1+json"
        if self.json and kind in request.headers.get("Accept", ""):
            entries = [self._json_entry(file) for file in files]
            page = {"meta": {"api-version": "1.1"}, "name": project, "files": entries, "versions": []}
            return self._page(request, json.dumps(page), kind)
        return self._page(request, self._html(project, files, pytorch=False), "text/html")

    def _pytorch_page(self, request: Request, label: str | None, project: str) -> Response:
        everywhere = [file for file in self.files if file.label is not None and file.project == project]
        files = [file for file in everywhere if label is None or file.label in (label, ROOT)]
        if not files:
            return Response("<Error><Code>AccessDenied</Code></Error>", 403, content_type="application/xml")
        return self._page(request, self._html(project, files, pytorch=True), "text/html")

    def _page(self, request: Request, text: str, kind: str) -> Response:
        response = Response(text, content_type=kind)
        response.headers["Cache-Control"] = self.cache_control
        response.headers["Vary"] = "Accept"
        response.add_etag()
        return response.make_conditional(request.environ)

    def _sha256(self, file: FakeFile) -> str | None:
        if not self.hashes:
            return None
        return file.sha256 if file.sha256 is not None else hashlib.sha256(file.content).hexdigest()

    def _sidecar_hash(self, file: FakeFile) -> str | Literal[True] | None:
        """None: not announced; True: announced without a hash."""
        metadata = file.metadata
        if not self.sidecars or file.sidecar == "absent" or metadata is None:
            return None
        if file.sidecar == "unhashed":
            return True
        return hashlib.sha256(b"other" if file.sidecar == "wrong-hash" else metadata).hexdigest()

    def _json_entry(self, file: FakeFile) -> dict[str, object]:
        sha256 = self._sha256(file)
        entry: dict[str, object] = {
            "filename": file.filename,
            "url": (file.host or "") + quote(file.path),
            "hashes": {"sha256": sha256} if sha256 else {},
            "yanked": file.yanked,
        }
        if file.requires_python is not None:
            entry["requires-python"] = file.requires_python
        if file.announce_size:
            entry["size"] = len(file.content)
        if file.upload_time is not None:
            entry["upload-time"] = file.upload_time.isoformat().replace("+00:00", "Z")
        sidecar = self._sidecar_hash(file)
        if sidecar is not None:
            entry["core-metadata"] = sidecar if sidecar is True else {"sha256": sidecar}
        return entry

    def _html(self, project: str, files: Iterable[FakeFile], *, pytorch: bool) -> str:
        lines = ["<!DOCTYPE html>", "<html>"]
        if not pytorch:
            lines.append('  <head><meta name="pypi:repository-version" content="1.1"></head>')
        lines += ["  <body>", f"    <h1>Links for {html.escape(project)}</h1>"]
        lines += [self._anchor(file, pytorch=pytorch) for file in files]
        lines += ["  </body>", "</html>"]
        if pytorch:
            lines.append("<!--TIMESTAMP 1767225600-->")
        return "\n".join(lines) + "\n"

    def _anchor(self, file: FakeFile, *, pytorch: bool) -> str:
        base = file.host if file.host is not None else self.pytorch_host if pytorch else ""
        sha256 = self._sha256(file)
        attributes = {"href": base + quote(file.path) + (f"#sha256={sha256}" if sha256 else "")}
        sidecar = self._sidecar_hash(file)
        if sidecar is not None:
            value = "true" if sidecar is True else f"sha256={sidecar}"
            attributes |= {"data-dist-info-metadata": value, "data-core-metadata": value}
        if file.requires_python is not None:
            attributes["data-requires-python"] = file.requires_python
        if file.yanked is not False:
            attributes["data-yanked"] = "" if file.yanked is True else file.yanked
        if pytorch and file.upload_time is not None:
            attributes["data-upload-time"] = file.upload_time.isoformat().replace("+00:00", "Z")
        text = " ".join(f'{key}="{html.escape(value)}"' for key, value in attributes.items())
        return f"    <a {text}>{html.escape(file.filename)}</a><br/>"

    # -- files

    def _file(self, request: Request) -> Response:
        path = unquote(request.path)
        for file in self.files:
            if path == file.path:
                return self._bytes(request, file.content, "application/octet-stream")
            if path == file.path + ".metadata" and self._sidecar_hash(file) is not None and file.sidecar != "missing":
                metadata = file.metadata
                return self._bytes(request, metadata or b"", "text/plain")
        return Response("not found", 403 if path.startswith("/whl/") else 404)

    def _bytes(self, request: Request, content: bytes, kind: str) -> Response:
        response = Response(content, content_type=kind)
        response.headers["Cache-Control"] = "max-age=365000000, immutable, public"
        response.add_etag()
        wanted = request.headers.get("Range", "")
        if self.ranges == "none":
            return response
        if self.ranges == "no-suffix" and wanted.startswith("bytes=-"):
            return Response("suffix ranges are not implemented", 501)
        if wanted.startswith("bytes=-") and content:
            # As real servers do, and werkzeug does not: a suffix longer than the file is the whole file.
            suffix = min(int(wanted.removeprefix("bytes=-")), len(content))
            request.environ["HTTP_RANGE"] = f"bytes=-{suffix}"
        try:
            return response.make_conditional(request.environ, accept_ranges=True, complete_length=len(content))
        except RequestedRangeNotSatisfiable as error:
            return Response(status=416, headers={"Content-Range": f"bytes */{error.length}"})


def _status(status: int, headers: Mapping[str, str] | None = None) -> Fault:
    return lambda _request: Response(f"status {status}", status, dict(headers or {}))


class _QuietHandler(WSGIRequestHandler):
    """Speaks HTTP/1.1 with kept-open connections and logs nothing."""

    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - werkzeug's own signature
        """Nothing: the index keeps its own log."""
