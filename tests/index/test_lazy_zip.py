from __future__ import annotations

import io
import os
import random
import zipfile
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalock.errors import TransportError
from cudalock.index.credentials import CredentialStore
from cudalock.index.fetch import Fetcher
from cudalock.index.lazy_zip import RemoteFile
from cudalock.index.settings import IndexSettings
from cudalock.progress import SILENT
from support.fake_index import FakeIndex

CONTENT = random.Random(7).randbytes(1_500_000)


def remote(index: FakeIndex, *, size: int | None = None, content: bytes = CONTENT) -> RemoteFile:
    index.add("demo-1.0.zip", content)
    fetcher = Fetcher(
        IndexSettings(retries=0), CredentialStore([], {}), reporter=SILENT, transport=httpx.WSGITransport(app=index)
    )
    return RemoteFile("https://index.example/files/demo-1.0.zip", fetcher, size=size)


_steps = st.lists(
    st.tuples(st.integers(0, len(CONTENT) + 10), st.integers(0, 200_000), st.sampled_from([os.SEEK_SET, os.SEEK_END])),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(
    steps=_steps, ranges=st.sampled_from(["all", "no-suffix", "none"]), size=st.sampled_from([None, len(CONTENT), 7])
)
def test_reads_like_a_local_file(steps: list[tuple[int, int, int]], ranges: Any, size: int | None) -> None:
    local = io.BytesIO(CONTENT)
    with remote(FakeIndex(ranges=ranges), size=size) as file:
        for offset, length, whence in steps:
            signed = -min(offset, len(CONTENT)) if whence == os.SEEK_END else offset
            assert file.seek(signed, whence) == local.seek(signed, whence)
            assert file.read(length) == local.read(length)
            assert file.tell() == local.tell()


def test_long_read_is_one_request_and_memory_stays_bounded(fake_index: FakeIndex) -> None:
    content = bytes(range(256)) * 180_000
    with remote(fake_index, size=len(content), content=content) as file:
        file.seek(0)
        while file.read(1_000_000):
            pass
        assert file.requests == 2
        assert sum(len(block) for block in file._blocks.values()) < 40_000_000
        file.seek(10)
        assert file.read(4) == content[10:14]


@pytest.mark.parametrize("size", [0, 1, 100, 65_536, 131_072, 131_073])
@pytest.mark.parametrize("known", [True, False])
def test_small_files(fake_index: FakeIndex, size: int, known: bool) -> None:
    content = CONTENT[:size]
    with remote(fake_index, size=size if known else None, content=content) as file:
        assert file.read() == content


def test_zipfile_reads_every_member(fake_index: FakeIndex) -> None:
    buffer = io.BytesIO()
    members = {f"member {number}": CONTENT[number * 1000 : number * 30_000] for number in range(1, 20)}
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with remote(fake_index, content=buffer.getvalue()) as file, zipfile.ZipFile(file) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == members


@pytest.mark.parametrize("use", [lambda file: file.read(300 * 1024 * 1024), zipfile.ZipFile], ids=["read", "zip"])
def test_lying_sizes_are_refused(fake_index: FakeIndex, use: Callable[[RemoteFile], object]) -> None:
    from werkzeug.wrappers import Response

    huge = 15 * 1024**3
    end_of_directory = b"PK\x05\x06" + bytes(4) + b"\xff\x7f\xff\x7f" + b"\xf0\xff\xff\x7f" + bytes(6)
    body = end_of_directory.rjust(131_072, b"\0")

    def tail(_request: object) -> Response:
        return Response(body, 206, {"Content-Range": f"bytes {huge - len(body)}-{huge - 1}/{huge}"})

    fake_index.misbehave(".zip", *[tail] * 5)
    with remote(fake_index) as file, pytest.raises((TransportError, zipfile.BadZipFile)):
        use(file)
