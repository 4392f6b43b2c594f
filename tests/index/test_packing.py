"""Pages are kept as they were sent: gzip that is unpacked within bounds, and that says the same when read again."""

from __future__ import annotations

import gzip
import json
import ssl
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalock.index.lazy_page import LazyFiles
from cudalock.index.packing import unpack
from cudalock.index.simple import parse_page
from cudalock.index.trust import no_certificates
from support.clients import main_page

JSON = "application/vnd.pypi.simple.v1+json"


@given(st.binary(max_size=5_000), st.integers(1, 6_000))
def test_what_was_packed_comes_back_up_to_the_bound(content: bytes, most: int) -> None:
    assert unpack(gzip.compress(content), most) == content[:most]


def test_a_bomb_is_unpacked_to_the_bound_only() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    assert len(bomb) < 100_000
    assert len(unpack(bomb, 1_000)) == 1_000


@pytest.mark.parametrize(
    "damaged",
    [b"", b"plain text", gzip.compress(b"x" * 1000)[:-12], gzip.compress(b"x")[:5], zlib.compress(b"x")],
    ids=["empty", "plain", "short", "header", "zlib"],
)
def test_what_is_no_gzip_or_ends_too_early_is_said(damaged: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpack(damaged, 10_000)


def test_a_large_page_reads_the_same_from_its_packed_form() -> None:
    files = [
        {
            "filename": f"demo-{major}.{minor}-py3-none-any.whl",
            "url": f"/files/demo-{major}.{minor}-py3-none-any.whl",
            "hashes": {"sha256": f"{major * 1000 + minor:064x}"},
            "yanked": "à cause de ça" if minor == 3 else False,
        }
        for major in range(40)
        for minor in range(40)
    ]
    body = json.dumps({"meta": {"api-version": "1.1"}, "name": "demo", "files": files}, ensure_ascii=False).encode()
    plain = parse_page(body, JSON, "https://index.example/simple/demo/", main_page("demo")).files
    packed = parse_page(
        body, JSON, "https://index.example/simple/demo/", main_page("demo"), packed=gzip.compress(body)
    ).files
    assert isinstance(packed, LazyFiles)
    assert isinstance(plain, LazyFiles)
    for group in ("0.3", "39.39", "7.0", "0.3"):  # the first from the text as it came, the others unpacked again
        assert packed.of_group(group) == plain.of_group(group)
    assert packed.of_group("0.3")[0].yanked == "à cause de ça"
    assert tuple(packed) == tuple(plain)


def test_the_client_for_plain_urls_trusts_nobody() -> None:
    context = no_certificates()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.cert_store_stats()["x509_ca"] == 0
