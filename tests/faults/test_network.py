"""Every fault of a network, at every kind of request, through the command line.

Each ends in success after bounded and shown repeats, or in one typed error that names the URL and a way out; files are
then as before.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from faults.conftest import Cudalock, World
from faults.misbehaving import (
    Exchange,
    Fault,
    closes,
    elsewhere,
    flipped,
    gzip_bomb,
    html_with_200,
    long_body,
    loops,
    range_ignored,
    resets_midway,
    short_body,
    stalls,
    status,
    stops_midway,
    wrong_range,
    wrong_type,
)

TARGET = ("--cpu", "--python", "3.12", "--platform", "linux-x86_64")
RESOLVE = ("resolve", "alpha", *TARGET)


@dataclass(frozen=True)
class Place:
    """A kind of request: how to provoke it and how to recognise it."""

    part: str
    command: tuple[str, ...]


PLACES = {
    "page": Place("/simple/beta/", RESOLVE),
    "sidecar": Place("beta-1.0-py3-none-any.whl.metadata", RESOLVE),
    "range": Place("gamma-1.0-py3-none-any.whl", RESOLVE),
    "download": Place("/files/beta-1.0-py3-none-any.whl", ("fetch", "wheels")),
}
OK = None
HTTP, GONE, CUT = "index-http-error", "index-unreachable", "index-truncated"
ABSENT = "index-dependency-missing"
PAGE, LARGE, WHEEL, HASH = "index-invalid-page", "index-too-large", "index-invalid-wheel", "index-hash-conflict"

# fault that stays -> its end for page, sidecar (where the wheel itself is the way out), range and download
STAYS: dict[str, tuple[Fault, tuple[str | None, str | None, str | None, str | None]]] = {
    "400": (status(400), (HTTP, OK, HTTP, HTTP)),
    "401": (status(401), (HTTP, OK, HTTP, HTTP)),
    "403": (status(403), (HTTP, OK, HTTP, HTTP)),
    "404": (status(404), (ABSENT, OK, HTTP, HTTP)),
    "410": (status(410), (ABSENT, OK, HTTP, HTTP)),
    "416": (status(416), (HTTP, OK, HTTP, HASH)),
    "429": (status(429, retry_after="0"), (HTTP, OK, HTTP, HTTP)),
    "500": (status(500), (HTTP, OK, HTTP, HTTP)),
    "503 Retry-After": (status(503, retry_after="0"), (HTTP, OK, HTTP, HTTP)),
    "503 Retry-After for a day": (status(503, retry_after="86400"), (HTTP, OK, HTTP, HTTP)),
    "204 without content": (status(204), (HTTP, OK, HTTP, HTTP)),
    "stall below the limit": (stalls(0.2), (OK, OK, OK, OK)),
    "stall above the limit": (stalls(0.8), (GONE, GONE, GONE, GONE)),
    "stops midway": (stops_midway, (GONE, GONE, GONE, GONE)),
    "reset midway": (resets_midway, (CUT, OK, CUT, CUT)),
    "closes at once": (closes, (GONE, GONE, GONE, GONE)),
    "short body": (short_body, (CUT, OK, CUT, CUT)),
    "long body": (long_body, (PAGE, OK, OK, HASH)),
    "other bytes": (flipped, (PAGE, OK, WHEEL, HASH)),
    "wrong type": (wrong_type, (PAGE, OK, OK, OK)),
    "HTML page with 200": (html_with_200, (PAGE, OK, WHEEL, HASH)),
    "gzip bomb": (gzip_bomb, (LARGE, OK, WHEEL, HASH)),
    "redirect loop": (loops, (HTTP, OK, HTTP, HTTP)),
    "redirect to plain http": (elsewhere("http://files.example"), (HTTP, OK, HTTP, HTTP)),
    "range ignored": (range_ignored, (OK, OK, OK, OK)),
    "wrong range": (wrong_range, (OK, OK, OK, OK)),
}
CASES = [
    pytest.param(fault, place, code, id=f"{name} at {place}")
    for name, (fault, codes) in STAYS.items()
    for place, code in zip(PLACES, codes, strict=True)
]


def locked(cudalock: Cudalock, world: World) -> bytes:
    """The lock of an earlier day, whose index had less."""
    assert cudalock("resolve", "beta", *TARGET).status == 0
    return (world.folder / "pylock.toml").read_bytes()


def prepare(cudalock: Cudalock, world: World, place: str) -> dict[str, bytes]:
    if place == "download":
        assert cudalock(*RESOLVE).status == 0
    else:
        locked(cudalock, world)
    world.proxy.asked.clear()
    return world.listing()


@pytest.mark.parametrize(("fault", "place", "expected"), CASES)
def test_fault_that_stays(cudalock: Cudalock, world: World, tmp_path: Path, fault: Fault, place: str, expected: str | None) -> None:  # fmt: skip
    before = prepare(cudalock, world, place)
    if fault is range_ignored:
        world.index.ranges = "none"
    world.proxy.order(PLACES[place].part, fault, always=True)
    began = time.monotonic()
    outcome = cudalock(*PLACES[place].command, "--json", CUDALOCK_CACHE_DIR=str(tmp_path / "fresh"))
    assert time.monotonic() - began < 30, "it hung: how long it takes on a busy machine is not judged here"
    assert world.proxy.count(PLACES[place].part) <= 30, "repeats are bounded"
    after = world.listing()
    assert not [name for name in after if name.endswith((".tmp", ".part"))]
    if expected is None:
        assert outcome.status == 0, outcome.out + outcome.err
        assert after.keys() >= before.keys()
        return
    assert outcome.code == expected, outcome.out
    assert outcome.status == (1 if expected == ABSENT else 3)
    error = outcome.json["error"]
    assert error["hint"]
    if expected not in {ABSENT, WHEEL}:
        assert world.proxy.url.removeprefix("http://") in error["message"]
    whole = {f"wheels/{file.filename}": file.content for file in world.index.files}
    assert {name: content for name, content in after.items() if whole.get(name) != content} == before


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "fault",
    [
        status(429, retry_after="0"),
        status(500),
        status(503, retry_after="1"),
        stalls(0.8),
        resets_midway,
        closes,
        short_body,
        stops_midway,
    ],
    ids=["429", "500", "503 Retry-After", "stall", "reset midway", "closes", "short body", "stops midway"],
)
def test_fault_that_passes_is_repeated_and_shown(
    cudalock: Cudalock, world: World, tmp_path: Path, fault: Fault, place: str
) -> None:
    prepare(cudalock, world, place)
    world.proxy.order(PLACES[place].part, fault)
    outcome = cudalock(*PLACES[place].command, "-v", CUDALOCK_CACHE_DIR=str(tmp_path / "fresh"))
    assert outcome.status == 0, outcome.err
    assert "trying again" in outcome.err
    assert "(1/2)" in outcome.err
    assert world.proxy.count(PLACES[place].part) <= 6


@pytest.mark.parametrize(("url", "reason"), [("https://nonesuch.invalid/simple/", "DNS"), (None, "refused")])
def test_nobody_there(cudalock: Cudalock, world: World, url: str | None, reason: str) -> None:
    before = locked(cudalock, world)
    if url is None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/simple/"
    outcome = cudalock(*RESOLVE, "--json", "--index-url", url)
    assert (outcome.status, outcome.code) == (3, GONE), reason
    assert url.rstrip("/") in outcome.json["error"]["message"]
    assert "HTTPS_PROXY" in outcome.json["error"]["hint"]
    assert (world.folder / "pylock.toml").read_bytes() == before


def test_credentials_do_not_follow_to_another_host(cudalock: Cudalock, world: World) -> None:
    """For pages, sidecars, ranges and downloads: who is asked instead does not learn the password."""
    other = world.index.host.replace("127.0.0.1", "localhost")
    world.proxy.order("/", elsewhere(other), always=True)
    secret = world.proxy.url.replace("//", "//me:hunter2@") + "/simple/"
    assert cudalock(*RESOLVE, "--index-url", secret).status == 0
    assert cudalock("fetch", "wheels", "--index-url", secret).status == 0
    asked = [head.get("authorization") for head in world.proxy.heads]
    assert asked and all(header is not None for header in asked)
    arrived = [request for request in world.index.requests if request.host.startswith("localhost")]
    assert len(arrived) > 6
    assert {request.authorization for request in arrived} == {None}
    assert "hunter2" not in (world.folder / "pylock.toml").read_text()


def test_sidecar_that_is_not_its_wheels(cudalock: Cudalock, world: World) -> None:
    """Wrong hash, or the right hash of a text that speaks of another project: the wheel itself is read."""
    for file in world.index.files:
        if file.project == "beta":
            file.sidecar_content = b"Metadata-Version: 2.1\nName: evil\nVersion: 1.0\nRequires-Dist: evil\n"
    outcome = cudalock(*RESOLVE, "-v")
    assert outcome.status == 0
    assert "evil" not in (world.folder / "pylock.toml").read_text()
    assert "the file itself is read" in outcome.err


def test_metadata_of_a_wheel_that_speaks_of_another(cudalock: Cudalock, world: World) -> None:
    world.index.add_wheel("delta", "1.0", sidecar="absent", metadata_overrides={"Name": "evil"})
    outcome = cudalock("resolve", "delta", *TARGET, "--json")
    assert outcome.status in {1, 3}
    assert "evil" in str(outcome.json["error"])
    assert world.listing() == {}


@pytest.mark.parametrize(("place", "most"), [("download", 30_000_000), ("sidecar", 40_000_000), ("page", 150_000_000)])
def test_answer_without_end(cudalock: Cudalock, world: World, place: str, most: int) -> None:
    """It is read as far as it can be right, and no further."""
    prepare(cudalock, world, place)
    sent: list[int] = []

    def endless(exchange: Exchange) -> None:
        exchange.send(exchange.body, length=10**12)
        sent.append(0)
        for _ in range(400):
            exchange.connection.sendall(b"x" * 1_000_000)
            sent[-1] += 1_000_000

    world.proxy.order(PLACES[place].part, endless, always=True)
    cudalock(*PLACES[place].command, CUDALOCK_TIMEOUT="5", CUDALOCK_CACHE_DIR=str(world.folder.parent / "fresh"))
    assert sent
    assert max(sent) < most


def test_indexes_that_disagree_about_one_file(cudalock: Cudalock, world: World) -> None:
    shared = world.index.add_wheel("torchvision", "9.0", label="cpu", sha256="1" * 64)
    twin = world.index.add_wheel("torchvision", "9.0")
    twin.host = world.proxy.url
    shared.host = world.proxy.url
    from cudalock.errors import TransportError
    from cudalock.index import IndexClient, IndexSettings
    from support.clients import main_page, only_file, pytorch_page

    settings = IndexSettings(main_url=world.proxy.url + "/simple/", pytorch_url=world.proxy.url + "/whl")
    shared.filename = twin.filename
    with IndexClient(settings, environ={}) as client:
        ours, theirs = (
            only_file(client, main_page("torchvision")),
            only_file(client, pytorch_page("torchvision", "cpu")),
        )
        assert client.sha256(ours) != theirs.sha256  # two URLs: two files, each with its own hash
    object.__setattr__(theirs, "url", ours.url)
    with IndexClient(settings, environ={}) as client:
        client.page(main_page("torchvision"))
        with pytest.raises(TransportError) as caught:
            client.sha256(theirs)
    assert caught.value.code == HASH
    assert ours.url in caught.value.message


def test_file_replaced_between_resolve_and_fetch(cudalock: Cudalock, world: World) -> None:
    assert cudalock(*RESOLVE).status == 0
    from support.wheels import make_wheel

    world.index.files[1].content = make_wheel("beta", "1.0", files={"beta.py": b"evil"})[1]
    outcome = cudalock("fetch", "wheels", "--json")
    assert (outcome.status, outcome.code) == (3, HASH)
    assert "beta-1.0" in outcome.json["error"]["message"]
    assert not (world.folder / "wheels" / "beta-1.0-py3-none-any.whl").exists()
    assert not list((world.folder / "wheels").glob(".*"))
