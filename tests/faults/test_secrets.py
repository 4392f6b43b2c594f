"""Passwords reach the index and nothing else; certificates and proxies are those that pip's and httpx's users name."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from werkzeug.serving import make_server

from cudalock.install.network import network_environment
from faults.certificates import Certificates, make_certificates
from faults.conftest import Cudalock, World
from faults.misbehaving import status
from support.fake_index import FakeIndex

SECRET = "hunter2-s3cret"
TARGET = ("--cpu",)


@pytest.fixture
def guarded(world: World) -> World:
    """The same world behind a password."""
    world.index.credentials = ("me", SECRET)
    return world


def with_secret(url: str) -> str:
    return url.replace("//", f"//me:{SECRET}@")


def netrc(world: World, home: Path) -> None:
    (home / ".netrc").write_text(f"machine 127.0.0.1 login me password {SECRET}\n")
    (home / ".netrc").chmod(0o600)


WAYS = ["url", "environment", "pip.conf", "uv", "project", "netrc", "keyring"]


@pytest.mark.parametrize("way", WAYS)
def test_secret_reaches_the_index_and_nothing_else(
    cudalock: Cudalock, guarded: World, scrubbed_environment: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Resolve, fetch and install, with every output, every file and every argument of uv looked at."""
    world, url = guarded, guarded.proxy.url + "/simple/"
    monkeypatch.delenv("CUDALOCK_INDEX_URL")
    arguments: tuple[str, ...] = ()
    allowed: set[Path] = set()
    if way == "url":
        arguments = ("--index-url", with_secret(url))
    elif way == "environment":
        monkeypatch.setenv("CUDALOCK_INDEX_URL", with_secret(url))
    elif way == "uv":
        monkeypatch.setenv("UV_DEFAULT_INDEX", with_secret(url))
    elif way == "pip.conf":
        file = scrubbed_environment / "pip.conf"
        file.write_text(f"[global]\nindex-url = {with_secret(url)}\n")
        monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
        allowed.add(file)
    elif way == "project":
        file = world.folder / "pyproject.toml"
        file.write_text(f'[tool.cudalock]\nindex-url = "{with_secret(url)}"\n')
        allowed.add(file)
    else:
        monkeypatch.setenv("CUDALOCK_INDEX_URL", url)
        if way == "netrc":
            netrc(world, scrubbed_environment)
            allowed.add(scrubbed_environment / ".netrc")
        else:
            program = scrubbed_environment / "bin" / "keyring"
            program.parent.mkdir()
            program.write_text(f'#!/bin/sh\ncase "$*" in *--mode*) echo me; esac\necho {SECRET}\n')
            program.chmod(0o755)
            allowed.add(program)
            monkeypatch.setenv("PATH", str(program.parent), prepend=":")
            monkeypatch.setenv("PIP_KEYRING_PROVIDER", "subprocess")
            monkeypatch.setenv("CUDALOCK_INDEX_URL", url.replace("//", "//me@"))
    said = ""
    for command in (("resolve", "alpha", *TARGET), ("fetch", "wheels")):
        for loud in ("-vv", "--json"):
            outcome = cudalock(*command, *arguments, loud)
            assert outcome.status == 0, outcome.out + outcome.err
            said += outcome.out + outcome.err
    if way != "url":
        arguments_of_uv = spy_on_uv(scrubbed_environment, monkeypatch)
        outcome = cudalock("install", "--venv", ".venv", "-vv")
        assert outcome.status == 0, outcome.out + outcome.err
        said += outcome.out + outcome.err + arguments_of_uv.read_text()
    assert SECRET not in said
    places = [world.folder, scrubbed_environment]
    written = [path for place in places for path in place.rglob("*") if path.is_file() and path not in allowed]
    assert len(written) > 3
    for path in written:
        assert SECRET.encode() not in path.read_bytes(), path


