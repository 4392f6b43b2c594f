"""A proxy before the fake index that misbehaves on order: at the level of bytes, where an HTTP library would not."""

from __future__ import annotations

import functools
import gzip
import http.client
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

__all__ = [
    "Exchange", "Fault", "Misbehaving", "closes", "elsewhere", "flipped", "gzip_bomb", "html_with_200", "long_body",
    "loops", "misbehaving", "range_ignored", "resets_midway", "short_body", "stalls", "status", "stops_midway",
    "wrong_range", "wrong_type",
]  # fmt: skip

_HOP = frozenset({"connection", "content-length", "transfer-encoding", "keep-alive", "date", "server"})


@dataclass
class Exchange:
    """One request, and what the index answers to it."""

    connection: socket.socket
    target: str
    asked: dict[str, str]
    status: int
    headers: dict[str, str]
    body: bytes

    def send(
        self,
        body: bytes | None = None,
        *,
        status: int | None = None,
        length: int | None = None,
        only: int | None = None,
        **headers: str,
    ) -> None:
        """Sends the answer; ``length`` is what it claims to have, ``only`` how many bytes of it are sent."""
        content = self.body if body is None else body
        lines = [f"HTTP/1.1 {status or self.status} x", "Connection: close"]
        lines.append(f"Content-Length: {len(content) if length is None else length}")
        changed = {name.replace("_", "-").lower(): value for name, value in headers.items()}
        kept = {name: value for name, value in self.headers.items() if name not in _HOP} | changed
        lines += [f"{name}: {value}" for name, value in kept.items() if value]
        self.connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + content[:only])


Fault = Callable[[Exchange], None]


def status(code: int, **headers: str) -> Fault:
    """Answers with a status and no content."""
    return lambda exchange: exchange.send(b"x", status=code, **headers)  # type: ignore[arg-type]


def stalls(seconds: float) -> Fault:
    """Says nothing for so long, then answers as it should."""

    def fault(exchange: Exchange) -> None:
        time.sleep(seconds)
        exchange.send()

    return fault


def stops_midway(exchange: Exchange) -> None:
    """Sends half of the body and then nothing, the connection open."""
    exchange.send(only=len(exchange.body) // 2)
    time.sleep(1)


def resets_midway(exchange: Exchange) -> None:
    """Sends half of the body, then resets the connection."""
    exchange.send(only=len(exchange.body) // 2)
    time.sleep(0.02)
    exchange.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def closes(exchange: Exchange) -> None:
    """Closes the connection without a word."""


def short_body(exchange: Exchange) -> None:
    """Sends less than it announced and closes in good order."""
    exchange.send(only=len(exchange.body) // 2)


def long_body(exchange: Exchange) -> None:
    """Sends more than the file has, and says so."""
    exchange.send(exchange.body + b"more" * 1000)


def flipped(exchange: Exchange) -> None:
    """Sends other bytes of the same length."""
    exchange.send(bytes(byte ^ 1 for byte in exchange.body))


def wrong_type(exchange: Exchange) -> None:
    """Says that it is a picture."""
    exchange.send(content_type="image/png")


def html_with_200(exchange: Exchange) -> None:
    """The page of a hotel's network: status 200 and a form."""
    page = b"<html><body><form>please log in</form></body></html>"
    exchange.send(page, status=200, content_type="text/html", content_range="")


def gzip_bomb(exchange: Exchange) -> None:
    """A small answer that inflates to 100 MB."""
    exchange.send(_bomb(), content_encoding="gzip")


@functools.cache
def _bomb() -> bytes:
    return gzip.compress(b" " * 100_000_000, 1)


def loops(exchange: Exchange) -> None:
    """Redirects to itself."""
    exchange.send(b"", status=302, location=exchange.target)


def elsewhere(url: str) -> Fault:
    """Redirects to the same path on another host."""
    return lambda exchange: exchange.send(b"", status=302, location=url + exchange.target)


def range_ignored(exchange: Exchange) -> None:
    """Meant for upstreams without ranges: what comes is the whole file."""
    exchange.send(content_range="", accept_ranges="")


def wrong_range(exchange: Exchange) -> None:
    """Answers a range request with another part."""
    if exchange.status != 206:
        exchange.send()
        return
    size = exchange.headers["content-range"].rpartition("/")[2]
    exchange.send(b"x" * 100, status=206, content_range=f"bytes 7-106/{size}")


@dataclass
class Misbehaving:
    """``order`` says what goes wrong; ``asked`` are the targets of all requests, ``heads`` their headers."""

    url: str
    upstream: str
    asked: list[str] = field(default_factory=list)
    heads: list[dict[str, str]] = field(default_factory=list)
    _rules: list[tuple[str, list[Fault], bool]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def order(self, part: str, *faults: Fault, always: bool = False) -> None:
        """The next requests whose target contains ``part`` get one fault each; ``always``: the last one for ever."""
        self._rules.append((part, list(faults), always))

    def obey(self) -> None:
        """Everything is as it should be from now on."""
        self._rules.clear()

    def count(self, part: str) -> int:
        """How many requests had ``part`` in their target."""
        return sum(part in target for target in self.asked)

    def _fault(self, target: str) -> Fault | None:
        with self._lock:
            for part, faults, always in self._rules:
                if part in target and faults:
                    return faults[0] if always and len(faults) == 1 else faults.pop(0)
        return None

    def handle(self, connection: socket.socket) -> None:
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                part = connection.recv(65536)
                if not part:
                    return
                head += part
            first, *lines = head.decode("latin-1").split("\r\n\r\n", maxsplit=1)[0].split("\r\n")
            target = first.split(" ")[1]
            asked = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            with self._lock:
                self.asked.append(target)
                self.heads.append(asked)
            exchange = self._ask(connection, target, asked)
            (self._fault(target) or Exchange.send)(exchange)

    def _ask(self, connection: socket.socket, target: str, asked: dict[str, str]) -> Exchange:
        host = urlsplit(self.upstream)
        upstream = http.client.HTTPConnection(host.hostname or "", host.port, timeout=10)
        try:
            sent = {name: value for name, value in asked.items() if name not in {"host", "connection"}}
            upstream.request("GET", target, headers=sent)
            answer = upstream.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return Exchange(connection, target, asked, answer.status, headers, answer.read())
        finally:
            upstream.close()


@contextmanager
def misbehaving(upstream: str) -> Iterator[Misbehaving]:
    """Serves on loopback, in front of ``upstream``."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=100)
    server = Misbehaving(f"http://127.0.0.1:{listener.getsockname()[1]}", upstream)

    def handle(connection: socket.socket) -> None:
        try:
            server.handle(connection)
        except OSError:
            return  # the client went away, which is what such tests are about

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=handle, args=[connection], daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
