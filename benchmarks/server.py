"""A package index on loopback that serves a snapshot, waits as long as a chosen network would, and counts.

It runs in a process of its own when it is timed (``python -m benchmarks.server``), so that it takes no time from the
interpreter that is measured; while recording it runs in a thread, and what is missing comes from upstream.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
import sys
import threading
import urllib.request
from types import TracebackType
from typing import Any, Protocol, Self

from benchmarks.process import IndexProcess
from benchmarks.snapshot import Snapshot, SparseWheel

__all__ = ["Server", "ServerProcess"]

_JSON = "application/vnd.pypi.simple.v1+json"
_FILE = re.compile(r"/files/([0-9a-f]{2})/([0-9a-f]{2})/([0-9a-f]{60})/([^/]+)")


class Upstream(Protocol):
    """Where a snapshot gets what it lacks from; each says whether there was something."""

    def add_page(self, project: str) -> bool: ...
    def add_metadata(self, sha256: str, filename: str) -> bool: ...


class Server:
    """The index; use it as a context manager.

    Args:
        snapshot: what is served.
        rtt_s: seconds that every answer is held back.
        sidecars: whether METADATA is announced and served beside wheels (PEP 658).
        upstream: where what the snapshot lacks comes from, while recording.
    """

    def __init__(
        self, snapshot: Snapshot, *, rtt_s: float = 0.0, sidecars: bool = True, upstream: Upstream | None = None
    ) -> None:
        self.snapshot, self.rtt_s, self.sidecars, self.upstream = snapshot, rtt_s, sidecars, upstream
        self.counts = {
            "requests": 0,
            "pages": 0,
            "metadata": 0,
            "ranges": 0,
            "missing": 0,
            "bytes": 0,
            "connections": 0,
        }
        self._pages: dict[tuple[str, bool], tuple[bytes, bytes]] = {}
        self._wheels: dict[str, SparseWheel | None] = {}
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self.port = 0

    @property
    def index_url(self) -> str:
        """The address of the index."""
        return f"http://127.0.0.1:{self.port}/simple/"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.run, daemon=True)
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def prepare(self) -> None:
        """Compresses every page beforehand: an index serves its pages from a cache."""
        for project in self.snapshot.pages:
            self._page(project)

    def run(self) -> None:
        """Serves until the loop is stopped."""
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.counts["connections"] += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode("latin-1").split("\r\n")
                method, path, _ = first.split(" ", 2)
                headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines) if k}
                if length := int(headers.get("content-length", "0")):
                    await reader.readexactly(length)
                if path.startswith("/-/"):
                    status, extra, body = self._control(path)
                else:
                    if self.rtt_s:
                        await asyncio.sleep(self.rtt_s)
                    status, extra, body = await self._answer(path, headers, head_only=method == "HEAD")
                    self.counts["requests"] += 1
                    self.counts["bytes"] += 0 if method == "HEAD" else len(body)
                extra.setdefault("Content-Length", str(len(body)))
                text = f"HTTP/1.1 {status} X\r\n" + "".join(f"{k}: {v}\r\n" for k, v in extra.items()) + "\r\n"
                writer.write(text.encode("latin-1") + (b"" if method == "HEAD" else body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _control(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """``/-/counts`` and ``/-/set?rtt_s=0.02&sidecars=1``, which also sets the counts to zero."""
        if path.startswith("/-/set"):
            given = dict(pair.split("=") for pair in path.partition("?")[2].split("&"))
            self.rtt_s, self.sidecars = float(given["rtt_s"]), given["sidecars"] == "1"
            self.counts = dict.fromkeys(self.counts, 0)
        return 200, {"Content-Type": "application/json"}, json.dumps(self.counts).encode()

    async def _answer(
        self, path: str, headers: dict[str, str], *, head_only: bool
    ) -> tuple[int, dict[str, str], bytes]:
        if path.startswith("/simple/"):
            return await self._answer_page(path.removeprefix("/simple/").strip("/"), headers)
        match = _FILE.fullmatch(path.removesuffix(".metadata"))
        if match is None:
            return self._missing()
        sha256, filename = "".join(match.groups()[:3]), match[4]
        if self.upstream is not None and sha256 not in self.snapshot.metadata:
            await self._loop.run_in_executor(None, self.upstream.add_metadata, sha256, filename)
        if path.endswith(".metadata"):
            content = self.snapshot.sidecar(sha256) if self.sidecars or self.upstream is not None else None
            self.counts["metadata"] += 1
            forever = {"Content-Type": "application/octet-stream", "Cache-Control": "max-age=365000000, immutable"}
            return (200, forever, content) if content is not None else self._missing()
        return self._answer_wheel(sha256, filename, headers, head_only=head_only)

    async def _answer_page(self, project: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        self.counts["pages"] += 1
        if project not in self.snapshot.pages and self.upstream is not None:
            await self._loop.run_in_executor(None, self.upstream.add_page, project)
        if project not in self.snapshot.pages:
            return self._missing()
        plain, compressed = self._page(project)
        tag = f'"{hashlib.md5(plain, usedforsecurity=False).hexdigest()}"'
        extra = {"Content-Type": _JSON, "ETag": tag, "Cache-Control": "max-age=600, public", "Vary": "Accept"}
        if headers.get("if-none-match") == tag:
            return 304, extra, b""
        if "gzip" in headers.get("accept-encoding", ""):
            return 200, {**extra, "Content-Encoding": "gzip"}, compressed
        return 200, extra, plain

    def _page(self, project: str) -> tuple[bytes, bytes]:
        key = project, self.sidecars
        if self.upstream is not None:  # what has a sidecar changes while recording
            plain = self.snapshot.page(project, sidecars=True, recording=True)
            return plain, gzip.compress(plain, 1)
        if key not in self._pages:
            plain = self.snapshot.page(project, sidecars=self.sidecars)
            self._pages[key] = plain, gzip.compress(plain, 6)
        return self._pages[key]

    def _answer_wheel(
        self, sha256: str, filename: str, headers: dict[str, str], *, head_only: bool
    ) -> tuple[int, dict[str, str], bytes]:
        if sha256 not in self._wheels:
            self._wheels[sha256] = self.snapshot.wheel(sha256, filename)
        wheel = self._wheels[sha256]
        if wheel is None:
            return self._missing()
        self.counts["ranges"] += 1
        extra = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes", "ETag": f'"{sha256}"'}
        if head_only:
            return 200, {**extra, "Content-Length": str(wheel.size)}, b""
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", headers.get("range", ""))
        if wanted is None:
            return 200, extra, wheel.read(0, wheel.size)
        if wanted[1]:
            start, stop = int(wanted[1]), min(int(wanted[2] or wheel.size - 1) + 1, wheel.size)
        else:
            start, stop = max(wheel.size - int(wanted[2]), 0), wheel.size
        if start >= stop:
            return 416, {"Content-Range": f"bytes */{wheel.size}"}, b""
        return 206, {**extra, "Content-Range": f"bytes {start}-{stop - 1}/{wheel.size}"}, wheel.read(start, stop)

    def _missing(self) -> tuple[int, dict[str, str], bytes]:
        self.counts["missing"] += 1
        return 404, {"Content-Type": "text/plain"}, b"not here"


class ServerProcess(IndexProcess):
    """A :class:`Server` in a process of its own; use it as a context manager."""

    def __init__(self) -> None:
        super().__init__("benchmarks.server")

    def set(self, *, rtt_s: float, sidecars: bool) -> None:
        """Chooses the network and sets the counts to zero."""
        self._ask(f"set?rtt_s={rtt_s}&sidecars={int(sidecars)}")

    def counts(self) -> dict[str, int]:
        """What was asked since :meth:`set`."""
        return self._ask("counts")

    def _ask(self, what: str) -> dict[str, Any]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.port}/-/{what}") as answer:
            found: dict[str, Any] = json.load(answer)
        return found


def _main() -> None:
    server = Server(Snapshot.load())
    for server.sidecars in (False, True):
        server.prepare()
    threading.Thread(target=server.run).start()
    server._started.wait()  # noqa: SLF001 - its own process
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main()