def spy_on_uv(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A uv that writes down its arguments and goes on as the real one."""
    from uv import find_uv_bin

    log = home / "arguments"
    program = home / "spy-uv"
    program.write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec {find_uv_bin()} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("cudalock.install.uv._beside_us", lambda: str(program))
    return log


@pytest.mark.parametrize("fault", [401, 403, 500])
@pytest.mark.parametrize("command", ["resolve", "fetch", "install"])
def test_errors_hold_no_secret(
    cudalock: Cudalock, guarded: World, monkeypatch: pytest.MonkeyPatch, command: str, fault: int
) -> None:
    monkeypatch.setenv("CUDALOCK_INDEX_URL", with_secret(guarded.proxy.url + "/simple/"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    assert cudalock("resolve", "alpha", *TARGET).status == 0
    guarded.proxy.order("/", status(fault), always=True)
    line = {
        "resolve": ("resolve", "alpha", *TARGET, "--upgrade"),
        "fetch": ("fetch", "w"),
        "install": ("install", "--venv", "v"),
    }
    for loud in ("-vv", "--json"):
        outcome = cudalock(
            *line[command], loud, CUDALOCK_DEBUG="1", CUDALOCK_CACHE_DIR=str(guarded.folder.parent / loud)
        )
        assert outcome.status in {3, 4}
        assert SECRET not in outcome.out + outcome.err


def test_wrong_password_names_the_ways(cudalock: Cudalock, guarded: World) -> None:
    outcome = cudalock(
        "resolve", "alpha", *TARGET, "--json", CUDALOCK_INDEX_URL=with_secret(guarded.proxy.url + "/simple/") + "x"
    )
    assert SECRET not in outcome.out
    outcome = cudalock("resolve", "alpha", *TARGET, "--json")
    assert (outcome.status, outcome.code) == (3, "index-http-error")
    assert "netrc" in outcome.json["error"]["hint"]


def test_bad_urls_with_secrets_are_shown_without(cudalock: Cudalock, world: World) -> None:
    for url in (f"ftp://me:{SECRET}@x/", f"http://me:{SECRET}@index.example/simple/", f"https://me:{SECRET}@[x/",
                f"https://nonesuch.invalid/simple/?token={SECRET}", f"https://me:{SECRET}@nonesuch.invalid/#{SECRET}"):  # fmt: skip
        for option in ("--index-url", "--pytorch-index-url"):
            for loud in ("-vv", "--json"):
                outcome = cudalock("resolve", "torch", *TARGET, option, url, "--require-pytorch-index", loud)
                assert outcome.status in {2, 3}, url
                assert SECRET not in outcome.out + outcome.err, url


def test_arguments_of_our_own_processes_hold_no_secret() -> None:
    """What ``ps`` shows of the keyring and of pip: names and addresses, not passwords."""
    from cudalock.index.credentials import Credentials

    assert SECRET not in repr(Credentials("me", SECRET))


# -- certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = make_certificates(tmp_path_factory.mktemp("certificates"))
    if made is None:
        pytest.skip("there is no openssl")
    return made


@contextlib.contextmanager
def serving_tls(index: FakeIndex, certificates: Certificates) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.chain, certificates.key)
    server = make_server("127.0.0.1", 0, index, threaded=True, ssl_context=context)
    server.daemon_threads = True  # type: ignore[attr-defined]
    server.block_on_close = False  # type: ignore[attr-defined]
    server.log = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def tls(world: World, certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with serving_tls(world.index, certificates) as url:
        monkeypatch.setenv("CUDALOCK_INDEX_URL", url + "/simple/")
        monkeypatch.setenv("CUDALOCK_TIMEOUT", "5")
        monkeypatch.setenv("UV_HTTP_RETRIES", "0")
        for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            monkeypatch.delenv(name, raising=False)
        yield url


def test_certificate_that_is_not_trusted(cudalock: Cudalock, world: World, tls: str) -> None:
    outcome = cudalock("resolve", "alpha", *TARGET, "--json")
    assert (outcome.status, outcome.code) == (3, "index-certificate-untrusted"), outcome.out
    assert "SSL_CERT_FILE" in outcome.json["error"]["hint"]
    assert tls in outcome.json["error"]["url"]
    assert world.index.requests == []
    assert world.listing() == {}


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE", "pip.conf"])
def test_bundles_are_used_by_us_and_by_the_installers(
    cudalock: Cudalock, world: World, tls: str, certificates: Certificates, scrubbed_environment: Path, variable: str
) -> None:
    environ = {variable: str(certificates.authority)}
    if variable == "pip.conf":
        (scrubbed_environment / "pip.conf").write_text(f"[global]\ncert = {certificates.authority}\n")
        environ = {"PIP_CONFIG_FILE": str(scrubbed_environment / "pip.conf")}
    outcome = cudalock("resolve", "alpha", *TARGET, "--json", **environ)
    assert outcome.status == 0, outcome.out
    assert cudalock("fetch", "wheels", **environ).status == 0
    outcome = cudalock("install", "--venv", ".venv", "--json", **environ)
    assert outcome.status == 0, outcome.out


def test_pip_as_installer_uses_the_bundle_too(
    cudalock: Cudalock, world: World, tls: str, certificates: Certificates
) -> None:
    environ = {"SSL_CERT_FILE": str(certificates.authority)}
    assert cudalock("resolve", "beta", *TARGET, **environ).status == 0
    outcome = cudalock("install", "--venv", ".venv", "--installer", "pip", "--json", **environ)
    assert outcome.status == 0, outcome.out


def test_installer_that_does_not_trust_says_what_to_do(
    cudalock: Cudalock, world: World, tls: str, certificates: Certificates
) -> None:
    assert cudalock("resolve", "beta", *TARGET, SSL_CERT_FILE=str(certificates.authority)).status == 0
    outcome = cudalock("install", "--venv", ".venv", "--json")
    assert (outcome.status, outcome.code) == (4, "uv-failed")
    assert "SSL_CERT_FILE" in outcome.json["error"]["hint"], outcome.out


# -- proxies


class Proxy:
    """A forward proxy that leads everything to one index and keeps what it was asked, line by line."""

    def __init__(self, index_url: str) -> None:
        self._upstream = urlsplit(index_url)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=50)
        self.port = self._listener.getsockname()[1]
        self.asked: list[str] = []
        self.heads: list[str] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._handle, args=[connection], daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                part = connection.recv(65536)
                if not part:
                    return
                head += part
            method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
            self.asked.append(f"{method} {target}")
            self.heads.append(head.decode("latin-1"))
            if method == "CONNECT":
                connection.sendall(b"HTTP/1.1 502 no\r\nContent-Length: 0\r\n\r\n")
                return
            path = urlsplit(target).path.encode()
            head = re.sub(rb"^(\S+) \S+ ", rb"\1 " + path.replace(b"\\", b"\\\\") + b" ", head)
            head = re.sub(rb"(?i)\r\n(proxy-)?connection:[^\r]*", b"", head).replace(
                b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"
            )
            with socket.create_connection((self._upstream.hostname or "", self._upstream.port or 80)) as upstream:
                upstream.sendall(head)
                while part := upstream.recv(65536):
                    connection.sendall(part)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def proxy(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    server = Proxy(world.index.host)
    monkeypatch.setenv("CUDALOCK_INDEX_URL", "http://index.example/simple/")
    monkeypatch.setenv("CUDALOCK_ALLOW_INSECURE_HOST", "index.example")
    monkeypatch.setenv("CUDALOCK_TIMEOUT", "5")
    monkeypatch.setenv("CUDALOCK_NO_PYTORCH_INDEX", "1")
    yield server
    server.close()


@pytest.mark.parametrize("way", ["HTTP_PROXY", "ALL_PROXY", "pip.conf", "PIP_PROXY"])
def test_proxies_are_used_by_us_and_by_uv(
    cudalock: Cudalock, world: World, proxy: Proxy, scrubbed_environment: Path, way: str
) -> None:
    url = f"http://user:{SECRET}@127.0.0.1:{proxy.port}"
    environ = {way: url}
    if way == "pip.conf":
        (scrubbed_environment / "pip.conf").write_text(f"[global]\nproxy = {url}\n")
        environ = {"PIP_CONFIG_FILE": str(scrubbed_environment / "pip.conf")}
    outcome = cudalock("resolve", "alpha", *TARGET, "-vv", **environ)
    assert outcome.status == 0, outcome.err
    assert any(line.startswith("GET http://index.example/simple/alpha/") for line in proxy.asked)
    assert all("roxy-" in head for head in proxy.heads), "the proxy's own password is sent to it"
    assert SECRET not in outcome.out + outcome.err + (world.folder / "pylock.toml").read_text()
    before = len(proxy.asked)
    outcome = cudalock("install", "--venv", ".venv", "-vv", **environ)
    assert outcome.status == 0, outcome.err
    assert len(proxy.asked) > before
    assert SECRET not in outcome.out + outcome.err
    assert not [r.authorization for r in world.index.requests if r.authorization]


def test_no_proxy(cudalock: Cudalock, world: World, proxy: Proxy) -> None:
    environ = {"HTTP_PROXY": f"http://127.0.0.1:{proxy.port}", "CUDALOCK_INDEX_URL": world.proxy.url + "/simple/"}
    assert cudalock("resolve", "alpha", *TARGET, **environ).status == 0
    assert proxy.asked == []


def test_proxy_that_refuses(cudalock: Cudalock, world: World, proxy: Proxy) -> None:
    outcome = cudalock(
        "resolve", "alpha", *TARGET, "--json",
        HTTPS_PROXY=f"http://user:{SECRET}@127.0.0.1:{proxy.port}", CUDALOCK_INDEX_URL="https://index.example/simple/",
        CUDALOCK_RETRIES="0",
    )  # fmt: skip
    assert (outcome.status, outcome.code) == (3, "index-unreachable")
    assert "HTTPS_PROXY" in outcome.json["error"]["hint"]
    assert SECRET not in outcome.out
    assert proxy.asked == ["CONNECT index.example:443"]


# -- what is passed on


def test_what_uv_and_pip_are_told(scrubbed_environment: Path, certificates: Certificates) -> None:
    environ = {
        "PIP_INDEX_URL": f"https://me:{SECRET}@index.example/simple/", "PIP_CERT": str(certificates.authority),
        "PIP_PROXY": "http://proxy.example:3128", "UV_KEYRING_PROVIDER": "subprocess", "PIP_CONFIG_FILE": "/dev/null",
    }  # fmt: skip
    told = network_environment(environ)
    assert told["UV_DEFAULT_INDEX"] == environ["PIP_INDEX_URL"]
    assert told["SSL_CERT_FILE"] == told["PIP_CERT"] == str(certificates.authority)
    assert told["HTTPS_PROXY"] == told["HTTP_PROXY"] == "http://proxy.example:3128"
    assert told["PIP_KEYRING_PROVIDER"] == "subprocess"
    assert network_environment({"PIP_CONFIG_FILE": "/dev/null", "http_proxy": "http://mine.example", "PIP_PROXY": "x"})[
        "http_proxy"
    ] == "http://mine.example"  # fmt: skip
    assert "UV_DEFAULT_INDEX" not in network_environment({"PIP_CONFIG_FILE": "/dev/null"})
    assert sys.version_info >= (3, 11) and subprocess is not None
