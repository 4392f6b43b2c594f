"""Against the real main index of this machine. Run with ``pytest -m live``."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from cudalock.index import IndexClient, IndexSettings
from support.clients import Recorder, main_page

pytestmark = [pytest.mark.live, pytest.mark.enable_socket]


@pytest.fixture(autouse=True)
def any_host(socket_enabled: None) -> None:
    """Lets the tests of this module out."""


def test_pages_and_metadata(tmp_path: Path) -> None:
    with IndexClient(IndexSettings(cache_dir=tmp_path), reporter=Recorder()) as client:
        for name in ("torch", "transformers", "numpy"):
            page = client.page(main_page(name))
            assert len(page.files) > 100
            assert all(file.sha256 for file in page.files)
            file = next(file for file in reversed(page.files) if file.kind == "wheel")
            assert client.metadata(file).name == name
        assert not client.page(main_page("no-such-project-of-cudalock")).found


def test_reading_the_architectures_of_torch(tmp_path: Path) -> None:
    with IndexClient(IndexSettings(cache_dir=tmp_path), reporter=Recorder()) as client:
        name = re.compile(r"torch-2\.9\.1-.*cp312-cp312-manylinux.*x86_64\.whl")
        file = next(file for file in client.page(main_page("torch")).files if name.fullmatch(file.filename))
        assert client.metadata(file).version == Version("2.9.1")
        before = client.statistics
        with client.open(file) as remote, zipfile.ZipFile(remote) as archive:
            tail, found = b"", None
            with archive.open("torch/lib/libtorch_python.so") as stream:
                while found is None and (chunk := stream.read(1 << 18)):
                    found = re.search(rb"sm_\d+(?: sm_\d+)+", tail + chunk)
                    tail = chunk[-200:]
        assert found is not None
        assert found[0] == b"sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
        assert client.statistics.requests - before.requests <= 3
        assert client.statistics.bytes - before.bytes < 13_000_000
