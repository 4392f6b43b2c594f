"""What a network and an index can do to a client: each ends in success after bounded repeats or in one typed error."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from werkzeug.wrappers import Request, Response

from cudalock.errors import TransportError
from cudalock.index import IndexClient, IndexSettings
from support.clients import Recorder, client_of, main_page, only_file
from support.errors import code_of
from support.fake_index import FakeIndex, Fault
from support.raw_server import Script, answer, drip, raw_server
from support.wheels import make_wheel

PAGE = json.dumps(
    {"meta": {"api-version": "1.0"}, "files": [{"filename": "demo-1.0.tar.gz", "url": "/demo-1.0.tar.gz"}]}
).encode()
JSON = "Content-Type: application/vnd.pypi.simple.v1+json\r\n"


@pytest.fixture
def index() -> Iterator[FakeIndex]:
    index = FakeIndex()
    index.add_wheel("demo", "1.0", sidecar="absent", files={"demo/data.bin": bytes(range(256)) * 4000}, stored=True)
    with index.serve():
        yield index


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cudalock.index.fetch._pause", lambda repeats: 0.01 * (repeats + 1))


def code_of_page(url: str, **settings: object) -> str | None:
    values: dict[str, object] = {"main_url": url, "timeout_s": 0.5, "retries": 2} | settings
    with IndexClient(IndexSettings(**values), environ={}) as client:  # type: ignore[arg-type]
        with contextlib.suppress(TransportError):
            client.page(main_page("demo"))
            return None
        with pytest.raises(TransportError) as caught:  # an error is remembered, and told to whoever asks again
            client.page(main_page("demo"))
    assert url.rstrip("/").rpartition("//")[2].partition("/")[0] in caught.value.message
    assert caught.value.hint
    return caught.value.code


def status(code: int, **headers: str) -> Fault:
    return lambda _request: Response("x", code, {key.replace("_", "-"): value for key, value in headers.items()})


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_status_that_passes_is_repeated(index: FakeIndex, code: int) -> None:
    index.misbehave("/simple/demo/", code, code)
    recorder = Recorder()
    with client_of(index, reporter=recorder, retries=2) as client:
        assert client.page(main_page("demo")).found
        assert client.statistics.retries == 2
    assert recorder.texts("info").count("trying again") == 2


@pytest.mark.parametrize(("code", "requests"), [(400, 1), (401, 1), (418, 1), (500, 3)])
def test_status_that_stays_is_an_error(index: FakeIndex, code: int, requests: int) -> None:
    index.misbehave("/simple/demo/", *[code] * 9)
    assert code_of_page(index.main_url) == "index-http-error"
    assert len(index.requests) == requests


def test_retry_after_is_honoured(index: FakeIndex) -> None:
    index.misbehave("/simple/demo/", status(503, Retry_After="1"))
    began = time.monotonic()
    assert code_of_page(index.main_url) is None
    assert 1 <= time.monotonic() - began < 5


@pytest.mark.parametrize("value", ["100000", "Wed, 21 Oct 2099 07:28:00 GMT"])
def test_retry_after_beyond_patience_is_an_error_at_once(index: FakeIndex, value: str) -> None:
    index.misbehave("/simple/demo/", status(429, Retry_After=value))
    assert code_of_page(index.main_url) == "index-http-error"
    assert len(index.requests) == 1


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert code_of_page(f"http://127.0.0.1:{port}/simple/") == "index-unreachable"


@pytest.mark.parametrize(
    ("scripts", "expected"),
    [
        pytest.param([answer(PAGE, headers=JSON)], None, id="as it should be"),
        pytest.param([answer(PAGE[:20], length=len(PAGE), headers=JSON)], "index-truncated", id="always cut short"),
        pytest.param([answer(PAGE[:20], length=len(PAGE), headers=JSON), answer(PAGE, headers=JSON)], None, id="cut once"),
        pytest.param([lambda connection: None], "index-unreachable", id="closes without a word"),
        pytest.param([lambda connection: None, answer(PAGE, headers=JSON)], None, id="closes once"),
        pytest.param([lambda connection: connection.sendall(b"SMTP ready\r\n\r\n")], "index-unreachable", id="not HTTP"),
        pytest.param([lambda connection: time.sleep(2)], "index-unreachable", id="stalls before the head"),
        pytest.param([answer(b"", length=9, headers=JSON, then=lambda connection: time.sleep(2))], "index-unreachable",
                     id="stalls after the head"),
        pytest.param([lambda connection: time.sleep(2), answer(PAGE, headers=JSON)], None, id="stalls once"),
        pytest.param([answer(PAGE + b"more", length=len(PAGE), headers=JSON)], None, id="long body"),
        pytest.param([answer(b"", length=10**7, headers=JSON, then=drip)], "index-unreachable", id="drips"),
        pytest.param([answer(b"junk", headers=JSON + "Content-Encoding: gzip\r\n")], "index-truncated", id="bad gzip"),
        pytest.param([answer(gzip.compress(PAGE), headers=JSON + "Content-Encoding: gzip\r\n")], None, id="gzip"),
        pytest.param([answer(gzip.compress(b" " * 10**8), headers=JSON + "Content-Encoding: gzip\r\n")], "index-too-large",
                     id="gzip bomb"),
        pytest.param([answer(b"<html>log in</html>", headers="Content-Type: text/html\r\n")], "index-invalid-page",
                     id="login page"),
        pytest.param([answer(PAGE, headers="Content-Type: image/png\r\n")], "index-invalid-page", id="wrong type"),
    ],
)  # fmt: skip
def test_answers_of_a_page(scripts: list[Script], expected: str | None) -> None:
    with raw_server(*scripts) as server:
        began = time.monotonic()
        assert code_of_page(server.url + "/simple/") == expected
        assert time.monotonic() - began < 8


# -- redirects


def test_redirect_is_followed_and_links_are_joined_to_its_target(index: FakeIndex) -> None:
    index.misbehave("/simple/demo/", status(301, Location="/simple/demo/?moved"))
    with client_of(index) as client:
        assert client.page(main_page("demo")).url == index.main_url + "demo/?moved"


def test_redirect_loop(index: FakeIndex) -> None:
    index.misbehave("/simple/demo/", *[status(302, Location="/simple/demo/")] * 50)
    assert code_of_page(index.main_url) == "index-http-error"
    assert len(index.requests) < 12


@pytest.mark.parametrize(
    "target", ["http://files.example/x", "file:///etc/passwd", "ftp://files.example/", "http://[x", ""]
)
def test_redirect_to_where_it_is_not_safe(index: FakeIndex, target: str) -> None:
    index.misbehave("/simple/demo/", *[status(302, Location=target)] * 20)
    assert code_of_page(index.main_url) == "index-http-error"


def test_redirect_from_outside_into_this_machine(index: FakeIndex) -> None:
    index.misbehave("/simple/demo/", status(302, Location="http://127.0.0.1/secret"))
    with (
        client_of(index, in_process=True, main_url="https://index.example/simple/") as client,
        pytest.raises(TransportError, match="not followed"),
    ):
        client.page(main_page("demo"))


def test_credentials_do_not_follow_to_another_origin(index: FakeIndex) -> None:
    other = index.host.replace("127.0.0.1", "localhost")
    index.misbehave("/simple/demo/", status(302, Location=other + "/simple/demo/"))
    with client_of(index, main_url=index.main_url.replace("//", "//me:secret@")) as client:
        assert client.page(main_page("demo")).found
    assert [request.authorization is not None for request in index.requests] == [True, False]


# -- files


def test_range_read_survives_a_break(index: FakeIndex) -> None:
    content = index.files[0].content
    sent = {"count": 0}

    def cut(request: Request) -> Response | None:
        sent["count"] += 1
        first = int(request.headers["Range"].removeprefix("bytes=").partition("-")[0])
        last = len(content) - 1
        response = Response(content[first : first + 70_000], 206)
        response.headers["Content-Length"] = str(last - first + 1)
        response.headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return response

    with client_of(index) as client:
        file = only_file(client, main_page("demo"))
        with client.open(file) as remote:
            remote.seek(-1, 2)
            index.misbehave(".whl", cut, cut)
            remote.seek(0)
            assert hashlib.sha256(remote.read()).hexdigest() == file.sha256
    assert sent["count"] == 2


def wrong_range(request: Request) -> Response:
    return Response(b"x" * 100, 206, {"Content-Range": "bytes 0-99/100000000"})


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([wrong_range, wrong_range, wrong_range], id="206 with another range"),
        pytest.param([lambda _request: Response(b"x" * 9, 206)] * 3, id="206 without Content-Range"),
        pytest.param([416, 416], id="416"),
        pytest.param([501], id="501"),
    ],
)
def test_range_answers_that_are_wrong(index: FakeIndex, faults: list[Fault | int]) -> None:
    index.json = False
    with client_of(index) as client:
        file = only_file(client, main_page("demo"))
        index.misbehave(".whl", *faults)
        assert code_of(lambda: client.metadata(file)) in {None, "index-truncated", "index-invalid-wheel"}
    assert len(index.paths(containing=".whl")) <= 5


def test_file_that_changes_while_it_is_read(index: FakeIndex) -> None:
    with client_of(index) as client, client.open(only_file(client, main_page("demo"))) as remote:
        remote.seek(-1, 2)
        index.files[0].content += b"x"
        remote.seek(0)
        with pytest.raises(TransportError, match="it changed while it was read"):
            remote.read(10)


def test_download_is_resumed(index: FakeIndex, tmp_path: Path) -> None:
    content = index.files[0].content

    def cut(_request: Request) -> Response:
        response = Response(content[:500_000], 200)
        response.headers["Content-Length"] = str(len(content))
        return response

    with client_of(index) as client:
        file = only_file(client, main_page("demo"))
        index.misbehave(".whl", cut)
        client.download(file, tmp_path / file.filename)
    assert (tmp_path / file.filename).read_bytes() == content
    assert [request.range for request in index.requests[1:]] == [None, "bytes=500000-"]


def test_download_begins_again_where_the_server_cannot_resume(index: FakeIndex, tmp_path: Path) -> None:
    content = index.files[0].content
    index.ranges = "none"

    def cut(_request: Request) -> Response:
        response = Response(content[:500_000], 200)
        response.headers["Content-Length"] = str(len(content))
        return response

    with client_of(index) as client:
        file = only_file(client, main_page("demo"))
        index.misbehave(".whl", cut)
        client.download(file, tmp_path / file.filename)
    assert (tmp_path / file.filename).read_bytes() == content


@pytest.mark.parametrize("replacement", [b"short", b"x" * 2_000_000], ids=["shorter", "longer"])
def test_file_replaced_since_the_page_was_read(index: FakeIndex, tmp_path: Path, replacement: bytes) -> None:
    with client_of(index) as client:
        file = only_file(client, main_page("demo"))
        index.files[0].content = replacement
        with pytest.raises(TransportError) as caught:
            client.download(file, tmp_path / file.filename)
    assert caught.value.code == "index-hash-conflict"
    assert list(tmp_path.iterdir()) == []


def test_plain_http_link_beyond_loopback_is_not_used(index: FakeIndex) -> None:
    index.files[0].host = "http://files.example"
    with client_of(index) as client:
        file = only_file(client, main_page("demo"))
        with pytest.raises(TransportError) as caught:
            client.metadata(file)
    assert caught.value.code == "index-url-insecure"


def test_certificate_bundle_that_is_not_there(index: FakeIndex, tmp_path: Path) -> None:
    with client_of(index, ca_bundle=tmp_path / "none.pem") as client, pytest.raises(TransportError) as caught:
        client.page(main_page("demo"))
    assert caught.value.code == "index-certificate-untrusted"


def test_hash_of_a_wheel_is_that_of_its_bytes() -> None:
    assert make_wheel("demo", "1.0") == make_wheel("demo", "1.0")
