"""A server that sends exactly the bytes it is told, for faults that no HTTP library would produce."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["RawServer", "answer", "drip", "raw_server"]

Script = Callable[[socket.socket], None]


@dataclass
class RawServer:
    """One script per connection, in order; the last one is repeated. ``requests`` holds the raw request heads."""

    url: str
    requests: list[bytes] = field(default_factory=list)


def answer(
    body: bytes, *, status: str = "200 OK", length: int | None = None, headers: str = "", then: Script | None = None
) -> Script:
    """A script that sends a response; ``length`` is what it claims, ``then`` runs before the connection is closed."""

    def script(connection: socket.socket) -> None:
        claimed = len(body) if length is None else length
        head = f"HTTP/1.1 {status}\r\nContent-Length: {claimed}\r\nConnection: close\r\n{headers}\r\n"
        connection.sendall(head.encode() + body)
        if then is not None:
            then(connection)

    return script


def drip(connection: socket.socket) -> None:
    """One byte now and then, for ever: within the time limit of every single read."""
    for _ in range(600):
        try:
            connection.sendall(b"x")
        except OSError:
            return
        time.sleep(0.05)


@contextmanager
def raw_server(*scripts: Script) -> Iterator[RawServer]:
    """Serves the scripts on loopback."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = RawServer(f"http://127.0.0.1:{listener.getsockname()[1]}")

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=handle, args=[connection], daemon=True).start()

    def handle(connection: socket.socket) -> None:
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                part = connection.recv(65536)
                if not part:
                    return
                head += part
            server.requests.append(head)
            script = scripts[min(len(server.requests), len(scripts)) - 1]
            try:
                script(connection)
            except OSError:
                return  # the client went away, which may be what the test is about

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
