"""HTTP: the one module that knows httpx. Requests with retries, redirects, bounds and typed errors.

httpx is imported with the first request, so that a run which is answered from the disk cache does not pay for it.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urljoin, urlsplit

from cudalock import __version__
from cudalock.errors import TransportError
from cudalock.index.credentials import CredentialStore
from cudalock.index.discovery import pip_settings
from cudalock.index.http_errors import Retry, offline_miss, retry_after, translated, unreachable
from cudalock.index.packing import unpack
from cudalock.index.settings import IndexSettings, is_loopback
from cudalock.index.simple import shown_url
from cudalock.progress import Reporter

if TYPE_CHECKING:
    import httpx

__all__ = ["Answer", "Fetcher", "Stream"]

T = TypeVar("T")

_RETRY_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 8
_LONGEST_WAIT_S = 30.0
_SLOWEST_BYTES_PER_S = 500
_PROXY_VARIABLES = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A complete answer; ``url`` is the last one of its redirects, header names are in lower case.

    ``body`` is decoded; ``packed`` is what was sent if it was compressed with gzip and asked for.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    packed: bytes | None = field(default=None, repr=False)


class Stream:
    """An answer whose body is read piece by piece; must be closed."""

    def __init__(self, response: httpx.Response, fetcher: Fetcher, url: str, *, wanted: str, begun: float) -> None:
        self._response = response
        self._fetcher = fetcher
        self._chunks: Iterator[bytes] = response.iter_bytes()
        self._rest = b""
        self._begun = begun
        self._closed = False
        self._received = 0
        self._wanted = wanted
        self.url = url
        self.status = response.status_code
        self.headers: dict[str, str] = {key.lower(): value for key, value in response.headers.items()}

    def leave_packed(self) -> bool:
        """Leaves the body in gzip if it was sent so, and says whether; before anything is read."""
        if self.headers.get("content-encoding", "").strip().lower() not in {"gzip", "x-gzip"}:
            return False
        self._chunks = self._response.iter_raw()
        return True

    def read_some(self, size: int) -> bytes:
        """What has arrived, at least one byte and at most ``size``; empty at the end. Raises Retry."""
        if not self._rest:
            self._rest = self._next_chunk()
        part, self._rest = self._rest[:size], self._rest[size:]
        return part

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, fewer only at the end. Raises Retry if the connection fails (see Fetcher.retrying)."""
        parts, missing = [], size
        while missing > 0:
            part = self.read_some(missing)
            if not part:
                break
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _next_chunk(self) -> bytes:
        with translated(self.url, begun=True):
            chunk = next(self._chunks, b"")
        self._received += len(chunk)
        elapsed = time.monotonic() - self._begun
        # A server that drips keeps within the time limit of a single read for ever.
        if chunk and elapsed > 2 * self._fetcher.timeout_s and self._received < elapsed * _SLOWEST_BYTES_PER_S:
            raise Retry(unreachable(self.url, f"it sent {self._received} bytes in {elapsed:.0f} s"))
        return chunk

    def close(self) -> None:
        """Gives the connection back; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._response.close()
        seconds = time.monotonic() - self._begun
        self._fetcher.finished(self.url, self.status, self._wanted, self._response.num_bytes_downloaded, seconds)


class Fetcher:
    """Sends requests. Safe for threads: one connection pool for all.

    Args:
        settings: time limit, retries, certificates, proxy.
        credentials: who we are, per origin.
        reporter: hears of each request (``debug``) and of repeats (``info``).
        transport: an httpx transport instead of the network, for tests.
    """

    def __init__(
        self, settings: IndexSettings, credentials: CredentialStore, *, reporter: Reporter, transport: Any = None
    ) -> None:
        self._settings = settings
        self._credentials = credentials
        self._reporter = reporter
        self._transport = transport
        self._clients: dict[str, httpx.Client] = {}
        self._connecting = threading.Lock()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self.timeout_s = settings.timeout_s
        self.requests = 0
        self.retries = 0
        self.bytes = 0

    def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        limit: int,
        accept: frozenset[int] = frozenset(),
        packed: bool = False,
    ) -> Answer:
        """The whole answer.

        Args:
            url: absolute, without user info.
            headers: further request headers.
            limit: most bytes of the decoded body.
            accept: statuses beside 200 and 206 that are answers and not errors.
            packed: whether the answer is also wanted as it was sent, if that is in gzip.

        Raises:
            TransportError: ``index-unreachable``, ``index-http-error``, ``index-truncated``, ``index-too-large``, ...
        """

        def attempt() -> Answer:
            stream = self._open(url, headers or {}, accept)
            as_sent = packed and stream.leave_packed()
            try:
                sent = stream.read(limit + 1)
            finally:
                stream.close()
            with translated(url, begun=True):
                body = unpack(sent, limit + 1) if as_sent else sent
            if len(body) > limit:
                raise TransportError(
                    "index-too-large",
                    f"{shown_url(url)} answers with more than {limit} bytes",
                    hint="this is not what a package index serves; check the index URL",
                    details={"url": shown_url(url)},
                )
            kept = sent if as_sent else None
            return Answer(url=stream.url, status=stream.status, headers=stream.headers, body=body, packed=kept)

        return self.retrying(attempt)

    def stream(self, url: str, *, headers: Mapping[str, str], accept: frozenset[int] = frozenset()) -> Stream:
        """An opened answer; errors as in :meth:`get`."""
        return self.retrying(lambda: self._open(url, headers, accept))

    def retrying(self, attempt: Callable[[], T]) -> T:
        """Runs ``attempt`` until it does not fail in a way that passes; bounded by the settings."""
        repeats = 0
        while True:
            try:
                return attempt()
            except Retry as failure:
                wait_s = failure.wait_s if failure.wait_s is not None else _pause(repeats)
                error = failure.error
            if repeats >= self._settings.retries or wait_s > _LONGEST_WAIT_S:
                raise error
            repeats += 1
            with self._lock:
                self.retries += 1
            again = f"trying again in {wait_s:.1f} s ({repeats}/{self._settings.retries})"
            self._reporter.message("info", f"{error.message}; {again}")
            if self._closing.wait(wait_s):
                raise error

    def finished(self, url: str, status: int, wanted: str, size: int, seconds: float) -> None:
        """Counts one request and tells ``-v`` of it."""
        with self._lock:
            self.requests += 1
            self.bytes += size
        part = f" ({wanted})" if wanted else ""
        self._reporter.message("debug", f"GET {shown_url(url)}{part}: {status}, {size} bytes in {seconds:.3f} s")

    def close(self) -> None:
        """Closes all connections; waiting repeats give up."""
        self._closing.set()
        with self._lock:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    # -- one attempt

    def _open(self, url: str, headers: Mapping[str, str], accept: frozenset[int]) -> Stream:
        asked_keyring = False
        current = url
        for _ in range(_MAX_REDIRECTS + 1):
            authorization = self._credentials.header(current)
            stream = self._send(current, headers, authorization)
            if stream.status in _REDIRECT_STATUSES and "location" in stream.headers:
                stream.close()
                current = self._redirected(current, stream.headers["location"])
                continue
            if stream.status == 401 and not asked_keyring and self._credentials.after_refusal(current, authorization):
                stream.close()
                asked_keyring = True
                continue
            if stream.status in {200, 206} or stream.status in accept:
                return stream
            stream.close()
            raise self._refused(current, stream)
        raise TransportError(
            "index-http-error",
            f"{shown_url(url)} redirects more than {_MAX_REDIRECTS} times",
            hint="check the index URL; it redirects in a circle",
            details={"url": shown_url(url)},
        )

    def _send(self, url: str, headers: Mapping[str, str], authorization: str | None) -> Stream:
        if self._settings.offline:
            raise offline_miss(url)
        if not self._may_contact(url):
            host = urlsplit(url).hostname
            raise TransportError(
                "index-url-insecure",
                f"{shown_url(url)} is reached without encryption",
                hint=f"use an index that serves https:// links, or allow it with --allow-insecure-host {host}",
                details={"url": shown_url(url)},
            )
        if self._settings.allowed_hosts and urlsplit(url).hostname not in self._settings.allowed_hosts:
            raise TransportError(
                "host-not-allowed",
                f"{shown_url(url)} is on a host that allowed-hosts does not name",
                hint="add the host to allowed-hosts in [tool.cudalock], or use a mirror that is allowed",
                details={"url": shown_url(url)},
            )
        client = self._client(urlsplit(url).scheme)
        sent = {**headers, "Authorization": authorization} if authorization else headers
        begun = time.monotonic()
        with translated(url):
            request = client.build_request("GET", url, headers=sent)
            response = client.send(request, stream=True, auth=None, follow_redirects=False)
        return Stream(response, self, url, wanted=headers.get("Range", ""), begun=begun)

    def _redirected(self, url: str, location: str) -> str:
        try:
            target = urljoin(url, location)
            urlsplit(target)
        except ValueError:
            target = ""
        if not self._may_contact(target) or (is_loopback(target) and not is_loopback(url)):
            raise TransportError(
                "index-http-error",
                f"{shown_url(url)} redirects to {shown_url(target) or 'nothing usable'}, and that is not followed",
                hint="use the index's own https:// URL",
                details={"url": shown_url(url)},
            )
        return target.partition("#")[0]

    def _may_contact(self, url: str) -> bool:
        """Encrypted, or this machine, or a host that the user allows."""
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        plain = parts.scheme == "http" and (is_loopback(url) or host in self._settings.allow_insecure_hosts)
        return bool(host) and (parts.scheme == "https" or plain)

    def _refused(self, url: str, stream: Stream) -> Exception:
        status = stream.status
        hint = "see whether the index is healthy and try again"
        if status in {401, 403, 407}:
            hint = "give credentials in netrc, through keyring (UV_KEYRING_PROVIDER=subprocess), or in the index URL"
        elif status in {404, 410}:
            hint = "the index has changed or the URL is wrong; run again with --refresh"
        error = TransportError(
            "index-http-error",
            f"{shown_url(url)} answers with status {status}",
            hint=hint,
            details={"url": shown_url(url), "status": status},
        )
        if status in _RETRY_STATUSES:
            return Retry(error, retry_after(stream.headers.get("retry-after")))
        return error

    def warm_up(self, url: str) -> None:
        """Loads what requests to the URL will need, so that the first of them need not wait for it; sends nothing."""
        if not self._settings.offline:
            self._client(urlsplit(url).scheme)

    def _client(self, scheme: str) -> httpx.Client:
        client = self._clients.get(scheme)
        if client is not None:
            return client
        with self._connecting:
            if scheme not in self._clients:
                made = self._connect(scheme)
                with self._lock:
                    if not self._closing.is_set():
                        self._clients[scheme] = made
            if self._closing.is_set():
                raise TransportError("index-unreachable", "the index client is closed")
            return self._clients[scheme]

    def _connect(self, scheme: str) -> httpx.Client:
        module = _import_httpx()
        settings, timeout_s = self._settings, self._settings.timeout_s
        options: dict[str, Any] = {
            "timeout": module.Timeout(timeout_s, connect=min(timeout_s, 10.0), pool=600.0),
            "headers": {"User-Agent": f"cudalock/{__version__}"},
        }
        if self._transport is not None:
            return cast("httpx.Client", module.Client(transport=self._transport, **options))
        limits = module.Limits(max_connections=settings.connections, max_keepalive_connections=settings.connections)
        from cudalock.index.trust import no_certificates, trusted_certificates

        pip = pip_settings()
        proxy, bundle = settings.proxy or pip.proxy, settings.ca_bundle or pip.ca_bundle
        # Loading certificates takes as long as ten requests to a mirror on this machine, which needs none.
        through = proxy is not None or any(os.environ.get(name) for name in _PROXY_VARIABLES)
        needed = scheme != "http" or through or bundle is not None
        verify = trusted_certificates(bundle) if needed else no_certificates()
        return cast("httpx.Client", module.Client(limits=limits, verify=verify, proxy=proxy, **options))


def _import_httpx() -> Any:
    """Httpx without its command line, which takes half of the import: pygments, markdown and tables of rich."""
    if "httpx" not in sys.modules:
        sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # documented: the import then fails
    try:
        import httpx
    finally:
        if sys.modules.get("httpx._main", ...) is None:
            del sys.modules["httpx._main"]
    return httpx


def _pause(repeats: int) -> float:
    """Seconds before the next try: twice as long each time, spread so that not all threads come back at once."""
    return float(0.25 * 2**repeats * (1 + random.random()))  # noqa: S311 - no secret
